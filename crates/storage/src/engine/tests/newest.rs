//! Reads at a snapshot that is chosen during the read, with concurrent events.

use super::*;
use crate::compaction::merge::Mark;

/// GC hook that permits dropping every hidden version up to the last published commit.
struct Forgetful(Arc<Publication>);

impl GcHook for Forgetful {
    fn mark(&self) -> Mark {
        Mark { read: self.0.published(), ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

/// Writes the cell.
fn put(engine: &Engine, commit: u64) {
    let (key, payload) = (key(1), Bytes::from(commit.to_be_bytes().to_vec()));
    let put = Mutation::put_or_delete(&key, Some(&payload));
    let prepared = engine.prepare(time(commit - 1), [put]).unwrap();
    let reserved = engine.reserve(prepared, || Ok::<_, Error>(time(commit))).unwrap();
    block_on(reserved.insert()).unwrap();
}

/// Reads the cell, which each commit writes. `before` runs before the snapshot is chosen, `after`
/// after it, both for its first choice only.
fn read(engine: &Engine, before: impl Fn() + Sync, after: impl Fn() + Sync) -> Timestamp {
    let again = AtomicBool::new(false);
    let moment = || {
        let first = !again.swap(true, Ordering::SeqCst);
        if first {
            before();
        }
        let moment = engine.published();
        if first {
            after();
        }
        moment
    };
    let (cell, reads) = (key(1), ReadOptions::default());
    let newest = engine.get_newest(cell.as_key_ref(), reads, moment);
    let (read, version) = block_on(newest).unwrap();
    assert_eq!(version.unwrap().commit, Some(read), "each commit writes the cell");
    read
}

fn engine() -> Engine {
    let options = Options { durability: Durability::None, ..Options::default() };
    let engine = open(&SimDisk::new(1), &ThreadSpawn, options);
    assert!(engine.set_gc(Arc::new(Forgetful(Arc::clone(&engine.core.publication)))));
    put(&engine, 10);
    engine
}

#[test]
fn commit_in_younger_memtable_is_found() {
    let engine = engine();
    let read = read(
        &engine,
        || {
            engine.flush().unwrap();
            put(&engine, 20);
        },
        || (),
    );
    assert_eq!(read, time(20));
}

#[test]
fn version_dropped_after_the_moment_is_found() {
    let engine = engine();
    let read = read(
        &engine,
        || (),
        || {
            put(&engine, 20);
            engine.compact().unwrap();
        },
    );
    assert!(read >= time(10));
}
