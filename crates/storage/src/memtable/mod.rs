//! Versions of cells in memory, in the order of cells, for many writers at once.
//!
//! ```text
//!  token  −2⁶³ …                                                  … 2⁶³ − 1
//!         │ shard 0 │ shard 1 │            …            │ shard 63 │
//!              └ RwLock<BTreeMap<cell → versions, newest first>>
//! ```
//!
//! The top bits of the token choose a cell's shard, so that the shards lie in token order and a
//! range of a table is one walk from shard to shard. Keys and payloads are slices of the log
//! record's body: an insert copies no bytes.
//!
//! A memtable takes the records of a span of the log. When it is full it is *sealed* at the same
//! place at which the log goes on in a new segment; writers that reserved their place before that
//! still hold it and finish in it. It is flushed once all of its records are published, and only
//! then are its segments removed.
//!
//! The versions of a cell may be inserted in any order, and the same version twice.
//!
//! Absent on purpose, for now: an arena, and a structure of its own for a wide partition, whose
//! cells all lie in one shard.

mod cursor;

use std::collections::BTreeMap;
use std::sync::{Mutex, RwLock};

use bytes::Bytes;
use carnet_base::{CellKey, TableId, Timestamp, Version};

pub(crate) use cursor::MemtableCursor;

use crate::codec::Cell;
use crate::lock::{lock, read, write};

const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;

/// What a cell costs beside the bytes of its record: key, version and its share of the map.
pub(crate) const CELL_OVERHEAD_BYTES: usize = 240;

type Shard = BTreeMap<CellKey, Versions>;
type Entries = BTreeMap<Timestamp, Timestamp>;

/// A memtable.
pub(crate) struct Memtable {
    /// The log segment that holds this memtable's first record.
    first_segment: u64,
    shards: Box<[RwLock<Shard>]>,
    /// Which start committed when. Spread by the lowest bits: starts come in sequence.
    entries: Box<[Mutex<Entries>]>,
}

/// The versions of a cell, the newest apart, since mostly there is no other.
struct Versions {
    newest: Stored,
    /// Newest first.
    older: Vec<Stored>,
}

#[derive(Clone)]
struct Stored {
    commit: Timestamp,
    start: Timestamp,
    payload: Option<Bytes>,
}

impl Stored {
    fn version(&self) -> Version {
        Version { start: self.start, commit: Some(self.commit), payload: self.payload.clone() }
    }
}

impl Versions {
    fn insert(&mut self, version: Stored) {
        if version.commit > self.newest.commit {
            let older = std::mem::replace(&mut self.newest, version);
            self.older.insert(0, older);
        } else if version.commit == self.newest.commit {
            self.newest = version;
        } else {
            let at = self.older.partition_point(|older| older.commit > version.commit);
            match self.older.get_mut(at) {
                Some(same) if same.commit == version.commit => *same = version,
                _ => self.older.insert(at, version),
            }
        }
    }

    fn at(&self, read: Timestamp) -> Option<&Stored> {
        if self.newest.commit <= read {
            return Some(&self.newest);
        }
        self.older.get(self.older.partition_point(|version| version.commit > read))
    }
}

/// The shard of a token: its top bits, in token order.
const fn shard_of(token: i64) -> usize {
    let ordered = token.cast_unsigned() ^ (1 << 63);
    (ordered >> (64 - SHARD_BITS)) as usize
}

