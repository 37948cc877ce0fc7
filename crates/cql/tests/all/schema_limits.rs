//! Limits of the schema: no statement stores a schema that cannot be read, dropped or sent to drivers.

use std::sync::Arc;

use carnet::{CellKey, Db, Durability, PartitionKey, Uuid, block_on};
use carnet_base::TableId;
use carnet_cql::Parameters;
use carnet_storage::disk::sim::SimDisk;

use crate::support::client::Client;

/// Client of a database on a simulated disk.
struct Reopened {
    disk: SimDisk,
    client: Client,
}

impl Reopened {
    fn new() -> Self {
        let disk = SimDisk::new(1);
        let client = open(&disk);
        Self { disk, client }
    }

    /// Closes and opens the database, and reads the whole schema as a driver does.
    fn reopen(self) -> Self {
        let Self { disk, client } = self;
        drop(client);
        let client = open(&disk);
        for table in ["keyspaces", "tables", "columns", "types", "views", "indexes"] {
            client.all_rows(&format!("SELECT * FROM system_schema.{table}"), None);
        }
        client.run("DESCRIBE SCHEMA");
        Self { disk, client }
    }

    fn run(&self, statement: &str) {
        self.client.run(statement);
    }

    /// Runs a statement that is refused, and returns the error's text.
    fn refused(&self, statement: &str) -> String {
        match self.client.try_run(statement) {
            Err(error) => error.message().to_owned(),
            Ok(_) => panic!("accepted: {}", &statement[..statement.len().min(100)]),
        }
    }
}

fn open(disk: &SimDisk) -> Client {
    let builder = Db::builder().durability(Durability::None);
    Client::new(builder.open_on(Arc::new(disk.clone())).unwrap())
}

/// Makes a chain of types, each in the next one, of this depth.
fn chain(db: &Reopened, depth: usize) {
    db.run("CREATE TYPE t1 (a int)");
    for n in 2..depth {
        db.run(&format!("CREATE TYPE t{n} (a frozen<t{}>)", n - 1));
    }
}

#[test]
fn chained_types_are_limited_in_depth() {
    let db = Reopened::new();
    chain(&db, 32);
    let error = db.refused("CREATE TYPE t32 (a frozen<t31>)");
    assert!(error.contains("33 types deep; at most 32"), "{error}");
    let error = db.refused("ALTER TYPE t1 ADD b frozen<set<int>>");
    assert!(error.contains("type t31") && error.contains("at most 32"), "{error}");
    let db = db.reopen();
    db.run("CREATE TABLE t (k int PRIMARY KEY, v t31, w frozen<t31>)");
    db.run("INSERT INTO t (k, v) VALUES (1, {a: null})");
    assert_eq!(db.client.all_rows("SELECT v, w FROM t", None).len(), 1);
    let db = db.reopen();
    db.run("DROP TABLE t");
    for n in (1..32).rev() {
        db.run(&format!("DROP TYPE t{n}"));
    }
    assert!(db.reopen().client.all_rows("SELECT * FROM system_schema.types", None).is_empty());
}

#[test]
fn list_of_deep_type_leaves_table_readable() {
    let db = Reopened::new();
    chain(&db, 31);
    let nested = |depth: usize| format!("{}t3{}", "frozen<list<".repeat(depth), ">>".repeat(depth));
    let error = db.refused(&format!("CREATE TABLE t (k int PRIMARY KEY, v {})", nested(29)));
    assert!(error.contains("33 types deep; at most 32"), "{error}");
    db.run(&format!("CREATE TABLE t (k int PRIMARY KEY, v {})", nested(28)));
    db.run("ALTER TABLE t ADD w list<frozen<t30>>");
    let error = db.refused("ALTER TABLE t ADD x list<frozen<list<frozen<t30>>>>");
    assert!(error.contains("column x") && error.contains("at most 32"), "{error}");
    let db = db.reopen();
    db.run("INSERT INTO t (k, v, w) VALUES (1, [], [])");
    assert_eq!(db.client.all_rows("SELECT * FROM t", None).len(), 1);
    db.run("DROP TABLE t");
}

