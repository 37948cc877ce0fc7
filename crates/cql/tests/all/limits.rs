//! Limits through CQL: a value above a limit is refused with its name, and does not use up the
//! server's memory.

use carnet::{Bytes, Db, TransactionLimits, Uuid, block_on};
use carnet_base::limits::VALUE_BYTES_MAX;
use carnet_cql::system::NodeInfo;
use carnet_cql::{BatchItem, Bound, CqlErrorKind, Executor, Parameters, Session, Values, ast};

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new(limits: TransactionLimits) -> Self {
        let db = Db::builder().transaction_limits(limits).in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client = Self { executor, session: Session::new() };
        client
            .run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}", &[])
            .unwrap();
        client.run("USE ks", &[]).unwrap();
        let table = "CREATE TABLE t (p blob, c blob, v blob, PRIMARY KEY (p, c))";
        client.run(table, &[]).unwrap();
        client
    }

    fn run(&self, text: &str, lens: &[usize]) -> Result<(), String> {
        let value = |len: &usize| Bound::Bytes(Bytes::from(vec![0xff; *len]));
        let values = Values::Positional(lens.iter().map(value).collect());
        let parameters = Parameters { values, ..Parameters::default() };
        let result = block_on(self.executor.query(&self.session, text, &parameters));
        result.map(drop).map_err(|error| {
            assert_eq!(error.kind(), &CqlErrorKind::Invalid, "{error}");
            error.to_string()
        })
    }

    fn insert(&self, partition: usize, clustering: usize, value: usize) -> Result<(), String> {
        self.run("INSERT INTO t (p, c, v) VALUES (?, ?, ?)", &[partition, clustering, value])
    }
}

fn refused(result: Result<(), String>, words: &[&str]) {
    let error = result.unwrap_err();
    for word in words {
        assert!(error.contains(word), "{word} in {error}");
    }
}

#[test]
fn keys_and_rows() {
    let client = Client::new(TransactionLimits::default());
    client.insert(65_535, 65_535, 1).unwrap();
    refused(client.insert(65_536, 1, 1), &["65536", "65535"]);
    // A row image also contains its columns' lengths and write times.
    client.insert(1, 1, VALUE_BYTES_MAX - 100).unwrap();
    refused(client.insert(1, 1, VALUE_BYTES_MAX), &["value of 335544", "at most 33554432"]);
}

/// The limit is Cassandra's: of the serialized values of a row's clustering columns together.
#[test]
fn written_clustering_keys() {
    let client = Client::new(TransactionLimits::default());
    client
        .run("CREATE TABLE u (p int, c blob, d int, e blob, PRIMARY KEY (p, c, d))", &[])
        .unwrap();
    let (at_most, too_long) = (65_535 - 4, 65_535 - 3);
    for statement in [
        "INSERT INTO u (p, c, d) VALUES (1, ?, 2)",
        "INSERT INTO u (p, c, d) VALUES (1, ?, 2) IF NOT EXISTS",
        "UPDATE u SET e = 0x WHERE p = 1 AND c = ? AND d = 2",
        "UPDATE u SET e = 0x WHERE p = 1 AND c IN (?, 0x01) AND d = 2",
        "UPDATE u SET e = 0x WHERE p = 1 AND (c, d) IN ((?, 2))",
        "UPDATE u SET e = 0x WHERE p = 1 AND c = ? AND d = 2 IF EXISTS",
        "DELETE FROM u WHERE p = 1 AND c = ? AND d = 2",
        "DELETE e FROM u WHERE p = 1 AND c = ? AND d = 2",
        "BEGIN BATCH INSERT INTO u (p, c, d) VALUES (1, ?, 2) APPLY BATCH",
        "BEGIN TRANSACTION UPDATE u SET e = 0x WHERE p = 1 AND c = ? AND d = 2; COMMIT TRANSACTION",
    ] {
        refused(
            client.run(statement, &[too_long]),
            &["Key length of 65536 is longer than maximum of 65535"],
        );
        client.run(statement, &[at_most]).unwrap();
    }
    // Ranges and reads name no key that could be stored, and are served as in Cassandra.
    for statement in [
        "DELETE FROM u WHERE p = 1 AND c = ?",
        "DELETE FROM u WHERE p = 1 AND c > ?",
        "SELECT e FROM u WHERE p = 1 AND c = ? AND d = 2",
        "SELECT e FROM u WHERE p = 1 AND (c, d) > (?, 1)",
        "SELECT e FROM u WHERE e = ? ALLOW FILTERING",
    ] {
        client.run(statement, &[65_536]).unwrap();
    }
    client.run("CREATE INDEX ON u (e)", &[]).unwrap();
    client.run("SELECT d FROM u WHERE e = ?", &[65_535]).unwrap();
    for statement in [
        "SELECT d FROM u WHERE e = ?",
        "SELECT d FROM u WHERE e IN (0x, ?)",
        "SELECT d FROM u WHERE e > ?",
    ] {
        let error = client.run(statement, &[65_536]);
        refused(error, &["Index expression values may not be larger than 64K"]);
    }
}

