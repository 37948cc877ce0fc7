//! The cells that a transaction writes, as its claim names them.

use carnet_base::{CellHash, CellKey, TableId};

/// The keys of cells, in their order, and their hashes.
///
/// It is one piece of memory for all keys, because it is freed by another thread than the one that
/// made it: with an allocation for each key two threads waited for each other's free lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    bytes: Vec<u8>,
    /// Where each key ends, and its hash.
    cells: Vec<(usize, CellHash)>,
}

impl Cells {
    /// Copies the keys of cells, which come in their order.
    #[must_use]
    pub fn of<'a>(keys: impl Iterator<Item = &'a CellKey> + Clone) -> Self {
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

    /// How many cells there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.cells.len()
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
    pub fn hashes(&self) -> impl Iterator<Item = CellHash> {
        self.cells.iter().map(|(_, hash)| *hash)
    }

    /// Tells whether a cell lies in `[lower, upper)`.
    #[must_use]
    pub fn any_within(&self, lower: &[u8], upper: &[u8]) -> bool {
        let (mut from, mut to) = (0, self.cells.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.key(middle) < lower {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from < self.cells.len() && self.key(from) < upper
    }

    fn key(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.cells[before].0);
        &self.bytes[begin..self.cells[at].0]
    }
}
