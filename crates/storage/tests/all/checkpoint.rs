//! Checkpoints: each opens as the database at one point in time, with concurrent writes and after
//! power failures.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use carnet_base::{
    CellKey, Error, ErrorKind, PartitionKey, SeededRng, SystemClock, TableId, ThreadSpawn,
    Timestamp, block_on,
};
use carnet_storage::disk::sim::{Kind, SimDisk};
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::{Durability, Engine, Mutation, Options, inspect};

use crate::support;
use crate::support::{Mix, Model, append, check_recovered, compare_at, entry_cell, open, time};

const MIX: Mix = Mix { tables: 2, partitions: 5, clusterings: 4, payload_bytes: 300 };

fn options() -> Options {
    Options {
        flush_bytes: 15_000,
        memtables_waiting_max: 50,
        table_options: support::blocks(500),
        cache_bytes: 5_000,
        compaction: support::small_compaction(),
        ..Options::default()
    }
}

fn append_some(engine: &Engine, model: &mut Model, records: usize, rng: &mut SeededRng) {
    for _ in 0..records {
        drop(append(engine, model, &MIX, rng).unwrap());
    }
}

/// Opens a checkpoint and compares it with the contents at a commit.
fn compare(checkpoint: &SimDisk, model: &Model, at: Timestamp) -> Result<(), String> {
    let (engine, _workers) = open(checkpoint, options()).map_err(|error| error.to_string())?;
    if engine.published() != at {
        return Err(format!("it ends at {}, not at {at}", engine.published()));
    }
    let mut upto = model.clone();
    upto.records.retain(|record| record.1 <= at);
    compare_at(&engine, &upto, at, &mut SeededRng::new(1)).map_err(|error| error.to_string())
}

#[test]
fn directory_is_updated_by_repeated_checkpoints() {
    let mut rng = SeededRng::new(1);
    let (disk, to) = (SimDisk::new(1), SimDisk::new(2));
    let mut model = Model::default();
    let (engine, workers) = open(&disk, options()).unwrap();
    for round in 0..12 {
        append_some(&engine, &mut model, 15, &mut rng);
        if round % 3 == 0 {
            workers.settle();
        }
        engine.raise_bound(time(model.last_commit().get() + 100)).unwrap();
        let at = engine.checkpoint(&to).unwrap();
        assert_eq!(at, model.last_commit(), "everything appended before is in it");
        let shared: Arc<dyn Disk> = Arc::new(to.kill());
        assert!(inspect::verify(&shared, |_| {}).unwrap().tables > 0);
        // Opened on a copy, so that the directory stays a checkpoint.
        assert_eq!(compare(&to.kill(), &model, at), Ok(()), "round {round}");
        let (copy, _workers) = open(&to.kill(), options()).unwrap();
        assert_eq!(copy.timestamp_bound(), engine.timestamp_bound());
    }
    assert!(engine.metrics().compactions > 0, "tables of checkpoints were replaced");
    let names = |disk: &SimDisk| -> Vec<String> {
        disk.list().unwrap().into_iter().filter(|name| name.starts_with("sst-")).collect()
    };
    assert_eq!(names(&to), names(&disk), "what is not needed any more is gone");
}

#[test]
fn existing_tables_are_not_linked_again() {
    let mut rng = SeededRng::new(1);
    let (disk, to) = (SimDisk::new(1), SimDisk::new(2));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    engine.checkpoint(&to).unwrap();
    let writes = to.count(Kind::Write);
    engine.checkpoint(&to).unwrap();
    assert_eq!(to.count(Kind::Write), writes + 1, "the manifest alone was written");
}

#[test]
fn directory_with_other_data_is_refused() {
    let mut rng = SeededRng::new(1);
    let (disk, to) = (SimDisk::new(1), SimDisk::new(2));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 30, &mut rng);
    let at = engine.checkpoint(&to).unwrap();
    let refused = |to: &SimDisk| {
        let error = engine.checkpoint(to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        error.to_string()
    };
    // A checkpoint of another database, with tables of the same numbers.
    let (other, theirs) = (SimDisk::new(3), SimDisk::new(4));
    let mut their_model = Model::default();
    let (other, _other_workers) = open(&other, options()).unwrap();
    append_some(&other, &mut their_model, 20, &mut rng);
    let their_last = other.checkpoint(&theirs).unwrap();
    assert!(refused(&theirs).contains("of another database"));
    assert_eq!(compare(&theirs, &their_model, their_last), Ok(()));
    // A checkpoint that was opened as a database.
    assert_eq!(compare(&to, &model, at), Ok(()));
    assert!(refused(&to).contains("unopened checkpoint"));
    let (copy, workers) = open(&to, options()).unwrap();
    let mut life = model.clone();
    append_some(&copy, &mut life, 10, &mut rng);
    workers.settle();
    assert_eq!(engine.checkpoint(&to).unwrap_err().kind(), ErrorKind::Unavailable, "in use");
    copy.close().unwrap();
    assert_eq!(compare(&to, &life, life.last_commit()), Ok(()), "it is an independent database");
    // The database itself.
    assert_eq!(engine.checkpoint(&disk).unwrap_err().kind(), ErrorKind::Unavailable);
}

