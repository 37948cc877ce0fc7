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

    /// Returns a sentence for each problem that does not prevent other reads and writes: each table
    /// that a compaction or a read found damaged.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let quarantine = &self.core.compactions.quarantine;
        let mut warnings = quarantine.warnings();
        let view = self.core.view();
        let read = view.tables().filter(|open| !quarantine.contains(open.meta.number));
        let damage = read.filter_map(|open| open.table.damage());
        warnings.extend(damage.map(|damage| format!("a table cannot be read: {damage}")));
        warnings
    }
}
