//! The public API on each store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use carnet::catalog::{self, ColumnKind, KeyspaceSchema, Pins, TableKind, TableSchema};
use carnet::cluster::{Address, LeaseOptions, LocalNetwork, MemoryCluster, SequencerOptions};
use carnet::{
    CellKey, DataType, Db, Durability, Error, ErrorKind, Isolation, Key, KeyRange, Outcome,
    PageLimit, PartitionKey, Result, Uuid, abort, block_on, record,
};
use carnet_base::{ThreadSpawn, WorkerTasks};

record! {
    /// A row with a nullable column.
    #[derive(Clone, Debug, PartialEq)]
    struct Reading {
        celsius: f64,
        note: Option<String>,
    }
}

record! {
    #[derive(Clone, Debug, PartialEq)]
    struct Account {
        balance: i64,
    }
}

type Readings = Key<(String,), (i64, i32)>;

/// Opens a process of a database over a cluster in memory.
fn process(cluster: &Arc<MemoryCluster>, network: &LocalNetwork, name: &str) -> Db {
    let address = Address::new(name).unwrap();
    let (network, at) = (network.clone(), address.clone());
    let listening = network.clone();
    // A long lease: a takeover on a busy machine would abort transactions.
    let lease = LeaseOptions { timeout: Duration::from_secs(600), ..LeaseOptions::default() };
    let options = SequencerOptions { lease, ..SequencerOptions::default() };
    let listen = |handler: &_| listening.listen(at, handler);
    Db::builder().open_cluster(Arc::clone(cluster), network, address, options, listen).unwrap()
}

fn network() -> LocalNetwork {
    LocalNetwork::new(Arc::new(WorkerTasks::new("network", &ThreadSpawn)))
}

/// Runs a test on the memory store, on the embedded store, and on a cluster, in the leader process
/// and in another process. The guard keeps the directory.
fn on_each_store(test: impl Fn(Db)) {
    test(Db::builder().in_memory());
    test(process(&Arc::default(), &network(), "alone"));
    let (cluster, network) = (Arc::default(), network());
    let leader = process(&cluster, &network, "leader");
    test(process(&cluster, &network, "follower"));
    drop(leader);
    let dir = tempfile::tempdir().unwrap();
    test(Db::builder().durability(Durability::None).open(dir.path().join("db")).unwrap());
    let dir = tempfile::tempdir().unwrap();
    test(Db::builder().flush_bytes(5_000).open(dir.path().join("db")).unwrap());
}

fn reading(n: i64) -> Reading {
    let note = (n % 2 == 0).then(|| format!("reading {n}"));
    Reading { celsius: f64::from(i32::try_from(n).unwrap()) / 2.0, note }
}

fn key(sensor: &str, time: i64) -> Readings {
    Key((sensor.to_owned(),), (time, 7))
}

#[test]
fn rows_round_trip() {
    on_each_store(|db| {
        let table = db.table::<Readings, Reading>("lab.readings").unwrap();
        db.transact(|tx| {
            table.put(tx, &key("a", 1), &reading(1))?;
            table.put(tx, &key("a", 2), &reading(2))
        })
        .unwrap();
        let snapshot = db.snapshot().unwrap();
        assert_eq!(table.get(&snapshot, &key("a", 1)).unwrap(), Some(reading(1)));
        assert_eq!(table.get(&snapshot, &key("a", 2)).unwrap(), Some(reading(2)));
        assert_eq!(table.get(&snapshot, &key("b", 1)).unwrap(), None);
        db.transact(|tx| table.delete(tx, &key("a", 1))).unwrap();
        assert_eq!(table.get(&snapshot, &key("a", 1)).unwrap(), Some(reading(1)), "still there");
        assert_eq!(table.get(&db.snapshot().unwrap(), &key("a", 1)).unwrap(), None);
    });
}

