//! A page of cells: lent where the store lends them, otherwise shared.

use carnet_base::{CellKey, CellKeyRef, Cells, KeyRange, Result};
use carnet_store::PageLimit;
use carnet_txn::Entry;

use crate::tx::Tx;

/// A page.
pub(super) enum Fetched {
    Lent(Cells),
    Shared(Vec<(CellKey, Entry)>),
}

impl Default for Fetched {
    fn default() -> Self {
        Self::Shared(Vec::new())
    }
}

impl Fetched {
    /// Reads a page, and says what is left of the range behind it.
    pub(super) async fn read(
        tx: &Tx,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<(Self, Option<KeyRange>)> {
        if let Some(page) = tx.page(range, reverse, limit).await? {
            return Ok((Self::Lent(page.cells), page.resume));
        }
        let page = tx.range_cells(range, reverse, limit).await?;
        Ok((Self::Shared(page.cells), page.resume))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Lent(cells) => cells.len(),
            Self::Shared(cells) => cells.len(),
        }
    }

    /// Lends a cell and its payload.
    pub(super) fn lend(&self, at: usize) -> Option<(CellKeyRef<'_>, &[u8])> {
        match self {
            Self::Lent(cells) => cells.get(at).map(|cell| (cell.key, cell.payload)),
            Self::Shared(cells) => {
                cells.get(at).map(|(key, entry)| (key.as_key_ref(), &entry.payload[..]))
            }
        }
    }
}
