//! The cells that a transaction writes, as its claim names them.

use std::ops::Range;

use carnet_base::{CellHash, CellKey, CellKeyRef, TableId};

/// The keys of cells, in their order, and their hashes: one piece of memory for all keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    bytes: Vec<u8>,
    /// Where each key ends, and its hash.
    cells: Vec<(usize, CellHash)>,
}

impl Cells {
    /// Copies the keys of cells, which come in their order.
    #[must_use]
    pub fn of<'a, K: Into<CellKeyRef<'a>>>(keys: impl Iterator<Item = K> + Clone) -> Self {
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

    /// Adds a cell, which comes behind all that are there.
    pub fn push(&mut self, key: &CellKey) {
        self.bytes.extend_from_slice(key.as_bytes());
        self.cells.push((self.bytes.len(), key.hash()));
    }

    /// Adds the cells of another, whose order begins anew: behind it, only parts of the whole are in
    /// order.
    pub fn append(&mut self, other: &Self) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.cells.extend(other.cells.iter().map(|(end, hash)| (base + end, *hash)));
    }

    /// Forgets all cells, and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.cells.clear();
    }

    /// How many cells there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.cells.len()
    }

    /// How many bytes it has of the allocator.
    #[must_use]
    pub const fn allocated_bytes(&self) -> usize {
        self.bytes.capacity() + self.cells.capacity() * size_of::<(usize, CellHash)>()
    }

    /// Tells whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// How many bytes all keys have.
    #[must_use]
    pub const fn key_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The table of the first cell, which has the smallest id.
    #[must_use]
    pub fn first_table(&self) -> Option<TableId> {
        let table = self.bytes.first_chunk()?;
        Some(TableId(u32::from_be_bytes(*table)))
    }

    /// The keys' bytes, in the order of cells.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.cells.len()).map(|at| self.key(at))
    }

    /// The hashes of the cells.
    pub fn hashes(&self) -> impl Iterator<Item = CellHash> + Clone {
        self.cells.iter().map(|(_, hash)| *hash)
    }

    /// Returns the first of some cells, which are in order, that lies in `[lower, upper)`.
    ///
    /// # Panics
    ///
    /// Where there are not so many cells.
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
