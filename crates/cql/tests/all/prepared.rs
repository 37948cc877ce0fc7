//! Prepared statements, their markers, and pages.

use std::sync::Arc;

use carnet::{Bytes, DataType, Db, Uuid, Value, block_on};
use carnet_admission::AdmissionLimits;
use carnet_base::{Rng, SeededRng, murmur3};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    BatchItem, Bound, CqlError, CqlErrorKind, Executor, Parameters, Prepared, Session, Timestamps,
    Values, ast,
};

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new(setup: &[&str]) -> Self {
        Self::with_timestamps(Timestamps::default(), setup)
    }

    fn with_timestamps(timestamps: Timestamps, setup: &[&str]) -> Self {
        Self::of_database(Db::builder().in_memory(), timestamps, setup)
    }

    fn of_database(db: Db, timestamps: Timestamps, setup: &[&str]) -> Self {
        let node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
        let executor = Executor::with_timestamps(db, node, timestamps);
        let client = Self { executor, session: Session::new() };
        client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        client.run("USE ks");
        for statement in setup {
            client.run(statement);
        }
        client
    }

    fn query(&self, text: &str, parameters: &Parameters) -> Result<Response, CqlError> {
        block_on(self.executor.query(&self.session, text, parameters))
    }

    fn run(&self, text: &str) -> Response {
        self.query(text, &Parameters::default()).unwrap()
    }

    fn rows(&self, text: &str) -> Rows {
        rows(self.run(text))
    }

    fn prepare(&self, text: &str) -> Arc<Prepared> {
        block_on(self.executor.prepare(&self.session, text, None)).unwrap()
    }

    fn execute(&self, prepared: &Prepared, values: Values) -> Result<Response, CqlError> {
        let parameters = Parameters { values, ..Parameters::default() };
        block_on(self.executor.execute(&self.session, prepared, &parameters))
    }

    /// Reads all pages, and runs `between` after each page.
    fn pages(&self, text: &str, page_rows: usize, mut between: impl FnMut()) -> Vec<Rows> {
        let mut pages = Vec::new();
        let mut parameters = Parameters { page_rows: Some(page_rows), ..Parameters::default() };
        loop {
            let page = rows(self.query(text, &parameters).unwrap());
            parameters.paging_state.clone_from(&page.paging_state);
            pages.push(page);
            if parameters.paging_state.is_none() {
                return pages;
            }
            between();
        }
    }
}

fn rows(response: Response) -> Rows {
    match response {
        Response::Rows(rows) => rows,
        other => panic!("no rows: {other:?}"),
    }
}

fn int(n: i32) -> Bound {
    Bound::Bytes(Value::Int(n).serialize())
}

fn text(s: &str) -> Bound {
    Bound::Bytes(Value::Text(s.to_owned()).serialize())
}

fn ints(rows: &Rows, column: usize) -> Vec<i32> {
    let value = |row: &Vec<Option<Bytes>>| match &row[column] {
        Some(bytes) => i32::from_be_bytes(bytes[..].try_into().unwrap()),
        None => i32::MIN,
    };
    rows.values().iter().map(value).collect()
}

const TABLE: &str = "CREATE TABLE t (k int, c int, s text STATIC, v text, PRIMARY KEY (k, c))";

#[test]
fn markers_have_the_names_and_types_of_their_roles() {
    let client = Client::new(&[
        TABLE,
        "CREATE TABLE p (a text, b bigint, c int, v blob, PRIMARY KEY ((a, b), c))",
    ]);
    let described = |text: &str| -> (Vec<String>, Vec<u16>, Vec<String>) {
        let prepared = client.prepare(text);
        let shown = |specs: &[carnet_cql::result::ColumnSpec]| {
            specs.iter().map(|spec| format!("{} {}", spec.name, spec.data_type)).collect()
        };
        (shown(&prepared.markers), prepared.partition_key_indexes.clone(), shown(&prepared.result))
    };
    let no_rows: Vec<String> = Vec::new();
    assert_eq!(
        described("INSERT INTO t (v, c, k) VALUES (?, ?, ?)"),
        (vec!["v text".into(), "c int".into(), "k int".into()], vec![2], no_rows.clone())
    );
    assert_eq!(
        described("SELECT v, s FROM t WHERE k = ? AND c IN ? LIMIT ?"),
        (
            vec!["k int".into(), "in(c) list<int>".into(), "[limit] int".into()],
            vec![0],
            vec!["v text".into(), "s text".into()]
        )
    );
    assert_eq!(
        described("UPDATE p SET v = :new WHERE b = ? AND a = ? AND c = 1"),
        (vec!["new blob".into(), "b bigint".into(), "a text".into()], vec![2, 1], no_rows.clone())
    );
    assert_eq!(
        described("SELECT c FROM p WHERE token(a, b) > ? AND token(a, b) <= token(?, ?)").0,
        ["partition key token bigint", "arg0(system.token) text", "arg1(system.token) bigint"]
    );
    // The value of a function's argument is not a partition key.
    assert_eq!(described("SELECT c FROM p WHERE token(a, b) > token(?, ?)").1, Vec::<u16>::new());
    assert_eq!(
        described("SELECT (int)?, toTimestamp(?) FROM t WHERE k = ? PER PARTITION LIMIT ?").0,
        ["[selection] int", "[selection] timeuuid", "k int", "[per_partition_limit] int"]
    );
    assert_eq!(
        described("INSERT INTO t (k, c) VALUES (:c, :k)"),
        (vec!["c int".into(), "k int".into()], vec![0], no_rows.clone())
    );
    assert_eq!(described("SELECT v FROM t WHERE k IN (?, ?)").1, [1]);
    assert_eq!(described("UPDATE t SET v = ? WHERE k = 1 + ? AND c = 1").1, Vec::<u16>::new());
    let transaction = "BEGIN TRANSACTION LET x = (SELECT v FROM t WHERE k = ? AND c = ?); \
                       IF x.v = ? THEN UPDATE t SET v = ? WHERE k = ? AND c = ?; END IF \
                       COMMIT TRANSACTION";
    assert_eq!(
        described(transaction).0,
        ["k int", "c int", "x.v text", "v text", "k int", "c int"]
    );
    assert_eq!(described(transaction).2, ["[applied] boolean"]);
    assert_eq!(
        described("SELECT key FROM system.local WHERE key = ?"),
        (vec!["key text".into()], vec![0], vec!["key text".into()])
    );
}