impl Memtable {
    /// Makes an empty memtable for the records from a segment's beginning on.
    pub(crate) fn new(first_segment: u64) -> Self {
        Self {
            first_segment,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            entries: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    pub(crate) const fn first_segment(&self) -> u64 {
        self.first_segment
    }

    /// Inserts the cells of one record, stamped.
    pub(crate) fn insert(&self, start: Timestamp, commit: Timestamp, cells: Vec<Cell>) {
        let mut held = None;
        for Cell { key, payload, .. } in cells {
            let index = shard_of(key.token().0);
            // Cells of one partition follow each other: keep the lock between them, and never
            // hold two.
            if held.as_ref().is_none_or(|(locked, _)| *locked != index) {
                drop(held.take());
                held = Some((index, write(&self.shards[index])));
            }
            let Some((_, shard)) = &mut held else { continue };
            let version = Stored { commit, start, payload };
            match shard.entry(key) {
                std::collections::btree_map::Entry::Occupied(mut cell) => {
                    cell.get_mut().insert(version);
                }
                std::collections::btree_map::Entry::Vacant(cell) => {
                    cell.insert(Versions { newest: version, older: Vec::new() });
                }
            }
        }
        drop(held);
        lock(&self.entries[entry_shard(start)]).insert(start, commit);
    }

    /// Returns when a start committed, where its record is in this memtable.
    pub(crate) fn commit_of(&self, start: Timestamp) -> Option<Timestamp> {
        lock(&self.entries[entry_shard(start)]).get(&start).copied()
    }

    /// Returns every (start, commit), in no order.
    pub(crate) fn entries(&self) -> Vec<(Timestamp, Timestamp)> {
        let mut all = Vec::new();
        for shard in &self.entries {
            all.extend(lock(shard).iter().map(|(&start, &commit)| (start, commit)));
        }
        all
    }

    /// Returns a cell's newest version that committed at or before `read`.
    pub(crate) fn get(&self, key: &CellKey, at: Timestamp) -> Option<Version> {
        let shard = read(&self.shards[shard_of(key.token().0)]);
        shard.get(key)?.at(at).map(Stored::version)
    }

    /// Hands every version to `visit` in the order of an SSTable: by cell, newest first.
    pub(crate) fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(&CellKey, &Version) -> Result<(), E>,
    ) -> Result<(), E> {
        for table in self.tables() {
            for shard in &self.shards {
                let shard = read(shard);
                let Some(bounds) = carnet_base::KeyRange::table(table).map_bounds() else {
                    continue;
                };
                for (key, versions) in shard.range(bounds) {
                    visit(key, &versions.newest.version())?;
                    for version in &versions.older {
                        visit(key, &version.version())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the tables that have cells here, in order.
    fn tables(&self) -> Vec<TableId> {
        let mut tables = Vec::new();
        for shard in &self.shards {
            let shard = read(shard);
            let mut next = shard.keys().next();
            while let Some(key) = next {
                tables.push(key.table());
                let rest = carnet_base::KeyRange::table(key.table()).map_bounds();
                // Step over the table's cells by the bound behind its last one.
                next = rest.and_then(|(_, upper)| match upper {
                    std::ops::Bound::Excluded(upper) => {
                        shard.range(upper..).next().map(|(key, _)| key)
                    }
                    _ => None,
                });
            }
        }
        tables.sort_unstable();
        tables.dedup();
        tables
    }
}

fn entry_shard(start: Timestamp) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits matter")]
    let low = start.get() as usize;
    low % SHARDS
}

#[cfg(test)]
mod tests {
    use carnet_base::{PartitionKey, Token};

    use super::*;

    fn time(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn cell(token: i64, payload: &'static str) -> Cell {
        let partition = PartitionKey::with_token(Token(token), Bytes::from_static(b"p"));
        Cell {
            key: CellKey::new(TableId(1), &partition, ""),
            version: None,
            payload: Some(Bytes::from_static(payload.as_bytes())),
        }
    }

    #[test]
    fn shards_lie_in_token_order() {
        let tokens = [i64::MIN, -1 << 62, -1, 0, 1 << 62, i64::MAX];
        assert!(tokens.map(shard_of).is_sorted());
        assert_eq!((shard_of(i64::MIN), shard_of(i64::MAX)), (0, SHARDS - 1));
    }

    #[test]
    fn versions_inserted_in_any_order_are_found_by_snapshot() {
        let memtable = Memtable::new(1);
        for commit in [20, 40, 10, 30, 20] {
            memtable.insert(time(commit - 1), time(commit), vec![cell(7, "x")]);
        }
        let key = cell(7, "").key;
        let found = |read| memtable.get(&key, time(read)).map(|v| v.commit.unwrap().get());
        assert_eq!(found(9), None);
        assert_eq!(
            [10, 19, 20, 25, 39, 99].map(found).map(Option::unwrap),
            [10, 10, 20, 20, 30, 40]
        );
        let mut commits = Vec::new();
        let _ = memtable.try_for_each(|_, version| {
            commits.push(version.commit.unwrap().get());
            Ok::<_, ()>(())
        });
        assert_eq!(commits, [40, 30, 20, 10]);
        assert_eq!(memtable.commit_of(time(29)), Some(time(30)));
        assert_eq!(memtable.commit_of(time(30)), None);
    }
}