#[test]
fn ranges_page_and_resume_in_both_directions() {
    on_each_store(|db| {
        let table = db.table::<Readings, Reading>("readings").unwrap();
        for sensor in ["a", "b"] {
            db.transact(|tx| {
                for time in -50..50 {
                    table.put(tx, &key(sensor, time), &reading(time))?;
                }
                Ok(())
            })
            .unwrap();
        }
        let snapshot = db.snapshot().unwrap();
        let sensor = ("b".to_owned(),);
        let times = |rows: Vec<(Readings, Reading)>| -> Vec<i64> {
            rows.into_iter().map(|(key, _)| key.1.0).collect()
        };
        for page in [1, 3, 100] {
            let rows = table.range(&snapshot, &sensor, (-3, 0)..=(2, 99)).page(page);
            assert_eq!(times(rows.collect::<Result<_>>().unwrap()), [-3, -2, -1, 0, 1, 2]);
            let rows = table.range(&snapshot, &sensor, (46, 7)..).rev().page(page);
            assert_eq!(times(rows.collect::<Result<_>>().unwrap()), [49, 48, 47, 46]);
        }
        let mut first = table.range(&snapshot, &sensor, ..).rev().page(60);
        assert_eq!(times(first.next_page().unwrap())[59], -10);
        let resume = first.resume().expect("forty rows are left");
        let rest = table.range(&snapshot, &sensor, ..).rev().resume_from(resume);
        assert_eq!(times(rest.collect::<Result<_>>().unwrap()).len(), 40);
        assert_eq!(table.scan(&snapshot).count(), 200);
    });
}

#[test]
fn ranges_contain_own_writes() {
    on_each_store(|db| {
        let table = db.raw("t").unwrap();
        db.transact(|tx| {
            table.put(tx, "a", "1")?;
            table.put(tx, "b", "2")
        })
        .unwrap();
        let tx = db.begin().unwrap();
        table.put(&tx, "c", "3").unwrap();
        table.delete(&tx, "a").unwrap();
        let keys: Vec<_> = table.prefix(&tx, "").map(|cell| cell.unwrap().0).collect();
        assert_eq!(keys, ["b", "c"]);
        tx.rollback();
        assert_eq!(table.prefix(&db.snapshot().unwrap(), "").count(), 2);
    });
}

#[test]
fn concurrent_transfers_keep_the_sum() {
    const ACCOUNTS: i64 = 8;
    on_each_store(|db| {
        let accounts = db.table::<Key<(i64,)>, Account>("accounts").unwrap();
        db.transact(|tx| {
            for id in 0..ACCOUNTS {
                accounts.put(tx, &Key((id,), ()), &Account { balance: 100 })?;
            }
            Ok(())
        })
        .unwrap();
        let runs = AtomicU32::new(0);
        thread::scope(|scope| {
            for worker in 0..4i64 {
                let (db, accounts, runs) = (&db, &accounts, &runs);
                scope.spawn(move || {
                    for n in 0..50 {
                        let from = Key(((worker + n) % ACCOUNTS,), ());
                        let to = Key(((worker * 3 + n * 5 + 1) % ACCOUNTS,), ());
                        let moved = db.transact(|tx| {
                            runs.fetch_add(1, Ordering::Relaxed);
                            let missing = || abort!("an account is missing");
                            let mut source = accounts.get(tx, &from)?.ok_or_else(missing)?;
                            source.balance -= 10;
                            if source.balance < 0 {
                                return Err(abort!("not covered"));
                            }
                            accounts.put(tx, &from, &source)?;
                            let mut target = accounts.get(tx, &to)?.ok_or_else(missing)?;
                            target.balance += 10;
                            accounts.put(tx, &to, &target)
                        });
                        if let Err(error) = moved {
                            assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
                        }
                    }
                });
            }
        });
        let sum: i64 =
            accounts.scan(&db.snapshot().unwrap()).map(|row| row.unwrap().1.balance).sum();
        assert_eq!(sum, ACCOUNTS * 100);
        assert!(runs.load(Ordering::Relaxed) >= 200);
    });
}

