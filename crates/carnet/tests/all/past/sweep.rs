//! Effects of garbage collection on entries and versions.

use std::sync::Arc;
use std::time::Duration;

use carnet::{Db, Durability, ErrorKind, Label, Outcome, RawTable, Timestamp};
use carnet_storage::disk::sim::SimDisk;

use super::world::{SECOND, World, put};

const RETENTION: Duration = Duration::from_secs(100);

/// Commits a write; returns its start and commit timestamps.
fn commit(db: &Db, table: &RawTable, key: &str) -> (Timestamp, Timestamp) {
    let tx = db.begin().unwrap();
    table.put(&tx, key, vec![b'x'; 100]).unwrap();
    (tx.as_async().start_timestamp().unwrap(), tx.commit().unwrap())
}

fn abort(db: &Db, table: &RawTable) -> Timestamp {
    let tx = db.begin().unwrap();
    table.put(&tx, "k", "never").unwrap();
    tx.rollback();
    tx.as_async().start_timestamp().unwrap()
}

/// Returns the bytes of the tables, and the bytes of tables with only the live data.
fn bytes(db: &Db, table: &RawTable) -> (u64, u64) {
    let fresh = Db::builder().open_on(Arc::new(SimDisk::new(2))).unwrap();
    let copy = fresh.raw("t").unwrap();
    let snapshot = db.snapshot().unwrap();
    fresh
        .transact(|tx| {
            for row in table.prefix(&snapshot, "") {
                let (key, value) = row?;
                copy.put(tx, key, value)?;
            }
            Ok(())
        })
        .unwrap();
    fresh.flush().unwrap();
    (db.metrics().unwrap().table_bytes, fresh.metrics().unwrap().table_bytes)
}

#[test]
fn entries_below_watermark_are_removed() {
    let world = World::default();
    let mut disk = SimDisk::new(1);
    let (mut known, mut aborted) = (Vec::new(), Vec::new());
    for life in 0..4 {
        let (db, table) = world.open(&disk, RETENTION);
        for key in 0..40 {
            known.push((commit(&db, &table, &key.to_string()), world.pass_seconds(3)));
            aborted.push(abort(&db, &table));
        }
        for _ in 0..2 {
            let (mut gone, mut there) = (0, 0);
            // The watermark may rise between these calls.
            let swept = || carnet::block_on(db.swept()).unwrap();
            for ((start, commit), _) in &known {
                match db.outcome(*start) {
                    Ok(outcome) => {
                        assert_eq!(outcome, Outcome::Committed(*commit));
                        there += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Unknown { start: *start });
                        assert!(*commit <= swept(), "{commit}: {error}");
                        gone += 1;
                    }
                }
            }
            for start in &aborted {
                match db.outcome(*start) {
                    Ok(outcome) => assert_eq!(outcome, Outcome::Aborted),
                    Err(error) => assert!(*start < swept(), "{start}: {error}"),
                }
            }
            assert!(there >= 30, "those within the retention are there");
            assert!(life == 0 || gone > 0, "older ones are not");
            db.compact().unwrap();
        }
        disk = world.kill(db, table, &disk);
    }
}

/// After a crash, lost commits have the outcome aborted and others committed. The watermark rises,
/// but no entry is deleted.
#[test]
fn outcomes_are_known_after_lost_commits() {
    let world = World::default();
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| {
        let builder = world.builder().durability(Durability::None).retention(RETENTION);
        let db = builder.open_on(Arc::new(disk.clone())).unwrap();
        let table = db.raw("t").unwrap();
        (db, table)
    };
    let (db, table) = open(&disk);
    let (start, commit) = commit(&db, &table, "k");
    let aborted = abort(&db, &table);
    db.flush().unwrap();
    let disk = world.kill(db, table, &disk);
    let (db, table) = open(&disk);
    assert!(carnet::block_on(db.swept()).unwrap() > commit);
    assert_eq!(db.outcome(start).unwrap(), Outcome::Committed(commit));
    assert_eq!(db.outcome(aborted).unwrap(), Outcome::Aborted);
    db.compact().unwrap();
    assert_eq!(
        db.outcome(start).unwrap(),
        Outcome::Committed(commit),
        "it is within the retention"
    );
    world.close(db, table);
}

