//! A database at rest writes nothing, whatever its history: compaction rewrites a table for its
//! garbage only if it drops some.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use carnet_base::{
    Bytes, CellKey, Error, PartitionKey, Result, Stepped, SystemClock, TableId, Timestamp, block_on,
};
use carnet_storage::compaction::merge::{GcHook, Mark};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Engine, MergeOperator, Mutation, Options};

use crate::support::{Joined, entry_cell, time};

/// GC watermark that the test moves, and the second that has passed for all readers.
#[derive(Default)]
struct Gc {
    read: AtomicU64,
    wall: AtomicU64,
}

impl GcHook for Gc {
    fn mark(&self) -> Mark {
        let wall = Some(self.wall.load(Ordering::Relaxed));
        Mark { read: time(self.read.load(Ordering::Relaxed)), wall, ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

/// [`Joined`], but deltas that contain a `?` cannot be merged.
struct Failing;

impl MergeOperator for Failing {
    fn mark(&self) -> u8 {
        Joined.mark()
    }

    fn has_deltas(&self, table: TableId) -> bool {
        Joined.has_deltas(table)
    }

    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        if deltas.iter().any(|(_, delta)| delta.contains(&b'?')) {
            return Err(Error::corrupted("a delta is damaged"));
        }
        Joined.merge(value, deltas)
    }
}

struct Bed {
    engine: Engine,
    workers: Stepped,
    gc: Arc<Gc>,
    commit: u64,
}

impl Bed {
    fn new() -> Self {
        let (disk, workers) = (Arc::new(SimDisk::new(1)), Stepped::default());
        let options = Options::default();
        let engine =
            Engine::open(disk, Arc::new(SystemClock), &workers, options, entry_cell()).unwrap();
        engine.set_merge_operator(Arc::new(Failing));
        let gc = Arc::new(Gc::default());
        assert!(engine.set_gc(Arc::clone(&gc) as _));
        Self { engine, workers, gc, commit: 0 }
    }

    /// Writes `payload` to rows of table 1; `None` deletes them.
    fn write(&mut self, rows: u32, payload: Option<&str>, expiry: Option<u64>) {
        let keys: Vec<CellKey> = (0..rows)
            .map(|row| CellKey::new(TableId(1), &PartitionKey::new("p"), row.to_be_bytes()))
            .collect();
        let mutation = |key| match payload {
            Some(payload) => Mutation::Put { key, payload: payload.as_bytes(), expiry },
            None => Mutation::Delete { key },
        };
        let mutations = keys.iter().map(|key| mutation(key.as_key_ref()));
        let prepared = self.engine.prepare(time(self.commit + 1), mutations).unwrap();
        self.commit += 2;
        let commit = time(self.commit);
        drop(self.engine.append(prepared, || Ok::<_, Error>(commit)).unwrap());
    }

    /// Lets all readers read at the last commit, where the second `wall` has passed; returns the
    /// number of compactions and the bytes that they write until they rest.
    fn rest(&self, wall: u64) -> (u64, u64) {
        self.gc.read.store(self.commit, Ordering::Relaxed);
        self.gc.wall.store(wall, Ordering::Relaxed);
        let before = self.engine.metrics();
        for step in 0..3_000 {
            self.workers.step(step % 6);
        }
        let after = self.engine.metrics();
        let compactions = after.compactions - before.compactions;
        (compactions, after.compaction_bytes - before.compaction_bytes)
    }

    fn read(&self, row: u32) -> Option<String> {
        let key = CellKey::new(TableId(1), &PartitionKey::new("p"), row.to_be_bytes());
        let version = block_on(self.engine.get(&key, Timestamp::MAX)).unwrap()?;
        Some(String::from_utf8(version.payload?.to_vec()).unwrap())
    }
}

#[test]
fn deltas_above_deeper_rows_are_not_rewritten() {
    let mut bed = Bed::new();
    bed.write(2000, Some("v"), None);
    bed.engine.compact().unwrap();
    for delta in ["+a", "+b", "+c"] {
        bed.write(2000, Some(delta), None);
    }
    bed.engine.flush().unwrap();
    assert_eq!(bed.rest(0), (0, 0), "the rows lie in a deeper level");
    bed.engine.compact().unwrap();
    assert_eq!((bed.rest(0), bed.read(7).as_deref()), ((0, 0), Some("v+a+b+c")));
}

#[test]
fn deltas_above_expiring_rows_are_not_rewritten() {
    let mut bed = Bed::new();
    bed.write(2000, Some("v"), Some(100));
    bed.write(2000, Some("+a"), None);
    bed.engine.compact().unwrap();
    assert_eq!(bed.rest(99), (0, 0), "a merged row would not expire");
    let (compactions, bytes) = bed.rest(100);
    assert!(compactions == 1 && bytes > 0, "{compactions} rewrites of {bytes} bytes");
    assert_eq!((bed.rest(101), bed.read(7).as_deref()), ((0, 0), Some("0+a")));
}

#[test]
fn deltas_that_cannot_be_merged_are_not_rewritten() {
    for expiry in [None, Some(100)] {
        let mut bed = Bed::new();
        bed.write(2000, Some("v"), expiry);
        bed.write(2000, Some("+a"), None);
        bed.write(2000, Some("+?"), None);
        bed.engine.flush().unwrap();
        bed.gc.read.store(bed.commit, Ordering::Relaxed);
        bed.engine.compact().unwrap();
        assert_eq!(bed.rest(99), (0, 0));
        // The values below the deltas expire, and hide nothing.
        assert_eq!(bed.rest(150).0, u64::from(expiry.is_some()));
        assert_eq!(bed.rest(250), (0, 0));
    }
}

#[test]
fn deltas_above_nothing_are_rewritten_once() {
    let mut bed = Bed::new();
    for delta in ["+a", "+b", "+c"] {
        bed.write(2000, Some(delta), None);
    }
    // Before the watermark has passed the deltas.
    bed.engine.compact().unwrap();
    assert_eq!(bed.rest(0).0, 1);
    assert_eq!((bed.rest(1), bed.read(7).as_deref()), ((0, 0), Some("0+a+b+c")));
}

#[test]
fn tombstones_of_an_idle_level_are_dropped_once() {
    let mut bed = Bed::new();
    bed.write(2000, Some("v"), None);
    bed.write(2000, None, None);
    bed.write(10, Some("w"), None);
    bed.engine.compact().unwrap();
    assert_eq!(bed.rest(0).0, 1);
    assert_eq!((bed.rest(1), bed.read(7).as_deref(), bed.read(17)), ((0, 0), Some("w"), None));
}

/// The deltas exceed the maximum length of a value together, so compaction keeps them.
#[test]
fn deleted_row_stays_deleted_below_deltas_that_are_too_long() {
    let mut bed = Bed::new();
    bed.write(1, Some("v"), None);
    bed.engine.compact().unwrap();
    bed.write(1, None, None);
    let part = format!("+{}", "x".repeat(12 << 20));
    for _ in 0..3 {
        bed.write(1, Some(&part), None);
    }
    bed.engine.flush().unwrap();
    assert!(bed.read(0).unwrap().starts_with("0+"));
    assert_eq!(bed.rest(0).0, 1, "the tombstone may have been garbage");
    assert!(bed.read(0).unwrap().starts_with("0+"), "the deleted value has returned");
    assert_eq!(bed.rest(0).0, 0);
}
