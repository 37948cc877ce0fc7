//! Recycled log segments: leftovers, including whole records with valid checksums, are never
//! recovered, even after power failures.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use carnet_base::{CellKey, Error, PartitionKey, SeededRng, TableId, block_on};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::{Kind, SimDisk};
use carnet_storage::{Durability, Engine, Mutation, Options, inspect};

use crate::support::{open, time};

fn options() -> Options {
    Options { durability: Durability::Always, segment_bytes: 20_000, ..Options::default() }
}

fn key(number: u64) -> CellKey {
    CellKey::new(TableId(1), &PartitionKey::new(number.to_be_bytes().to_vec()), "")
}

/// Appends a record; all have the same length, so leftovers are at the offsets of later records.
fn put(engine: &Engine, number: u64) -> carnet_base::Result<()> {
    put_bytes(engine, number, 700)
}

fn put_bytes(engine: &Engine, number: u64, len: usize) -> carnet_base::Result<()> {
    put_payload(engine, number, &vec![7; len])
}

fn put_payload(engine: &Engine, number: u64, payload: &[u8]) -> carnet_base::Result<()> {
    let key = key(number);
    let put = [Mutation::put_or_delete(&key, Some(payload))];
    let prepared = engine.prepare(time(2 * number + 1), put)?;
    drop(engine.append(prepared, || Ok::<_, Error>(time(2 * number + 2)))?);
    Ok(())
}

fn segments(disk: &SimDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.starts_with("wal-")).collect()
}

/// Makes a database whose newest segment was recycled three times, with `records` acknowledged
/// records and whole old ones after them. Returns it and the total number of records written.
fn recycled(records: u64) -> (SimDisk, u64) {
    recycled_with(&options(), records)
}

fn recycled_with(options: &Options, records: u64) -> (SimDisk, u64) {
    let disk = SimDisk::new(1);
    let (engine, workers) = open(&disk, options.clone()).unwrap();
    let mut number = 0;
    for _ in 0..6 {
        for _ in 0..12 {
            put(&engine, number).unwrap();
            workers.step(0);
            number += 1;
        }
        engine.flush().unwrap();
    }
    for _ in 0..records {
        put(&engine, number).unwrap();
        workers.step(0);
        number += 1;
    }
    assert!(engine.metrics().log_segments_recycled >= 4);
    (disk.kill(), number)
}

#[test]
fn leftover_records_are_not_recovered() {
    for records in 0..14 {
        let (disk, written) = recycled(records);
        let torn = inspect::verify(&(std::sync::Arc::new(disk.clone()) as _), |_| {}).unwrap();
        assert_eq!((torn.log_records, torn.log_torn), (records, false));
        for life in 0..3 {
            let (engine, _workers) = open(&disk, options()).unwrap();
            let metrics = engine.metrics();
            assert_eq!((metrics.recovered_records, metrics.recovered_cut_bytes), (records, 0));
            assert_eq!(engine.published(), time(2 * written), "life {life}");
            for number in 0..written + 20 {
                let found = block_on(engine.get(&key(number), engine.published())).unwrap();
                assert_eq!(found.is_some(), number < written, "record {number}");
            }
        }
    }
}

/// The power fails at every operation, and unsynced pages persist in any order.
#[test]
fn power_failure_recovers_no_leftovers() {
    for durability in [Durability::Always, Durability::None] {
        lose_power_at_every_operation(&Options { durability, ..options() });
    }
}

