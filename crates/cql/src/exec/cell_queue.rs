//! Cells that a scan has fetched and not returned yet.

use std::collections::VecDeque;

use carnet::{CellKey, Entry};

/// A queue of cells that counts the bytes of their payloads.
#[derive(Default)]
pub(super) struct CellQueue {
    cells: VecDeque<(CellKey, Entry)>,
    bytes: usize,
}

impl CellQueue {
    pub(super) fn extend(&mut self, cells: impl IntoIterator<Item = (CellKey, Entry)>) {
        let bytes = &mut self.bytes;
        let counted = cells.into_iter().inspect(|(_, entry)| *bytes += entry.payload.len());
        self.cells.extend(counted);
    }

    pub(super) fn pop(&mut self) -> Option<(CellKey, Entry)> {
        let (key, entry) = self.cells.pop_front()?;
        self.bytes -= entry.payload.len();
        Some((key, entry))
    }

    /// Puts back a cell that [`CellQueue::pop`] returned.
    pub(super) fn put_back(&mut self, key: CellKey, entry: Entry) {
        self.bytes += entry.payload.len();
        self.cells.push_front((key, entry));
    }

    /// Removes the cells for which `keep` returns `false`.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&CellKey) -> bool) {
        let bytes = &mut self.bytes;
        self.cells.retain(|(key, entry)| {
            let keeps = keep(key);
            if !keeps {
                *bytes -= entry.payload.len();
            }
            keeps
        });
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of bytes of the payloads.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }
}
