//! Walks a memtable's cells in order, a chunk at a time, so that no lock is held between chunks.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use carnet_base::{CellKey, KeyRange, Timestamp, Version};

use super::{Memtable, SHARDS, Stored, shard_of};
use crate::lock::read;

const CHUNK_CELLS_FIRST: usize = 16;
const CHUNK_CELLS_MAX: usize = 256;

/// A walk over the cells of a range.
///
/// Each cell comes with its newest version at the snapshot, `None` where all are newer.
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    bounds: Option<(Bound<CellKey>, Bound<CellKey>)>,
    read: Timestamp,
    reverse: bool,
    /// The shards yet to be walked, the current one included.
    shards: std::ops::Range<usize>,
    chunk: VecDeque<(CellKey, Option<Version>)>,
    chunk_cells: usize,
}

impl MemtableCursor {
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        range: &KeyRange,
        read: Timestamp,
        reverse: bool,
    ) -> Self {
        let bounds = range.map_bounds();
        let shards = bounds.as_ref().map_or(0..0, shards_of);
        let chunk_cells = CHUNK_CELLS_FIRST;
        let chunk = VecDeque::new();
        let mut cursor = Self { memtable, bounds, read, reverse, shards, chunk, chunk_cells };
        cursor.refill();
        cursor
    }

    /// Returns the cell that the cursor stands at, or `None` at the end.
    pub(crate) fn peek(&self) -> Option<&CellKey> {
        self.chunk.front().map(|(key, _)| key)
    }

    /// Takes the cell that the cursor stands at and goes on to the next.
    pub(crate) fn take(&mut self) -> Option<(CellKey, Option<Version>)> {
        let taken = self.chunk.pop_front();
        self.refill();
        taken
    }

    fn refill(&mut self) {
        while self.chunk.is_empty() && !self.shards.is_empty() {
            self.fill();
        }
    }

    /// Reads the next chunk of the current shard, or leaves the shard where it has no more.
    fn fill(&mut self) {
        let Some(bounds) = &mut self.bounds else {
            self.shards = 0..0;
            return;
        };
        let index = if self.reverse { self.shards.end - 1 } else { self.shards.start };
        let shard = read(&self.memtable.shards[index]);
        let cells = shard.range(bounds.clone());
        let at = self.read;
        let found = |(key, versions): (&CellKey, &super::Versions)| {
            (key.clone(), versions.at(at).map(Stored::version))
        };
        if self.reverse {
            self.chunk.extend(cells.rev().take(self.chunk_cells).map(found));
        } else {
            self.chunk.extend(cells.take(self.chunk_cells).map(found));
        }
        let exhausted = self.chunk.len() < self.chunk_cells;
        self.chunk_cells = (self.chunk_cells * 2).min(CHUNK_CELLS_MAX);
        // The last cell lies within the bounds, so that they never become inverted.
        match self.chunk.back() {
            Some((last, _)) if self.reverse => bounds.1 = Bound::Excluded(last.clone()),
            Some((last, _)) => bounds.0 = Bound::Excluded(last.clone()),
            None => {}
        }
        if exhausted {
            if self.reverse {
                self.shards.end -= 1;
            } else {
                self.shards.start += 1;
            }
        }
    }
}

/// The shards in which cells between the bounds can lie.
fn shards_of(bounds: &(Bound<CellKey>, Bound<CellKey>)) -> std::ops::Range<usize> {
    let table = |bound: &Bound<CellKey>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key.table()),
        Bound::Unbounded => None,
    };
    let shard = |bound: &Bound<CellKey>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(shard_of(key.token().0)),
        Bound::Unbounded => None,
    };
    let first = shard(&bounds.0).unwrap_or(0);
    // An upper bound at the next table's beginning does not bound the token.
    let same_table = table(&bounds.0) == table(&bounds.1);
    let last = shard(&bounds.1).filter(|_| same_table).unwrap_or(SHARDS - 1);
    first..last + 1
}
