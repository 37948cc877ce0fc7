//! Reads at a moment of their own, while what happens meanwhile happens within it.

use super::*;
use crate::compaction::merge::Mark;

/// Forgets every version that a newer one hides, as of the last commit that is published.
struct Forgetful(Arc<Publication>);

impl GcHook for Forgetful {
    fn mark(&self) -> Mark {
        Mark { read: self.0.published(), ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

/// Writes the one cell.
fn put(engine: &Engine, commit: u64) {
    let (key, payload) = (key(1), Bytes::from(commit.to_be_bytes().to_vec()));
    let put = Mutation::put_or_delete(&key, Some(&payload));
    let prepared = engine.prepare(time(commit - 1), [put]).unwrap();
    let reserved = engine.reserve(prepared, None, || Ok::<_, Error>(time(commit))).unwrap();
    block_on(reserved.insert()).unwrap();
}

/// Reads the cell, which each commit writes, while something happens `before` the moment is known and
/// something `after`, the first time that it is asked for.
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
fn a_commit_of_a_younger_memtable_is_not_missed() {
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
fn what_is_forgotten_after_the_moment_is_not_looked_for() {
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
