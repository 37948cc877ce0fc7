//! Counter tables: additions that commute.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use carnet::{Bytes, Db, Durability, block_on};
use carnet_base::SeededRng;
use carnet_cql::ast::BatchKind;
use carnet_cql::result::Response;
use carnet_cql::{BatchItem, Bound, Parameters, Values};
use carnet_storage::disk::sim::{Kind, SimDisk};

use crate::support::client::Client;

fn open(disk: &SimDisk) -> Client {
    let db = Db::builder().durability(Durability::Always).open_on(Arc::new(disk.clone()));
    Client::on(db.unwrap())
}

/// The tables of the tests.
trait Tables {
    fn create_tables(&self);
    fn row(&self, k: i32) -> Option<[Option<i64>; 3]>;
}

impl Tables for Client {
    fn create_tables(&self) {
        self.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        self.run(
            "CREATE TABLE ks.n (k int, c int, a counter, b counter, s counter STATIC, \
             PRIMARY KEY (k, c))",
        );
        self.run("CREATE TABLE ks.t (k int PRIMARY KEY, v int)");
    }

    /// Returns the columns `a`, `b` and `s` of the row (k, 1).
    fn row(&self, k: i32) -> Option<[Option<i64>; 3]> {
        let statement = format!("SELECT a, b, s FROM ks.n WHERE k = {k} AND c = 1");
        let Response::Rows(rows) = self.run(&statement) else { panic!("rows") };
        let row = rows.values().into_iter().next()?;
        let number = |at: usize| {
            row[at].as_ref().map(|bytes| i64::from_be_bytes(bytes[..].try_into().unwrap()))
        };
        Some([number(0), number(1), number(2)])
    }
}

fn in_memory() -> Client {
    let client = Client::on(Db::builder().in_memory());
    client.create_tables();
    client
}

fn on_disk(seed: u64) -> (SimDisk, Client) {
    let disk = SimDisk::new(seed);
    let client = open(&disk);
    client.create_tables();
    (disk, client)
}

#[test]
fn additions_are_summed_on_every_store() {
    for client in [in_memory(), on_disk(1).1] {
        client.run("UPDATE ks.n SET a = a + 5, b = b - 2 WHERE k = 1 AND c = 1");
        client.run("UPDATE ks.n SET a -= 1, s += 7 WHERE k = 1 AND c = 1");
        client.run("UPDATE ks.n SET s = s + 1 WHERE k = 1");
        assert_eq!(client.row(1), Some([Some(4), Some(-2), Some(8)]));
        client.run("DELETE b FROM ks.n WHERE k = 1 AND c = 1");
        assert_eq!(client.row(1), Some([Some(4), None, Some(8)]));
        client.run("UPDATE ks.n SET b = b + 3 WHERE k = 1 AND c = 1");
        assert_eq!(client.row(1), Some([Some(4), Some(3), Some(8)]));
        client.run("DELETE FROM ks.n WHERE k = 1 AND c = 1");
        assert_eq!(client.row(1), None);
        client.run("UPDATE ks.n SET a = a + 1 WHERE k = 1 AND c = 1");
        assert_eq!(client.row(1), Some([Some(1), None, Some(8)]), "it begins at zero again");
        client.run(
            "BEGIN TRANSACTION \
               UPDATE ks.n SET a = a + 1 WHERE k = 1 AND c = 1; \
               UPDATE ks.n SET a = a + 1 WHERE k = 1 AND c = 1; \
               UPDATE ks.t SET v = 1 WHERE k = 1; \
             COMMIT TRANSACTION",
        );
        assert_eq!(client.row(1), Some([Some(3), None, Some(8)]));
    }
}

#[test]
fn counters_are_aggregated_and_cast() {
    let client = in_memory();
    client.run("UPDATE ks.n SET a = a + 5 WHERE k = 1 AND c = 1");
    client.run("UPDATE ks.n SET a = a - 15 WHERE k = 1 AND c = 2");
    let select = "SELECT sum(a), avg(a), min(a), max(a), count(b) FROM ks.n WHERE k = 1";
    let Response::Rows(rows) = client.run(select) else { panic!("rows") };
    let numbers: Vec<i64> = rows.values()[0]
        .iter()
        .map(|value| i64::from_be_bytes(value.as_ref().unwrap()[..].try_into().unwrap()))
        .collect();
    assert_eq!(numbers, [-10, -5, -15, 5, 0]);
    assert_eq!(rows.columns[0].data_type, carnet::DataType::Counter);
    let select = "SELECT CAST(a AS text) FROM ks.n WHERE k = 1 AND c = 1";
    let Response::Rows(rows) = client.run(select) else { panic!("rows") };
    assert_eq!(rows.values()[0][0], Some(Bytes::from_static(b"5")));
}

/// Twelve clients add to one row. On disk, no addition reads it, and none is repeated.
#[test]
fn concurrent_additions_are_all_counted() {
    let (disk, client) = on_disk(2);
    add_concurrently(&client, 12, 50);
    assert_eq!(client.row(1), Some([Some(600), Some(-600), None]));
    client.executor.db().flush().unwrap();
    drop(client);
    let client = open(&disk);
    client.run("UPDATE ks.n SET a = a + 0 WHERE k = 2 AND c = 1"); // It reads the schema.
    let before = disk.count(Kind::Read);
    add_concurrently(&client, 2, 4);
    assert_eq!(disk.count(Kind::Read), before);
    assert_eq!(client.row(1), Some([Some(608), Some(-608), None]));

    let client = in_memory();
    add_concurrently(&client, 4, 50);
    assert_eq!(client.row(1), Some([Some(200), Some(-200), None]));
}

