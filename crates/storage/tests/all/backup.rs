//! Backups: each can be restored to the database of its commit or an earlier one, with concurrent
//! writes and after power failures.
#![allow(clippy::cast_possible_truncation, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Bytes, ErrorKind, Result, Rng, SeededRng, Timestamp, WallTime};
use carnet_storage::backup::sim::SimVault;
use carnet_storage::backup::{
    self, About, Backup, RealVault, Restore, Restored, Vault, keep_newest, list, name_of, restore,
};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::{Engine, Options, inspect};

use crate::support;
use crate::support::{Forget, Mix, Model, append, compare_at, open, time};

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

fn about() -> About {
    let (program, notes) = ("test".to_owned(), vec!["a note".to_owned()]);
    About { wall: WallTime(7), program, notes, reread_after: Duration::ZERO }
}

fn take(engine: &Engine, vault: &dyn Vault) -> Result<Backup> {
    engine.flush()?;
    engine.begin_backup(vault, about())?.run(|_| {})
}

fn dyn_disk(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// The bound of a restored database is 1000 above the original's.
fn begin(bound: Timestamp, notes: &Bytes) -> Result<(Timestamp, Bytes)> {
    Ok((time(bound.get() + 1000), Bytes::from([&notes[..], b"!"].concat())))
}

fn bring_back(from: &SimDisk, to: &SimDisk, as_of: Option<Timestamp>) -> Result<Restored> {
    let order =
        Restore { as_of, copies: false, table_options: options().table_options, begin: &begin };
    restore(&dyn_disk(from), &dyn_disk(to), &order, |_| {})
}

/// Opens a restored database; it must have exactly the contents at a commit.
fn compare(restored: &SimDisk, model: &Model, at: Timestamp) {
    assert!(inspect::verify(&dyn_disk(restored), |_| {}).is_ok());
    let (engine, _workers) = open(restored, options()).unwrap();
    assert_eq!(engine.published(), at);
    assert_eq!(engine.swept(), engine.timestamp_bound(), "no snapshot of the old life is served");
    let mut upto = model.clone();
    upto.records.retain(|record| record.1 <= at);
    let mut rng = SeededRng::new(1);
    compare_at(&engine, &upto, at, &mut rng).unwrap();
    // Later commits are not only invisible but absent.
    compare_at(&engine, &upto, Timestamp::MAX, &mut rng).unwrap();
}

#[test]
fn restored_database_is_an_exact_prefix() {
    let (mut cut_tables, mut shared) = (0, 0);
    for seed in 0..12 {
        let mut rng = SeededRng::new(seed);
        let (disk, vault) = (SimDisk::new(seed), SimVault::new(seed));
        let mut model = Model::default();
        let (engine, workers) = open(&disk, options()).unwrap();
        let forget = Forget::nothing_yet(&engine);
        for _ in 0..6 {
            append_some(&engine, &mut model, 25, &mut rng);
            if rng.chance(500) {
                forget.below(time(engine.published().get().saturating_sub(rng.below(60))));
            }
            if rng.chance(500) {
                workers.settle();
            }
            engine.note(time(model.last_commit().get() + 50), Bytes::from_static(b"map")).unwrap();
            let last = model.last_commit();
            engine.flush().unwrap();
            let mut job = engine.begin_backup(&vault, about()).unwrap();
            let backup = loop {
                if let Some(backup) = job.step().unwrap() {
                    break backup;
                }
                // Writers, flushes and compactions continue.
                append_some(&engine, &mut model, 2, &mut rng);
                workers.step(rng.below(3) as usize);
            };
            drop(job);
            assert_eq!((backup.label.commit, &backup.name), (last, &name_of(last)));
            shared += backup.shared_files;
            let from = vault.disk(&backup.name).unwrap();
            assert_eq!(backup::verify(&dyn_disk(&from), |_| {}).unwrap(), backup.label);
            assert!(inspect::verify(&dyn_disk(&from), |_| {}).unwrap().tables > 0);
            let whole = SimDisk::new(1);
            assert_eq!(bring_back(&from, &whole, None).unwrap().cut_tables, 0);
            compare(&whole, &model, last);
            let oldest = backup.label.swept.min(last).get();
            let as_of = time(oldest + rng.below(last.get() - oldest + 1));
            let part = SimDisk::new(2);
            cut_tables += bring_back(&from, &part, Some(as_of)).unwrap().cut_tables;
            compare(&part, &model, as_of);
        }
        assert!(engine.metrics().compactions > 0);
    }
    assert!(cut_tables > 50 && shared > 50, "{cut_tables} tables cut, {shared} files shared");
}

#[test]
fn restored_database_has_its_own_identity() {
    let mut rng = SeededRng::new(1);
    let (disk, vault, to) = (SimDisk::new(1), SimVault::new(1), SimDisk::new(2));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 20, &mut rng);
    engine.note(time(5_000), Bytes::from_static(b"map")).unwrap();
    let backup = take(&engine, &vault).unwrap();
    bring_back(&vault.disk(&backup.name).unwrap(), &to, None).unwrap();
    let (restored, _workers) = open(&to, options()).unwrap();
    assert_eq!(restored.timestamp_bound(), time(6_000));
    assert_eq!(restored.notes(), &b"map!"[..]);
    // The vault refuses backups of the restored database.
    let error = take(&restored, &vault).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("another database"), "{error}");
}

