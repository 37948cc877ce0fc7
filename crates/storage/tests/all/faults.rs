//! Full disks, failed syncs, and refused operations; `errors` tests errors of every operation.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{
    Clock, ErrorKind, KeyRange, Moment, SeededRng, Stepped, TableId, Timestamp, WallTime,
};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::{Kind, SimDisk};
use carnet_storage::{Durability, Engine, Mutation, Options};

use crate::support;
use crate::support::{
    Mix, Model, append, check_recovered, compare_at, entry_cell, open, run, time,
};

const MIX: Mix = Mix { tables: 2, partitions: 4, clusterings: 3, payload_bytes: 400 };

fn options() -> Options {
    Options {
        flush_bytes: 20_000,
        table_options: support::blocks(500),
        cache_bytes: 2_000,
        log_ahead_bytes: 100,
        compaction: support::small_compaction(),
        ..Options::default()
    }
}

fn operations(seed: u64) -> u64 {
    let disk = SimDisk::new(seed);
    run(&disk, &options(), &mut Model::default(), &MIX, 80, &mut SeededRng::new(seed)).unwrap();
    disk.operations()
}

/// Runs a workload with faults; the next process recovers everything acknowledged, also after a
/// power failure.
fn with_trouble(seed: u64, trouble: impl Fn(&SimDisk)) -> Result<(), String> {
    let mut rng = SeededRng::new(seed);
    let disk = SimDisk::new(seed);
    trouble(&disk);
    let mut model = Model::default();
    if let Err(error) = run(&disk, &options(), &mut model, &MIX, 80, &mut rng)
        && error.kind() != ErrorKind::Unavailable
    {
        return Err(format!("{error} is no error of the disk"));
    }
    let crashed = disk.crash(&mut rng);
    check_recovered(&crashed, &options(), &mut model.clone(), &mut rng)?;
    check_recovered(&disk.kill(), &options(), &mut model, &mut rng)
}

#[test]
fn full_disk_keeps_acknowledged_commits() {
    for at in 1..=operations(6) {
        let outcome = with_trouble(6, |disk| disk.full_from(at));
        assert_eq!(outcome, Ok(()), "replay: seed 6, full from operation {at}");
    }
}

/// A clock that the test advances.
#[derive(Default)]
struct Moved(Mutex<Duration>);

impl Moved {
    /// Advances by the maximum pause between retries.
    fn pass(&self) {
        *self.0.lock().unwrap() += Duration::from_secs(5);
    }
}

impl Clock for Moved {
    fn now(&self) -> Moment {
        Moment(*self.0.lock().unwrap())
    }

    fn wall(&self) -> WallTime {
        WallTime(0)
    }
}

fn open_moved(disk: &SimDisk, clock: &Arc<Moved>, options: Options) -> (Engine, Stepped) {
    let (workers, disk) = (Stepped::default(), Arc::new(disk.clone()));
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let engine = Engine::open(disk, clock, &workers, options, entry_cell()).unwrap();
    engine.set_merge_operator(Arc::new(support::Joined));
    (engine, workers)
}

fn used_bytes(disk: &SimDisk) -> u64 {
    let names = disk.list().unwrap();
    names.iter().map(|name| disk.contents(name).unwrap().len() as u64).sum()
}

#[test]
fn writes_resume_once_there_is_space() {
    for (durability, more_bytes) in
        [(Durability::Always, 0), (Durability::Always, 37), (Durability::None, 0)]
    {
        let (mut rng, disk, clock) = (SeededRng::new(1), SimDisk::new(1), Arc::default());
        let mut model = Model::default();
        let options = Options { durability, segment_bytes: 2_000, ..options() };
        let (engine, workers) = open_moved(&disk, &clock, options.clone());
        drop(append(&engine, &mut model, &MIX, &mut rng).unwrap());
        workers.settle();
        let acknowledged = engine.published();
        disk.full_at_bytes(used_bytes(&disk) + more_bytes);
        let mut waiting = Vec::new();
        let refused = loop {
            match append(&engine, &mut model, &MIX, &mut rng) {
                Ok(appended) => waiting.push(appended),
                Err(error) => break error,
            }
            workers.settle();
        };
        let text = refused.to_string();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(text.contains("the disk is full (cannot ") && text.contains("wal-"), "{text}");
        assert!(engine.check_writable().is_err() && engine.metrics().disk_full == 1);
        assert!(carnet_base::block_on(engine.ready(1)).is_err() && engine.flush().is_err());
        compare_at(&engine, &model, acknowledged, &mut rng).unwrap();
        clock.pass();
        workers.settle();
        assert!(engine.check_writable().is_err(), "there is still no space");
        disk.free_space();
        clock.pass();
        workers.settle();
        engine.check_writable().unwrap();
        for appended in waiting {
            carnet_base::block_on(appended).unwrap();
        }
        drop(append(&engine, &mut model, &MIX, &mut rng).unwrap());
        engine.flush().unwrap();
        model.acknowledged = model.last_commit();
        for crashed in [disk.crash(&mut rng), disk.kill()] {
            check_recovered(&crashed, &options, &mut model.clone(), &mut rng).unwrap();
        }
    }
}

