//! What a monitor asks: whether the store takes writes, and if not, why.

use carnet_base::Result;

use super::Engine;

impl Engine {
    /// Checks that the store takes writes.
    ///
    /// # Errors
    ///
    /// `Unavailable` where it does not, with the cause.
    pub fn check_writable(&self) -> Result<()> {
        self.core.publication.check()?;
        self.core.space.check()
    }

    /// Returns what is wrong with the database although it takes reads and writes, a sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.core.quarantine.warnings()
    }
}
