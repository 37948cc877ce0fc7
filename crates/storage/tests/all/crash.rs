//! Power failures at every operation: every acknowledged commit is recovered, each record
//! completely or not at all, and the recovered commits are a prefix of commit order.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use carnet_base::{ErrorKind, Rng, SeededRng};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::{Durability, Options};

use crate::support;
use crate::support::{Mix, Model, SMALL, append, check_recovered, open, run};

fn options(durability: Durability) -> Options {
    Options {
        durability,
        flush_bytes: 30_000,
        memtables_waiting_max: 50,
        table_options: support::blocks(1000),
        cache_bytes: 10_000,
        segment_bytes: 9_000,
        log_ahead_bytes: 3_000,
        compaction: support::small_compaction(),
        ..Options::default()
    }
}

const STEPS: u64 = 100;

/// Runs a workload until the power fails, then continues on the remaining data, `rounds` times.
fn crash(
    seed: u64,
    durability: Durability,
    rounds: u64,
    halt: impl Fn(&SimDisk, &mut SeededRng),
) -> Result<(), String> {
    crash_switching(seed, &[durability], rounds, halt)
}

/// Like [`crash`], with one of several durabilities in each round.
fn crash_switching(
    seed: u64,
    durabilities: &[Durability],
    rounds: u64,
    halt: impl Fn(&SimDisk, &mut SeededRng),
) -> Result<(), String> {
    let mut rng = SeededRng::new(seed);
    let mut model = Model::default();
    let mut disk = SimDisk::new(seed);
    for round in 0..rounds {
        let durability = match durabilities {
            [only] => *only,
            several => several[rng.below(several.len() as u64) as usize],
        };
        let options = options(durability);
        halt(&disk, &mut rng);
        let outcome = run(&disk, &options, &mut model, &SMALL, STEPS, &mut rng);
        if let Err(error) = outcome
            && error.kind() == ErrorKind::Corrupted
        {
            return Err(format!("round {round}: {error}"));
        }
        if round + 1 < rounds && rng.chance(500) {
            // Only the process is killed, and the power of the next one fails soon: the next
            // process must sync data of the killed one before it relies on it.
            disk = disk.kill();
            model.lose(model.opened.unwrap_or(durability), false);
            continue;
        }
        disk = disk.crash(&mut rng);
        model.lose(model.opened.unwrap_or(durability), true);
        check_recovered(&disk, &options, &mut model, &mut rng)
            .map_err(|error| format!("round {round}: {error}"))?;
        disk = disk.kill();
    }
    Ok(())
}

/// Returns the number of operations of a seed's workload without faults.
fn operations(seed: u64, mix: &Mix) -> u64 {
    let disk = SimDisk::new(seed);
    let options = options(Durability::Always);
    run(&disk, &options, &mut Model::default(), mix, STEPS, &mut SeededRng::new(seed)).unwrap();
    disk.operations()
}

#[test]
fn power_fails_at_every_operation() {
    let seed = 1;
    let operations = operations(seed, &SMALL);
    assert!(operations > 100, "the workload is too short to show anything");
    for at in 1..=operations {
        let outcome = crash(seed, Durability::Always, 1, |disk, _| disk.halt_at(at));
        assert_eq!(outcome, Ok(()), "replay: seed {seed}, halt at operation {at}");
    }
}

#[test]
fn power_fails_at_every_sync() {
    for at in 1..120 {
        let outcome = crash(7, Durability::Always, 1, |disk, _| disk.halt_at_sync(at));
        assert_eq!(outcome, Ok(()), "replay: seed 7, halt at sync {at}");
    }
}

fn has_log_file(disk: &SimDisk) -> bool {
    disk.list().unwrap().iter().any(|name| name.starts_with("wal-"))
}

