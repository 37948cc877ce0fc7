//! One page of cells of a range read.

use carnet_base::{Bytes, CellKeyRef, CellPage, Cells, KeyRange, Result};
use carnet_store::PageLimit;

use crate::tx::Tx;

/// One fetched page of a range.
#[derive(Default)]
pub(super) struct Fetched {
    cells: Cells,
    /// Read-set entry of this page, in a transaction that may write.
    read: Option<Box<Remembered>>,
}

struct Remembered {
    range: KeyRange,
    resume: Option<KeyRange>,
    reverse: bool,
}

impl Fetched {
    /// Reads a page; returns it with the unread rest of the range.
    pub(super) async fn read(
        tx: &Tx,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<(Self, Option<KeyRange>)> {
        let CellPage { cells, resume, .. } = tx.range_cells(range, reverse, limit).await?;
        let read = tx.start_timestamp().map(|_| {
            Box::new(Remembered { range: range.clone(), resume: resume.clone(), reverse })
        });
        Ok((Self { cells, read }, resume))
    }

    /// Removes the cells after the first `used` ones from the transaction's read set. If no cell
    /// was used, the whole page stays in the read set.
    pub(super) fn leave(&self, tx: &Tx, used: usize) {
        if let Some(read) = &self.read
            && used < self.len()
            && let Some((last, _)) = used.checked_sub(1).and_then(|at| self.lend(at))
        {
            // An error means that the transaction has ended, and then the read set does not
            // matter.
            let _ =
                tx.narrow_range(&read.range, read.resume.as_ref(), read.reverse, &last.to_key());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns a cell's key and payload, borrowed from the page.
    pub(super) fn lend(&self, at: usize) -> Option<(CellKeyRef<'_>, &[u8])> {
        self.cells.get(at).map(|cell| (cell.key, cell.payload))
    }

    /// Returns a cell's clustering key and payload, sharing the page's memory.
    pub(super) fn share(&self, at: usize) -> Option<(Bytes, Bytes)> {
        self.cells.share(at).map(|(key, payload)| (key.into_clustering_bytes(), payload))
    }
}