/// The log has space, tables have none.
#[test]
fn table_without_space_is_dropped_and_written_again() {
    let (mut rng, disk, clock) = (SeededRng::new(1), SimDisk::new(1), Arc::default());
    let mut model = Model::default();
    let (engine, workers) = open_moved(&disk, &clock, options());
    for _ in 0..10 {
        drop(append(&engine, &mut model, &MIX, &mut rng).unwrap());
        workers.step(0);
    }
    // A new segment fits, a table does not.
    disk.full_at_bytes(used_bytes(&disk) + 300);
    let error = engine.flush().unwrap_err().to_string();
    assert!(error.contains("sst-") && error.contains("free some space"), "{error}");
    let tables = |disk: &SimDisk| {
        disk.list().unwrap().into_iter().filter(|name| name.starts_with("sst")).count()
    };
    assert_eq!(tables(&disk), 0, "the unfinished table is removed");
    let refused = append(&engine, &mut model.clone(), &MIX, &mut rng).unwrap_err().to_string();
    assert!(refused.contains("the disk is full"), "{refused}");
    disk.free_space();
    clock.pass();
    workers.settle();
    assert_eq!((tables(&disk), engine.metrics().disk_full), (1, 0));
    for _ in 0..10 {
        drop(append(&engine, &mut model, &MIX, &mut rng).unwrap());
    }
    engine.flush().unwrap();
    // A full compaction needs as much space again.
    disk.full_at_bytes(used_bytes(&disk) + 500);
    let error = engine.compact().unwrap_err().to_string();
    assert!(error.contains("sst-") && error.contains("free some space"), "{error}");
    engine.check_writable().unwrap();
    assert_eq!(tables(&disk) as u64, engine.metrics().tables, "no unfinished file is left");
    disk.free_space();
    engine.compact().unwrap();
    let published = engine.published();
    compare_at(&engine, &model, published, &mut rng).unwrap();
    engine.close().unwrap();
}

/// After a failed sync the kernel drops the pages' dirty state: the next process reads the bytes
/// from the page cache, but another sync would not write them to the device.
#[test]
fn bytes_of_failed_sync_are_written_again() {
    let mut rng = SeededRng::new(1);
    let disk = SimDisk::new(1);
    let mut model = Model::default();
    let (engine, workers) = open(&disk, options()).unwrap();
    drop(append(&engine, &mut model, &MIX, &mut rng).unwrap());
    disk.fail_nth(Kind::Sync, disk.count(Kind::Sync) + 1, io::ErrorKind::Other);
    workers.settle();
    assert!(engine.close().is_err());
    let disk = disk.kill();
    let (engine, _workers) = open(&disk, options()).unwrap();
    let shown = engine.published();
    assert_eq!(shown, model.last_commit(), "a commit that was not acknowledged is recovered");
    let (engine, _workers) = open(&disk.crash(&mut rng), options()).unwrap();
    assert_eq!(engine.published(), shown);
    compare_at(&engine, &model, shown, &mut rng).unwrap();
}

/// The state of the manifest is unknown then: a later edit could revert another one.
#[test]
fn failed_raise_of_bound_stops_the_store() {
    for kind in [Kind::Create, Kind::Write, Kind::Sync, Kind::Rename, Kind::SyncDirectory] {
        let disk = SimDisk::new(1);
        let (engine, _workers) = open(&disk, options()).unwrap();
        disk.fail_nth(kind, disk.count(kind) + 1, io::ErrorKind::Other);
        assert!(engine.raise_bound(time(100)).is_err());
        let error = engine.raise_bound(time(200)).unwrap_err().to_string();
        assert!(error.contains("has stopped writing (cannot "), "{kind:?}: {error}");
        let appended = append(&engine, &mut Model::default(), &MIX, &mut SeededRng::new(1));
        assert!(appended.is_err() && engine.timestamp_bound() == Timestamp::ZERO);
    }
}

#[test]
fn second_opening_names_the_holder() {
    let disk = SimDisk::new(1);
    let (engine, _workers) = open(&disk, options()).unwrap();
    let error = open(&disk, options()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("in use by process"), "{error}");
    engine.close().unwrap();
    open(&disk, options()).unwrap();
}

#[test]
fn real_lock_names_directory_and_process() {
    let directory = tempfile::tempdir().unwrap();
    let disk = carnet_storage::disk::RealDisk::open(directory.path()).unwrap();
    let held = disk.lock().unwrap();
    let error = disk.lock().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    assert!(error.contains(&directory.path().display().to_string()), "{error}");
    drop(held);
    disk.lock().unwrap();
}

#[test]
fn invalid_values_and_options_are_refused() {
    let disk = SimDisk::new(1);
    let wrong = Options { memory_bytes: 0, ..Options::default() };
    assert_eq!(open(&disk, wrong).map(|_| ()).unwrap_err().kind(), ErrorKind::Invalid);
    let (engine, _workers) =
        open(&disk, Options { durability: Durability::None, ..options() }).unwrap();
    let partition = carnet_base::PartitionKey::new("p");
    let key = carnet_base::CellKey::new(TableId(1), &partition, vec![0; 270_000]);
    let error = engine.prepare(time(1), [Mutation::Delete { key: key.as_key_ref() }]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("270000 bytes is too long"), "{error}");
    let foreign = KeyRange {
        upper: std::ops::Bound::Included(support::entry_key(time(1))),
        ..KeyRange::table(TableId(1))
    };
    let limit = carnet_storage::PageLimit { cells: 1, bytes: 1 };
    let read = engine.range(&foreign, Timestamp::MAX, false, limit);
    assert_eq!(carnet_base::block_on(read).unwrap_err().kind(), ErrorKind::Invalid);
}
