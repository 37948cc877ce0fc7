//! Cells that a scan has fetched and not returned yet.

use std::collections::VecDeque;

use carnet::{Bytes, CellKey};
use carnet_base::{CellRef, Cells};

/// A queue of cells: those of a page, or those of a multi-get.
#[derive(Default)]
pub(super) struct CellQueue {
    page: Cells,
    /// Number of cells of the page that were returned.
    returned: usize,
    /// Cells of a multi-get with their payloads.
    single: VecDeque<(CellKey, Bytes)>,
    /// Bytes of the payloads of `single`.
    single_bytes: usize,
}

impl CellQueue {
    /// Fills the empty queue with a page.
    pub(super) fn fill(&mut self, page: Cells) {
        (self.page, self.returned) = (page, 0);
    }

    /// Fills the empty queue with cells of a multi-get.
    pub(super) fn fill_single(&mut self, cells: impl IntoIterator<Item = (CellKey, Bytes)>) {
        self.fill(Cells::default());
        for (key, payload) in cells {
            self.single_bytes += payload.len();
            self.single.push_back((key, payload));
        }
    }

    pub(super) fn pop(&mut self) -> Option<(CellKey, Bytes)> {
        if let Some(cell) = self.page.share(self.returned) {
            self.returned += 1;
            return Some(cell);
        }
        let (key, payload) = self.single.pop_front()?;
        self.single_bytes -= payload.len();
        Some((key, payload))
    }

    /// Borrows the next cell, if it is one of a page, with its position.
    pub(super) fn peek(&self) -> Option<(usize, CellRef<'_>)> {
        self.page.get(self.returned).map(|cell| (self.returned, cell))
    }

    /// Returns the key of the cell at a position.
    pub(super) fn key(&self, at: usize) -> Option<CellKey> {
        self.page.share(at).map(|(key, _)| key)
    }

    /// Removes the cell that [`CellQueue::peek`] returned.
    pub(super) const fn skip(&mut self) {
        self.returned += 1;
    }

    /// Puts back a cell that [`CellQueue::pop`] returned.
    pub(super) fn put_back(&mut self, key: CellKey, payload: Bytes) {
        if self.returned > 0 {
            self.returned -= 1;
        } else {
            self.single_bytes += payload.len();
            self.single.push_front((key, payload));
        }
    }

    /// Removes the next cells as long as `skips` returns `true`.
    pub(super) fn skip_while(&mut self, mut skips: impl FnMut(&CellKey) -> bool) {
        while let Some((key, payload)) = self.pop() {
            if !skips(&key) {
                return self.put_back(key, payload);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the bytes of the cells. A page is held until its last cell is returned.
    pub(super) const fn bytes(&self) -> usize {
        let page = if self.returned < self.page.len() { self.page.bytes() } else { 0 };
        page + self.single_bytes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.page.len() - self.returned + self.single.len()
    }
}