#[test]
fn tuples_are_bound_to_one_marker() {
    let client = Client::new(&[
        "CREATE TABLE u (k int, a int, b text, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a DESC)",
    ]);
    for (a, b) in [(1, "x"), (1, "y"), (2, "x"), (3, "x")] {
        client.run(&format!("INSERT INTO u (k, a, b) VALUES (1, {a}, '{b}')"));
    }
    let tuple = |a: u8, b: &str| {
        let length = u8::try_from(b.len()).unwrap();
        [&[0, 0, 0, 4, 0, 0, 0, a, 0, 0, 0, length][..], b.as_bytes()].concat()
    };
    let found = |query: &str, bytes: Vec<u8>| {
        let prepared = client.prepare(query);
        let spec = &prepared.markers[0];
        let found = client.execute(&prepared, Values::Positional(vec![Bound::Bytes(bytes.into())]));
        (format!("{} {}", spec.name, spec.data_type), found.map(|found| ints(&rows(found), 0)))
    };
    let select = "SELECT a FROM u WHERE k = 1 AND (a, b)";
    let (name, after) = found(&format!("{select} > ?"), tuple(1, "x"));
    assert_eq!((name.as_str(), after.unwrap()), ("(a,b) tuple<int, text>", vec![3, 2, 1]));
    let (_, same) = found(&format!("{select} = ?"), tuple(2, "x"));
    assert_eq!(same.unwrap(), [2]);
    let (first, second) = (tuple(3, "x"), tuple(1, "y"));
    let lengths = [&first, &second].map(|tuple| u8::try_from(tuple.len()).unwrap());
    let list = [&[0, 0, 0, 2, 0, 0, 0, lengths[0]][..], &first, &[0, 0, 0, lengths[1]], &second];
    let (name, listed) = found(&format!("{select} IN ?"), list.concat());
    assert_eq!(
        (name.as_str(), listed.unwrap()),
        ("in(a,b) list<frozen<tuple<int, text>>>", vec![3, 1])
    );
    let (name, one) = found(&format!("{select} IN (?)"), tuple(3, "x"));
    assert_eq!((name.as_str(), one.unwrap()), ("(a,b) tuple<int, text>", vec![3]));
    let cut = found(&format!("{select} > ?"), tuple(1, "x")[..9].to_vec()).1;
    assert_eq!(cut.unwrap_err().kind(), &CqlErrorKind::Invalid);
    let (_, half) = found(&format!("{select} > ?"), tuple(1, "x")[..8].to_vec());
    assert!(half.unwrap_err().message().contains("null"));
}

#[test]
fn null_deletes_and_unset_leaves() {
    let client = Client::new(&[TABLE]);
    let insert = client.prepare("INSERT INTO t (k, c, v, s) VALUES (?, ?, ?, ?)");
    let run = |values: Vec<Bound>| client.execute(&insert, Values::Positional(values));
    run(vec![int(1), int(1), text("v"), text("s")]).unwrap();
    run(vec![int(1), int(1), Bound::Unset, Bound::Null]).unwrap();
    let found = client.rows("SELECT v, s FROM t");
    assert_eq!(found.values(), [vec![Some(Bytes::from("v")), None]]);
    for wrong in [
        vec![int(1), Bound::Unset, text("v"), text("s")],
        vec![Bound::Null, int(1), text("v"), text("s")],
        vec![int(1), text("not four"), text("v"), text("s")],
        vec![int(1), int(1), text("v")],
    ] {
        assert_eq!(run(wrong).unwrap_err().kind(), &CqlErrorKind::Invalid);
    }
}