/// No single change exceeds the limit of a row, and none of them sets all columns.
#[test]
fn row_of_several_changes() {
    let client = Client::new(TransactionLimits::default());
    client.run("CREATE TABLE u (k int PRIMARY KEY, a blob, b blob, c blob, d int)", &[]).unwrap();
    let update =
        |column, len| client.run(&format!("UPDATE u SET {column} = ? WHERE k = 1"), &[len]);
    update("a", 12 << 20).unwrap();
    update("b", 12 << 20).unwrap();
    refused(update("c", 12 << 20), &["value of 377487", "at most 33554432"]);
    // The same in one transaction, where the changes are merged before they are written.
    let set = |column| format!("UPDATE u SET {column} = ? WHERE k = 2;");
    let batch = format!("BEGIN BATCH {} {} {} APPLY BATCH", set("a"), set("b"), set("c"));
    refused(client.run(&batch, &[12 << 20; 3]), &["value of 377487", "at most 33554432"]);
    update("a", 1).unwrap();
    update("c", 12 << 20).unwrap();
}

#[test]
fn cells_of_a_statement() {
    let limits = TransactionLimits { write_cells: 20, ..TransactionLimits::default() };
    let client = Client::new(limits);
    let batch = |rows: usize| {
        let row = |n| format!("INSERT INTO t (p, c, v) VALUES (0x01, 0x{n:02x}, 0x00);");
        let rows: String = (0..rows).map(row).collect();
        client.run(&format!("BEGIN BATCH {rows} APPLY BATCH"), &[])
    };
    batch(20).unwrap();
    refused(batch(21), &["21 cells", "at most 20"]);
}