#[test]
fn asynchronous_transactions_are_retried() {
    on_each_store(|db| {
        let counter = db.raw("counter").unwrap();
        let done = Arc::new(AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                let (db, counter, done) = (&db, &counter, Arc::clone(&done));
                scope.spawn(move || {
                    for _ in 0..20 {
                        block_on(db.run(|tx| {
                            let counter = counter.clone();
                            async move {
                                let seen = counter.get(&tx, "n").await?;
                                let seen: u32 = seen.map_or(0, |bytes| {
                                    String::from_utf8_lossy(&bytes).parse().unwrap()
                                });
                                counter.put(&tx, "n", (seen + 1).to_string()).await
                            }
                        }))
                        .unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let total = counter.get(&db.snapshot().unwrap(), "n").unwrap();
        assert_eq!(total.as_deref(), Some(&b"80"[..]));
    });
}

#[test]
fn isolation_levels_check_different_conflicts() {
    on_each_store(|db| {
        let table = db.raw("doctors").unwrap();
        for (isolation, refused) in
            [(Isolation::Snapshot, false), (Isolation::StrictSerializable, true)]
        {
            let options = db.transaction().isolation(isolation);
            let (first, second) = (options.begin().unwrap(), options.begin().unwrap());
            assert_eq!(table.get(&first, "bob").unwrap(), table.get(&second, "alice").unwrap());
            table.put(&first, "alice", "").unwrap();
            table.put(&second, "bob", "").unwrap();
            first.commit().unwrap();
            assert_eq!(second.commit().is_err_and(|e| e.kind() == ErrorKind::Conflict), refused);
            db.transact(|tx| {
                table.delete(tx, "alice")?;
                table.delete(tx, "bob")
            })
            .unwrap();
        }
    });
}

#[test]
fn outcome_is_known_for_every_transaction() {
    on_each_store(|db| {
        let table = db.raw("t").unwrap();
        let tx = db.begin().unwrap();
        let start = tx.as_async().start_timestamp().unwrap();
        assert_eq!(db.outcome(start).unwrap(), Outcome::Pending);
        table.put(&tx, "k", "v").unwrap();
        let commit = tx.commit().unwrap();
        assert_eq!(db.outcome(start).unwrap(), Outcome::Committed(commit));
        db.flush().unwrap();
        assert_eq!(db.outcome(start).unwrap(), Outcome::Committed(commit));
        let dropped = db.begin().unwrap();
        let start = dropped.as_async().start_timestamp().unwrap();
        drop(dropped);
        assert_eq!(db.outcome(start).unwrap(), Outcome::Aborted);
    });
}

#[test]
fn schema_change_conflicts_with_write_under_old_schema() {
    on_each_store(|db| {
        let table = db.table::<Key<(i64,)>, Account>("accounts").unwrap();
        let writer = db.transaction().isolation(Isolation::Snapshot).begin().unwrap();
        table.put(&writer, &Key((1,), ()), &Account { balance: 1 }).unwrap();
        block_on(db.run(|tx| async move {
            let schema = catalog::table(&tx, "main", "accounts").await?.expect("it is there");
            let mut schema = (*schema).clone();
            schema.version += 1;
            schema.add_column("owner", DataType::Text, ColumnKind::Regular)?;
            catalog::alter_table(&tx, &schema).await
        }))
        .unwrap();
        assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict);
        // The record lacks the new column, but still writes and reads its own columns.
        db.transact(|tx| table.put(tx, &Key((1,), ()), &Account { balance: 2 })).unwrap();
        let found = table.get(&db.snapshot().unwrap(), &Key((1,), ())).unwrap();
        assert_eq!(found, Some(Account { balance: 2 }));
    });
}

/// Changes the schema of the table of accounts.
fn alter_accounts(db: &Db) {
    let alter = |tx| async move {
        let schema = catalog::table(&tx, "main", "accounts").await?.expect("it is there");
        let schema = TableSchema { version: schema.version + 1, ..(*schema).clone() };
        catalog::alter_table(&tx, &schema).await
    };
    block_on(db.run(alter)).unwrap();
}

#[test]
fn pinned_schemas_apply_until_one_changes() {
    on_each_store(|db| {
        let table = db.table::<Key<(i64,)>, Account>("accounts").unwrap();
        let other = db.raw("other").unwrap();
        let snapshot = db.snapshot().unwrap();
        let read = |tx| block_on(catalog::table(tx, "main", "accounts")).unwrap().unwrap();
        let schema = read(snapshot.as_async());
        let pins = Pins::new(snapshot.as_async(), [&schema].into_iter()).unwrap();
        let applies = || pins.apply(db.snapshot().unwrap().as_async()).unwrap();
        assert!(applies());
        // Other commits change nothing.
        db.transact(|tx| table.put(tx, &Key((1,), ()), &Account { balance: 1 })).unwrap();
        assert!(applies());
        let writer = db.transaction().isolation(Isolation::Snapshot).begin().unwrap();
        assert!(pins.apply(writer.as_async()).unwrap());
        other.put(&writer, "k", "v").unwrap();
        alter_accounts(&db);
        assert!(!applies());
        assert_eq!(writer.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert!(pins.apply(snapshot.as_async()).unwrap(), "its snapshot has the earlier schema");
        let changed = db.snapshot().unwrap();
        assert!(Pins::new(changed.as_async(), [&schema].into_iter()).is_none(), "an earlier one");
    });
}

#[test]
fn mismatched_table_types_are_refused() {
    on_each_store(|db| {
        db.table::<Key<(i64,)>, Account>("accounts").unwrap();
        let error = db.table::<Key<(String,)>, Account>("accounts").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("main.accounts"), "{error}");
        assert_eq!(db.raw("accounts").err().unwrap().kind(), ErrorKind::Invalid);
        assert_eq!(db.raw("a-b").err().unwrap().kind(), ErrorKind::Invalid);
    });
}

#[test]
fn deadline_ends_a_transaction() {
    on_each_store(|db| {
        let Some(_) = db.metrics() else { return };
        let table = db.raw("t").unwrap();
        let options = db.transaction().timeout(Duration::ZERO);
        let late = options.transact(|tx| table.put(tx, "k", "v"));
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Timeout);
    });
}

#[test]
fn schema_change_by_another_process_is_seen() {
    let (cluster, network) = (Arc::default(), network());
    let one = process(&cluster, &network, "one");
    let other = process(&cluster, &network, "other");
    let (mine, theirs) = (one.raw("t").unwrap(), other.raw("t").unwrap());
    one.transact(|tx| mine.put(tx, "k", "before")).unwrap();
    let old = other.snapshot().unwrap();
    assert_eq!(theirs.get(&old, "k").unwrap().as_deref(), Some(&b"before"[..]));
    block_on(one.run(|tx| async move { catalog::truncate_table(&tx, "main", "t").await })).unwrap();
    // Under the old schema this would write to the dropped table.
    other.transact(|tx| theirs.put(tx, "k", "after")).unwrap();
    // A third process has no cached schema.
    let third = process(&cluster, &network, "third");
    for (db, table) in [(&one, &mine), (&third, &third.raw("t").unwrap())] {
        let new = db.snapshot().unwrap();
        assert_eq!(table.get(&new, "k").unwrap().as_deref(), Some(&b"after"[..]));
    }
    assert_eq!(theirs.get(&old, "k").unwrap().as_deref(), Some(&b"before"[..]));
}

#[test]
fn schema_change_is_seen_under_a_new_leader() {
    let (cluster, network) = (Arc::default(), network());
    let one = process(&cluster, &network, "one");
    let other = process(&cluster, &network, "other");
    let (mine, theirs) = (one.raw("t").unwrap(), other.raw("t").unwrap());
    one.transact(|tx| mine.put(tx, "k", "before")).unwrap();
    other.transact(|tx| theirs.put(tx, "k", "known")).unwrap();
    block_on(one.run(|tx| async move { catalog::truncate_table(&tx, "main", "t").await })).unwrap();
    block_on(one.leave());
    other.transact(|tx| theirs.put(tx, "k", "after")).unwrap();
    let third = process(&cluster, &network, "third");
    let new = third.snapshot().unwrap();
    let found = third.raw("t").unwrap().get(&new, "k").unwrap();
    assert_eq!(found.as_deref(), Some(&b"after"[..]));
}

#[test]
fn leaving_leader_is_replaced_at_once() {
    let (cluster, network) = (Arc::default(), network());
    // The leases would run for ten minutes.
    let first = process(&cluster, &network, "first");
    let second = process(&cluster, &network, "second");
    let table = first.raw("t").unwrap();
    first.transact(|tx| table.put(tx, "k", "v")).unwrap();
    assert!(first.is_leading() && !second.is_leading());
    block_on(first.leave());
    let table = second.raw("t").unwrap();
    second.transact(|tx| table.put(tx, "k", "w")).unwrap();
    assert!(second.is_leading());
}

#[test]
fn unsupported_store_url_is_refused() {
    let error = Db::open("s3://bucket").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn data_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let start = {
        let db = Db::open(&path).unwrap();
        let held = Db::open(&path).err().expect("one process owns a directory");
        assert_eq!(held.kind(), ErrorKind::Unavailable);
        let table = db.table::<Readings, Reading>("lab.readings").unwrap();
        let tx = db.begin().unwrap();
        table.put(&tx, &key("a", 1), &reading(1)).unwrap();
        tx.commit().unwrap();
        tx.as_async().start_timestamp().unwrap()
    };
    for _ in 0..3 {
        let db = Db::open(&path).unwrap();
        let table = db.table::<Readings, Reading>("lab.readings").unwrap();
        let snapshot = db.snapshot().unwrap();
        assert_eq!(table.get(&snapshot, &key("a", 1)).unwrap(), Some(reading(1)));
        assert!(matches!(db.outcome(start).unwrap(), Outcome::Committed(_)));
        let tx = db.begin().unwrap();
        assert!(tx.as_async().start_timestamp().unwrap() > start, "no start is reused");
        db.transact(|tx| table.put(tx, &key("a", 2), &reading(2))).unwrap();
    }
}

#[test]
fn start_timestamps_are_unique_across_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = None;
    for _ in 0..4 {
        let db = Db::open(dir.path().join("db")).unwrap();
        // Nothing commits: only the bound on disk shows which starts were issued.
        for _ in 0..10 {
            let start = db.begin().unwrap().as_async().start_timestamp();
            assert!(start > last, "{start:?} after {last:?}");
            last = start;
        }
    }
}

#[test]
fn page_limit_holds_with_own_writes() {
    on_each_store(|db| {
        let table = carnet_base::TableId(2_000);
        let cell = |n: u8| CellKey::new(table, &PartitionKey::new("p"), [n]);
        block_on(async {
            for n in (0..40).step_by(4) {
                db.run(|tx| async move { tx.put_cell(cell(n), "stored".into()) }).await.unwrap();
            }
            let tx = db.transaction().begin_async().await.unwrap();
            for n in 0..40 {
                match n % 4 {
                    0 => tx.delete_cell(cell(n)).unwrap(),
                    1 | 2 => tx.put_cell(cell(n), "own".into()).unwrap(),
                    _ => {}
                }
            }
            for reverse in [false, true] {
                let mut found = Vec::new();
                let mut rest = Some(KeyRange::table(table));
                while let Some(range) = rest {
                    let page = tx.range_cells(&range, reverse, PageLimit::cells(3)).await.unwrap();
                    assert!(page.cells.len() <= 3);
                    found.extend(page.cells.iter().map(|cell| cell.key.clustering()[0]));
                    rest = page.resume;
                }
                let mut expected: Vec<u8> = (0..40).filter(|n| matches!(n % 4, 1 | 2)).collect();
                if reverse {
                    expected.reverse();
                }
                assert_eq!(found, expected);
            }
        });
    });
}

#[test]
fn transaction_sees_its_second_schema_change() {
    on_each_store(|db| {
        block_on(db.run(|tx| async move {
            catalog::create_keyspace(&tx, &KeyspaceSchema::local("ks")).await?;
            let mut schema = TableSchema::new("ks", "t", TableKind::Rows, Uuid::nil());
            schema.add_column("k", DataType::Int, ColumnKind::Partition)?;
            let mut schema = catalog::create_table(&tx, schema).await?;
            assert_eq!(catalog::table(&tx, "ks", "t").await?.unwrap().columns.len(), 1);
            schema.add_column("v", DataType::Int, ColumnKind::Regular)?;
            catalog::alter_table(&tx, &schema).await?;
            assert_eq!(catalog::table(&tx, "ks", "t").await?.unwrap().columns.len(), 2);
            Ok(())
        }))
        .unwrap();
    });
}

#[test]
fn body_may_commit_the_transaction() {
    on_each_store(|db| {
        let table = db.raw("t").unwrap();
        db.transact(|tx| {
            table.put(tx, "k", "v")?;
            tx.commit().map(drop)
        })
        .unwrap();
        assert!(table.get(&db.snapshot().unwrap(), "k").unwrap().is_some());
    });
}

/// Whether a transaction is retried does not depend on the error that its body returns.
#[test]
fn hidden_conflict_is_retried() {
    #[derive(Debug)]
    struct Mine;
    impl From<Error> for Mine {
        fn from(_: Error) -> Self {
            Self
        }
    }
    on_each_store(|db| {
        let table = db.raw("t").unwrap();
        let runs = AtomicU32::new(0);
        let result: std::result::Result<(), Mine> = db.transaction().try_transact(|tx| {
            let _ = table.get(tx, "k")?;
            if runs.fetch_add(1, Ordering::Relaxed) == 0 {
                db.transact(|other| table.put(other, "k", "meanwhile"))?;
            }
            table.put(tx, "k", "mine")?;
            tx.commit().map(drop).map_err(|_| Mine)
        });
        result.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        let found = table.get(&db.snapshot().unwrap(), "k").unwrap();
        assert_eq!(found.as_deref(), Some(&b"mine"[..]));
    });
}

#[test]
fn schema_changes_conflict() {
    on_each_store(|db| {
        block_on(async {
            db.run(|tx| async move {
                catalog::create_keyspace(&tx, &KeyspaceSchema::local("ks")).await
            })
            .await
            .unwrap();
            let options = db.transaction().isolation(Isolation::Snapshot);
            let (drops, creates) =
                (options.begin_async().await.unwrap(), options.begin_async().await.unwrap());
            catalog::drop_keyspace(&drops, "ks").await.unwrap();
            let schema = TableSchema::new("ks", "t", TableKind::Raw, Uuid::nil());
            catalog::create_table(&creates, schema).await.unwrap();
            drops.commit().await.unwrap();
            assert_eq!(creates.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
        });
    });
}

/// A cached schema of one database must not be used for another.
#[test]
fn table_handle_works_with_another_database() {
    let (one, other) = (Db::builder().in_memory(), Db::builder().in_memory());
    // Tables of the same names get other ids there, after the same number of schema changes.
    one.raw("t").unwrap();
    for db in [&other, &one] {
        db.raw("first").unwrap();
    }
    let (table, theirs) = (one.raw("t").unwrap(), other.raw("t").unwrap());
    one.transact(|tx| table.put(tx, "k", "one")).unwrap();
    other.transact(|tx| table.put(tx, "k", "other")).unwrap();
    let read = |db: &Db| theirs.get(&db.snapshot().unwrap(), "k").unwrap().unwrap();
    assert_eq!((&read(&one)[..], &read(&other)[..]), (&b"one"[..], &b"other"[..]));
}

/// The space of dropped and truncated tables is reclaimed, and only earlier snapshots see their
/// cells.
#[test]
fn space_of_dropped_tables_is_reclaimed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db =
        Db::builder().durability(Durability::None).retention(Duration::ZERO).open(&path).unwrap();
    let (dropped, emptied) = (db.raw("main.dropped").unwrap(), db.raw("main.emptied").unwrap());
    let kept = db.raw("main.kept").unwrap();
    for n in 0..100_u32 {
        let value: Vec<u8> =
            (0..2000_u32).map(|at| (at.wrapping_mul(n + 7) >> 3).to_le_bytes()[0]).collect();
        db.transact(|tx| {
            dropped.put(tx, n.to_be_bytes(), &value)?;
            emptied.put(tx, n.to_be_bytes(), &value)
        })
        .unwrap();
    }
    db.transact(|tx| kept.put(tx, "k", "v")).unwrap();
    let before = db.snapshot().unwrap();
    db.transact(|tx| {
        emptied.put(tx, "own", "write of the transaction that empties the table")?;
        block_on(catalog::drop_table(tx.as_async(), "main", "dropped"))?;
        block_on(catalog::truncate_table(tx.as_async(), "main", "emptied"))
    })
    .unwrap();
    let count =
        |table: &carnet::RawTable, snapshot: &carnet::Snapshot| table.prefix(snapshot, "").count();
    let after = db.snapshot().unwrap();
    assert_eq!((count(&emptied, &before), count(&emptied, &after)), (100, 0));
    assert!(dropped.get(&after, "k").unwrap_err().to_string().contains("dropped"));
    drop((before, after));
    db.compact().unwrap();
    let bytes: u64 = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".sst"))
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(bytes < 20_000, "{bytes} bytes of tables hold invisible cells");
    assert_eq!(count(&kept, &db.snapshot().unwrap()), 1);
}