#[test]
fn named_values_find_their_markers() {
    let client = Client::new(&[TABLE]);
    let values = Values::Named(vec![
        ("b".to_owned(), text("named")),
        ("a".to_owned(), int(7)),
        ("spare".to_owned(), int(0)),
    ]);
    let parameters = Parameters { values, ..Parameters::default() };
    client.query("INSERT INTO t (k, c, v) VALUES (:a, :a, :b)", &parameters).unwrap();
    assert_eq!(ints(&client.rows("SELECT k, c FROM t WHERE v = 'named' ALLOW FILTERING"), 1), [7]);
    let missing = client.query("SELECT * FROM t WHERE k = :x", &parameters).unwrap_err();
    assert!(missing.message().contains(":x"), "{missing}");
}

#[test]
fn list_is_bound_to_one_marker() {
    let client = Client::new(&[TABLE]);
    for c in 0..5 {
        client.run(&format!("INSERT INTO t (k, c) VALUES (1, {c})"));
    }
    let select = client.prepare("SELECT c FROM t WHERE k = 1 AND c IN ?");
    let list = [&[0, 0, 0, 2][..], &[0, 0, 0, 4, 0, 0, 0, 3], &[0, 0, 0, 4, 0, 0, 0, 1]].concat();
    let found = client.execute(&select, Values::Positional(vec![Bound::Bytes(list.into())]));
    assert_eq!(ints(&rows(found.unwrap()), 0), [1, 3]);
}

/// A client encodes its values and decodes its rows by the description of the prepared statement.
#[test]
fn changed_table_requires_a_new_prepare() {
    let client = Client::new(&["CREATE TABLE t (k int PRIMARY KEY, v bigint)"]);
    let must_prepare = |prepared: &Prepared, values: &Values| {
        let error = client.execute(prepared, values.clone()).unwrap_err();
        assert_eq!(error.kind(), &CqlErrorKind::Unprepared { id: prepared.id });
        assert!(client.executor.prepared(&prepared.id).is_none(), "it was forgotten");
    };
    let select = client.prepare("SELECT * FROM t");
    let insert = client.prepare("INSERT INTO t (k, v) VALUES (?, ?)");
    let bigint = Bound::Bytes(Value::Bigint(5).serialize());
    let values = Values::Positional(vec![int(1), bigint]);
    client.execute(&insert, values.clone()).unwrap();
    assert!(client.executor.prepared(&insert.id).is_some());

    client.run("ALTER TABLE t ADD a int");
    must_prepare(&select, &Values::default());
    must_prepare(&insert, &values);
    let insert = client.prepare("INSERT INTO t (k, v) VALUES (?, ?)");
    client.execute(&insert, values.clone()).unwrap();

    // Eight bytes are also a valid double.
    client.run("DROP TABLE t");
    let gone = client.execute(&insert, values.clone()).unwrap_err();
    assert_eq!(gone.kind(), &CqlErrorKind::Invalid);
    client.run("CREATE TABLE t (k int PRIMARY KEY, v double)");
    must_prepare(&insert, &values);
    let batch = vec![BatchItem::Prepared { prepared: Arc::clone(&insert), values }];
    let kind = ast::BatchKind::Unlogged;
    let parameters = Parameters::default();
    let refused = block_on(client.executor.batch(&client.session, kind, batch, &parameters));
    assert_eq!(refused.unwrap_err().kind(), &CqlErrorKind::Unprepared { id: insert.id });
    assert_eq!(client.rows("SELECT k FROM t").rows.len(), 0);
}

