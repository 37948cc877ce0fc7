//! Pages of borrowed cells.

use carnet_base::{CellPage, KeyRange, Result};
use carnet_store::{CellStore, CommitLog, PageLimit, RangeRequest};

use super::handle::Transaction;
use super::merge::covered;
use super::state::TransactionState;

impl TransactionState {
    /// Returns `true` if there are no writes to overlay on a page.
    fn has_written_nothing(&self) -> bool {
        self.writes.is_empty() && self.spilled.is_none() && self.drops.is_empty()
    }
}

impl<S: CellStore + CommitLog> Transaction<S> {
    /// Like [`Transaction::range`], but returns borrowed cells. Returns `None` if the transaction
    /// has written anything, or the [store](CellStore::page) does not support it.
    ///
    /// # Errors
    ///
    /// See [`Transaction::get`].
    pub async fn page(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<Option<CellPage>> {
        let inner = &*self.inner;
        let call = {
            let mut state = inner.open()?;
            if !state.has_written_nothing() {
                return Ok(None);
            }
            state.has_read = true;
            inner.call(&mut state)
        };
        let read = inner.begun.read;
        let request = RangeRequest { range: range.clone(), read, reverse, limit };
        let page = inner.store.page(&self.context, &request).await?;
        let mut state = call.end()?;
        // Another handle may have written meanwhile.
        let Some(page) = page.filter(|_| state.has_written_nothing()) else { return Ok(None) };
        if inner.remembers_reads() {
            let covered = covered(range, page.resume.as_ref(), reverse);
            state.reads.range(covered, &inner.bounds)?;
        }
        Ok(Some(page))
    }
}