/// Makes a database, with an earlier checkpoint or without, and takes a checkpoint on failing
/// disks.
fn checkpointed(
    earlier: bool,
    trouble: impl Fn(&SimDisk, &SimDisk),
) -> (SimDisk, SimDisk, Model, Option<Timestamp>, Option<Timestamp>) {
    let mut rng = SeededRng::new(5);
    let (disk, to) = (SimDisk::new(5), SimDisk::new(6));
    let mut model = Model::default();
    let (engine, workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 25, &mut rng);
    let before = earlier.then(|| engine.checkpoint(&to).unwrap());
    workers.settle();
    append_some(&engine, &mut model, 25, &mut rng);
    workers.settle();
    model.acknowledged = engine.published();
    trouble(&disk, &to);
    let after = engine.checkpoint(&to).ok();
    (disk, to, model, before, after)
}

/// A crash leaves nothing, an unfinished checkpoint that cannot be opened, the earlier one, or the
/// new one.
fn check_left(
    left: &SimDisk,
    model: &Model,
    before: Option<Timestamp>,
    done: bool,
) -> Result<(), String> {
    let (at_new, error) = match compare(&left.kill(), model, model.last_commit()) {
        Ok(()) => (true, String::new()),
        Err(error) => (false, error),
    };
    if at_new || done {
        return if at_new { Ok(()) } else { Err(error) };
    }
    if let Some(before) = before {
        return compare(&left.kill(), model, before);
    }
    if error.contains("not finished") || left.list().unwrap().is_empty() {
        return Ok(());
    }
    Err(format!("{:?} opens, or says {error}", left.list().unwrap()))
}

#[test]
fn power_failure_leaves_old_or_new_checkpoint() {
    for earlier in [false, true] {
        let (disk, to, ..) = checkpointed(earlier, |_, _| {});
        let (first, last) = (disk.operations(), to.operations());
        assert!(last > 10, "too little happens: {last}");
        for at in 1..=last {
            let halt = |_: &SimDisk, to: &SimDisk| to.halt_at(to.operations() + at);
            let (disk, to, model, before, after) = checkpointed(earlier, halt);
            for seed in 0..4 {
                let left = to.crash(&mut SeededRng::new(seed));
                let outcome = check_left(&left, &model, before, after.is_some());
                assert_eq!(outcome, Ok(()), "earlier {earlier}, halt at {at}, seed {seed}");
                // The checkpoint can be updated afterwards.
                let (engine, _workers) = open(&disk.kill(), options()).unwrap();
                let at = engine.checkpoint(&left).unwrap();
                assert_eq!(compare(&left, &model, at), Ok(()));
            }
            if after.is_some() {
                break;
            }
        }
        // The power of the database's own disk fails.
        for at in 1..first {
            let halt = |disk: &SimDisk, _: &SimDisk| disk.halt_at(disk.operations() + at);
            let (disk, to, mut model, before, after) = checkpointed(earlier, halt);
            let mut rng = SeededRng::new(at);
            let left = to.crash(&mut rng);
            let outcome = check_left(&left, &model, before, after.is_some());
            assert_eq!(outcome, Ok(()), "earlier {earlier}, source halts at {at}");
            let crashed = disk.crash(&mut rng);
            let recovered = check_recovered(&crashed, &options(), &mut model, &mut rng);
            assert_eq!(recovered, Ok(()), "earlier {earlier}, source halts at {at}");
            if after.is_some() {
                break;
            }
        }
    }
}

#[test]
fn interrupted_opening_can_be_repeated() {
    let (_, to, model, _, after) = checkpointed(false, |_, _| {});
    let at = after.unwrap();
    let checkpoint = to.crash(&mut SeededRng::new(1));
    for halt in 1..40 {
        let disk = checkpoint.kill();
        disk.halt_at(halt);
        drop(open(&disk, options()));
        for seed in 0..6 {
            let left = disk.crash(&mut SeededRng::new(seed));
            assert_eq!(compare(&left, &model, at), Ok(()), "halt at {halt}, seed {seed}");
        }
    }
}