/// "Prepare again" would repeat for ever: the snapshot has the earlier schema of the table.
#[test]
fn pages_of_an_earlier_schema_refuse_newer_statements() {
    let client = Client::new(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
    for k in 0..3 {
        client.run(&format!("INSERT INTO t (k, v) VALUES ({k}, 1)"));
    }
    let execute = |prepared: &Prepared, paging_state| {
        let page_rows = Some(1);
        let parameters = Parameters { page_rows, paging_state, ..Parameters::default() };
        block_on(client.executor.execute(&client.session, prepared, &parameters))
    };
    let older = client.prepare("SELECT * FROM t");
    let first = rows(execute(&older, None).unwrap());
    client.run("ALTER TABLE t ADD a int");
    let second = rows(execute(&older, first.paging_state.clone()).unwrap());
    assert_eq!(second.columns[..], older.result[..], "the sequence goes on as it began");
    let newer = client.prepare("SELECT * FROM t");
    let refused = execute(&newer, first.paging_state).unwrap_err();
    assert_eq!(refused.kind(), &CqlErrorKind::Invalid, "{refused}");
}

#[test]
fn batch_mixes_text_and_prepared_statements() {
    let client = Client::new(&[TABLE]);
    let prepared = client.prepare("INSERT INTO t (k, c, v) VALUES (?, ?, ?)");
    let values = Values::Positional(vec![int(1), int(1), text("p")]);
    let mut items = vec![
        BatchItem::Prepared { prepared, values },
        BatchItem::Text {
            text: "UPDATE t SET s = ? WHERE k = 1".to_owned(),
            values: Values::Positional(vec![text("static")]),
        },
    ];
    let batch = |items: Vec<BatchItem>| {
        let kind = ast::BatchKind::Unlogged;
        let parameters = Parameters::default();
        block_on(client.executor.batch(&client.session, kind, items, &parameters))
    };
    batch(items.clone()).unwrap();
    let found = client.rows("SELECT v, s FROM t");
    assert_eq!(found.values(), [vec![Some(Bytes::from("p")), Some(Bytes::from("static"))]]);
    items.push(BatchItem::Text { text: "SELECT * FROM t".to_owned(), values: Values::default() });
    assert_eq!(batch(items).unwrap_err().kind(), &CqlErrorKind::Invalid);
}

#[test]
fn sequence_of_pages_reads_one_snapshot() {
    let client = Client::new(&[TABLE]);
    for c in 0..20 {
        client.run(&format!("INSERT INTO t (k, c, v, s) VALUES ({}, {c}, 'v', 's')", c % 3));
    }
    for query in [
        "SELECT c FROM t",
        "SELECT c FROM t WHERE k = 1",
        "SELECT c FROM t WHERE k = 1 ORDER BY c DESC",
    ] {
        let whole = ints(&client.rows(query), 0);
        let mut next = 100;
        let pages = client.pages(query, 3, || {
            next += 1;
            client.run(&format!("INSERT INTO t (k, c) VALUES (1, {next})"));
            client.run(&format!("DELETE FROM t WHERE k = 2 AND c = {}", next % 20));
        });
        let paged: Vec<i32> = pages.iter().flat_map(|page| ints(page, 0)).collect();
        assert_eq!(paged, whole, "{query}");
        assert!(pages.iter().all(|page| page.rows.len() <= 3));
        client.run("DELETE FROM t WHERE k = 1 AND c > 100");
    }
}

#[test]
fn pages_of_any_size_add_up() {
    let client = Client::new(&[TABLE]);
    let mut rng = SeededRng::new(7);
    for _ in 0..60 {
        let (k, c) = (rng.below(6), rng.below(8));
        if rng.chance(250) {
            client.run(&format!("INSERT INTO t (k, s) VALUES ({k}, 's{c}')"));
        } else {
            client.run(&format!("INSERT INTO t (k, c, v) VALUES ({k}, {c}, 'v')"));
        }
    }
    for k in 10..13 {
        client.run(&format!("INSERT INTO t (k, s) VALUES ({k}, 'alone')"));
    }
    client.run("CREATE TABLE u (k int, a int, b int, PRIMARY KEY (k, a, b))");
    for (a, b) in (0..5).flat_map(|a| (0..8).map(move |b| (a, b))) {
        client.run(&format!("INSERT INTO u (k, a, b) VALUES (1, {a}, {b})"));
    }
    assert_eq!(client.rows("SELECT a FROM u WHERE k IN (1, 1) AND a IN (2, 2)").rows.len(), 8);
    for query in [
        "SELECT k, c, s, v FROM t",
        "SELECT k, c FROM t LIMIT 17",
        "SELECT k, c FROM t PER PARTITION LIMIT 2",
        "SELECT k, c FROM t PER PARTITION LIMIT 2 LIMIT 7",
        "SELECT DISTINCT k, s FROM t",
        "SELECT k, c FROM t WHERE k IN (11, 1, 3, 10)",
        "SELECT k, c, s FROM t WHERE k = 3 ORDER BY c DESC",
        "SELECT k, c FROM t WHERE k = 3 AND c IN (1, 2, 3, 5)",
        "SELECT k, c FROM t WHERE k IN (1, 2, 3) AND c > 2 AND c < 7",
        "SELECT k, c FROM t WHERE v = 'v' ALLOW FILTERING",
        "SELECT k, c FROM t WHERE token(k) > 0",
        "SELECT k, c FROM t WHERE k IN (3, 1, 3, 1)",
        "SELECT a, b FROM u WHERE k = 1 AND a IN (4, 0, 2) AND b > 1 AND b <= 6",
        "SELECT a, b FROM u WHERE k = 1 AND a IN (4, 0, 2) AND b > 1 ORDER BY a DESC",
        "SELECT a, b FROM u WHERE k = 1 AND a IN (4, 0, 2) AND b IN (3, 5) ORDER BY a DESC",
    ] {
        let whole = client.rows(query);
        for size in [1, 2, 3, 7, 100] {
            let pages = client.pages(query, size, || {});
            let paged: Vec<_> = pages.iter().flat_map(|page| page.values().clone()).collect();
            assert_eq!(paged, whole.values(), "{query} in pages of {size}");
            let full = pages.iter().rev().skip(1).all(|page| page.rows.len() == size);
            assert!(full, "{query} in pages of {size}: only the last may be short");
        }
    }
}

#[test]
fn batch_of_one_shows_the_key() {
    let client = Client::new(&[TABLE, "INSERT INTO t (k, c, v) VALUES (1, 1, 'x')"]);
    let text = "UPDATE t SET v = 'z' WHERE k = 1 AND c = 1 IF v = 'y'".to_owned();
    let items = vec![BatchItem::Text { text, values: Values::default() }];
    let kind = ast::BatchKind::Unlogged;
    let parameters = Parameters::default();
    let batch = client.executor.batch(&client.session, kind, items, &parameters);
    let found = rows(block_on(batch).unwrap());
    let names: Vec<&str> = found.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["[applied]", "k", "c", "v"]);
}

