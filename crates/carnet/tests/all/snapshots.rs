//! Snapshots after a restart: served if all their versions still exist, refused with `TooOld`
//! otherwise.

use std::sync::Arc;
use std::time::Duration;

use carnet::{Db, Durability, ErrorKind, RawTable, Result, Timestamp, block_on};
use carnet_storage::disk::sim::SimDisk;

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Killed,
}

fn open(disk: &SimDisk, durability: Durability, retention: Duration) -> (Db, RawTable) {
    let builder = Db::builder().durability(durability).retention(retention);
    let db = builder.open_on(Arc::new(disk.clone())).unwrap();
    let table = db.raw("t").unwrap();
    (db, table)
}

fn end(db: Db, disk: SimDisk, how: End) -> SimDisk {
    match how {
        End::Closed => {
            drop(db);
            disk
        }
        End::Killed => {
            let left = disk.kill();
            drop(db);
            left
        }
    }
}

fn seen(db: &Db, table: &RawTable, read: Timestamp) -> Result<Option<String>> {
    let tx = block_on(db.snapshot_at(read))?;
    let value = block_on(table.get(&tx, "k"))?;
    Ok(value.map(|value| String::from_utf8(value.to_vec()).unwrap()))
}

/// Writes 0, 1, 2, … over each other, one per process lifetime, and returns the snapshots that saw
/// them.
fn lives(lives: &[End], durability: Durability) -> (SimDisk, Vec<Timestamp>) {
    let mut disk = SimDisk::new(1);
    let mut snapshots = Vec::new();
    for how in lives {
        let (db, table) = open(&disk, durability, Duration::from_secs(3600));
        for _ in 0..3 {
            let value = snapshots.len().to_string();
            db.transact(|tx| table.put(tx, "k", value.clone())).unwrap();
            snapshots.push(db.snapshot().unwrap().read_timestamp());
            db.flush().unwrap();
        }
        db.compact().unwrap();
        disk = end(db, disk, *how);
    }
    (disk, snapshots)
}

#[test]
fn old_snapshot_reads_the_same_after_restart() {
    use End::{Closed, Killed};
    for (durability, ends) in [
        (Durability::Always, vec![Closed, Closed]),
        (Durability::Always, vec![Killed, Closed, Killed]),
        (Durability::None, vec![Closed, Closed]),
        (Durability::Interval(Duration::from_secs(1)), vec![Closed]),
    ] {
        let (disk, snapshots) = lives(&ends, durability);
        let (db, table) = open(&disk, durability, Duration::from_secs(3600));
        for (number, read) in snapshots.iter().enumerate() {
            let found = seen(&db, &table, *read).unwrap();
            assert_eq!(found, Some(number.to_string()), "{durability:?}, {ends:?}");
        }
    }
}

/// The last commits may be lost, and later commits hide the loss.
#[test]
fn unsynced_snapshot_is_refused_after_crash() {
    for durability in [Durability::None, Durability::Interval(Duration::from_secs(1))] {
        let (disk, snapshots) = lives(&[End::Closed, End::Killed, End::Closed], durability);
        let (db, table) = open(&disk, durability, Duration::from_secs(3600));
        for (number, read) in snapshots.iter().enumerate() {
            match seen(&db, &table, *read) {
                Ok(found) => assert_eq!((found, number >= 6), (Some(number.to_string()), true)),
                Err(error) => {
                    assert_eq!((error.kind(), number < 6), (ErrorKind::TooOld, true), "{number}");
                }
            }
        }
        drop(db);
        // A later process that syncs does not bring back data that an earlier one lost.
        let (disk, snapshots) = lives(&[End::Killed], durability);
        let (db, table) = open(&disk, Durability::Always, Duration::from_secs(3600));
        assert_eq!(seen(&db, &table, snapshots[2]).unwrap_err().kind(), ErrorKind::TooOld);
    }
}

/// Versions that were compacted away stay refused, whichever way the process ends.
#[test]
fn snapshot_below_watermark_stays_refused() {
    for how in [End::Closed, End::Killed] {
        let disk = SimDisk::new(1);
        let (db, table) = open(&disk, Durability::Always, Duration::ZERO);
        let mut snapshots = Vec::new();
        for number in 0..4 {
            db.transact(|tx| table.put(tx, "k", number.to_string())).unwrap();
            snapshots.push(db.snapshot().unwrap().read_timestamp());
            db.flush().unwrap();
        }
        db.compact().unwrap();
        let mut disk = end(db, disk, how);
        for _ in 0..2 {
            let (db, table) = open(&disk, Durability::Always, Duration::from_secs(3600));
            for read in &snapshots[..3] {
                assert_eq!(seen(&db, &table, *read).unwrap_err().kind(), ErrorKind::TooOld);
            }
            assert_eq!(seen(&db, &table, snapshots[3]).unwrap().as_deref(), Some("3"));
            disk = end(db, disk, how);
        }
    }
}

/// Overwrites a snapshot's data with 24 MB, through memtables of 1 MB.
#[test]
fn long_snapshot_is_stable_under_heavy_writes() {
    const KEYS: u32 = 200;
    let builder = Db::builder().durability(Durability::None).retention(Duration::ZERO);
    let db = builder.flush_bytes(1 << 20).open_on(Arc::new(SimDisk::new(1))).unwrap();
    let table = db.raw("t").unwrap();
    let write_all = |round: u32| {
        db.transact(|tx| {
            (0..KEYS).try_for_each(|key| {
                table.put(tx, key.to_be_bytes(), [&round.to_be_bytes()[..], &[7; 1000]].concat())
            })
        })
    };
    write_all(0).unwrap();
    let snapshot = db.snapshot().unwrap();
    let check = || {
        let rows: Result<Vec<_>> = table.range::<_, &[u8]>(&snapshot, ..).rev().collect();
        let rows = rows.unwrap();
        assert_eq!(rows.len(), KEYS as usize);
        assert!(rows.iter().all(|(_, value)| value[..4] == [0; 4]));
        let one = table.get(&snapshot, 17_u32.to_be_bytes()).unwrap().unwrap();
        assert_eq!(one[..4], [0; 4]);
    };
    for round in 1..=120 {
        write_all(round).unwrap();
        if round % 40 == 0 {
            check();
        }
    }
    db.compact().unwrap();
    check();
    drop(snapshot);
    write_all(121).unwrap();
    db.compact().unwrap();
    let bytes = db.metrics().unwrap().table_bytes;
    assert!(bytes < 2 * 1024 * u64::from(KEYS), "{bytes} bytes are left");
}

/// Keys are long, so that a few hundred commits exceed the memory for conflict checks.
#[test]
fn old_writer_is_refused_but_old_reader_served() {
    let db = Db::builder().in_memory();
    let table = db.raw("t").unwrap();
    db.transact(|tx| table.put(tx, "k", "old")).unwrap();
    let (reader, writer) = (db.snapshot().unwrap(), db.begin().unwrap());
    table.put(&writer, "of its own", "").unwrap();
    let mut key = vec![0; 250_000];
    for commit in 0..300_u32 {
        key[..4].copy_from_slice(&commit.to_be_bytes());
        db.transact(|tx| {
            table.put(tx, &key, "")?;
            table.put(tx, "k", "new")
        })
        .unwrap();
    }
    let error = writer.commit().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooOld, "{error}");
    assert_eq!(table.get(&reader, "k").unwrap().as_deref(), Some(&b"old"[..]));
}