#[test]
fn unchanged_tables_are_shared_between_backups() {
    let dir = tempfile::tempdir().unwrap();
    let vault = RealVault::open(dir.path().join("vault")).unwrap();
    let mut rng = SeededRng::new(1);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(dir.path().join("db")).unwrap());
    let mut model = Model::default();
    let (engine, _workers) = support::open_on(&|| Arc::clone(&disk), options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    let first = take(&engine, &vault).unwrap();
    assert_eq!(first.shared_files, 0);
    assert_eq!(take(&engine, &vault).unwrap(), first, "nothing was committed since");
    append_some(&engine, &mut model, 40, &mut rng);
    let second = take(&engine, &vault).unwrap();
    let tables = first.label.files.len() as u64 - 1;
    assert_eq!(second.shared_files, tables, "nothing was compacted");
    assert!(second.label.files.len() as u64 > tables + 1);
    append_some(&engine, &mut model, 10, &mut rng);
    take(&engine, &vault).unwrap();
    assert_eq!(keep_newest(&vault, 2, None).unwrap(), 1);
    let names: Vec<_> = list(&vault).unwrap().iter().map(|label| name_of(label.commit)).collect();
    assert_eq!(names[0], second.name);
    assert_eq!((vault.list().unwrap(), names.len()), (names, 2));
    let label = backup::verify(&vault.open(&second.name).unwrap(), |_| {}).unwrap();
    assert_eq!(label, second.label, "what it shared with the first one is still there");
}

#[test]
fn damaged_backup_does_not_prevent_the_next() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    for damaged in ["MANIFEST", "BACKUP"] {
        append_some(&engine, &mut model, 40, &mut rng);
        let first = take(&engine, &vault).unwrap();
        vault.disk(&first.name).unwrap().plant(damaged, b"nothing".to_vec());
        append_some(&engine, &mut model, 10, &mut rng);
        let second = take(&engine, &vault).unwrap();
        assert!(vault.disk(&first.name).is_some(), "a person may still make something of it");
        let to = SimDisk::new(2);
        bring_back(&vault.disk(&second.name).unwrap(), &to, None).unwrap();
        compare(&to, &model, model.last_commit());
    }
}

#[test]
fn lost_table_is_copied_again() {
    let mut rng = SeededRng::new(1);
    let (disk, vault, to) = (SimDisk::new(1), SimVault::new(1), SimDisk::new(2));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    let first = take(&engine, &vault).unwrap();
    for file in &first.label.files[1..] {
        vault.disk(&first.name).unwrap().remove(&file.name).unwrap();
    }
    append_some(&engine, &mut model, 10, &mut rng);
    let second = take(&engine, &vault).unwrap();
    assert_eq!(second.shared_files, 0);
    bring_back(&vault.disk(&second.name).unwrap(), &to, None).unwrap();
    compare(&to, &model, model.last_commit());
}

