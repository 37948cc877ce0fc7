//! Single reads through the database: of the newest committed version, without a snapshot.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use carnet::{Builder, Db, Key, RawTable, Table, catalog};
use carnet_storage::disk::sim::SimDisk;

carnet::record! {
    #[derive(Clone, Debug, PartialEq)]
    struct Account {
        balance: i64,
        note: Option<String>,
    }
}

type Accounts = Table<Key<(i64,), (String,)>, Account>;

/// Databases of each kind that needs no server.
fn each(run: impl Fn(&Db)) {
    run(&Db::builder().in_memory());
    run(&on_disk(Db::builder()));
}

fn on_disk(builder: Builder) -> Db {
    builder.open_on(Arc::new(SimDisk::new(1))).unwrap()
}

#[test]
fn newest_commit_is_read() {
    each(|db| {
        let raw = db.raw("raw").unwrap();
        let accounts: Accounts = db.table("accounts").unwrap();
        let key = Key((1,), ("here".to_owned(),));
        assert_eq!(raw.get(db, "a").unwrap(), None);
        assert_eq!(accounts.get(db, &key).unwrap(), None);
        for balance in 0..3 {
            let account = Account { balance, note: Some("x".repeat(100)) };
            db.transact(|tx| {
                raw.put(tx, "a", balance.to_be_bytes())?;
                accounts.put(tx, &key, &account)
            })
            .unwrap();
            let uncommitted = db.begin().unwrap();
            raw.put(&uncommitted, "a", "not yet").unwrap();
            accounts.delete(&uncommitted, &key).unwrap();
            for _ in 0..2 {
                assert_eq!(raw.get(db, "a").unwrap().as_deref(), Some(&balance.to_be_bytes()[..]));
                assert_eq!(accounts.get(db, &key).unwrap().as_ref(), Some(&account));
                db.flush().unwrap();
            }
        }
        db.transact(|tx| {
            raw.delete(tx, "a")?;
            accounts.delete(tx, &key)
        })
        .unwrap();
        assert_eq!(raw.get(db, "a").unwrap(), None);
        assert_eq!(accounts.get(db, &key).unwrap(), None);
    });
}

#[test]
fn schema_change_is_seen() {
    each(|db| {
        let put = |table: &RawTable, value: &str| {
            db.transact(|tx| table.put(tx, "a", value)).unwrap();
        };
        let table = db.raw("ks.t").unwrap();
        put(&table, "before");
        assert_eq!(table.get(db, "a").unwrap().as_deref(), Some(&b"before"[..]));

        // The table continues under another id, which only the other handle knows.
        carnet::block_on(db.run(|tx| async move { catalog::truncate_table(&tx, "ks", "t").await }))
            .unwrap();
        put(&db.raw("ks.t").unwrap(), "after");
        assert_eq!(table.get(db, "a").unwrap().as_deref(), Some(&b"after"[..]));

        carnet::block_on(db.run(|tx| async move { catalog::drop_table(&tx, "ks", "t").await }))
            .unwrap();
        let error = table.get(db, "a").unwrap_err();
        assert_eq!(error.kind(), carnet::ErrorKind::Invalid, "{error}");
    });
}

/// Each commit increments one number; nothing is retained, memtables are small, and files are
/// rewritten all the time. No read may miss an acknowledged commit.
#[test]
fn reads_never_miss_acknowledged_commits() {
    const COMMITS: u64 = 3_000;
    let db = on_disk(Db::builder().retention(Duration::ZERO).flush_bytes(4 << 10));
    let table = db.raw("t").unwrap();
    let put = |number: u64| db.transact(|tx| table.put(tx, "n", number.to_be_bytes())).unwrap();
    put(0);
    let (acknowledged, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let begin = Barrier::new(4);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                begin.wait();
                while !done.load(Ordering::Acquire) {
                    let least = acknowledged.load(Ordering::Acquire);
                    let found = table.get(&db, "n").unwrap().expect("it is never deleted");
                    let found = u64::from_be_bytes(found[..].try_into().unwrap());
                    assert!(found >= least, "read {found}, but {least} was acknowledged");
                }
            });
        }
        scope.spawn(|| {
            begin.wait();
            while !done.load(Ordering::Acquire) {
                db.compact().unwrap();
            }
        });
        begin.wait();
        for number in 1..=COMMITS {
            put(number);
            acknowledged.store(number, Ordering::Release);
        }
        done.store(true, Ordering::Release);
    });
}