/// A workload that ends without a crash writes no file of a log.
#[test]
fn memory_writes_no_log() {
    let (disk, options) = (SimDisk::new(5), options(Durability::Memory));
    let mut model = Model::default();
    let mut rng = SeededRng::new(5);
    for _ in 0..4 {
        run(&disk, &options, &mut model, &SMALL, STEPS, &mut rng).unwrap();
        assert!(!has_log_file(&disk));
    }
    let (engine, workers) = open(&disk, options).unwrap();
    drop(append(&engine, &mut model, &SMALL, &mut rng).unwrap());
    workers.settle();
    assert!(!has_log_file(&disk));
    assert_eq!((engine.metrics().log_bytes, engine.metrics().log_writes), (0, 0));
}

#[test]
fn memory_recovers_a_prefix_with_everything_flushed() {
    for seed in 2000..2300 {
        let outcome = crash(seed, Durability::Memory, 3, anywhere);
        assert_eq!(outcome, Ok(()), "replay: seed {seed}, Memory");
    }
}

/// The power fails after a clean close.
#[test]
fn clean_close_without_a_log_loses_nothing() {
    for seed in 2000..2030 {
        let outcome = crash(seed, Durability::Memory, 1, |_, _| {});
        assert_eq!(outcome, Ok(()), "replay: seed {seed}, Memory, closed");
    }
}

#[test]
fn power_fails_at_every_operation_without_a_log() {
    let options = options(Durability::Memory);
    let disk = SimDisk::new(1);
    let mut rng = SeededRng::new(1);
    run(&disk, &options, &mut Model::default(), &SMALL, STEPS, &mut rng).unwrap();
    for at in 1..=disk.operations() {
        let outcome = crash(1, Durability::Memory, 1, |disk, _| disk.halt_at(at));
        assert_eq!(outcome, Ok(()), "replay: seed 1, Memory, halt at operation {at}");
    }
}

/// Every opening may have another durability, and takes over the files of the one before.
#[test]
fn durability_changes_between_crashes() {
    let all = [Durability::Always, Durability::Memory, Durability::None];
    for seed in 3000..3400 {
        let outcome = crash_switching(seed, &all, 6, anywhere);
        assert_eq!(outcome, Ok(()), "replay: seed {seed}, switching");
    }
}

/// The power fails at every operation of an opening that changes between a log and none, and of the
/// flush that makes the change of the files.
#[test]
fn power_fails_while_durability_changes() {
    let (log, none) = (Durability::Always, Durability::Memory);
    for (before, after) in [(log, none), (none, log)] {
        for at in 1..70 {
            let (disk, mut rng) = (SimDisk::new(at), SeededRng::new(at));
            let mut model = Model::default();
            run(&disk, &options(before), &mut model, &SMALL, 30, &mut rng).unwrap();
            if before == log {
                // Leaves records in the log.
                let (engine, workers) = open(&disk, options(before)).unwrap();
                for _ in 0..3 {
                    drop(append(&engine, &mut model, &SMALL, &mut rng).unwrap());
                }
                workers.settle();
                model.acknowledged = engine.published();
                std::mem::forget(engine);
            }
            let disk = disk.kill();
            let acknowledged = model.acknowledged;
            disk.halt_at(disk.operations() + at);
            let _ = run(&disk, &options(after), &mut model, &SMALL, 10, &mut rng);
            let disk = disk.crash(&mut rng);
            model.acknowledged = if after == log { model.acknowledged } else { acknowledged };
            for durability in [after, before] {
                let options = options(durability);
                let outcome = check_recovered(&disk.kill(), &options, &mut model.clone(), &mut rng);
                assert_eq!(
                    outcome,
                    Ok(()),
                    "{before:?} to {after:?}, halt at {at}, {durability:?}"
                );
            }
        }
    }
}

