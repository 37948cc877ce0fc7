//! Statements that change a part of a row without reading it.

use std::sync::Arc;

use carnet::{Db, Durability, KeyRange, PageLimit, block_on, catalog};
use carnet_cql::result::Response;
use carnet_data::row::{Change, RowDelta};
use carnet_storage::disk::sim::{Kind, SimDisk};

use crate::support::client::Client;

fn open(disk: &SimDisk) -> Client {
    let builder = Db::builder().durability(Durability::None);
    Client::on(builder.open_on(Arc::new(disk.clone())).unwrap())
}

fn with_table(disk: &SimDisk) -> Client {
    let client = open(disk);
    client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    client.run("CREATE TABLE ks.t (k int, c int, a int, b text, s int STATIC, PRIMARY KEY (k, c))");
    client
}

/// The table of the tests.
trait Table {
    fn row(&self, k: u32) -> Option<[Option<String>; 3]>;
    fn deltas_merged(&self) -> u64;
}

impl Table for Client {
    /// Returns the columns `a` and `b` of a row, and the static column.
    fn row(&self, k: u32) -> Option<[Option<String>; 3]> {
        let statement = format!("SELECT a, b, s FROM ks.t WHERE k = {k} AND c = 1");
        let Response::Rows(rows) = self.run(&statement) else { panic!("rows") };
        let text = |value: &Option<carnet::Bytes>, is_int: bool| {
            value.as_ref().map(|bytes| match is_int {
                true => i32::from_be_bytes(bytes[..].try_into().unwrap()).to_string(),
                false => String::from_utf8(bytes.to_vec()).unwrap(),
            })
        };
        let row = rows.values().into_iter().next()?;
        Some([text(&row[0], true), text(&row[1], false), text(&row[2], true)])
    }

    fn deltas_merged(&self) -> u64 {
        self.executor.db().metrics().unwrap().deltas_merged
    }
}

fn row(a: Option<u32>, b: Option<&str>, s: Option<u32>) -> Option<[Option<String>; 3]> {
    Some([a.map(|a| a.to_string()), b.map(ToOwned::to_owned), s.map(|s| s.to_string())])
}

#[test]
fn changes_of_cold_rows_read_nothing() {
    let disk = SimDisk::new(1);
    let client = with_table(&disk);
    for k in 0..200 {
        client.run(&format!("INSERT INTO ks.t (k, c, a, b, s) VALUES ({k}, 1, {k}, 'b', 7)"));
    }
    client.executor.db().flush().unwrap();
    drop(client);
    let client = open(&disk);
    client.run("UPDATE ks.t SET a = 0 WHERE k = 1000 AND c = 1"); // It reads the schema.
    let before = disk.count(Kind::Read);
    for k in 0..200 {
        client.run(&format!("UPDATE ks.t SET a = {} WHERE k = {k} AND c = 1", k + 1));
        client.run(&format!("INSERT INTO ks.t (k, c, b) VALUES ({k}, 1, 'new')"));
        client.run(&format!("UPDATE ks.t SET s = 8 WHERE k = {k}"));
        client.run(&format!("DELETE a FROM ks.t WHERE k = {} AND c = 1", k / 2 * 2));
    }
    assert_eq!(disk.count(Kind::Read), before, "no statement has read its row");
    for k in 0..200 {
        let a = (k % 2 == 1).then_some(k + 1);
        assert_eq!(client.row(k), row(a, Some("new"), Some(8)), "{k}");
    }
    assert!(client.deltas_merged() > 600);
}

#[test]
fn deltas_survive_restart_and_are_merged_by_compaction() {
    let disk = SimDisk::new(2);
    let client = with_table(&disk);
    client.run("INSERT INTO ks.t (k, c, a, b) VALUES (1, 1, 1, 'one')");
    client.executor.db().flush().unwrap();
    client.run("UPDATE ks.t SET a = 2 WHERE k = 1 AND c = 1");
    client.executor.db().flush().unwrap();
    client.run("UPDATE ks.t SET s = 3 WHERE k = 1");
    // A row of a delta only: it exists by its column.
    client.run("UPDATE ks.t SET b = 'two' WHERE k = 2 AND c = 1");
    // A change of a row that does not exist, to nothing.
    client.run("UPDATE ks.t SET b = null WHERE k = 3 AND c = 1");
    let check = |client: &Client| {
        assert_eq!(client.row(1), row(Some(2), Some("one"), Some(3)));
        assert_eq!(client.row(2), row(None, Some("two"), None));
        assert_eq!(client.row(3), None);
    };
    check(&client);
    client.executor.db().flush().unwrap();
    drop(client);
    let client = open(&disk);
    check(&client);
    assert!(client.deltas_merged() > 0);
    client.executor.db().compact().unwrap();
    drop(client);
    let client = open(&disk);
    client.executor.db().compact().unwrap();
    check(&client);
}