#[test]
fn unfinished_backup_is_not_listed() {
    let mut rng = SeededRng::new(5);
    let disk = SimDisk::new(1);
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    let before = SimVault::new(1);
    append_some(&engine, &mut model, 30, &mut rng);
    let first = take(&engine, &before).unwrap();
    append_some(&engine, &mut model, 30, &mut rng);
    let mut outcomes = [0; 2];
    for operation in 1.. {
        let vault = before.kill();
        engine.flush().unwrap();
        let name = name_of(engine.flushed());
        vault.open(&name).unwrap();
        let to = vault.disk(&name).unwrap();
        to.halt_at(operation);
        let taken = take(&engine, &vault).is_ok();
        let after = vault.crash(&mut rng);
        let there = list(&after).unwrap();
        assert!(there.len() == 2 || !taken, "an acknowledged backup is there at {operation}");
        assert_eq!(there[0], first.label);
        for label in &there {
            let from = after.disk(&name_of(label.commit)).unwrap();
            backup::verify(&dyn_disk(&from), |_| {}).unwrap();
        }
        let next = take(&engine, &after).unwrap();
        let to = SimDisk::new(3);
        bring_back(&after.disk(&next.name).unwrap(), &to, None).unwrap();
        compare(&to, &model, model.last_commit());
        outcomes[there.len() - 1] += 1;
        if to_is_through(&vault, &name, operation) {
            break;
        }
    }
    assert!(outcomes[0] > 5 && outcomes[1] > 0, "{outcomes:?}");
}

fn to_is_through(vault: &SimVault, name: &str, operation: u64) -> bool {
    vault.disk(name).unwrap().operations() < operation
}

#[test]
fn next_backup_removes_unfinished_ones() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    engine.flush().unwrap();
    let mut job = engine.begin_backup(&vault, about()).unwrap();
    assert!(job.step().unwrap().is_none());
    drop(job);
    let left = name_of(model.last_commit());
    assert!(!vault.disk(&left).unwrap().list().unwrap().is_empty());
    assert!(list(&vault).unwrap().is_empty());
    append_some(&engine, &mut model, 1, &mut rng);
    let backup = take(&engine, &vault).unwrap();
    assert_eq!(vault.list().unwrap(), [backup.name]);
}

#[test]
fn interrupted_restore_can_be_repeated() {
    let mut rng = SeededRng::new(9);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 60, &mut rng);
    let backup = take(&engine, &vault).unwrap();
    let from = vault.disk(&backup.name).unwrap();
    let as_of = model.records[40].1;
    let mut opened = [0; 2];
    for operation in 1.. {
        let to = SimDisk::new(operation);
        to.halt_at(operation);
        let restored = bring_back(&from, &to, Some(as_of)).is_ok();
        let is_through = to.operations() < operation;
        let left = to.crash(&mut rng);
        match bring_back(&from, &left, Some(as_of)) {
            Ok(_) => {
                assert!(!restored, "what was restored is there at {operation}");
                opened[0] += 1;
            }
            // The restore was finished: a second one is refused.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                opened[1] += 1;
            }
        }
        compare(&left, &model, as_of);
        if is_through {
            break;
        }
    }
    assert!(opened[0] > 20 && opened[1] > 0, "{opened:?}");
}

#[test]
fn unfinished_restore_is_not_opened() {
    let mut rng = SeededRng::new(9);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 60, &mut rng);
    let backup = take(&engine, &vault).unwrap();
    let from = vault.disk(&backup.name).unwrap();
    for operation in 3..60 {
        let to = SimDisk::new(operation);
        to.halt_at(operation);
        if bring_back(&from, &to, None).is_ok() {
            break;
        }
        let left = to.kill();
        if left.contents("RESTORE").is_none() {
            assert!(left.contents("MANIFEST").is_some(), "its removal is the last step");
            continue;
        }
        let error = open(&left, options()).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("run it again")), "at {operation}");
    }
}