#[test]
fn condition_takes_null_in_a_bound_list() {
    let client = Client::new(&[TABLE, "INSERT INTO t (k, c) VALUES (1, 1)"]);
    let update = client.prepare("UPDATE t SET v = 'z' WHERE k = 1 AND c = 1 IF v IN ?");
    let list = [&[0, 0, 0, 2][..], &[0, 0, 0, 1, b'x'], &[0xff; 4]].concat();
    let values = Values::Positional(vec![Bound::Bytes(list.into())]);
    let found = rows(client.execute(&update, values.clone()).unwrap());
    assert_eq!(found.values(), [vec![Some(Bytes::from_static(&[1]))]]);
    let found = rows(client.execute(&update, values.clone()).unwrap());
    assert_eq!(found.values()[0][1], Some(Bytes::from("z")));
    let select = client.prepare("SELECT v FROM t WHERE k = 1 AND c IN ?");
    let error = client.execute(&select, values).unwrap_err();
    assert_eq!(error.kind(), &CqlErrorKind::Invalid);
}

#[test]
fn merged_partitions_are_not_paged() {
    let client = Client::new(&[TABLE]);
    for k in 0..4 {
        client.run(&format!("INSERT INTO t (k, c) VALUES ({k}, {})", 9 - k));
    }
    let page = |query: &str, page_rows: usize| {
        let parameters = Parameters { page_rows: Some(page_rows), ..Parameters::default() };
        client.query(query, &parameters)
    };
    let query = "SELECT k FROM t WHERE k IN (0, 1, 2, 3) ORDER BY c";
    let error = page(query, 100).unwrap_err();
    assert_eq!(error.kind(), &CqlErrorKind::Invalid);
    assert!(error.message().starts_with("Cannot page queries with both ORDER BY and a IN"));
    // A LIMIT of at most one page needs no paging.
    let limited = format!("{query} LIMIT 3");
    assert!(page(&limited, 2).is_err());
    let found = rows(page(&limited, 3).unwrap());
    assert_eq!((ints(&found, 0), found.paging_state), (vec![3, 2, 1], None));
    let one = page("SELECT k FROM t WHERE k IN (2, 2) ORDER BY c", 1).unwrap();
    assert_eq!(ints(&rows(one), 0), [2]);
}

#[test]
fn paging_state_of_other_partitions_is_refused() {
    let client = Client::new(&[TABLE]);
    for k in 0..4 {
        client.run(&format!("INSERT INTO t (k, c) VALUES ({k}, 1)"));
    }
    let first = Parameters { page_rows: Some(1), ..Parameters::default() };
    let state = rows(client.query("SELECT k FROM t WHERE k IN (0, 1)", &first).unwrap());
    let next = Parameters { paging_state: state.paging_state, ..first };
    let error = client.query("SELECT k FROM t WHERE k IN (2, 3)", &next).unwrap_err();
    assert!(error.message().contains("other partitions"), "{error}");
}

#[test]
fn foreign_paging_state_is_refused() {
    let other = "CREATE TABLE other (k int, c int, v int, PRIMARY KEY (k, c))";
    let client = Client::new(&[TABLE, other]);
    for c in 0..3 {
        client.run(&format!("INSERT INTO t (k, c) VALUES (1, {c})"));
    }
    let query = "SELECT * FROM t";
    let first = Parameters { page_rows: Some(1), ..Parameters::default() };
    let state = rows(client.query(query, &first).unwrap()).paging_state.unwrap();
    let mut mangled = state.to_vec();
    mangled[3] ^= 1;
    for bytes in [Bytes::from(mangled), Bytes::new(), state.slice(1..)] {
        let parameters = Parameters { paging_state: Some(bytes), ..first.clone() };
        let error = client.query(query, &parameters).unwrap_err();
        assert_eq!(error.kind(), &CqlErrorKind::Protocol);
        assert!(error.message().starts_with("Invalid value for the paging state"), "{error}");
    }
    let second = Parameters { paging_state: Some(state), ..first };
    assert!(client.query(query, &second).is_ok());
    for query in [
        "SELECT * FROM other",
        "SELECT * FROM system.local",
        "SELECT * FROM t WHERE k = 2",
        "SELECT * FROM t WHERE k IN (2, 3)",
    ] {
        let error = client.query(query, &second).unwrap_err();
        assert_eq!(error.kind(), &CqlErrorKind::Protocol, "{query}: {error}");
    }
}