/// An open snapshot keeps its versions and the commit-table entries above it.
#[test]
fn open_snapshot_keeps_entries_and_versions() {
    let world = World::default();
    let disk = SimDisk::new(1);
    let (db, table) = world.open(&disk, RETENTION);
    put(&db, &table, "old");
    let snapshot = db.snapshot().unwrap();
    let (start, committed) = commit(&db, &table, "k");
    world.pass(1000 * SECOND);
    commit(&db, &table, "other");
    db.compact().unwrap();
    assert_eq!(table.get(&snapshot, "k").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(db.outcome(start).unwrap(), Outcome::Committed(committed));
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(db.outcome(start).unwrap_err().kind(), ErrorKind::Unknown { start });
    world.close(db, table);
}

/// The oldest open transaction that blocks garbage collection is reported, with its age.
#[test]
fn oldest_open_transaction_is_reported() {
    let world = World::default();
    world.pass(1000 * SECOND);
    let disk = SimDisk::new(1);
    let (db, table) = world.open(&disk, RETENTION);
    assert_eq!(db.oldest_snapshot(), None);
    put(&db, &table, "old");
    let begun = world.pass_seconds(100);
    let who = Label::new("ada@host", "REPORT");
    let report = db.transaction().label(who.clone()).snapshot_as_of(db.published()).unwrap();
    world.pass(300 * SECOND);
    put(&db, &table, "new");
    let writer = db.begin().unwrap();
    let holders = db.holders();
    assert_eq!(holders.len(), 2);
    assert_eq!(holders[1].start, writer.as_async().start_timestamp());
    let oldest = db.oldest_snapshot().unwrap();
    assert_eq!(oldest, holders[0]);
    let read = report.read_timestamp();
    assert_eq!((oldest.read, oldest.start, oldest.label), (read, None, Some(who)));
    assert_eq!(oldest.since, begun);
    db.compact().unwrap();
    assert_eq!(carnet::block_on(db.swept()).unwrap(), read, "the watermark does not pass it");
    drop(report);
    assert_eq!(db.oldest_snapshot().unwrap().read, writer.as_async().read_timestamp());
    writer.rollback();
    assert_eq!(
        db.oldest_snapshot(),
        None,
        "an ended transaction holds nothing, even with a handle"
    );
    world.close(db, table);
}

#[test]
fn space_after_gc_is_twice_the_live_data() {
    let world = World::default();
    let disk = SimDisk::new(1);
    let (db, table) = world.open(&disk, RETENTION);
    for number in 0..20_000 {
        commit(&db, &table, &(number * 7919 % 200).to_string());
    }
    db.flush().unwrap();
    let (before, live) = bytes(&db, &table);
    assert!(before > 10 * live, "{before} bytes for {live} live ones");
    db.compact().unwrap();
    assert!(bytes(&db, &table).0 > 10 * live, "all of it is within the retention");
    world.pass(200 * SECOND);
    db.compact().unwrap();
    let (after, live) = bytes(&db, &table);
    assert!(after <= 2 * live, "{after} bytes for {live}");
    world.close(db, table);
}

/// Without writes no flush triggers compaction; the wall-clock worker triggers it.
#[test]
fn idle_database_is_garbage_collected() {
    let world = World::default();
    let disk = SimDisk::new(1);
    let (db, table) = world.open(&disk, RETENTION);
    for number in 0..4_000 {
        commit(&db, &table, &(number * 7919 % 200).to_string());
    }
    db.flush().unwrap();
    let live = bytes(&db, &table).1;
    world.pass(90 * SECOND);
    assert!(bytes(&db, &table).0 > 5 * live, "it is within the retention");
    world.pass(120 * SECOND);
    // Compaction runs in its own thread, at its own pace.
    let swept = (0..2_000).any(|_| {
        std::thread::yield_now();
        carnet_base::Signal::new().wait(Some(Duration::from_millis(5)));
        bytes(&db, &table).0 <= 2 * live
    });
    assert!(swept, "{} bytes for {live}", bytes(&db, &table).0);
    world.pass(2 * SECOND);
    assert_eq!(world.keep(), None, "and then the worker has no more work");
    world.close(db, table);
}
