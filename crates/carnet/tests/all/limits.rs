//! Limits of the public API: a value at the limit is accepted, one beyond it fails with its name.

use std::sync::Arc;

use carnet::cluster::{Address, LocalNetwork, MemoryCluster, SequencerOptions};
use carnet::{
    Builder, Bytes, Db, Durability, ErrorKind, Isolation, Key, RawTable, Result, TransactionLimits,
    record,
};
use carnet_base::limits::{CLUSTERING_KEY_BYTES_MAX, PARTITION_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use carnet_base::{ThreadSpawn, WorkerTasks};

record! {
    struct Row {
        value: i64,
    }
}

const SMALL: TransactionLimits = TransactionLimits {
    write_bytes: 10_000,
    write_cells: 50,
    read_set_bytes: 2_000,
    spill_bytes: 8 << 20,
    memory_bytes: 64 << 20,
};

/// Runs a test in memory and on a directory. In the directory, accepted data must survive a flush.
fn with_databases(limits: TransactionLimits, test: impl Fn(&Db)) {
    test(&Db::builder().transaction_limits(limits).in_memory());
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder().transaction_limits(limits).durability(Durability::None);
    let db = builder.open(dir.path().join("db")).unwrap();
    test(&db);
}

fn refused<T>(result: Result<T>, words: &[&str]) {
    let Err(error) = result else { panic!("this is beyond the limit: {words:?}") };
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word} in {error}");
    }
}

#[test]
fn key_and_value_sizes_are_limited() {
    with_databases(TransactionLimits::default(), |db| {
        let table = db.raw("t").unwrap();
        let (key, value) = (vec![7; CLUSTERING_KEY_BYTES_MAX], vec![9; VALUE_BYTES_MAX]);
        db.transact(|tx| table.put(tx, &key, "long key")).unwrap();
        db.transact(|tx| table.put(tx, "large", &value)).unwrap();
        db.flush().unwrap();
        let snapshot = db.snapshot().unwrap();
        assert_eq!(table.get(&snapshot, &key).unwrap().unwrap(), "long key");
        assert_eq!(table.get(&snapshot, "large").unwrap().unwrap(), value);
        let longer = [&key[..], &[0]].concat();
        refused(
            db.transact(|tx| table.put(tx, &longer, "")),
            &["clustering key of 262141 bytes", "at most 262140"],
        );
        refused(db.transact(|tx| table.delete(tx, &longer)), &["262141", "at most 262140"]);
        let larger = [&value[..], &[0]].concat();
        refused(
            db.transact(|tx| table.put(tx, "larger", &larger)),
            &["value of 33554433 bytes", "at most 33554432"],
        );
    });
}

#[test]
fn partition_key_size_is_limited() {
    with_databases(TransactionLimits::default(), |db| {
        let table = db.table::<Key<(String,)>, Row>("rows").unwrap();
        let put = |len: usize| {
            let key = Key(("x".repeat(len),), ());
            db.transact(|tx| table.put(tx, &key, &Row { value: 1 }))
        };
        put(PARTITION_KEY_BYTES_MAX).unwrap();
        refused(put(PARTITION_KEY_BYTES_MAX + 1), &["65536", "65535"]);
    });
}

#[test]
fn transaction_cells_are_limited() {
    with_databases(SMALL, |db| {
        let table = db.raw("t").unwrap();
        let tx = db.begin().unwrap();
        for cell in 0..50 {
            table.put(&tx, [cell], "").unwrap();
        }
        table.put(&tx, [7], "again: it is the same cell").unwrap();
        refused(table.put(&tx, [50], ""), &["51 cells", "at most 50"]);
        refused(table.delete(&tx, [50]), &["51 cells"]);
        tx.commit().unwrap();
        let snapshot = db.snapshot().unwrap();
        assert_eq!(
            table.range::<_, &[u8]>(&snapshot, ..).count(),
            50,
            "cells within the limit are committed"
        );
    });
}

#[test]
fn transaction_bytes_are_limited() {
    with_databases(SMALL, |db| {
        let table = db.raw("t").unwrap();
        // Size of a raw table's cell key: table, token, length of the empty partition key, key.
        let key_bytes = 4 + 8 + 2 + 1;
        let fits = vec![0; 10_000 - key_bytes];
        db.transact(|tx| table.put(tx, "k", &fits)).unwrap();
        let larger = [&fits[..], &[0]].concat();
        refused(
            db.transact(|tx| table.put(tx, "k", &larger)),
            &["10001 bytes", "at most 10000", "split it"],
        );
        // Overwritten values no longer count.
        db.transact(|tx| (0..100).try_for_each(|_| table.put(tx, "k", &fits))).unwrap();
    });
}

