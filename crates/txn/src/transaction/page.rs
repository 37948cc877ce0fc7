//! Reads of ranges, overlaid with the transaction's own writes.

use carnet_base::{CellPage, KeyRange, PageLimit, Result};
use carnet_store::{RangeRequest, SpilledPage};

use super::handle::{Inner, Transaction};
use super::merge::{Overlay, OwnPage, covered};
use super::state::TransactionState;
use crate::reader;

impl TransactionState {
    /// Returns `true` if there are no writes to overlay on a page.
    fn has_written_nothing(&self) -> bool {
        self.writes.is_empty() && self.spilled.is_none()
    }
}

impl Transaction {
    /// Reads a page of a range, overlaid with this transaction's own writes.
    ///
    /// # Errors
    ///
    /// See [`Transaction::get`].
    pub async fn range(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<CellPage> {
        self.settle_range(range).await?;
        let inner = &*self.inner;
        let call = {
            let mut state = inner.open()?;
            state.has_read = true;
            inner.call(&mut state)
        };
        let read = inner.begun.read;
        let request = RangeRequest { range: range.clone(), read, reverse, limit };
        let candidates = inner.store.range(&self.context, &request).await?;
        let mut page = reader::settle_page(&*inner.store, &self.context, candidates, read).await?;
        let has_written_nothing = inner.open()?.has_written_nothing();
        if !has_written_nothing {
            // In memory of its own: most transactions read before they write.
            page = Box::pin(self.overlaid(page, &request)).await?;
        }
        let mut state = call.end()?;
        if inner.remembers_reads() {
            let covered = covered(range, page.resume.as_ref(), reverse);
            state.reads.range(covered, &inner.bounds)?;
        }
        Ok(page)
    }
}

impl Transaction {
    /// Overlays own writes on a stored page.
    async fn overlaid(&self, page: CellPage, request: &RangeRequest) -> Result<CellPage> {
        let inner = &*self.inner;
        let RangeRequest { range, reverse, limit, .. } = request;
        let looked_at = covered(range, page.resume.as_ref(), *reverse);
        // Later own writes are overlaid on later pages: scanning all of them for each page would
        // take quadratic time.
        let own_max = limit.cells.max(1).saturating_mul(2);
        loop {
            let runs = inner.open()?.runs();
            let spilled = inner.spilled_writes(&looked_at, *reverse, own_max).await?;
            {
                let state = inner.open()?;
                // Another handle may have spilled a write, or changed a cell, meanwhile.
                if state.runs() == runs && !state.has_delta_in(&looked_at) {
                    let own = state.writes.range(&looked_at, *reverse);
                    let own = OwnPage::new(own, spilled, own_max, *reverse);
                    let start = inner.begun.start.unwrap_or(inner.begun.read);
                    let overlay = Overlay { own, start, range, reverse: *reverse, limit: *limit };
                    return Ok(overlay.on(page));
                }
            }
            self.settle_range(&looked_at).await?;
        }
    }
}

impl Inner {
    /// Returns the first spilled writes in a range.
    async fn spilled_writes(
        &self,
        range: &KeyRange,
        reverse: bool,
        cells_max: usize,
    ) -> Result<SpilledPage> {
        let Some(spill) = self.open()?.spill() else { return Ok(SpilledPage::default()) };
        spill.range(range, reverse, cells_max).await
    }
}