/// Each page of a sequence but the last has a state, and no sequence ends with an empty page.
#[test]
fn page_with_the_last_row_has_no_state() {
    let client = Client::new(&[
        "CREATE TABLE p (k int, c int, v int, s int STATIC, PRIMARY KEY (k, c))",
        "CREATE INDEX ON p (v)",
    ]);
    for (k, c) in (0..3).flat_map(|k| (0..4).map(move |c| (k, c))) {
        client.run(&format!("INSERT INTO p (k, c, v, s) VALUES ({k}, {c}, {}, {k})", c % 2));
    }
    for (query, total) in [
        ("SELECT * FROM p", 12),
        ("SELECT k, c + 1 FROM p", 12),
        ("SELECT * FROM p WHERE k = 1", 4),
        ("SELECT * FROM p WHERE k = 1 ORDER BY c DESC", 4),
        ("SELECT * FROM p WHERE k IN (0, 2)", 8),
        ("SELECT * FROM p WHERE k = 1 AND c IN (0, 1, 3)", 3),
        ("SELECT * FROM p WHERE v = 1", 6),
        ("SELECT * FROM p WHERE v > 0 ALLOW FILTERING", 6),
        ("SELECT * FROM p LIMIT 6", 6),
        ("SELECT * FROM p PER PARTITION LIMIT 2", 6),
        ("SELECT DISTINCT k, s FROM p", 3),
        ("SELECT k, count(*) FROM p GROUP BY k", 3),
        ("SELECT JSON * FROM p WHERE k = 1", 4),
    ] {
        for size in 1..=total + 1 {
            let pages = client.pages(query, size, || {});
            let counts: Vec<usize> = pages.iter().map(|page| page.rows.len()).collect();
            assert_eq!(counts.iter().sum::<usize>(), total, "{query}: pages of {size}: {counts:?}");
            assert_eq!(counts.len(), total.div_ceil(size), "{query}: pages of {size}: {counts:?}");
        }
    }
}

/// A client can give a state any content, with its checksum.
#[test]
fn forged_paging_states_are_refused_or_positions() {
    let client = Client::new(&[
        "CREATE TABLE p (k int, c int, v int, s int STATIC, PRIMARY KEY (k, c))",
        "CREATE INDEX ON p (v)",
        "CREATE INDEX ON p (s)",
    ]);
    for c in 0..6 {
        client.run(&format!("INSERT INTO p (k, c, v, s) VALUES (1, {c}, 7, 8)"));
    }
    let first = Parameters { page_rows: Some(2), ..Parameters::default() };
    let mut rng = SeededRng::new(51);
    for query in [
        "SELECT * FROM p",
        "SELECT * FROM p WHERE k = 1 ORDER BY c DESC",
        "SELECT * FROM p WHERE v = 7",
        "SELECT * FROM p WHERE s = 8",
        "SELECT k, count(*) FROM p GROUP BY k, c",
    ] {
        let state = rows(client.query(query, &first).unwrap()).paging_state.unwrap();
        let good = &state[..state.len() - 4];
        for round in 0..400 {
            let mut bytes = good.to_vec();
            if round < good.len() {
                bytes.truncate(round);
            } else {
                for _ in 0..=rng.below(3) {
                    let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                    bytes[at] = rng.next_u64().to_le_bytes()[0];
                }
            }
            let checksum = murmur3::token(&bytes).0.to_be_bytes();
            bytes.extend_from_slice(&checksum[..4]);
            let parameters = Parameters { paging_state: Some(bytes.into()), ..first.clone() };
            if let Err(error) = client.query(query, &parameters) {
                let is_clear =
                    matches!(error.kind(), CqlErrorKind::Protocol | CqlErrorKind::Invalid);
                assert!(is_clear, "{query}, round {round}: {:?} {error}", error.kind());
            }
        }
    }
}

#[test]
fn results_name_their_types() {
    let client = Client::new(&[TABLE]);
    let found = client.rows("SELECT * FROM t");
    let types: Vec<&DataType> = found.columns.iter().map(|column| &column.data_type).collect();
    let (int, text) = (DataType::Int, DataType::Text);
    assert_eq!(types, [&int, &int, &text, &text]);
}

#[test]
fn prepared_bottleneck_has_the_columns_of_its_rows() {
    let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
    let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
    let client = Client { executor, session: Session::new() };
    let prepared = client.prepare("SHOW BOTTLENECK");
    let shown = rows(client.execute(&prepared, Values::default()).unwrap());
    assert_eq!((shown.columns.len(), &shown.columns[..]), (10, &prepared.result[..]));
    let verdict = &shown.values()[0];
    assert_eq!(verdict[0], Some(Value::Int(0).serialize()));
    assert_eq!(verdict[1], Some(Value::Text("none".into()).serialize()));
    let view = client.rows("SELECT why FROM system_views.bottleneck WHERE rank = 0");
    assert_eq!(view.values(), [[verdict[1].clone()]]);
}

