//! Full disks, failed syncs, and what is refused; errors of every operation are in `errors`.
#![allow(missing_docs, clippy::cast_possible_truncation, clippy::unwrap_used, reason = "a test")]

mod common;

use std::io;

use carnet_base::{ErrorKind, KeyRange, SeededRng, TableId, Timestamp};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::{Kind, SimDisk};
use carnet_storage::{Durability, Mutation, Options};
use common::{Mix, Model, append, check_recovered, compare_at, open, run, time};

const MIX: Mix = Mix { tables: 2, partitions: 4, clusterings: 3, payload_bytes: 400 };

fn options() -> Options {
    Options {
        flush_bytes: 20_000,
        table_options: common::blocks(500),
        cache_bytes: 2_000,
        log_ahead_bytes: 100,
        compaction: common::small_compaction(),
        ..Options::default()
    }
}

fn operations(seed: u64) -> u64 {
    let disk = SimDisk::new(seed);
    run(&disk, &options(), &mut Model::default(), &MIX, 80, &mut SeededRng::new(seed)).unwrap();
    disk.operations()
}

/// Whatever operation fails, the next process finds what was acknowledged; also after power loss.
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
fn a_disk_that_fills_up_at_any_operation_loses_nothing_acknowledged() {
    for at in 1..=operations(6) {
        let outcome = with_trouble(6, |disk| disk.full_from(at));
        assert_eq!(outcome, Ok(()), "replay: seed 6, full from operation {at}");
    }
}

#[test]
fn a_full_disk_stops_writes_with_a_clear_error_and_reads_go_on() {
    let mut rng = SeededRng::new(1);
    let disk = SimDisk::new(1);
    let mut model = Model::default();
    let (engine, workers) = open(&disk, options()).unwrap();
    drop(append(&engine, &mut model, &MIX, &mut rng).unwrap());
    workers.settle();
    let acknowledged = engine.published();
    disk.full_from(disk.operations());
    let lost = append(&engine, &mut model, &MIX, &mut rng).unwrap();
    workers.settle();
    let error = carnet_base::block_on(lost).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("free some space"), "{error}");
    let error = append(&engine, &mut model, &MIX, &mut rng).unwrap_err();
    assert!(error.to_string().contains("wal-00000001.log"), "the cause is named: {error}");
    assert_eq!(engine.published(), acknowledged);
    model.records.truncate(1);
    compare_at(&engine, &model, acknowledged, &mut rng).unwrap();
    assert!(engine.flush().is_err() && engine.close().is_err());
}

/// The kernel drops what a failed sync was for, and calls it clean: the next process reads it all
/// from the page cache, and a sync of its own would bring none of it to the device.
#[test]
fn what_a_failed_sync_lost_is_written_again_before_it_is_shown() {
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
    assert_eq!(shown, model.last_commit(), "nobody was promised it, and it is there");
    let (engine, _workers) = open(&disk.crash(&mut rng), options()).unwrap();
    assert_eq!(engine.published(), shown);
    compare_at(&engine, &model, shown, &mut rng).unwrap();
}

/// What is in force after that, nobody knows: an edit that followed could undo another one.
#[test]
fn a_bound_that_could_not_be_raised_stops_the_store() {
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
fn a_second_opening_names_the_holder_and_what_to_do() {
    let disk = SimDisk::new(1);
    let (engine, _workers) = open(&disk, options()).unwrap();
    let error = open(&disk, options()).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("in use by process"), "{error}");
    engine.close().unwrap();
    open(&disk, options()).unwrap();
}

#[test]
fn the_real_lock_names_directory_and_process() {
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
fn limits_and_options_are_refused_in_words() {
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
        upper: std::ops::Bound::Included(common::entry_key(time(1))),
        ..KeyRange::table(TableId(1))
    };
    let limit = carnet_storage::PageLimit { cells: 1, bytes: 1 };
    let read = engine.range(&foreign, Timestamp::MAX, false, limit);
    assert_eq!(carnet_base::block_on(read).unwrap_err().kind(), ErrorKind::Invalid);
}
