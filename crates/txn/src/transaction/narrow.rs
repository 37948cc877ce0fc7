//! Reads that turn out to be shorter than what was fetched.

use carnet_base::{CellKey, KeyRange, Result};
use carnet_store::{CellStore, CommitLog};

use super::Transaction;
use super::merge::covered;

impl<S: CellStore + CommitLog> Transaction<S> {
    /// Takes the end of a page out of the read set: the caller of [`Transaction::range`] looked at
    /// nothing behind the cell `last` of the page, which left `resume` of `range`.
    ///
    /// A write of another transaction into that end is no conflict then.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended; `Timeout` when it has been left alone for too long.
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

    /// Takes the last cells of a [`Transaction::get_many`] out of the read set: its caller did not
    /// look at them.
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