#[test]
fn timestamps_are_refused_or_ignored() {
    let refusing = Client::new(&[TABLE]);
    let texts = [
        "INSERT INTO t (k, c, v) VALUES (1, 1, 'a') USING TIMESTAMP 9",
        "UPDATE t USING TIMESTAMP 1 SET v = 'b' WHERE k = 1 AND c = 1",
        "BEGIN BATCH USING TIMESTAMP 7 INSERT INTO t (k, c, v) VALUES (1, 2, 'c'); APPLY BATCH",
    ];
    for text in texts {
        let error = refusing.query(text, &Parameters::default()).unwrap_err();
        assert_eq!(error.kind(), &CqlErrorKind::Invalid);
        assert!(error.message().contains("timestamps = \"ignore\""), "{error}");
    }
    let ignoring = Client::with_timestamps(Timestamps::Ignore, &[TABLE]);
    for text in texts {
        ignoring.run(text);
    }
    // The order of the statements decides, not their timestamps.
    let changed = ignoring.rows("SELECT v FROM t WHERE k = 1 AND c = 1");
    assert_eq!(changed.values(), [[Some(Value::Text("b".into()).serialize())]]);
    let delete = ignoring.prepare("DELETE FROM t USING TIMESTAMP ? WHERE k = ? AND c = ?");
    assert_eq!(delete.markers[0].name, "[timestamp]");
    assert_eq!(delete.markers[0].data_type, DataType::Bigint);
    let values = [Value::Bigint(0), Value::Int(1), Value::Int(1)];
    let values = values.iter().map(|value| Bound::Bytes(value.serialize())).collect();
    ignoring.execute(&delete, Values::Positional(values)).unwrap();
    assert!(ignoring.rows("SELECT v FROM t WHERE k = 1 AND c = 1").rows.is_empty());
}

const WIDE: &str = "CREATE TABLE w (k int PRIMARY KEY, v text, m map<text, int>)";

fn bigint(value: Option<&Bytes>) -> Option<i64> {
    value.map(|bytes| i64::from_be_bytes(bytes[..].try_into().unwrap()))
}

impl Client {
    /// Returns the write times of `v` and of the element `m['a']` of row 1.
    fn write_times(&self) -> [Option<i64>; 2] {
        let found = self.rows("SELECT WRITETIME(v), WRITETIME(m['a']) FROM w WHERE k = 1");
        [bigint(found.values()[0][0].as_ref()), bigint(found.values()[0][1].as_ref())]
    }
}

#[test]
fn recorded_timestamps_are_write_times() {
    check_recorded_timestamps(Db::builder().in_memory());
    // Changes on disk are deltas.
    let dir = tempfile::tempdir().unwrap();
    check_recorded_timestamps(Db::open(dir.path().join("db")).unwrap());
}

fn check_recorded_timestamps(db: Db) {
    let client = Client::of_database(db, Timestamps::Record, &[WIDE]);
    client.run("INSERT INTO w (k, v, m) VALUES (1, 'a', {'a': 1}) USING TIMESTAMP 900");
    assert_eq!(client.write_times(), [Some(900), Some(900)]);
    // Values that were written later remain.
    client.run("UPDATE w USING TIMESTAMP -5 SET v = 'b' WHERE k = 1");
    assert_eq!(client.write_times(), [Some(900), Some(900)]);
    let value = client.rows("SELECT v FROM w WHERE k = 1").values()[0][0].clone();
    assert_eq!(value, Some(Value::Text("a".into()).serialize()));
    client.run(
        "BEGIN BATCH USING TIMESTAMP 907 UPDATE w SET v = 'c' WHERE k = 1; \
         UPDATE w SET m['b'] = 2 WHERE k = 1; APPLY BATCH",
    );
    assert_eq!(client.write_times(), [Some(907), Some(900)]);
    // Each statement of a batch or transaction has its own.
    client.run(
        "BEGIN BATCH UPDATE w USING TIMESTAMP 920 SET v = 'c' WHERE k = 1; \
         UPDATE w USING TIMESTAMP 930 SET m['a'] = 2 WHERE k = 1; APPLY BATCH",
    );
    assert_eq!(client.write_times(), [Some(920), Some(930)]);
    client.run("DELETE v FROM w USING TIMESTAMP 919 WHERE k = 1");
    assert_eq!(client.write_times(), [Some(920), Some(930)]);
    client.run("DELETE v FROM w USING TIMESTAMP 920 WHERE k = 1");
    assert_eq!(client.write_times(), [None, Some(930)]);

    let insert = client.prepare("INSERT INTO w (k, v) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?");
    assert_eq!(
        (&*insert.markers[2].name, &insert.markers[2].data_type),
        ("[timestamp]", &DataType::Bigint)
    );
    let timed = |bound: Bound| Values::Positional(vec![int(1), text("d"), bound, int(1_000)]);
    client.execute(&insert, timed(Bound::Bytes(Value::Bigint(77).serialize()))).unwrap();
    assert_eq!(client.write_times(), [Some(77), Some(930)]);
    // The statements of a transaction run in their order.
    client.run(
        "BEGIN TRANSACTION UPDATE w SET v = 'z' WHERE k = 1; UPDATE w SET v = 'y' WHERE k = 1; \
         COMMIT TRANSACTION",
    );
    let value = client.rows("SELECT v FROM w WHERE k = 1").values()[0][0].clone();
    assert_eq!(value, Some(Value::Text("y".into()).serialize()));
    // Without a timestamp a statement replaces stored values, whatever their times.
    client.run("UPDATE w USING TIMESTAMP 9000000000000000000 SET v = 'e' WHERE k = 1");
    client.execute(&insert, timed(Bound::Unset)).unwrap();
    assert!((1_000_000..9_000_000_000_000_000_000).contains(&client.write_times()[0].unwrap()));
    for wrong in [Bound::Null, Bound::Bytes(Value::Bigint(i64::MIN).serialize())] {
        client.execute(&insert, timed(wrong)).unwrap_err();
    }
}