fn read(table: &RawTable, tx: &carnet::SyncTx, cells: usize) -> Result<()> {
    for cell in 0..cells {
        table.get(tx, cell.to_be_bytes())?;
    }
    Ok(())
}

#[test]
fn read_set_is_limited() {
    with_databases(SMALL, |db| {
        let table = db.raw("t").unwrap();
        // 2,000 bytes hold 250 cells, one of which is the table's schema.
        db.transact(|tx| read(&table, tx, 249)).unwrap();
        refused(
            db.transact(|tx| read(&table, tx, 250)),
            &["2008 bytes", "at most 2000", "a snapshot"],
        );
        // A snapshot has no read set.
        db.transaction()
            .isolation(Isolation::Snapshot)
            .transact(|tx| read(&table, tx, 999))
            .unwrap();
        for cell in 0..40_u8 {
            let chunk = |tx: &carnet::SyncTx| table.put(tx, [1, cell], Bytes::from_static(b"v"));
            db.transact(chunk).unwrap();
        }
        let scan = |tx: &carnet::SyncTx, reverse: bool| {
            let rows = table.prefix(tx, [1]).page(1);
            let mut rows = if reverse { rows.rev() } else { rows };
            rows.try_fold(0, |count, row| row.map(|_| count + 1))
        };
        // Forty pages form one range, in either direction.
        assert_eq!(db.transact(|tx| scan(tx, false)).unwrap(), 40);
        assert_eq!(db.transact(|tx| scan(tx, true)).unwrap(), 40);
    });
}

/// Budget of all transactions: half of it is for recent commits.
const SHARED_BYTES: usize = 1 << 20;

#[test]
fn write_sets_beyond_their_memory_are_spilled() {
    let dir = tempfile::tempdir().unwrap();
    let builder = || Db::builder().transaction_memory_bytes(SHARED_BYTES);
    let db = builder().durability(Durability::None).open(dir.path().join("db")).unwrap();
    let table = db.raw("t").unwrap();
    let write = |tx: &carnet::SyncTx, cells: u32| {
        (0..cells).try_for_each(|cell| table.put(tx, cell.to_be_bytes(), vec![7; 1_000]))
    };
    let tx = db.begin().unwrap();
    write(&tx, 200).unwrap();
    assert!(db.transaction_memory_bytes() > 200_000, "{}", db.transaction_memory_bytes());
    db.transact(|tx| write(tx, 3_000)).unwrap();
    assert!(db.transaction_memory_bytes() < SHARED_BYTES / 2);
    tx.rollback();
    assert_eq!(db.transaction_memory_bytes(), 0);
    let snapshot = db.snapshot().unwrap();
    assert_eq!(table.range::<_, &[u8]>(&snapshot, ..).count(), 3_000);
    // A single value always fits.
    db.transact(|tx| table.put(tx, "k", vec![7; 2 << 20])).unwrap();
    // A database in memory has no files to spill to.
    let db = builder().in_memory();
    let table = db.raw("t").unwrap();
    let put = |tx: &carnet::SyncTx, cell: u32| table.put(tx, cell.to_be_bytes(), vec![7; 1_000]);
    let other = db.begin().unwrap();
    (0..300).for_each(|cell| put(&other, cell).unwrap());
    let refused = db.begin().unwrap();
    let error = (0..300).try_for_each(|cell| put(&refused, cell)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }), "{error}");
}

