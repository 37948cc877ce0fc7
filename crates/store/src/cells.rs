//! The cells that a transaction writes, as named by its claim.

use std::ops::Range;

use carnet_base::{CellHash, CellKey, CellKeyRef, TableId};

/// Sorted keys of cells with their hashes; all keys share one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    bytes: Vec<u8>,
    /// End and hash of each key.
    cells: Vec<(usize, CellHash)>,
}

impl Cells {
    /// Copies keys, which must be sorted.
    #[must_use]
    pub fn from_sorted<'a, K: Into<CellKeyRef<'a>>>(keys: impl Iterator<Item = K> + Clone) -> Self {
        let keys = keys.map(Into::into);
        let (count, len) =
            keys.clone().fold((0, 0), |(count, len), key| (count + 1, len + key.as_bytes().len()));
        let mut copied = Self { bytes: Vec::with_capacity(len), cells: Vec::with_capacity(count) };
        for key in keys {
            copied.bytes.extend_from_slice(key.as_bytes());
            copied.cells.push((copied.bytes.len(), key.hash()));
        }
        copied
    }

    /// Adds a cell behind all others.
    pub fn push(&mut self, key: &CellKey) {
        self.bytes.extend_from_slice(key.as_bytes());
        self.cells.push((self.bytes.len(), key.hash()));
    }

    /// Appends the cells of another list, whose order begins anew. After that only the parts are
    /// sorted, not the whole.
    pub fn append(&mut self, other: &Self) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.cells.extend(other.cells.iter().map(|(end, hash)| (base + end, *hash)));
    }

    /// Removes all cells, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.cells.clear();
    }

    /// Returns the number of cells.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns the number of allocated bytes.
    #[must_use]
    pub const fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.cells.capacity() * size_of::<(usize, CellHash)>()
    }

    /// Returns `true` if there are no cells.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Returns the number of bytes of all keys.
    #[must_use]
    pub const fn key_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the table of the first cell, which has the smallest id.
    #[must_use]
    pub fn first_table(&self) -> Option<TableId> {
        let table = self.bytes.first_chunk()?;
        Some(TableId(u32::from_be_bytes(*table)))
    }

    /// Returns the keys' bytes, in the order of cells.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.cells.len()).map(|at| self.key(at))
    }

    /// Returns the hashes of the cells.
    pub fn hashes(&self) -> impl Iterator<Item = CellHash> + Clone {
        self.cells.iter().map(|(_, hash)| *hash)
    }

    /// Returns the bytes of the key of a cell.
    #[must_use]
    pub fn key_of(&self, cell: CellHash) -> Option<&[u8]> {
        let at = self.cells.iter().position(|(_, hash)| *hash == cell)?;
        Some(self.key(at))
    }

    /// Returns the first cell in `[lower, upper)` of a sorted part of the cells.
    ///
    /// # Panics
    ///
    /// If `cells` reaches beyond the last cell.
    #[must_use]
    pub fn first_within(
        &self,
        cells: Range<usize>,
        lower: &[u8],
        upper: &[u8],
    ) -> Option<CellHash> {
        let (mut from, mut to) = (cells.start, cells.end);
        while from < to {
            let middle = from.midpoint(to);
            if self.key(middle) < lower {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        (from < cells.end && self.key(from) < upper).then(|| self.cells[from].1)
    }

    fn key(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.cells[before].0);
        &self.bytes[begin..self.cells[at].0]
    }
}