/// Copies of rows replace stored values, whatever their times.
#[test]
fn overwriting_timestamps_are_write_times_only() {
    let client = Client::with_timestamps(Timestamps::Overwrite, &[WIDE]);
    client.run("INSERT INTO w (k, v, m) VALUES (1, 'a', {'a': 1}) USING TIMESTAMP 900");
    client.run("UPDATE w USING TIMESTAMP -5 SET v = 'b' WHERE k = 1");
    assert_eq!(client.write_times(), [Some(-5), Some(900)]);
    client.run("DELETE v FROM w USING TIMESTAMP -9 WHERE k = 1");
    assert_eq!(client.write_times(), [None, Some(900)]);
}

#[test]
fn recorded_timestamps_are_refused_as_in_cassandra() {
    let counter = "CREATE TABLE n (k int PRIMARY KEY, n counter)";
    let client = Client::with_timestamps(Timestamps::Record, &[WIDE, counter]);
    for (text, why) in [
        ("INSERT INTO w (k) VALUES (1) IF NOT EXISTS USING TIMESTAMP 1", "conditional updates"),
        ("UPDATE w USING TIMESTAMP 1 SET v = 'a' WHERE k = 1 IF EXISTS", "conditional updates"),
        ("UPDATE n USING TIMESTAMP 1 SET n = n + 1 WHERE k = 1", "counter updates"),
        (
            "BEGIN COUNTER BATCH USING TIMESTAMP 1 UPDATE n SET n = n + 1 WHERE k = 1; APPLY BATCH",
            "counter BATCH",
        ),
        (
            "BEGIN BATCH USING TIMESTAMP 1 DELETE FROM w WHERE k = 1 IF EXISTS; APPLY BATCH",
            "conditional BATCH",
        ),
        (
            "BEGIN BATCH USING TIMESTAMP 1 DELETE FROM w USING TIMESTAMP 2 WHERE k = 1; APPLY BATCH",
            "either on BATCH or individual statements",
        ),
    ] {
        let error = client.query(text, &Parameters::default()).unwrap_err();
        assert!(error.message().contains(why), "{text}: {error}");
    }
}

#[test]
fn bound_json_is_a_row() {
    let client = Client::new(&[WIDE]);
    let insert = client.prepare("INSERT INTO w JSON ?");
    let run = |json: &str| client.execute(&insert, Values::Positional(vec![text(json)]));
    run(r#"{"k": 1, "v": "a", "m": {"b": 2}}"#).unwrap();
    run(r#"{"k": 1, "v": "c"}"#).unwrap();
    let row = client.rows("SELECT v, m FROM w");
    assert_eq!(row.values(), [[Some(Value::Text("c".into()).serialize()), None]]);
    let keeps = client.prepare("INSERT INTO w JSON :row DEFAULT UNSET");
    client.run("UPDATE w SET m = {'b': 3} WHERE k = 1");
    let values = Values::Positional(vec![text(r#"{"K": 1, "v": null}"#)]);
    client.execute(&keeps, values).unwrap();
    let row = client.rows("SELECT v, m FROM w");
    assert!(row.values()[0][0].is_none() && row.values()[0][1].is_some());
    for wrong in ["{", r#"{"k": 1, "x": 2}"#, r#"{"k": "one"}"#, r#"{"v": "a"}"#] {
        run(wrong).unwrap_err();
    }
    let null = Values::Positional(vec![Bound::Null]);
    client.execute(&insert, null).unwrap_err();
}
