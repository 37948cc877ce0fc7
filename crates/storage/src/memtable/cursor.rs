//! Iterates over a memtable's cells in order. Copies a chunk at a time, so that no lock is held
//! between chunks.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::Timestamp;

use super::cell::VersionRef;
use super::table::Memtable;
use super::tree::Versions;

const CHUNK_CELLS_FIRST: usize = 16;
const CHUNK_CELLS_MAX: usize = 256;
/// Size at which a chunk ends.
const CHUNK_BYTES: usize = 256 << 10;

/// Cursor over the cells of a range.
///
/// Each cell comes with its newest version at the snapshot, or with none if all versions are newer.
/// Range tombstones are not applied; the merge of all sources does that, see
/// [`Memtable::range_tombstones`].
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    lower: Bytes,
    upper: Bytes,
    read: Timestamp,
    reverse: bool,
    chunk: Chunk,
    /// Index in the chunk of the current cell.
    at: usize,
    chunk_cells: usize,
    ended: bool,
}

/// Cells copied from the memtable into one buffer.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    cells: Vec<Cell>,
}

struct Cell {
    key: std::ops::Range<usize>,
    version: Option<Version>,
}

struct Version {
    start: Timestamp,
    commit: Timestamp,
    expiry: Option<u64>,
    payload: Option<std::ops::Range<usize>>,
}

impl Chunk {
    fn push(&mut self, key: &[u8], version: Option<VersionRef<'_>>) {
        let key = self.copy(key);
        let version = version.map(|version| {
            let VersionRef { start, commit, expiry, payload } = version;
            let payload = payload.map(|payload| self.copy(payload));
            Version { start, commit, expiry, payload }
        });
        self.cells.push(Cell { key, version });
    }

    fn copy(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        at..self.bytes.len()
    }
}

impl MemtableCursor {
    /// Positions a cursor at the first cell in `[lower, upper)`.
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        (lower, upper): (Bytes, Bytes),
        read: Timestamp,
        reverse: bool,
    ) -> Self {
        let mut cursor = Self {
            memtable,
            lower,
            upper,
            read,
            reverse,
            chunk: Chunk::default(),
            at: 0,
            chunk_cells: CHUNK_CELLS_FIRST,
            ended: false,
        };
        cursor.fill();
        cursor
    }

    /// Returns the key of the current cell, or `None` at the end.
    pub(crate) fn peek_key(&self) -> Option<&[u8]> {
        self.chunk.cells.get(self.at).map(|cell| &self.chunk.bytes[cell.key.clone()])
    }

    /// Returns the current cell's newest version at the snapshot.
    pub(crate) fn version(&self) -> Option<VersionRef<'_>> {
        let version = self.chunk.cells.get(self.at)?.version.as_ref()?;
        Some(VersionRef {
            start: version.start,
            commit: version.commit,
            expiry: version.expiry,
            payload: version.payload.clone().map(|payload| &self.chunk.bytes[payload]),
        })
    }

    /// Moves to the next cell.
    pub(crate) fn advance(&mut self) {
        self.at += 1;
        if self.at >= self.chunk.cells.len() {
            self.fill();
        }
    }

    /// Copies the next chunk.
    fn fill(&mut self) {
        if self.ended {
            return;
        }
        if let Some(last) = self.chunk.cells.last() {
            let last = &self.chunk.bytes[last.key.clone()];
            if self.reverse {
                self.upper = Bytes::copy_from_slice(last);
            } else {
                self.lower = Bytes::from([last, &[0]].concat());
            }
        }
        let Self { memtable, lower, upper, read, reverse, chunk, chunk_cells, .. } = self;
        chunk.bytes.clear();
        chunk.cells.clear();
        self.at = 0;
        let mut beyond = false;
        let take = |key: &[u8], mut versions: Versions<'_>| {
            beyond = if *reverse { *key < **lower } else { *key >= **upper };
            if beyond {
                return false;
            }
            chunk.push(key, versions.find(|version| version.commit <= *read));
            chunk.cells.len() < *chunk_cells && chunk.bytes.len() < CHUNK_BYTES
        };
        let ended = if *reverse {
            memtable.tree.walk_back(Some(upper), take)
        } else {
            memtable.tree.walk(Some(lower), take)
        };
        self.ended = ended || beyond;
        self.chunk_cells = (self.chunk_cells * 2).min(CHUNK_CELLS_MAX);
    }
}