fn add_concurrently(client: &Client, clients: usize, additions: usize) {
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                for _ in 0..additions {
                    client.run("UPDATE ks.n SET a = a + 1, b = b - 1 WHERE k = 1 AND c = 1");
                }
            });
        }
    });
}

#[test]
fn crash_loses_and_repeats_no_acknowledged_addition() {
    for seed in 0..20 {
        let (disk, client) = on_disk(seed);
        let acknowledged = AtomicI64::new(0);
        let mut crashed = None;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 0..20 {
                        let added = "UPDATE ks.n SET a = a + 1 WHERE k = 1 AND c = 1";
                        client.run(added);
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                        if round == 10 {
                            client.executor.db().flush().unwrap();
                        }
                    }
                });
            }
            while acknowledged.load(Ordering::SeqCst) < i64::try_from(2 * seed).unwrap() {
                std::thread::yield_now();
            }
            let at_least = acknowledged.load(Ordering::SeqCst);
            crashed = Some((at_least, disk.crash(&mut SeededRng::new(seed))));
        });
        let (at_least, before) = crashed.unwrap();
        for (at_least, disk) in [(at_least, before), (60, disk.crash(&mut SeededRng::new(seed)))] {
            let client = open(&disk);
            client.executor.db().compact().unwrap();
            let found = client.row(1).and_then(|row| row[0]).unwrap_or(0);
            assert!((at_least..=60).contains(&found), "seed {seed}: {at_least}, found {found}");
        }
    }
}

#[test]
fn counters_refuse_other_statements() {
    let client = in_memory();
    for (statement, why) in [
        ("INSERT INTO ks.n (k, c, a) VALUES (1, 1, 1)", "INSERT statements are not allowed"),
        ("UPDATE ks.n SET a = 1 WHERE k = 1 AND c = 1", "Cannot set the value of counter column a"),
        ("UPDATE ks.n SET a = b + 1 WHERE k = 1 AND c = 1", "Cannot set the value"),
        ("UPDATE ks.n SET a = a * 2 WHERE k = 1 AND c = 1", "Cannot set the value"),
        ("UPDATE ks.n SET a = a + null WHERE k = 1 AND c = 1", "Invalid null value"),
        ("UPDATE ks.n SET a = a + 1.5 WHERE k = 1 AND c = 1", "counter"),
        ("UPDATE ks.n SET a = a + 1 WHERE k = 1 AND c = 1 IF a = 1", "Conditional updates"),
        ("UPDATE ks.n USING TTL 1 SET a = a + 1 WHERE k = 1 AND c = 1", "TTL"),
        ("CREATE TABLE ks.m (k counter PRIMARY KEY, v counter)", "PRIMARY KEY column 'k'"),
        ("CREATE TABLE ks.m (k int PRIMARY KEY, v counter, w int)", "Cannot mix counter"),
        ("ALTER TABLE ks.n ADD d int", "Cannot mix counter"),
        ("ALTER TABLE ks.t ADD d counter", "Cannot mix counter"),
        (
            "BEGIN BATCH UPDATE ks.n SET a = a + 1 WHERE k = 1 AND c = 1 APPLY BATCH",
            "Cannot include a counter statement in a logged batch",
        ),
        (
            "BEGIN COUNTER BATCH UPDATE ks.t SET v = 1 WHERE k = 1 APPLY BATCH",
            "Cannot include non-counter statement in a counter batch",
        ),
        (
            "BEGIN UNLOGGED BATCH UPDATE ks.t SET v = 1 WHERE k = 1; \
             UPDATE ks.n SET a = a + 1 WHERE k = 1 AND c = 1 APPLY BATCH",
            "Counter and non-counter mutations cannot exist in the same batch",
        ),
    ] {
        let message = client.refused(statement);
        assert!(message.contains(why), "{statement}: {message}");
    }
    client.run("ALTER TABLE ks.n ADD d counter");
    client.run("UPDATE ks.n SET d = d + 1 WHERE k = 1 AND c = 1");
    assert_eq!(client.row(1), Some([None, None, None]));
}

#[test]
fn batches_of_counters_are_added_once() {
    let client = in_memory();
    client.run(
        "BEGIN COUNTER BATCH \
           UPDATE ks.n SET a = a + 1 WHERE k = 1 AND c = 1; \
           UPDATE ks.n SET a = a + 1, b = b + 1 WHERE k = 1 AND c = 1; \
         APPLY BATCH",
    );
    assert_eq!(client.row(1), Some([Some(2), Some(1), None]));
    // A driver's batch of a prepared statement, with an amount, an unset one, and null.
    let text = "UPDATE ks.n SET a = a - ? WHERE k = 1 AND c = 1";
    let prepared = block_on(client.executor.prepare(&client.session, text, None)).unwrap();
    let marker = &prepared.markers[0];
    assert_eq!(marker.data_type, carnet::DataType::Counter);
    let batch = |amounts: &[Bound]| {
        let item = |amount: &Bound| BatchItem::Prepared {
            prepared: Arc::clone(&prepared),
            values: Values::Positional(vec![amount.clone()]),
        };
        let items = amounts.iter().map(item).collect();
        let parameters = Parameters::default();
        let batch = client.executor.batch(&client.session, BatchKind::Counter, items, &parameters);
        block_on(batch)
    };
    let amount = |amount: i64| Bound::Bytes(Bytes::copy_from_slice(&amount.to_be_bytes()));
    batch(&[amount(5), Bound::Unset, amount(-1)]).unwrap();
    assert_eq!(client.row(1), Some([Some(-2), Some(1), None]));
    assert!(batch(&[amount(5), Bound::Null]).is_err());
    assert_eq!(client.row(1), Some([Some(-2), Some(1), None]), "nothing of it was applied");
}
