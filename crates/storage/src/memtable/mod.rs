//! Versions of cells in memory, in the order of cells, for many writers at once.
//!
//! A [`tree`] of [`node`]s holds the cells, whatever table or partition they are of. Beside it
//! lie the [range tombstones](ranges), and which start committed when. An insert copies a record's
//! cells once, into the tree's own [memory](arena), in which its nodes lie, too; a full memtable
//! is dropped in some hundred pieces. What the tree and the list of commits have of the allocator is
//! counted; range tombstones are estimated.
//!
//! A memtable takes the records of a span of the log. When it is full it is *sealed* at the same
//! place at which the log goes on in a new segment; writers that reserved their place before that
//! still hold it and finish in it. It is flushed once all of its records are published, and only
//! then are its segments removed.
//!
//! The versions of a cell may be inserted in any order, and the same version twice.

mod arena;
mod chunks;
mod cursor;
mod node;
mod pages;
mod ranges;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use carnet_base::Timestamp;

pub(crate) use arena::{MEMTABLE_BYTES_MAX, VersionRef};
pub(crate) use chunks::Chunks;
pub(crate) use cursor::MemtableCursor;
pub(crate) use ranges::Fragment;

use crate::lock::lock;
use ranges::Ranges;
use tree::Tree;

/// Commits are spread by the lowest bits of their starts, which come in sequence.
const ENTRY_SHARDS: usize = 64;

/// A cell to be inserted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellRef<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) expiry: Option<u64>,
}

/// What a point read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) start: Timestamp,
    pub(crate) commit: Timestamp,
    pub(crate) expiry: Option<u64>,
    /// `None` is deleted: the cell itself, or a range around it.
    pub(crate) payload: Option<Bytes>,
}

/// Starts and commits, in no order.
type Entries = Vec<(Timestamp, Timestamp)>;

/// A memtable.
#[derive(Debug)]
pub(crate) struct Memtable {
    /// The log segment that holds this memtable's first record.
    first_segment: u64,
    tree: Tree,
    ranges: Ranges,
    /// Which start committed when.
    entries: Box<[Mutex<Entries>]>,
    /// What the lists of `entries` have of the allocator.
    entries_bytes: AtomicUsize,
    records: AtomicUsize,
}

impl Memtable {
    /// Makes an empty memtable for the records from a segment's beginning on.
    pub(crate) fn new(first_segment: u64, chunks: Chunks) -> Self {
        Self {
            first_segment,
            tree: Tree::new(chunks),
            ranges: Ranges::default(),
            entries: (0..ENTRY_SHARDS).map(|_| Mutex::default()).collect(),
            entries_bytes: AtomicUsize::new(0),
            records: AtomicUsize::new(0),
        }
    }

    pub(crate) const fn first_segment(&self) -> u64 {
        self.first_segment
    }

    /// Inserts the cells of one record, stamped.
    pub(crate) fn insert<'a>(
        &self,
        start: Timestamp,
        commit: Timestamp,
        cells: impl Iterator<Item = CellRef<'a>> + Clone,
    ) {
        self.tree.insert(start, commit, cells);
        self.insert_entry(start, commit);
        self.records.fetch_add(1, Ordering::Relaxed);
    }

    fn insert_entry(&self, start: Timestamp, commit: Timestamp) {
        let mut entries = lock(&self.entries[entry_shard(start)]);
        let before = entries.capacity();
        entries.push((start, commit));
        let grown = (entries.capacity() - before) * size_of::<(Timestamp, Timestamp)>();
        if grown > 0 {
            self.entries_bytes.fetch_add(grown, Ordering::Relaxed);
        }
    }

    /// Deletes what was committed before in `[lower, upper)`, stamped.
    pub(crate) fn delete_range(
        &self,
        start: Timestamp,
        commit: Timestamp,
        lower: &[u8],
        upper: &[u8],
    ) {
        self.ranges.insert((commit, start), lower, upper);
    }

    /// Tells whether no record was inserted.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.load(Ordering::Relaxed) == 0
    }

    /// How many bytes it has of the allocator, but for some 40 KiB that each has from the beginning;
    /// an empty one takes none.
    pub(crate) fn memory_bytes(&self) -> usize {
        if self.is_empty() {
            return self.ranges.allocated();
        }
        let entries = self.entries_bytes.load(Ordering::Relaxed);
        self.tree.allocated() + self.ranges.allocated() + entries
    }

    /// Returns when a start committed, where its record is in this memtable.
    pub(crate) fn commit_of(&self, start: Timestamp) -> Option<Timestamp> {
        let entries = lock(&self.entries[entry_shard(start)]);
        entries.iter().rev().find(|(other, _)| *other == start).map(|(_, commit)| *commit)
    }

    /// Returns every (start, commit), in no order.
    pub(crate) fn entries(&self) -> Vec<(Timestamp, Timestamp)> {
        self.entries.iter().flat_map(|shard| lock(shard).clone()).collect()
    }

    /// Returns a cell's newest version that committed at or before `read`, or the range tombstone
    /// that hides it.
    pub(crate) fn get(&self, key: &[u8], at: Timestamp) -> Option<Found> {
        let found = self.tree.get(key, at, |version| Found {
            start: version.start,
            commit: version.commit,
            expiry: version.expiry,
            payload: version.payload.map(Bytes::copy_from_slice),
        });
        match self.ranges.covering(key, at) {
            Some((commit, start)) if found.as_ref().is_none_or(|found| found.commit < commit) => {
                Some(Found { start, commit, expiry: None, payload: None })
            }
            _ => found,
        }
    }

    /// Returns the range tombstones, in order.
    pub(crate) fn range_tombstones(&self) -> Vec<Fragment> {
        self.ranges.fragments()
    }

    /// Hands every cell with its versions, newest first, to `visit`, in order.
    pub(crate) fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(&[u8], VersionRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut outcome = Ok(());
        self.tree.walk(None, |key, versions| {
            for version in versions {
                outcome = visit(key, version);
                if outcome.is_err() {
                    return false;
                }
            }
            true
        });
        outcome
    }
}

fn entry_shard(start: Timestamp) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits matter")]
    let low = start.get() as usize;
    low % ENTRY_SHARDS
}