#[test]
fn bypassing_reads_do_not_fill_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db")).unwrap();
    let table = db.raw("t").unwrap();
    db.transact(|tx| (0..2000_u32).try_for_each(|n| table.put(tx, n.to_be_bytes(), [7; 100])))
        .unwrap();
    db.flush().unwrap();
    // All of the reads need the schema and the index.
    table.get(&db.snapshot().unwrap(), "none").unwrap();
    let cached = || db.metrics().unwrap().cache_bytes;
    let before = cached();
    let reading = db.transaction().bypass_cache(true);
    let tx = block_on(reading.snapshot_async(None)).unwrap();
    let mut rows = table.prefix(&tx, "");
    let mut count = 0;
    loop {
        let page = block_on(rows.next_page()).unwrap();
        count += page.len();
        if page.is_empty() {
            break;
        }
    }
    assert_eq!((count, cached()), (2000, before));
    assert_eq!(table.prefix(&db.snapshot().unwrap(), "").count(), 2000);
    assert!(cached() > before);
}

/// A snapshot from before a restart sees the schema of its time; a new transaction sees the newest.
#[test]
fn old_snapshot_does_not_revive_old_schema() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let open = || Db::builder().durability(Durability::None).open(&path).unwrap();
    let db = open();
    let table = db.raw("t").unwrap();
    db.transact(|tx| table.put(tx, "k", "old")).unwrap();
    let before = db.snapshot().unwrap().read_timestamp();
    db.transact(|tx| block_on(catalog::truncate_table(tx.as_async(), "main", "t"))).unwrap();
    drop(db);
    let db = open();
    if let Ok(earlier) = block_on(db.snapshot_at(before)) {
        assert_eq!(block_on(table.get(&earlier, "k")).unwrap().as_deref(), Some(&b"old"[..]));
    }
    db.transact(|tx| table.put(tx, "new", "value")).unwrap();
    drop(db);
    let db = open();
    let snapshot = db.snapshot().unwrap();
    assert_eq!(table.get(&snapshot, "k").unwrap(), None);
    assert_eq!(table.get(&snapshot, "new").unwrap().as_deref(), Some(&b"value"[..]));
}

/// A snapshot whose versions were compacted away is refused after restarts too.
#[test]
fn swept_snapshot_is_refused_after_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let open = || {
        let builder = Db::builder().durability(Durability::None).retention(Duration::ZERO);
        builder.open(&path).unwrap()
    };
    let db = open();
    let table = db.raw("t").unwrap();
    db.transact(|tx| table.put(tx, "k", "old")).unwrap();
    let before = db.snapshot().unwrap().read_timestamp();
    db.transact(|tx| table.put(tx, "k", "new")).unwrap();
    db.flush().unwrap();
    db.compact().unwrap();
    let swept = block_on(db.snapshot_at(before)).map(|_| ()).unwrap_err();
    assert_eq!(swept.kind(), ErrorKind::TooOld);
    drop(db);
    let db = open();
    match block_on(db.snapshot_at(before)) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::TooOld),
        Ok(earlier) => {
            let found = block_on(table.get(&earlier, "k")).unwrap();
            assert_eq!(found.as_deref(), Some(&b"old"[..]), "the snapshot reads another version");
        }
    }
}