#[test]
fn types_are_limited_in_expanded_size() {
    let db = Reopened::new();
    let fields = |of: &str| (0..100).map(|n| format!("f{n} {of}")).collect::<Vec<_>>().join(", ");
    db.run(&format!("CREATE TYPE t0 ({})", fields("int")));
    db.run(&format!("CREATE TYPE t1 ({})", fields("frozen<t0>")));
    for of in ["frozen<t1>", "frozen<list<frozen<t1>>>"] {
        let error = db.refused(&format!("CREATE TYPE t2 ({})", fields(of)));
        assert!(error.contains("bytes") && error.contains("at most 262144"), "{error}");
    }
    db.run("CREATE TYPE t2 (a frozen<t1>, b frozen<t1>, c frozen<t1>)");
    let error = db.refused("ALTER TYPE t2 ADD d frozen<t1>");
    assert!(error.contains("at most 262144"), "{error}");
    let error = db.refused("CREATE TABLE t (k int PRIMARY KEY, v tuple<t1, t1, t1, t1>)");
    assert!(error.contains("column v") && error.contains("at most 262144"), "{error}");
    db.run("CREATE TABLE t (k int PRIMARY KEY, v frozen<t1>)");
    let error = (0..60)
        .find_map(|n| db.client.try_run(&format!("ALTER TABLE t ADD v{n} frozen<t1>")).err());
    let error = error.expect("a table of 60 such columns is too large");
    assert!(error.message().contains("at most 4194304"), "{error}");
    let db = db.reopen();
    db.run("INSERT INTO t (k, v) VALUES (1, {f0: {f1: 7}})");
    assert_eq!(db.client.all_rows("SELECT * FROM t", None).len(), 1);
    db.run("DROP TABLE t");
    db.run("DROP TYPE t2");
    db.run("DROP TYPE t1");
}

#[test]
fn type_never_contains_itself() {
    let db = Reopened::new();
    db.run("CREATE TYPE r (a int)");
    db.run("CREATE TYPE s (r frozen<r>)");
    for field in ["frozen<r>", "frozen<s>", "frozen<list<frozen<s>>>", "frozen<tuple<int, s>>"] {
        let error = db.refused(&format!("ALTER TYPE r ADD me {field}"));
        assert!(error.contains("type r would contain itself"), "{error}");
    }
    db.run("ALTER TYPE r ADD b int");
    let db = db.reopen();
    db.run("DROP TYPE s");
    db.run("DROP TYPE r");
}

#[test]
fn altered_type_is_seen_through_types_that_use_it() {
    let db = Reopened::new();
    db.run("CREATE TYPE inner (a int)");
    db.run("CREATE TYPE outer (i frozen<inner>)");
    db.run("CREATE TABLE t (k int PRIMARY KEY, v frozen<outer>, l list<frozen<outer>>)");
    db.run("CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k IS NOT NULL PRIMARY KEY (k)");
    db.run("CREATE TABLE keyed (k frozen<outer> PRIMARY KEY)");
    db.run("INSERT INTO t (k, v) VALUES (1, {i: {a: 7}})");
    let error = db.refused("ALTER TYPE inner ADD b int");
    assert!(error.contains("column k of the primary key of table keyed"), "{error}");
    db.run("DROP TABLE keyed");
    db.run("ALTER TYPE inner ADD b int");
    db.run("ALTER TYPE inner RENAME a TO x");
    let db = db.reopen();
    db.run("INSERT INTO t (k, v) VALUES (2, {i: {x: 7, b: 8}})");
    for table in ["t", "w"] {
        let found =
            db.client.all_rows(&format!("SELECT to_json(v) FROM {table} WHERE k = 2"), None);
        let expected = &br#"{"i": {"x": 7, "b": 8}}"#[..];
        assert_eq!(found[0][0].as_deref(), Some(expected), "{table}");
    }
    let error = db.refused("DROP TYPE inner");
    assert!(error.contains("still used by user types outer"), "{error}");
    let error = db.refused("DROP TYPE outer");
    assert!(error.contains("still used by tables t"), "{error}");
}