fn lose_power_at_every_operation(options: &Options) {
    let life = |disk: &SimDisk, from: u64| {
        let mut kept = 0;
        let mut run = || -> carnet_base::Result<()> {
            let (engine, workers) = open(disk, options.clone())?;
            for number in from..from + 40 {
                put(&engine, number)?;
                if number % 3 == 0 {
                    workers.step(0);
                }
                if number % 13 == 0 {
                    engine.flush()?;
                }
                // Commits that are not synced before acknowledgement are safe once they are in a
                // table.
                kept = match options.durability {
                    Durability::Always => engine.published(),
                    _ => engine.flushed(),
                }
                .get()
                    / 2;
            }
            Ok(())
        };
        let outcome = run();
        (kept, outcome.is_ok())
    };
    let (disk, from) = recycled_with(options, 5);
    let before = disk.operations();
    let whole = disk.kill();
    assert!(life(&whole, from).1);
    let operations = whole.operations() - before;
    assert!(operations > 40);
    for at in 1..=operations {
        let disk = disk.kill();
        disk.halt_at(before + at);
        let (kept, _) = life(&disk, from);
        for seed in 0..4 {
            let left = disk.crash(&mut SeededRng::new(seed));
            let sevens = live_again(&left, options, |_| 7);
            assert!((kept..=from + 40).contains(&sevens), "halted at {at}, {seed}");
            // The LSNs of lost records were reused: they now hold nines, or nothing.
            let left = left.crash(&mut SeededRng::new(seed));
            let all = live_again(&left, options, |number| if number < sevens { 7 } else { 9 });
            assert!((sevens..=sevens + 20).contains(&all), "halted at {at}, {seed}");
        }
    }
}

/// Opens a database that must hold the first records with their payloads and no others, and appends
/// some with nines; returns the number of records found.
fn live_again(disk: &SimDisk, options: &Options, payload: impl Fn(u64) -> u8) -> u64 {
    let (engine, workers) = open(disk, options.clone()).unwrap();
    let published = engine.published().get() / 2;
    for number in 0..published + 60 {
        let found = block_on(engine.get(&key(number), engine.published())).unwrap();
        let found = found.map(|found| found.payload.unwrap()[0]);
        assert_eq!(found, (number < published).then(|| payload(number)), "of {published}");
    }
    for number in published..published + 20 {
        put_payload(&engine, number, &[9; 700]).unwrap();
        if number % 7 == 0 {
            workers.step(0);
        }
    }
    published
}

#[test]
fn recycled_files_are_limited() {
    for log_spares_max in [0, 1, 3] {
        let disk = SimDisk::new(1);
        let (engine, workers) = open(&disk, Options { log_spares_max, ..options() }).unwrap();
        for number in 0..200 {
            put(&engine, number).unwrap();
            workers.step(0);
        }
        engine.flush().unwrap();
        assert_eq!(segments(&disk).len(), log_spares_max + 1);
        engine.close().unwrap();
        // The next process reuses them, or removes those above its limit.
        let (engine, _workers) = open(&disk, Options { log_spares_max, ..options() }).unwrap();
        for number in 200..204 {
            put(&engine, number).unwrap();
            engine.flush().unwrap();
        }
        assert_eq!(engine.metrics().log_segments_recycled > 0, log_spares_max > 0);
        assert!(segments(&disk).len() <= log_spares_max + 1);
        drop(engine);
        let (_engine, _workers) = open(&disk, Options { log_spares_max: 0, ..options() }).unwrap();
        assert_eq!(segments(&disk).len(), 2, "one with records, and the next");
    }
}

#[test]
fn oversized_recycled_file_is_truncated() {
    let disk = SimDisk::new(1);
    let (engine, workers) = open(&disk, options()).unwrap();
    put_bytes(&engine, 0, 100_000).unwrap();
    workers.step(0);
    for number in 1..4 {
        engine.flush().unwrap();
        put(&engine, number).unwrap();
        workers.step(0);
    }
    let lens = segments(&disk).into_iter().map(|name| disk.contents(&name).unwrap().len());
    assert!(engine.metrics().log_segments_recycled > 0 && lens.max().unwrap() <= 300_000);
    assert_eq!(disk.contents("wal-00000003.log").unwrap().len(), 20_000);
}

#[test]
fn removed_recycled_file_is_tolerated() {
    let disk = SimDisk::new(1);
    let (engine, workers) = open(&disk, options()).unwrap();
    put(&engine, 0).unwrap();
    workers.step(0);
    engine.flush().unwrap();
    disk.remove("wal-00000001.log").unwrap();
    put(&engine, 1).unwrap();
    engine.flush().unwrap();
    assert_eq!(engine.metrics().log_segments_recycled, 0);
    put(&engine, 2).unwrap();
    workers.step(0);
    assert_eq!(engine.published(), time(6));
    assert!(disk.count(Kind::Rename) > 0);
}
