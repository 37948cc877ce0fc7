//! Tests of several workers in one compaction.

use super::*;
use crate::compaction::policy::Config;
use crate::sstable;

const KEYS: u64 = 200;
const COMPACTOR: usize = 2;
const HELPER: usize = 3;

/// Level 0 is compacted from two tables on; helpers work from three runs on.
fn options() -> Options {
    let compaction = Config {
        level0_tables: 2,
        slow_runs: 4,
        table_bytes: 2 << 10,
        part_bytes: 1,
        ..Config::default()
    };
    Options { compaction, durability: Durability::None, ..Options::default() }
}

/// Writes and flushes every key.
fn flush(engine: &Engine, commit: &mut u64) {
    for number in 0..KEYS {
        *commit += 10;
        let (key, payload) = (key(number), Bytes::from(commit.to_be_bytes().to_vec()));
        let put = Mutation::put_or_delete(&key, Some(&payload));
        let prepared = engine.prepare(time(*commit - 1), [put]).unwrap();
        let reserved = engine.reserve(prepared, || Ok::<_, Error>(time(*commit))).unwrap();
        block_on(reserved.insert()).unwrap();
    }
    engine.flush().unwrap();
}

fn check(engine: &Engine, commit: u64) {
    for number in 0..KEYS {
        let newest = commit - 10 * (KEYS - 1 - number);
        let found = block_on(engine.get(&key(number), engine.published())).unwrap().unwrap();
        assert_eq!(found.commit, Some(time(newest)), "key {number}");
    }
}

fn work(workers: &Stepped, worker: usize) {
    while workers.step(worker) == Step::Again {}
}

/// Makes a database with a large backlog in level 0, over several tables of the last level.
fn behind(workers: &Stepped) -> (Engine, u64) {
    behind_on(&SimDisk::new(1), workers)
}

fn behind_on(disk: &SimDisk, workers: &Stepped) -> (Engine, u64) {
    let engine = open(disk, workers, options());
    let mut commit = 0;
    // The first table is moved unread.
    for _ in 0..3 {
        flush(&engine, &mut commit);
        work(workers, COMPACTOR);
    }
    assert!(engine.metrics().tables > 4, "{:?}", engine.metrics());
    assert_eq!(workers.step(HELPER), Step::Idle(None), "nobody calls for help");
    for _ in 0..3 {
        flush(&engine, &mut commit);
    }
    (engine, commit)
}

#[test]
fn helper_runs_all_parts_alone() {
    let workers = Stepped::default();
    let (engine, commit) = behind(&workers);
    let before = engine.metrics();
    work(&workers, HELPER);
    let after = engine.metrics();
    assert_eq!(after.compactions, before.compactions + 1);
    assert!(lock(&engine.core.manifest).levels.level(0).is_empty());
    check(&engine, commit);
}

#[test]
fn workers_share_the_parts_of_a_compaction() {
    for seed in 0..40 {
        let workers = Stepped::default();
        let (engine, mut commit) = behind(&workers);
        let mut rng = SeededRng::new(seed);
        let mut idle = [false; 2];
        while idle != [true; 2] {
            let one = usize::from(rng.chance(500));
            idle[one] = workers.step([COMPACTOR, HELPER][one]) != Step::Again;
            if rng.chance(20) && commit < 20_000 {
                flush(&engine, &mut commit);
                idle = [false; 2];
            }
            assert!(lock(&engine.core.compactions.state).running() <= 2);
        }
        assert!(lock(&engine.core.compactions.divided).is_empty(), "seed {seed}");
        assert_eq!(lock(&engine.core.compactions.state).running(), 0, "seed {seed}");
        check(&engine, commit);
        engine.close().unwrap();
    }
}

/// The parts of the others are abandoned and have no effect.
#[test]
fn failed_part_abandons_the_others() {
    let workers = Stepped::default();
    let (engine, commit) = behind(&workers);
    for worker in [COMPACTOR, COMPACTOR, HELPER] {
        assert_eq!(workers.step(worker), Step::Again);
    }
    engine.core.publication.stop("the test says so");
    assert_eq!(workers.step(HELPER), Step::Done);
    assert_eq!(workers.step(COMPACTOR), Step::Done);
    check(&engine, commit);
}

/// The next opening removes the files of abandoned parts, and all data exists.
#[test]
fn files_of_unfinished_parts_are_removed() {
    for steps in [1, 2, 5, 20] {
        let disk = SimDisk::new(1);
        let workers = Stepped::default();
        let (engine, commit) = behind_on(&disk, &workers);
        for _ in 0..steps {
            for worker in [COMPACTOR, HELPER] {
                workers.step(worker);
            }
        }
        engine.close().unwrap();
        drop(workers);
        let engine = open(&disk, &Stepped::default(), options());
        check(&engine, commit);
        let tables = disk.list().unwrap().into_iter().filter_map(|name| sstable::number_in(&name));
        let tables = tables.count() as u64;
        assert_eq!(tables, engine.metrics().tables, "after {steps} steps");
    }
}