#[test]
fn compaction_keeps_tables_during_checkpoint() {
    let mut rng = SeededRng::new(1);
    let (disk, to) = (SimDisk::new(1), SimDisk::new(2));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 20, &mut rng);
    engine.flush().unwrap();
    append_some(&engine, &mut model, 20, &mut rng);
    to.hold();
    let at = thread::scope(|scope| {
        let checkpoint = scope.spawn(|| engine.checkpoint(&to).unwrap());
        while to.held_operations() == 0 {
            thread::yield_now();
        }
        let before = disk.list().unwrap().len();
        engine.compact().unwrap();
        let after = disk.list().unwrap().len();
        to.resume();
        assert!(after > before, "what was replaced stays a while");
        checkpoint.join().unwrap()
    });
    assert_eq!(compare(&to, &model, at), Ok(()));
    let tables = disk.list().unwrap().into_iter().filter(|name| name.starts_with("sst-")).count();
    assert_eq!(tables as u64, engine.metrics().tables, "and then it goes");
}

/// Stops the writer whatever the test's result, so that a failure does not hang.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn real_checkpoints_share_files_with_running_writers() {
    const KEYS: u64 = 50;
    let directory = tempfile::tempdir().unwrap();
    let disk = |name: &str| Arc::new(RealDisk::open(directory.path().join(name)).unwrap());
    let key = |n: u64| {
        CellKey::new(TableId(1), &PartitionKey::new((n % KEYS).to_be_bytes().to_vec()), "")
    };
    let open = |name: &str| {
        let options = Options { durability: Durability::None, ..options() };
        Engine::open(disk(name), Arc::new(SystemClock), &ThreadSpawn, options, entry_cell())
            .unwrap()
    };
    let engine = open("db");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1_u64.. {
                let payload = n.to_be_bytes().repeat(20);
                let key = key(n);
                let put = [Mutation::put_or_delete(&key, Some(&payload))];
                let prepared = engine.prepare(time(2 * n), put).unwrap();
                block_on(engine.ready(prepared.bytes())).unwrap();
                drop(engine.append(prepared, || Ok::<_, Error>(time(2 * n + 1))).unwrap());
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let _stop = Stop(&stop);
        while engine.published() == Timestamp::ZERO {
            thread::yield_now();
        }
        let mut last = Timestamp::ZERO;
        for round in 0..10 {
            let appended = engine.published();
            let at = engine.checkpoint(&*disk(&format!("copy-{}", round % 2))).unwrap();
            assert!(at >= appended && at >= last, "{at} lies behind {appended}");
            last = at;
            // Opened under another name, so that the next round finds a checkpoint.
            let opened = format!("opened-{round}");
            engine.checkpoint(&*disk(&opened)).unwrap();
            let copy = open(&opened);
            let at = copy.published().get();
            for n in (at - 1) / 2 - KEYS.min((at - 1) / 2 - 1)..=(at - 1) / 2 {
                let found = block_on(copy.get(&key(n), copy.published())).unwrap().unwrap();
                let newest = n + (at - 1 - 2 * n) / 2 / KEYS * KEYS;
                assert_eq!(found.commit, Some(time(2 * newest + 1)), "cell {n} at {at}");
            }
        }
    });
    let shared = std::fs::read_dir(directory.path().join("copy-0")).unwrap().filter(|entry| {
        let entry = entry.as_ref().unwrap();
        entry.file_name().to_str().unwrap().starts_with("sst-")
            && entry.metadata().unwrap().nlink() > 1
    });
    assert!(shared.count() > 0, "tables are links");
    engine.close().unwrap();
}

#[test]
fn foreign_checkpoint_is_refused() {
    let mut rng = SeededRng::new(1);
    let (disk, theirs) = (SimDisk::new(1), SimDisk::new(4));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    for _ in 0..4 {
        append_some(&engine, &mut model, 10, &mut rng);
        engine.flush().unwrap();
    }
    engine.compact().unwrap();
    let other = SimDisk::new(3);
    let mut their_model = Model::default();
    let (other, _other_workers) = open(&other, options()).unwrap();
    append_some(&other, &mut their_model, 3, &mut rng);
    let their_last = other.checkpoint(&theirs).unwrap();
    let refused = engine.checkpoint(&theirs).is_err();
    assert_eq!(compare(&theirs, &their_model, their_last), Ok(()));
    assert!(refused);
}

/// After its first opening, a checkpoint is independent of its database.
#[test]
fn opened_checkpoint_has_its_own_identity() {
    let mut rng = SeededRng::new(1);
    let [disk, copy, kept] = [1, 2, 3].map(SimDisk::new);
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 3, &mut rng);
    engine.checkpoint(&copy).unwrap();
    let last = engine.checkpoint(&kept).unwrap();
    let (engine, _workers) = open(&copy, options()).unwrap();
    let error = engine.checkpoint(&kept).unwrap_err();
    assert!(error.to_string().contains("checkpoint of another database"), "{error}");
    assert_eq!(compare(&kept, &model, last), Ok(()));
}