#[test]
fn deleted_rows_do_not_come_back_with_a_delta() {
    let disk = SimDisk::new(3);
    let client = with_table(&disk);
    client.run("INSERT INTO ks.t (k, c, a, b) VALUES (1, 1, 1, 'one')");
    client.run("DELETE FROM ks.t WHERE k = 1 AND c = 1");
    assert_eq!(client.row(1), None);
    client.run("UPDATE ks.t SET a = 2 WHERE k = 1 AND c = 1");
    assert_eq!(client.row(1), row(Some(2), None, None));
    client.run("DELETE a FROM ks.t WHERE k = 1 AND c = 1");
    assert_eq!(client.row(1), None, "it has neither a column nor a marker");
    client.run("TRUNCATE ks.t");
    client.run("UPDATE ks.t SET b = 'new' WHERE k = 1 AND c = 1");
    assert_eq!(client.row(1), row(None, Some("new"), None));
}

#[test]
fn transaction_reads_its_own_deltas() {
    let disk = SimDisk::new(4);
    let client = with_table(&disk);
    client.run("INSERT INTO ks.t (k, c, a, b) VALUES (1, 1, 1, 'one')");
    client.run(
        "BEGIN TRANSACTION \
           UPDATE ks.t SET a = 5 WHERE k = 1 AND c = 1; \
           UPDATE ks.t SET a += 1 WHERE k = 1 AND c = 1; \
           UPDATE ks.t SET b = 'two' WHERE k = 1 AND c = 1; \
         COMMIT TRANSACTION",
    );
    assert_eq!(client.row(1), row(Some(6), Some("two"), None));
}

/// Two transactions that change different columns of a row at the same time.
#[test]
fn concurrent_changes_of_a_row_do_not_conflict() {
    let disk = SimDisk::new(7);
    let client = with_table(&disk);
    client.run("INSERT INTO ks.t (k, c, a, b) VALUES (1, 1, 0, 'one')");
    let db = client.executor.db();
    let reader = block_on(db.transaction().begin_async()).unwrap();
    let table = block_on(catalog::table(&reader, "ks", "t")).unwrap().unwrap();
    let range = KeyRange::table(table.id);
    let page = block_on(reader.range_cells(&range, false, PageLimit::cells(9))).unwrap();
    let (key, payload) = page.cells.share(0).unwrap();
    let id = |name: &str| table.columns.iter().find(|column| column.name == name).unwrap().id;
    let begun: Vec<_> = (0..2).map(|_| block_on(db.transaction().begin_async()).unwrap()).collect();
    for (tx, (name, value)) in begun.iter().zip([("a", &[0, 0, 0, 7][..]), ("b", b"two")]) {
        let mut delta = RowDelta::new(table.version);
        let value = carnet::Bytes::copy_from_slice(value);
        delta.change(id(name), Change::Set { value, expiry: None });
        assert!(tx.change_cell(&key, &delta).unwrap());
    }
    for tx in begun {
        block_on(tx.commit()).unwrap();
    }
    assert_eq!(client.row(1), row(Some(7), Some("two"), None));
    reader.put_cell(key.clone(), payload).unwrap();
    assert!(block_on(reader.commit()).is_err(), "a reader of the row does conflict");
}

#[test]
fn chains_of_deltas_in_memory_are_short() {
    let disk = SimDisk::new(6);
    let client = with_table(&disk);
    client.run("INSERT INTO ks.t (k, c, a, b) VALUES (1, 1, 0, 'one')");
    for a in 1..100 {
        client.run(&format!("UPDATE ks.t SET a = {a} WHERE k = 1 AND c = 1"));
        let before = client.deltas_merged();
        assert_eq!(client.row(1), row(Some(a), Some("one"), None));
        assert!(client.deltas_merged() - before <= 8, "update {a}");
    }
    assert!(client.deltas_merged() > 300);
}

#[test]
fn raw_values_are_no_deltas() {
    let disk = SimDisk::new(5);
    let open = || Db::builder().open_on(Arc::new(disk.clone())).unwrap();
    let value = [2, 0, 0, 9];
    for _ in 0..3 {
        let db = open();
        let table = db.raw("raw").unwrap();
        db.transact(|tx| table.put(tx, b"key", value)).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(table.get(&db, b"key").unwrap().unwrap()[..], value);
    }
}