/// The manifest states that there is no log: a segment that appears is not ignored.
#[test]
fn foreign_log_without_a_log_is_refused() {
    let disk = SimDisk::new(1);
    let mut rng = SeededRng::new(1);
    let (memory, mut model) = (options(Durability::Memory), Model::default());
    run(&disk, &memory, &mut model, &SMALL, 30, &mut rng).unwrap();
    let other = SimDisk::new(2);
    run(&other, &options(Durability::None), &mut Model::default(), &SMALL, 9, &mut rng).unwrap();
    let names = other.list().unwrap();
    let name = names.iter().rfind(|name| name.starts_with("wal-")).unwrap();
    let disk = disk.kill();
    let later = name.replace(|digit: char| digit.is_ascii_digit(), "9");
    disk.plant(&later, other.contents(name).unwrap());
    for durability in [Durability::Memory, Durability::Always] {
        let error = open(&disk, options(durability)).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupted);
        assert!(error.to_string().contains("has no log, but wal-9"), "{error}");
    }
}

fn anywhere(disk: &SimDisk, rng: &mut SeededRng) {
    let within = [30, 250][rng.below(2) as usize];
    disk.halt_at(disk.operations() + 1 + rng.below(within));
}

#[test]
fn power_fails_anywhere_in_many_workloads() {
    for seed in 100..400 {
        let outcome = crash(seed, Durability::Always, 3, anywhere);
        assert_eq!(outcome, Ok(()), "replay: seed {seed}, Always");
    }
}

#[test]
fn unsynced_log_recovers_a_prefix() {
    for seed in 1000..1200 {
        let outcome = crash(seed, Durability::None, 3, anywhere);
        assert_eq!(outcome, Ok(()), "replay: seed {seed}, None");
    }
}

/// A process is killed at every operation of a flush, and the power of the next one fails at every
/// operation of its opening: it must not rely on names that are not durable.
#[test]
fn kill_in_flush_then_power_failure_in_opening() {
    let flushed = |halt: Option<u64>| {
        let mut rng = SeededRng::new(3);
        let disk = SimDisk::new(3);
        let mut model = Model::default();
        let (engine, workers) = open(&disk, options(Durability::Always)).unwrap();
        for _ in 0..3 {
            drop(append(&engine, &mut model, &SMALL, &mut rng).unwrap());
        }
        workers.settle();
        model.acknowledged = engine.published();
        let before = disk.operations();
        disk.halt_at(before + halt.unwrap_or(u64::MAX / 2));
        let _ = engine.flush();
        (disk.kill(), model, disk.operations() - before)
    };
    let (_, _, operations) = flushed(None);
    assert!(operations > 10);
    for killed_at in 1..=operations {
        let (killed, model, _) = flushed(Some(killed_at));
        for halted_at in 1..=25 {
            let disk = killed.kill();
            disk.halt_at(disk.operations() + halted_at);
            drop(open(&disk, options(Durability::Always)));
            for seed in 0..6 {
                let mut rng = SeededRng::new(seed);
                let left = disk.crash(&mut rng);
                let (options, mut model) = (options(Durability::Always), model.clone());
                let outcome = check_recovered(&left, &options, &mut model, &mut rng);
                assert_eq!(outcome, Ok(()), "killed at {killed_at}, halted at {halted_at}, {seed}");
            }
        }
    }
}

/// The tests detect a log that is not synced: the disk acknowledges its syncs without effect.
#[test]
fn missing_log_syncs_are_detected() {
    let lost = (0..100)
        .filter(|&seed| {
            let halt = |disk: &SimDisk, rng: &mut SeededRng| {
                disk.lie_about_syncs("wal-");
                anywhere(disk, rng);
            };
            crash(seed, Durability::Always, 3, halt).is_err()
        })
        .count();
    assert!(lost > 20, "only {lost} of 100 runs without syncs lost anything");
}

/// Likewise for tables and the manifest, which are synced before the log is removed.
#[test]
fn missing_table_and_manifest_syncs_are_detected() {
    for prefix in ["sst-", "MANIFEST"] {
        let lost = (0..200)
            .filter(|&seed| {
                let halt = |disk: &SimDisk, rng: &mut SeededRng| {
                    disk.lie_about_syncs(prefix);
                    anywhere(disk, rng);
                };
                crash(seed, Durability::Always, 3, halt).is_err()
            })
            .count();
        assert!(lost > 10, "only {lost} of 200 runs without syncs of {prefix} lost anything");
    }
}