/// Record of a keyspace of an earlier version, with a copy of each type in the types that use it. The
/// type `loop` contains itself.
const OLD_KEYSPACE: &str = r#"{"format":2,"replication":{"class":"SimpleStrategy",
    "replication_factor":"1"},"durable_writes":true,"types":[
    {"keyspace":"ks","name":"inner","fields":[["a",9]]},
    {"keyspace":"ks","name":"loop","fields":[["a",9],
        ["me",{"udt":{"keyspace":"ks","name":"loop","fields":[["a",9]]}}]]},
    {"keyspace":"ks","name":"outer","fields":[
        ["i",{"udt":{"keyspace":"ks","name":"inner","fields":[["a",9]]}}]]}]}"#;

/// Record of a table of an earlier version.
const OLD_TABLE: &str = r#"{"format":2,"id":1000,"version":1,"kind":"rows","next_column":2,
    "uuid":"UUID","columns":[{"id":0,"name":"k","type":9,"kind":"partition"},
    {"id":1,"name":"v","type":{"udt":{"keyspace":"ks","name":"outer","fields":[
        ["i",{"udt":{"keyspace":"ks","name":"inner","fields":[["a",9]]}}]]}},"kind":"regular"}],
    "options":{}}"#;

/// Replaces the records of the keyspace and of the table `t` by those of an earlier version.
fn store_old_records(db: &Db) {
    let cell = |table: u32, partition: &'static str, name: &str| {
        let partition = PartitionKey::new(partition.as_bytes());
        CellKey::new(TableId(table), &partition, name)
    };
    let table = OLD_TABLE.replace("UUID", &Uuid::nil().to_string());
    let put = db.run(|tx| {
        let table = table.clone();
        async move {
            tx.put_cell(cell(2, "", "ks"), OLD_KEYSPACE.into())?;
            tx.put_cell(cell(3, "ks", "t"), table.into())
        }
    });
    block_on(put).unwrap();
}