/// Returns the first numbers as a list.
fn numbers(count: usize) -> String {
    (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn product_of_in_lists() {
    let client = Client::new(TransactionLimits::default());
    client
        .run("CREATE TABLE u (a int, b int, c int, d int, PRIMARY KEY ((a, b), c, d))", &[])
        .unwrap();
    let select = |a: usize, b: usize, c: usize| {
        let (a, b, c) = (numbers(a), numbers(b), numbers(c));
        let select = format!("SELECT d FROM u WHERE a IN ({a}) AND b IN ({b}) AND c IN ({c})");
        client.run(&select, &[])
    };
    select(20, 20, 25).unwrap();
    refused(select(20, 20, 26), &["20 × 20 × 26 keys", "at most 10000"]);
    refused(select(10_000, 10_000, 10_000), &["10000 × 10000 × 10000 keys"]);
    let delete = format!("DELETE FROM u WHERE a = 1 AND b IN ({0}) AND c IN ({0})", numbers(101));
    refused(client.run(&delete, &[]), &["101 × 101 keys"]);
}

#[test]
fn keys_of_a_batch() {
    let client = Client::new(TransactionLimits::default());
    client.run("CREATE TABLE u (k int PRIMARY KEY, v int)", &[]).unwrap();
    let text = format!("DELETE FROM u WHERE k IN ({})", numbers(10_000));
    let session = &client.session;
    let prepared = block_on(client.executor.prepare(session, &text, None)).unwrap();
    let item = || BatchItem::Prepared {
        prepared: std::sync::Arc::clone(&prepared),
        values: Values::default(),
    };
    let batch = |count: usize| {
        let items = (0..count).map(|_| item()).collect();
        let parameters = Parameters::default();
        let kind = ast::BatchKind::Unlogged;
        let result = block_on(client.executor.batch(session, kind, items, &parameters));
        result.map(drop).map_err(|error| error.to_string())
    };
    batch(10).unwrap();
    refused(
        batch(11),
        &["the first 11 statements", "name 110000 keys together", "more than the 100000"],
    );
}

#[test]
fn terms_of_a_statement_and_of_a_batch() {
    let client = Client::new(TransactionLimits::default());
    client.run("CREATE TABLE u (k int PRIMARY KEY, v int)", &[]).unwrap();
    let sum = |count: usize| format!("UPDATE u SET v = {} WHERE k = 1", vec!["0"; count].join("+"));
    // The key is a term, too.
    client.run(&sum(99_999), &[]).unwrap();
    refused(client.run(&sum(100_000), &[]), &["more than 100000 terms"]);
    let batch = |counts: [usize; 2]| {
        let text = |count: usize| BatchItem::Text { text: sum(count), values: Values::default() };
        let items = counts.map(text).into();
        let parameters = Parameters::default();
        let kind = ast::BatchKind::Unlogged;
        let result = block_on(client.executor.batch(&client.session, kind, items, &parameters));
        result.map(drop).map_err(|error| error.to_string())
    };
    batch([49_999, 49_999]).unwrap();
    refused(
        batch([49_999, 50_000]),
        &["the first 2 statements", "have 100001 terms together", "more than the 100000"],
    );
}

#[test]
fn values_of_a_list() {
    let client = Client::new(TransactionLimits::default());
    client.run("CREATE TABLE u (k int PRIMARY KEY, v int)", &[]).unwrap();
    let select = |count: usize| format!("SELECT v FROM u WHERE k IN ({})", numbers(count));
    client.run(&select(10_000), &[]).unwrap();
    // The parser stops at the value: the mistake after it is not reported.
    let text = select(10_001).replace(')', " oops");
    refused(client.run(&text, &[]), &["has 10001 values, more than the 10000"]);
    let tuples = "SELECT v FROM u WHERE k IN (".to_owned() + &"(1,2),".repeat(12_344) + "3)";
    refused(client.run(&tuples, &[]), &["has 12345 values"]);
    let marker = "SELECT v FROM u WHERE k IN ?";
    let list = [&10_001_i32.to_be_bytes()[..], &[0, 0, 0, 4, 0, 0, 0, 1].repeat(10_001)].concat();
    let values = Values::Positional(vec![Bound::Bytes(list.into())]);
    let parameters = Parameters { values, ..Parameters::default() };
    let result = block_on(client.executor.query(&client.session, marker, &parameters));
    refused(result.map(drop).map_err(|error| error.to_string()), &["10001 values", "10000"]);
}

#[test]
fn digits_of_a_number() {
    let client = Client::new(TransactionLimits::default());
    client.run("CREATE TABLE u (k int PRIMARY KEY, v varint, d decimal)", &[]).unwrap();
    let insert = |digits: usize, rest: &str| {
        let number = "7".repeat(digits) + rest;
        client.run(&format!("INSERT INTO u (k, v, d) VALUES (1, 1, {number})"), &[])
    };
    insert(10_000, "").unwrap();
    insert(9_998, ".5").unwrap();
    refused(insert(10_001, ""), &["10001 digits", "10000"]);
    refused(insert(10_000, ".5"), &["10002 digits"]);
    let negative = format!("INSERT INTO u (k, v) VALUES (1, -{})", "7".repeat(1_000_000));
    refused(client.run(&negative, &[]), &["1000000 digits"]);
}