/// A value is longer than its transaction's part of the memory: it goes to a file as well.
#[test]
fn open_transactions_with_long_values_leave_memory_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder().transaction_memory_bytes(32 * SHARED_BYTES);
    let db = builder.durability(Durability::None).open(dir.path().join("db")).unwrap();
    let table = db.raw("t").unwrap();
    let begin = || db.transaction().interactive(true).begin().unwrap();
    let put = |tx: &carnet::SyncTx, key: u32| table.put(tx, key.to_be_bytes(), vec![7; 1 << 20]);
    let open: Vec<_> = (0..40).map(|_| begin()).collect();
    for (key, tx) in (0..).zip(&open) {
        put(tx, key).unwrap();
        assert!(db.transaction_memory_bytes() <= 16 * SHARED_BYTES, "{key} of 1 MiB are held");
    }
    let other = begin();
    assert_eq!(table.get(&other, "x").unwrap(), None);
    table.put(&other, "x", "y").unwrap();
    other.commit().unwrap();
    for (key, tx) in (0_u32..).zip(open) {
        assert!(table.get(&tx, key.to_be_bytes()).unwrap().is_some(), "it reads its own write");
        tx.commit().unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    assert_eq!(table.range::<_, &[u8]>(&snapshot, ..).count(), 41);
    assert_eq!(db.transaction_memory_bytes(), 0);
}

/// Transactions that hold all memory must not turn each write of another one into a file.
#[test]
fn writes_without_memory_make_few_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let builder = Db::builder().transaction_memory_bytes(SHARED_BYTES);
    let db = builder.durability(Durability::None).open(&path).unwrap();
    let table = db.raw("t").unwrap();
    let put = |tx: &carnet::SyncTx, cell: u32| table.put(tx, cell.to_be_bytes(), vec![7; 100]);
    // The spilled writes of these are in files as well, of which each has one at least.
    let begin = || db.transaction().interactive(true).begin().unwrap();
    let others: Vec<_> = (0..6).map(|_| begin()).collect();
    for other in &others {
        (0..1_000).try_for_each(|cell| put(other, cell)).unwrap();
    }
    let files = || {
        let names = std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("sst-")).count()
    };
    let before = files();
    let tx = begin();
    let mut most = 0;
    for cell in 0..3_000 {
        put(&tx, 10_000 + cell).unwrap();
        most = most.max(files());
    }
    assert!(most - before <= 9, "{before} files before, {most} during the transaction");
    tx.commit().unwrap();
    assert!(files() <= before + 3, "{before} files before, {} after", files());
    let snapshot = db.snapshot().unwrap();
    assert_eq!(table.range::<_, &[u8]>(&snapshot, ..).count(), 3_000);
}

#[test]
fn read_sets_share_the_memory_of_transactions() {
    let db = Db::builder().transaction_memory_bytes(SHARED_BYTES).in_memory();
    let table = db.raw("t").unwrap();
    let one = db.begin().unwrap();
    read(&table, &one, 40_000).unwrap();
    let other = db.begin().unwrap();
    let error = read(&table, &other, 40_000).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }), "{error}");
    drop(one);
    read(&table, &other, 40_000).unwrap();
    refused(read(&table, &other, 70_000), &["all transactions together have", "split it"]);
}

fn on_a_cluster(builder: Builder) -> Db {
    let network = LocalNetwork::new(Arc::new(WorkerTasks::new("network", &ThreadSpawn)));
    let address = Address::new("one").unwrap();
    let (at, listening) = (address.clone(), network.clone());
    let listen = move |handler: &_| listening.listen(at, handler);
    let (cluster, options) = (Arc::new(MemoryCluster::new()), SequencerOptions::default());
    builder.open_cluster(cluster, network, address, options, listen).unwrap()
}

/// A writer that began before the commits that are remembered cannot be checked.
#[test]
fn recent_commits_have_a_part_of_the_memory() {
    let outcome = |db: &Db| {
        let table = db.raw("t").unwrap();
        let old = db.begin().unwrap();
        table.get(&old, "read").unwrap();
        table.put(&old, "written", "1").unwrap();
        for round in 0..20_u32 {
            db.transact(|tx| {
                (0..100_u32).try_for_each(|cell| {
                    table.put(tx, [round.to_be_bytes(), cell.to_be_bytes()].concat(), "")
                })
            })
            .unwrap();
        }
        old.commit().map_err(|error| error.kind())
    };
    let little = || Db::builder().transaction_memory_bytes(64 << 10);
    let dir = tempfile::tempdir().unwrap();
    let db = little().durability(Durability::None).open(dir.path().join("db")).unwrap();
    assert_eq!(outcome(&db).unwrap_err(), ErrorKind::TooOld);
    assert_eq!(outcome(&on_a_cluster(little())).unwrap_err(), ErrorKind::TooOld);
    outcome(&on_a_cluster(Db::builder())).unwrap();
}