#[test]
fn database_with_copied_types_is_upgraded() {
    let db = Reopened::new();
    db.run("CREATE TABLE t (k int PRIMARY KEY, v int)");
    store_old_records(db.client.executor.db());
    let mut db = db.reopen();
    db.run("INSERT INTO t (k, v) VALUES (1, {i: {a: 7}})");
    // The first change of a type puts the keyspace and the tables in the present form.
    for change in ["ALTER TYPE inner ADD b int", "DROP TYPE loop", "ALTER TABLE t ADD w outer"] {
        db.run(change);
        db = db.reopen();
    }
    db.run("INSERT INTO t (k, v) VALUES (2, {i: {a: 7, b: 8}})");
    let found = db.client.all_rows("SELECT to_json(v) FROM t WHERE k IN (1, 2)", None);
    let found: Vec<&[u8]> = found.iter().map(|row| row[0].as_deref().unwrap()).collect();
    let expected = [&br#"{"i": {"a": 7, "b": null}}"#[..], &br#"{"i": {"a": 7, "b": 8}}"#[..]];
    assert_eq!(found, expected);
    let error = db.refused("DROP TYPE inner");
    assert!(error.contains("still used by user types outer"), "{error}");
    db.run("DROP TABLE t");
    db.run("DROP TYPE outer");
    db.run("DROP TYPE inner");
    assert!(db.reopen().client.all_rows("SELECT * FROM system_schema.types", None).is_empty());
}

#[test]
fn long_names_are_refused_by_create_and_alter() {
    let db = Reopened::new();
    let (most, long, longest) = ("n".repeat(255), "n".repeat(256), "n".repeat(70_000));
    db.run(&format!("CREATE TYPE \"{most}\" (\"{most}\" int)"));
    db.run(&format!("CREATE TABLE t (k int PRIMARY KEY, \"{most}\" int)"));
    for name in [&long, &longest] {
        for refused in [
            format!("CREATE TABLE u (k int PRIMARY KEY, \"{name}\" int)"),
            format!("ALTER TABLE t ADD \"{name}\" int"),
            format!("ALTER TABLE t RENAME k TO \"{name}\""),
            format!("CREATE TYPE \"{name}\" (a int)"),
            format!("CREATE TYPE u (\"{name}\" int)"),
            format!("ALTER TYPE \"{most}\" ADD \"{name}\" int"),
            format!("ALTER TYPE \"{most}\" RENAME \"{most}\" TO \"{name}\""),
        ] {
            let error = db.refused(&refused);
            let expected = format!("has {} bytes; at most 255", name.len());
            assert!(error.contains(&expected), "{error}");
            assert!(error.len() < 200, "{error}");
        }
    }
    let error = db.refused(&format!("CREATE INDEX {long} ON t (\"{most}\")"));
    assert!(error.contains("of 256 bytes") && error.contains("1 to 222"), "{error}");
    // The name that an index gets by default is cut to the length of a name.
    db.run(&format!("CREATE INDEX ON t (\"{most}\")"));
    let db = db.reopen();
    db.client.all_rows("SELECT * FROM t", None);
}

#[test]
fn numbers_are_limited_by_create_and_alter() {
    let db = Reopened::new();
    let list =
        |count: usize| (0..count).map(|n| format!("c{n} int")).collect::<Vec<_>>().join(", ");
    let error = db.refused(&format!("CREATE TABLE t ({}, PRIMARY KEY (c0))", list(1_001)));
    assert!(error.contains("has 1001 columns; at most 1000"), "{error}");
    db.run(&format!("CREATE TABLE t ({}, PRIMARY KEY (c0))", list(999)));
    let error = db.refused("ALTER TABLE t ADD (x int, y int)");
    assert!(error.contains("has 1001 columns; at most 1000"), "{error}");
    db.run("ALTER TABLE t ADD x int");
    let error = db.refused(&format!("CREATE TYPE u ({})", list(1_001)));
    assert!(error.contains("has 1001 fields; at most 1000"), "{error}");
    db.run(&format!("CREATE TYPE u ({})", list(1_000)));
    let error = db.refused("ALTER TYPE u ADD x int");
    assert!(error.contains("has 1001 fields; at most 1000"), "{error}");
    let tuple = vec!["int"; 1_001].join(", ");
    let error = db.refused(&format!("CREATE TABLE w (k int PRIMARY KEY, v tuple<{tuple}>)"));
    assert!(error.contains("has 1001 fields; at most 1000"), "{error}");
    db.reopen();
}

#[test]
fn numbers_of_keyspaces_and_types_are_limited() {
    let client = Client::new(Db::builder().in_memory());
    let create = |number: usize| {
        format!(
            "CREATE KEYSPACE k{number} WITH replication = \
             {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
    };
    // The client has created its own keyspace.
    for number in 1..1_000 {
        client.run(&create(number));
    }
    let error = client.query(&create(1_000), &Parameters::default()).unwrap_err();
    assert!(error.message().contains("1001; at most 1000"), "{error}");
    client.run("DROP KEYSPACE k7");
    client.run(&create(1_000));
    for number in 0..1_000 {
        client.run(&format!("CREATE TYPE k1.u{number} (a int)"));
    }
    let error = client.query("CREATE TYPE k1.u (a int)", &Parameters::default()).unwrap_err();
    assert!(error.message().contains("at most 1000"), "{error}");
}