#[test]
fn every_byte_of_a_backup_is_checked() {
    let mut rng = SeededRng::new(2);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 60, &mut rng);
    let backup = take(&engine, &vault).unwrap();
    for seed in 0..200 {
        let mut rng = SeededRng::new(seed);
        let from = vault.kill().disk(&backup.name).unwrap();
        let file = rng.below(backup.label.files.len() as u64 + 1) as usize;
        let name = backup.label.files.get(file).map_or("BACKUP", |file| &file.name);
        let mut bytes = from.contents(name).unwrap();
        match rng.below(3) {
            0 => bytes.push(0),
            1 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            _ => {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << rng.below(8);
            }
        }
        from.plant(name, bytes);
        assert!(backup::verify(&dyn_disk(&from), |_| {}).is_err(), "{name}, seed {seed}");
        let to = SimDisk::new(1);
        let as_of = rng.chance(500).then(|| model.records[30].1);
        assert!(bring_back(&from, &to, as_of).is_err(), "{name}, seed {seed}");
    }
}

/// Flips one bit in the middle of a file.
fn flip_bit(disk: &SimDisk, name: &str) {
    let mut bytes = disk.contents(name).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.plant(name, bytes);
}

/// Writes a label that matches the current files, in the format of `first_line`, 1 or 2.
fn relabel(backup: &SimDisk, first_line: &str) {
    let text = String::from_utf8(backup.contents("BACKUP").unwrap()).unwrap();
    let mut out = format!("{first_line}\n");
    let dropped = |line: &&str| line.starts_with("end ") || line.starts_with("incarnation ");
    for line in text.lines().skip(1).filter(|line| !dropped(line)) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["file", name, ..] => {
                let bytes = backup.contents(name).unwrap();
                let crc = crc32c::crc32c(&bytes);
                out.push_str(&format!("file {name} {} {crc:08x}\n", bytes.len()));
            }
            _ => out.push_str(&format!("{line}\n")),
        }
    }
    let crc = crc32c::crc32c(out.as_bytes());
    out.push_str(&format!("end {crc:08x}\n"));
    backup.plant("BACKUP", out.into_bytes());
}

fn table_of(backup: &Backup) -> &str {
    &backup.label.files[1].name
}

#[test]
fn damaged_table_fails_backup() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    let good = take(&engine, &vault).unwrap();
    append_some(&engine, &mut model, 10, &mut rng);
    engine.flush().unwrap();
    engine.compact().unwrap();
    let names = disk.list().unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    flip_bit(&disk, table);
    for _ in 0..2 {
        let error = take(&engine, &vault).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupted, "{error}");
        let said = error.to_string();
        assert!(said.contains(&format!("{table}: the ")) && said.contains("at byte "), "{said}");
        assert_eq!(list(&vault).unwrap(), std::slice::from_ref(&good.label));
    }
    let to = SimDisk::new(2);
    bring_back(&vault.disk(&good.name).unwrap(), &to, None).unwrap();
    compare(&to, &model, good.label.commit);
}

#[test]
fn restore_checks_every_block() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    let backup = take(&engine, &vault).unwrap();
    for first_line in ["carnet backup 1", "carnet backup 2"] {
        let from = vault.kill().disk(&backup.name).unwrap();
        flip_bit(&from, table_of(&backup));
        relabel(&from, first_line);
        backup::verify(&dyn_disk(&from), |_| {}).unwrap();
        for as_of in [None, Some(model.records[30].1)] {
            let to = SimDisk::new(2);
            let error = bring_back(&from, &to, as_of).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupted, "{error}");
            assert!(error.to_string().contains("at byte "), "{error}");
            assert!(open(&to, options()).is_err(), "what is not whole is not opened");
        }
    }
}

