//! Narrowing of reads that fetched more than their caller used.

use carnet_base::{CellKey, KeyRange, Result};

use super::handle::Transaction;
use super::merge::covered;

impl Transaction {
    /// Removes the end of a page from the read set, because the caller of [`Transaction::range`]
    /// used no cell of the page after `last`. `resume` is the rest of `range` after the page.
    ///
    /// A write of another transaction into that end is then no conflict.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended; `Timeout` if it has been idle for too long.
    pub fn narrow_range(
        &self,
        range: &KeyRange,
        resume: Option<&KeyRange>,
        reverse: bool,
        last: &CellKey,
    ) -> Result<()> {
        if self.inner.remembers_reads() {
            let page = covered(range, resume, reverse);
            self.inner.open()?.reads.narrow(&page, reverse, last);
        }
        Ok(())
    }

    /// Removes the last cells of a [`Transaction::get_many`] from the read set, because its caller
    /// did not use them.
    ///
    /// # Errors
    ///
    /// Like [`Transaction::narrow_range`].
    pub fn forget_cells(&self, keys: &[CellKey]) -> Result<()> {
        if self.inner.remembers_reads() {
            let mut state = self.inner.open()?;
            // Cells that the transaction wrote itself were not remembered.
            let read = keys.iter().filter(|key| state.writes.get(key).is_none());
            let hashes: Vec<_> = read.map(CellKey::hash).collect();
            state.reads.forget_points(&hashes);
        }
        Ok(())
    }
}
