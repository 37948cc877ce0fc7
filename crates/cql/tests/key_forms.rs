//! Equal values as elements, keys, index terms and rows: one value has one key, whatever bytes it has.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

use carnet::base::row::{Change, Collection, CollectionChange, CollectionKind, Element};
use carnet::base::{Bytes, Marker, RowDelta, RowImage, WallTime};
use carnet::{CellKey, DataType, Db, PartitionKey, Uuid, block_on, catalog};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, Executor, Parameters, Session};

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new() -> Self {
        let db = Db::builder().in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client = Self { executor, session: Session::new() };
        client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        client.run("USE ks");
        client
    }

    fn try_run(&self, statement: &str) -> Result<Response, CqlError> {
        block_on(self.executor.query(&self.session, statement, &Parameters::default()))
    }

    fn run(&self, statement: &str) -> Response {
        self.try_run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// Returns the values of the rows as literals.
    fn show(&self, statement: &str) -> String {
        let Response::Rows(rows) = self.run(statement) else { panic!("{statement}: rows") };
        let values = rows.values();
        let row = |row: &Vec<Option<Bytes>>| {
            let values = rows.columns.iter().zip(row).map(|(column, value)| match value {
                Some(value) => column.data_type.deserialize_result(value).unwrap().to_literal(),
                None => "null".to_owned(),
            });
            values.collect::<Vec<_>>().join(" ")
        };
        values.iter().map(row).collect::<Vec<_>>().join(" | ")
    }

    /// Stores elements of a collection in row 1 of `t`, with keys of any form, as earlier versions did.
    fn store(&self, column: &str, kind: CollectionKind, elements: Vec<Element>) {
        let db = self.executor.db();
        let tx = block_on(db.transaction().begin_async()).unwrap();
        let table = block_on(catalog::table(&tx, "ks", "t")).unwrap().unwrap();
        let mut delta = RowDelta::new(table.version);
        delta.marker = Some(Marker::default());
        let change = CollectionChange::replace(Collection::new(kind, elements));
        delta.change(table.column(column).unwrap().id, Change::Elements(change));
        let mut image = RowImage::new(table.version);
        delta.apply(&mut image).unwrap();
        let key = CellKey::new(table.id, &PartitionKey::new(1_i32.to_be_bytes().to_vec()), "");
        tx.put_cell(key, image.encode()).unwrap();
        block_on(tx.commit()).unwrap();
    }
}

fn decimal(text: &str, value: Option<i32>, written: Option<i64>) -> Element {
    let key = DataType::Decimal.parse_text(text).unwrap().serialize();
    let value = value.map_or_else(Bytes::new, |it| Bytes::copy_from_slice(&it.to_be_bytes()));
    Element { key, value, expiry: None, written: written.map(WallTime) }
}

#[test]
fn equal_decimals_are_one_element() {
    let client = Client::new();
    client.run("CREATE TABLE t (k int PRIMARY KEY, m map<decimal, int>, s set<decimal>, l list<decimal>, n map<frozen<list<decimal>>, int>)");
    client.run("CREATE INDEX ON t (KEYS(m))");
    client.run("CREATE INDEX ON t (s)");
    client.run("INSERT INTO t (k) VALUES (1)");
    client.run("UPDATE t SET m[1.5] = 2 WHERE k = 1");
    client.run("UPDATE t SET m[1.50] = 3, s = s + {1.5} WHERE k = 1");
    client.run("UPDATE t SET s = s + {1.50, 2.00}, n = n + {[1.0]: 1} WHERE k = 1");
    client.run("UPDATE t SET n[[1.00]] = 2, l = [1.0, 2.0] WHERE k = 1");
    for (selected, expected) in [
        ("m", "{1.5: 3}"),
        ("s", "{1.5, 2}"),
        ("n", "{[1]: 2}"),
        ("m[1.500]", "3"),
        ("map_keys(m)", "{1.5}"),
        ("m[1.50..1.5]", "{1.5: 3}"),
        ("toJson(m)", "'{\"1.5\": 3}'"),
        ("collection_count(s)", "2"),
        ("TTL(m[1.50])", "null"),
    ] {
        let shown = client.show(&format!("SELECT {selected} FROM t WHERE k = 1"));
        assert_eq!(shown, expected, "{selected}");
    }
    assert_ne!(client.show("SELECT WRITETIME(m[1.500]) FROM t WHERE k = 1"), "null");
    for relation in ["m CONTAINS KEY 1.500", "s CONTAINS 1.500"] {
        assert_eq!(client.show(&format!("SELECT k FROM t WHERE {relation}")), "1", "{relation}");
    }
    client.run("UPDATE t SET s = s - {1.500}, l = l - [1.00] WHERE k = 1");
    client.run("DELETE m[1.500] FROM t WHERE k = 1");
    assert_eq!(client.show("SELECT m, s, l FROM t WHERE k = 1"), "null {2} [2.0]");
    assert_eq!(client.show("SELECT k FROM t WHERE s CONTAINS 1.5"), "");
    assert_eq!(client.show("SELECT k FROM t WHERE m CONTAINS KEY 1.5"), "");
}