/// Format 1 copied tables without verifying their blocks.
#[test]
fn unverified_backups_are_not_trusted() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    // One table, much longer than its end, which is compared before it is shared.
    let large = Options { flush_bytes: 1 << 20, ..options() };
    let (engine, _workers) = open(&disk, large).unwrap();
    append_some(&engine, &mut model, 300, &mut rng);
    let first = take(&engine, &vault).unwrap();
    assert!(first.label.files.len() == 2 && first.label.files[1].bytes > 20_000);
    let earlier = vault.disk(&first.name).unwrap();
    flip_bit(&earlier, table_of(&first));
    relabel(&earlier, "carnet backup 1");
    assert_eq!(keep_newest(&vault, 1, None).unwrap(), 0);
    append_some(&engine, &mut model, 10, &mut rng);
    let second = take(&engine, &vault).unwrap();
    assert_eq!(second.shared_files, 0, "the damaged table is brought anew");
    let to = SimDisk::new(2);
    bring_back(&vault.disk(&second.name).unwrap(), &to, None).unwrap();
    compare(&to, &model, model.last_commit());
    assert_eq!(keep_newest(&vault, 1, None).unwrap(), 1);
    assert_eq!(list(&vault).unwrap(), [second.label]);
}

#[test]
fn backups_without_verified_successor_stay() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    let mut names = Vec::new();
    for _ in 0..3 {
        append_some(&engine, &mut model, 10, &mut rng);
        names.push(take(&engine, &vault).unwrap().name);
    }
    relabel(&vault.disk(&names[2]).unwrap(), "carnet backup 1");
    assert_eq!(keep_newest(&vault, 1, None).unwrap(), 1);
    let left: Vec<_> = list(&vault).unwrap().iter().map(|label| name_of(label.commit)).collect();
    assert_eq!(left, names[1..]);
}

#[test]
fn backup_errors_are_clear() {
    let mut rng = SeededRng::new(2);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    let forget = Forget::nothing_yet(&engine);
    append_some(&engine, &mut model, 60, &mut rng);
    engine.flush().unwrap();
    let mark = model.records[30].1;
    forget.below(mark);
    engine.compact().unwrap();
    let backup = take(&engine, &vault).unwrap();
    let from = vault.disk(&backup.name).unwrap();
    let refused = |as_of: Option<Timestamp>, to: &SimDisk| {
        let error = bring_back(&from, to, as_of).unwrap_err();
        (error.kind(), error.to_string())
    };
    assert_eq!(backup.label.swept, mark);
    let before = time(mark.get() - 1);
    assert_eq!(refused(Some(before), &SimDisk::new(1)).0, ErrorKind::TooOld);
    assert!(bring_back(&from, &SimDisk::new(1), Some(mark)).is_ok());
    let after = time(model.last_commit().get() + 1);
    assert_eq!(refused(Some(after), &SimDisk::new(1)).0, ErrorKind::Invalid);
    let to = SimDisk::new(1);
    to.plant("notes.txt", b"mine".to_vec());
    let (kind, message) = refused(None, &to);
    assert!(kind == ErrorKind::Invalid && message.contains("notes.txt"), "{message}");
    assert!(to.contents("notes.txt").is_some());
    let error = open(&from, options()).err().unwrap();
    assert!(error.to_string().contains("is a backup"), "{error}");
    assert!(backup::verify(&dyn_disk(&disk.kill()), |_| {}).is_err(), "a database is no backup");
}

/// A restored database may have the name of a backup.
#[test]
fn foreign_directory_is_not_cleared() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let (mut model, mut of_other) = (Model::default(), Model::default());
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    let names = [time(777), model.last_commit()].map(name_of);
    for name in &names {
        vault.open(name).unwrap();
        let other = vault.disk(name).unwrap();
        let (served, _workers) = open(&other, options()).unwrap();
        append_some(&served, &mut of_other, 40, &mut rng);
        served.flush().unwrap();
        drop(served);
    }
    let files = |name: &String| vault.disk(name).unwrap().list().unwrap();
    let before = names.each_ref().map(files);
    let error = take(&engine, &vault).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("is no backup"));
    append_some(&engine, &mut model, 1, &mut rng);
    take(&engine, &vault).unwrap();
    assert_eq!(names.each_ref().map(files), before);
}

