//! Health of the engine, for monitoring: whether it accepts writes and, if not, why.

use carnet_base::Result;

use super::core::Engine;

impl Engine {
    /// Checks that the store accepts writes.
    ///
    /// # Errors
    ///
    /// `Unavailable` with the cause, if it does not.
    pub fn check_writable(&self) -> Result<()> {
        self.core.publication.check()?;
        self.core.shortages.check()
    }

    /// Returns a sentence for each problem that does not prevent reads and writes.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.core.compactions.quarantine.warnings()
    }
}