#[test]
fn stored_decimals_of_other_forms_are_found() {
    let old = || {
        let client = Client::new();
        client.run("CREATE TABLE t (k int PRIMARY KEY, m map<decimal, int>, s set<decimal>)");
        let elements = vec![
            decimal("1.5", Some(2), Some(7)),
            decimal("1.50", Some(3), Some(9)),
            decimal("2.0", Some(4), None),
        ];
        client.store("m", CollectionKind::Map, elements);
        client
    };
    let client = old();
    for (selected, expected) in [
        ("m", "{1.50: 3, 2.0: 4}"),
        ("m[1.5], WRITETIME(m[1.5])", "3 9"),
        ("m[2]", "4"),
        ("collection_count(m), map_values(m)", "2 [3, 4]"),
        ("WRITETIME(m[1.5..1.50])", "[9]"),
    ] {
        let shown = client.show(&format!("SELECT {selected} FROM t WHERE k = 1"));
        assert_eq!(shown, expected, "{selected}");
    }
    for (change, expected) in [
        ("UPDATE t SET m[1.5] = 8 WHERE k = 1", "{1.5: 8, 2.0: 4}"),
        ("UPDATE t SET m[2] = null WHERE k = 1", "{1.50: 3}"),
        ("UPDATE t SET m = m - {1.500} WHERE k = 1", "{2.0: 4}"),
        ("DELETE m[1.50] FROM t WHERE k = 1", "{2.0: 4}"),
        ("UPDATE t SET m = m + {2.00: 5} WHERE k = 1", "{1.50: 3, 2: 5}"),
    ] {
        let client = old();
        client.run(change);
        assert_eq!(client.show("SELECT m FROM t WHERE k = 1"), expected, "{change}");
    }
    client.store(
        "s",
        CollectionKind::Set,
        vec![decimal("1.5", None, None), decimal("1.50", None, None)],
    );
    client.run("UPDATE t SET s = s - {1.5} WHERE k = 1");
    assert_eq!(client.show("SELECT s FROM t WHERE k = 1"), "null");
}

#[test]
fn equal_decimals_of_a_list_name_one_row() {
    let client = Client::new();
    client.run("CREATE TABLE r (k int, c decimal, d int, PRIMARY KEY (k, c, d))");
    client.run("INSERT INTO r (k, c, d) VALUES (1, 1.5, 1)");
    client.run("INSERT INTO r (k, c, d) VALUES (1, 1.50, 1)");
    for relation in ["c IN (1.5, 1.50)", "c IN (1.5, 1.50) AND d = 1", "c IN (1.50, 1.5) AND d > 0"]
    {
        let shown = client.show(&format!("SELECT c, d FROM r WHERE k = 1 AND {relation}"));
        assert_eq!(shown, "1.5 1", "{relation}");
    }
}
