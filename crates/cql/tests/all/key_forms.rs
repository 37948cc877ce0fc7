//! Equal values as elements, keys, index terms and rows: one value has one key, whatever bytes it has.

use std::sync::Arc;

use carnet::derived::{Differences, check_index, check_view};
use carnet::{CellKey, DataType, Db, PartitionKey, Uuid, block_on, catalog};
use carnet_base::{Bytes, TableId, WallTime};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, Executor, Parameters, Session};
use carnet_data::row::{Change, Collection, CollectionChange, CollectionKind, Element};
use carnet_data::{Marker, RowDelta, RowImage};
use carnet_storage::disk::sim::SimDisk;

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new() -> Self {
        Self::on(Db::builder().in_memory())
    }

    fn on(db: Db) -> Self {
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client = Self { executor, session: Session::new() };
        client
            .run("CREATE KEYSPACE IF NOT EXISTS ks WITH replication = {'class': 'SimpleStrategy'}");
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
        delta.change(table.column(column).unwrap().id, Change::from(change));
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

/// A table that has the user-defined type `a` in each kind of key.
const KEYED: [&str; 6] = [
    "CREATE TABLE t (k int PRIMARY KEY, m map<frozen<a>, int>, s set<frozen<a>>, l list<frozen<a>>, \
     n map<frozen<tuple<frozen<list<frozen<a>>>, int>>, int>, u frozen<a>, o frozen<b>)",
    "CREATE INDEX by_u ON t (u)",
    "CREATE INDEX by_keys ON t (KEYS(m))",
    "CREATE INDEX by_s ON t (s)",
    "CREATE MATERIALIZED VIEW v AS SELECT k, u FROM t WHERE u IS NOT NULL AND k IS NOT NULL \
     PRIMARY KEY (u, k)",
    "CREATE MATERIALIZED VIEW w AS SELECT k, o FROM t WHERE o IS NOT NULL AND k IS NOT NULL \
     PRIMARY KEY (k, o)",
];

const FIRST_ROW: &str = "UPDATE t SET m[{x: 1}] = 1, s = {{x: 1}, {x: 2}}, l = [{x: 1}, {x: 2}], \
                         n = {([{x: 1}], 1): 1}, u = {x: 1}, o = {i: {x: 1}, y: 1} WHERE k = 1";

impl Client {
    /// Compares the views and indexes of `t` with its rows.
    fn check(&self) {
        block_on(async {
            let tx = self.executor.db().snapshot_async().await.unwrap();
            let schema = catalog::table(&tx, "ks", "t").await.unwrap().unwrap();
            for index in &schema.indexes {
                let differences = check_index(&tx, &schema, index).await.unwrap();
                assert_eq!(differences, Differences::default(), "{}", index.name);
            }
            for view in &schema.views {
                let differences = check_view(&tx, &schema, view).await.unwrap();
                assert_eq!(differences, Differences::default(), "{}", view.name);
            }
        });
    }
}

#[test]
fn added_fields_leave_keys_unchanged() {
    let client = Client::new();
    client.run("CREATE TYPE a (x int)");
    client.run("CREATE TYPE b (i frozen<a>, y int)");
    KEYED.iter().for_each(|statement| drop(client.run(statement)));
    client.run(FIRST_ROW);
    client.run("INSERT INTO t (k, u) VALUES (3, {x: 3})");
    client.run("ALTER TYPE a ADD z int");
    client.run("ALTER TYPE b ADD z int");
    client.check();
    for (select, expected) in [
        ("k FROM t WHERE u = {x: 1}", "1"),
        ("k FROM t WHERE u IN ({x: 1, z: null}, {x: 2})", "1"),
        ("k FROM t WHERE u > {x: 1}", "3"),
        ("k FROM t WHERE u < {x: 1, z: 0}", "1"),
        ("k FROM t WHERE m CONTAINS KEY {x: 1}", "1"),
        ("k FROM t WHERE s CONTAINS {x: 2, z: null}", "1"),
        ("u, k FROM v WHERE u = {x: 1}", "{x: 1, z: null} 1"),
        ("o FROM w WHERE k = 1 AND o = {i: {x: 1}, y: 1}", "{i: {x: 1, z: null}, y: 1, z: null}"),
        ("m[{x: 1}], collection_count(s) FROM t WHERE k = 1", "1 2"),
        ("map_keys(n) FROM t WHERE k = 1", "{([{x: 1, z: null}], 1)}"),
    ] {
        assert_eq!(client.show(&format!("SELECT {select}")), expected, "{select}");
    }
    // Equal keys are replaced, and no second element is added.
    client.run(
        "UPDATE t SET m[{x: 1}] = 2, s = s + {{x: 1, z: null}}, n = n + {([{x: 1}], 1): 2}, \
         l = l - [{x: 1}] WHERE k = 1",
    );
    let shown = client.show("SELECT m, s, l, n FROM t WHERE k = 1");
    let expected = "{{x: 1, z: null}: 2} {{x: 1, z: null}, {x: 2, z: null}} [{x: 2, z: null}] \
                    {([{x: 1, z: null}], 1): 2}";
    assert_eq!(shown, expected);
    client.run("UPDATE t SET u = {x: 1, z: 5}, o = {i: {x: 1, z: 5}} WHERE k = 1");
    client.check();
    assert_eq!(client.show("SELECT k FROM v WHERE u = {x: 1}"), "");
    assert_eq!(client.show("SELECT k FROM v WHERE u = {x: 1, z: 5}"), "1");
    assert_eq!(client.show("SELECT o FROM w WHERE k = 1"), "{i: {x: 1, z: 5}, y: null, z: null}");
    client.run("UPDATE t SET s = s - {{x: 1}}, m = m - {{x: 1}}, n = {} WHERE k = 1");
    client.run("DELETE u, o FROM t WHERE k = 1");
    client.run("DELETE FROM t WHERE k = 3");
    assert_eq!(client.show("SELECT m, s, n FROM t WHERE k = 1"), "null {{x: 2, z: null}} null");
    assert_eq!(client.show("SELECT k FROM v"), "");
    assert_eq!(client.show("SELECT k FROM w"), "");
    client.check();
}

#[test]
fn stored_elements_with_other_fields_are_found() {
    let client = Client::new();
    client.run("CREATE TYPE a (x int, y int)");
    client.run("CREATE TABLE t (k int PRIMARY KEY, m map<frozen<a>, int>)");
    // As versions wrote them that stored all fields of their time: {x: 1} with one field, then with two.
    let element = |fields: &[i32], value: i32| {
        let lengths = fields.iter().flat_map(|field| match field {
            0 => [vec![0xff; 4], Vec::new()],
            field => [4_i32.to_be_bytes().to_vec(), field.to_be_bytes().to_vec()],
        });
        let key = Bytes::from(lengths.flatten().collect::<Vec<u8>>());
        Element { key, value: Bytes::copy_from_slice(&value.to_be_bytes()), ..Element::default() }
    };
    for (stored, shown) in [
        (vec![element(&[1, 0], 2)], "{{x: 1, y: null}: 2}"),
        (vec![element(&[1], 2), element(&[1, 0], 2)], "{{x: 1, y: null}: 2}"),
        (vec![element(&[1], 2), element(&[1, 3], 4)], "{{x: 1, y: null}: 2, {x: 1, y: 3}: 4}"),
    ] {
        for (change, changed) in [("m[{x: 1}] = 7", "7"), ("m[{x: 1}] = null", "null")] {
            client.store("m", CollectionKind::Map, stored.clone());
            assert_eq!(client.show("SELECT m FROM t WHERE k = 1"), shown);
            assert_eq!(client.show("SELECT m[{x: 1}] FROM t WHERE k = 1"), "2");
            client.run(&format!("UPDATE t SET {change} WHERE k = 1"));
            assert_eq!(client.show("SELECT m[{x: 1, y: null}] FROM t WHERE k = 1"), changed);
            let rest = client.show("SELECT m[{x: 1, y: 3}] FROM t WHERE k = 1");
            assert_eq!(rest, if shown.contains("y: 3") { "4" } else { "null" });
        }
    }
}

#[test]
fn keys_of_earlier_types_refuse_added_fields() {
    let disk = SimDisk::new(7);
    let client = Client::on(Db::builder().open_on(Arc::new(disk.clone())).unwrap());
    client.run("CREATE TYPE a (x int)");
    client.run("CREATE TYPE b (i frozen<a>, y int)");
    let db = client.executor.db();
    let record = CellKey::new(TableId(2), &PartitionKey::new(Bytes::new()), "ks");
    let forget_keys = db.run(|tx| {
        let record = record.clone();
        async move {
            let stored = tx.get_cell(&record).await?.unwrap();
            let stored = String::from_utf8(stored.payload.to_vec()).unwrap();
            let old = stored.replace(",\"open_keys\":true", "");
            assert_ne!(old, stored);
            tx.put_cell(record, old.into())
        }
    });
    block_on(forget_keys).unwrap();
    drop(client);
    let client = Client::on(Db::builder().open_on(Arc::new(disk)).unwrap());
    KEYED.iter().for_each(|statement| drop(client.run(statement)));
    client.run(FIRST_ROW);
    client.check();
    assert_eq!(client.show("SELECT k FROM t WHERE u = {x: 1}"), "1");
    client.run("ALTER TYPE a RENAME x TO z");
    client.run("ALTER TYPE a RENAME z TO x");
    for derived in ["view v", "view w", "index by_u", "index by_keys", "index by_s"] {
        let error = client.try_run("ALTER TYPE a ADD z int").unwrap_err().to_string();
        assert!(error.contains(&format!("keys of {derived} of table t")), "{error}");
        let kind = if derived.starts_with("view") { "MATERIALIZED VIEW" } else { "INDEX" };
        let name = derived.split_once(' ').unwrap().1;
        client.run(&format!("DROP {kind} {name}"));
    }
    client.run("ALTER TYPE a ADD z int");
    // The element was stored with one field.
    client.run("UPDATE t SET m[{x: 1}] = 2, s = s - {{x: 1}} WHERE k = 1");
    assert_eq!(
        client.show("SELECT m, s FROM t WHERE k = 1"),
        "{{x: 1, z: null}: 2} {{x: 2, z: null}}"
    );
    // Keys may have the type again.
    client.run(KEYED[1]);
    client.run("ALTER TYPE a ADD q int");
    assert_eq!(client.show("SELECT k FROM t WHERE u = {x: 1}"), "1");
}