#[test]
fn broken_backup_is_taken_anew() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    let first = take(&engine, &vault).unwrap();
    let there = vault.disk(&first.name).unwrap();
    let breaks: [&dyn Fn(); 5] = [
        &|| there.remove(table_of(&first)).unwrap(),
        &|| flip_bit(&there, table_of(&first)),
        &|| there.remove("MANIFEST").unwrap(),
        &|| flip_bit(&there, "MANIFEST"),
        &|| flip_bit(&there, "BACKUP"),
    ];
    for (nth, break_it) in breaks.iter().enumerate() {
        break_it();
        assert!(backup::verify(&dyn_disk(&there), |_| {}).is_err());
        assert_eq!(take(&engine, &vault).unwrap().name, first.name);
        let label = backup::verify(&dyn_disk(&there), |_| {}).unwrap();
        assert_eq!(label.files, list(&vault).unwrap()[0].files, "break {nth}");
        let to = SimDisk::new(2);
        bring_back(&there, &to, None).unwrap();
        compare(&to, &model, model.last_commit());
    }
}

#[test]
fn unfinished_backup_is_not_opened() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    engine.flush().unwrap();
    let mut job = engine.begin_backup(&vault, about()).unwrap();
    assert!(job.step().unwrap().is_none());
    drop(job);
    let left = vault.disk(&name_of(model.last_commit())).unwrap();
    let error = open(&left, options()).err().unwrap();
    assert!(error.to_string().contains("a backup that was not finished"), "{error}");
}

fn append_one(disk: &SimDisk, model: &mut Model, vault: &SimVault) -> Result<Backup> {
    let (engine, _workers) = open(disk, options()).unwrap();
    append_some(&engine, model, 1, &mut SeededRng::new(model.records.len() as u64));
    take(&engine, vault)
}

#[test]
fn restarts_go_on_with_a_series_of_backups() {
    let (disk, vault, mut model) = (SimDisk::new(1), SimVault::new(1), Model::default());
    for restart in 1..=10 {
        append_one(&disk, &mut model, &vault).unwrap();
        // An opening without a backup, and one without a commit.
        let (engine, _workers) = open(&disk, options()).unwrap();
        append_some(&engine, &mut model, 3, &mut SeededRng::new(1));
        drop(engine);
        let (engine, _workers) = open(&disk, options()).unwrap();
        let taken = take(&engine, &vault).unwrap().label;
        assert_eq!(take(&engine, &vault).unwrap().label, taken);
        assert_eq!(list(&vault).unwrap().len(), 2 * restart);
    }
}

/// The copy assigns the timestamps again that the original has assigned.
#[test]
fn database_put_back_gets_no_backup_beside_later_ones() {
    let (disk, vault, mut model) = (SimDisk::new(1), SimVault::new(1), Model::default());
    append_one(&disk, &mut model, &vault).unwrap();
    let before = disk.kill();
    for further in [0, 5] {
        let (disk, vault) = (before.kill(), vault.kill());
        let mut of_this = model.clone();
        let original = before.kill();
        let mut of_original = model.clone();
        let later = append_one(&original, &mut of_original, &vault).unwrap();
        for _ in 0..further {
            append_one(&original, &mut of_original, &vault).unwrap();
        }
        for _ in 0..3 {
            let error = append_one(&disk, &mut of_this, &vault).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let said = error.to_string();
            assert!(said.contains(&later.name) && said.contains("put back"), "{said}");
        }
        assert_eq!(list(&vault).unwrap().len(), 2 + further);
        let own = SimVault::new(2);
        let taken = append_one(&disk, &mut of_this, &own).unwrap();
        let to = SimDisk::new(3);
        bring_back(&own.disk(&taken.name).unwrap(), &to, None).unwrap();
        compare(&to, &of_this, of_this.last_commit());
    }
}

