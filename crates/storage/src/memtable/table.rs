//! Memtable: the tree of cells, the range tombstones, and the list of commits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use carnet_base::Timestamp;

use super::cell::{CellRef, Found, VersionRef};
use super::chunks::Chunks;
use super::ranges::{Fragment, Ranges};
use super::tree::Tree;
use crate::lock::lock;

/// Number of shards of the list of commits, selected by the low bits of the start, which are
/// sequential.
const ENTRY_SHARDS: usize = 64;

/// Pairs of start and commit, unordered.
type Entries = Vec<(Timestamp, Timestamp)>;

/// In-memory table of versions; see the module documentation.
#[derive(Debug)]
pub(crate) struct Memtable {
    /// The log segment that holds this memtable's first record.
    first_segment: u64,
    pub(super) tree: Tree,
    ranges: Ranges,
    /// Start and commit of each record.
    entries: Box<[Mutex<Entries>]>,
    /// Capacity of the lists of `entries`, in bytes.
    entries_bytes: AtomicUsize,
    records: AtomicUsize,
}

impl Memtable {
    /// Makes an empty memtable for the records from the beginning of `first_segment` on.
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

    /// Inserts the cells of one record with its timestamps.
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

    /// Deletes the versions in `[lower, upper)` that committed before `commit`.
    pub(crate) fn delete_range(
        &self,
        start: Timestamp,
        commit: Timestamp,
        lower: &[u8],
        upper: &[u8],
    ) {
        self.ranges.insert((commit, start), lower, upper);
    }

    /// Returns `true` if no record was inserted.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.load(Ordering::Relaxed) == 0
    }

    /// Returns the allocated bytes, except for about 40 KiB that each memtable takes from the
    /// beginning; 0 for an empty one without range tombstones.
    pub(crate) fn memory_bytes(&self) -> usize {
        if self.is_empty() {
            return self.ranges.allocated();
        }
        let entries = self.entries_bytes.load(Ordering::Relaxed);
        self.tree.allocated() + self.ranges.allocated() + entries
    }

    /// Returns the commit timestamp of a start whose record is in this memtable.
    pub(crate) fn commit_of(&self, start: Timestamp) -> Option<Timestamp> {
        let entries = lock(&self.entries[entry_shard(start)]);
        entries.iter().rev().find(|(other, _)| *other == start).map(|(_, commit)| *commit)
    }

    /// Returns all pairs of start and commit, unordered.
    pub(crate) fn entries(&self) -> Vec<(Timestamp, Timestamp)> {
        self.entries.iter().flat_map(|shard| lock(shard).clone()).collect()
    }

    /// Returns a cell's newest version that committed at or before `at`, or the range tombstone
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

    /// Returns the range tombstones, in key order.
    pub(crate) fn range_tombstones(&self) -> Vec<Fragment> {
        self.ranges.fragments()
    }

    /// Calls `visit` with all versions of all cells, in order, newest version first.
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