#[test]
fn failed_restore_is_not_opened_as_an_empty_database() {
    let mut rng = SeededRng::new(1);
    let (disk, vault, to) = (SimDisk::new(1), SimVault::new(1), SimDisk::new(2));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    let taken = take(&engine, &vault).unwrap();
    let from = vault.disk(&taken.name).unwrap();
    let whole = vault.kill().disk(&taken.name).unwrap();
    for damaged in ["BACKUP", "MANIFEST"] {
        flip_bit(&from, damaged);
        assert!(bring_back(&from, &to, None).is_err());
        let error = open(&to, options()).err().unwrap();
        assert!(error.to_string().contains("a restore that was not finished"), "{error}");
        from.plant(damaged, whole.contents(damaged).unwrap());
    }
    bring_back(&from, &to, None).unwrap();
    compare(&to, &model, model.last_commit());
}

fn copy_damage(disk: &SimDisk, to: &SimDisk, name: &str) {
    to.plant(name, disk.contents(name).unwrap());
}

/// A table and its links in backups have the same bytes: damage of one is damage of all.
#[test]
fn damage_of_a_shared_table_fails_the_backup() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    append_some(&engine, &mut model, 40, &mut rng);
    let first = take(&engine, &vault).unwrap();
    flip_bit(&disk, table_of(&first));
    copy_damage(&disk, &vault.disk(&first.name).unwrap(), table_of(&first));
    append_some(&engine, &mut model, 10, &mut rng);
    let error = take(&engine, &vault).unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupted, "{error}");
    assert!(error.to_string().contains(table_of(&first)), "{error}");
    assert_eq!(list(&vault).unwrap(), [first.label]);
}

#[test]
fn quarantined_tables_are_always_read_again() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    let day = Duration::from_hours(24);
    let take_at = |hours: u64| {
        engine.flush()?;
        let wall = WallTime(i64::try_from(hours * 3_600_000_000).unwrap());
        engine.begin_backup(&vault, About { wall, reread_after: day, ..about() })?.run(|_| {})
    };
    append_some(&engine, &mut model, 40, &mut rng);
    let first = take_at(100).unwrap();
    flip_bit(&disk, table_of(&first));
    copy_damage(&disk, &vault.disk(&first.name).unwrap(), table_of(&first));
    append_some(&engine, &mut model, 1, &mut rng);
    let second = take_at(110).unwrap();
    assert!(second.shared_files > 0, "what was read ten hours ago is not read again");
    append_some(&engine, &mut model, 1, &mut rng);
    assert_eq!(take_at(124).unwrap_err().kind(), ErrorKind::Corrupted, "a day is over");
    assert!(engine.compact().is_err() && engine.metrics().tables_quarantined > 0);
    assert_eq!(take_at(111).unwrap_err().kind(), ErrorKind::Corrupted, "it is quarantined");
}

#[test]
fn newest_whole_backup_is_not_removed() {
    let mut rng = SeededRng::new(1);
    let (disk, vault) = (SimDisk::new(1), SimVault::new(1));
    let mut model = Model::default();
    let (engine, _workers) = open(&disk, options()).unwrap();
    let mut taken = Vec::new();
    for _ in 0..4 {
        append_some(&engine, &mut model, 10, &mut rng);
        taken.push(take(&engine, &vault).unwrap());
    }
    for broken in [&taken[2], &taken[3]] {
        flip_bit(&vault.disk(&broken.name).unwrap(), table_of(broken));
    }
    let error = keep_newest(&vault, 2, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupted, "{error}");
    assert_eq!(list(&vault).unwrap().len(), 4);
    assert_eq!(keep_newest(&vault, 3, None).unwrap(), 1);
    assert_eq!(list(&vault).unwrap()[0], taken[1].label);
}
