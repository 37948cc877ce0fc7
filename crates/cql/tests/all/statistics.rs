//! Statistics of statements by fingerprint, and lost rows.

use std::sync::Arc;

use carnet::{Db, Uuid, Value, block_on};
use carnet_admission::{AdmissionLimits, AdmissionRequest, Arrived, Class, Level, Workload};
use carnet_cql::ast::BatchKind;
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{BatchItem, Bound, CqlError, Executor, Grant, Parameters, Session, Values};

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new() -> Self {
        let db = Db::builder().admission(AdmissionLimits::of_server(2)).in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client =
            Self { executor, session: Session::with_name("ann@127.0.0.1:7").with_user("ann") };
        client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}").unwrap();
        client.run("USE ks").unwrap();
        client.run("CREATE TABLE t (k int PRIMARY KEY, v int)").unwrap();
        client
    }

    fn parameters(&self, values: &[Value]) -> Parameters {
        let level = Level::default();
        let request = AdmissionRequest::new(&level, Class::Write, Workload::Unspecified, 1);
        let permit = match self.executor.db().admission().unwrap().arrive(request) {
            Ok(Arrived::Admitted(permit)) => Some(Arc::new(permit)),
            _ => panic!("there is room"),
        };
        let values = values.iter().map(|value| Bound::Bytes(value.serialize())).collect();
        let grant = Grant { permit, ..Grant::default() };
        Parameters { values: Values::Positional(values), grant, ..Parameters::default() }
    }

    fn run(&self, text: &str) -> Result<Response, CqlError> {
        block_on(self.executor.query(&self.session, text, &self.parameters(&[])))
    }

    fn rows(&self, text: &str) -> Vec<Vec<Option<Value>>> {
        let Ok(Response::Rows(rows)) = self.run(text) else { panic!("{text}") };
        let Rows { columns, .. } = &rows;
        let value = |(at, cell): (usize, Option<carnet::Bytes>)| {
            cell.map(|bytes| columns[at].data_type.deserialize(&bytes).unwrap())
        };
        let row = |row: Vec<_>| row.into_iter().enumerate().map(value).collect();
        rows.values().into_iter().map(row).collect()
    }

    /// Returns the figures of a fingerprint: count, errors, conflicts, rows read and returned.
    fn figures(&self, statement: &str) -> Option<[i64; 5]> {
        let rows = self.rows(
            "SELECT statement, count, errors, conflicts, rows_read, rows_returned, p99_micros, max_micros \
             FROM system_views.statement_statistics",
        );
        let row = rows.into_iter().find(|row| row[0] == Some(Value::Text(statement.to_owned())))?;
        let number = |at: usize| match row[at] {
            Some(Value::Bigint(number)) => number,
            _ => panic!("{row:?}"),
        };
        assert!(number(6) <= 2 * number(7).max(1), "{row:?}");
        Some([1, 2, 3, 4, 5].map(number))
    }
}

#[test]
fn statements_are_counted_by_their_fingerprint() {
    let client = Client::new();
    for (k, v) in [(1, 10), (2, 20), (3, 30)] {
        client.run(&format!("insert into t (k, v) values ({k}, {v})")).unwrap();
    }
    let text = "INSERT INTO t (k, v) VALUES (?, ?)";
    let prepared = block_on(client.executor.prepare(&client.session, text, None)).unwrap();
    let values = [Value::Int(4), Value::Int(40)];
    for _ in 0..2 {
        let parameters = client.parameters(&values);
        block_on(client.executor.execute(&client.session, &prepared, &parameters)).unwrap();
    }
    let insert = "INSERT INTO t (k, v) VALUES (?, …)";
    assert_eq!(client.figures(insert), Some([5, 0, 0, 0, 0]), "prepared or not, and in any case");
    client.rows("SELECT v FROM t WHERE k IN (1, 2, 9)");
    client.rows("SELECT v FROM t WHERE k IN (1)");
    assert_eq!(client.figures("SELECT v FROM t WHERE k IN (?, …)"), Some([2, 0, 0, 3, 3]));
    client.rows("SELECT count(*) FROM t");
    assert_eq!(client.figures("SELECT count(*) FROM t"), Some([1, 0, 0, 4, 1]));
    client.run("SELECT w FROM t WHERE k = 1").unwrap_err();
    assert_eq!(client.figures("SELECT w FROM t WHERE k = ?"), Some([1, 1, 0, 0, 0]));
    let items = (0..3).map(|k| BatchItem::Text {
        text: format!("INSERT INTO t (k, v) VALUES ({k}, 0)"),
        values: Values::default(),
    });
    let parameters = client.parameters(&[]);
    let batch =
        client.executor.batch(&client.session, BatchKind::Unlogged, items.collect(), &parameters);
    block_on(batch).unwrap();
    assert_eq!(client.figures(&format!("BATCH: {insert}; …")), Some([1, 0, 0, 0, 0]));
    assert_eq!(client.figures(insert), Some([5, 0, 0, 0, 0]));
}

/// A dashboard asks every few seconds.
#[test]
fn session_that_watches_is_not_counted() {
    let client = Client::new();
    let watching = Client { session: Session::new().uncounted(), ..Client::new() };
    let text = "SELECT v FROM ks.t WHERE k = 1";
    for client in [&client, &watching] {
        client.run(text).unwrap();
    }
    assert_eq!(client.figures("SELECT v FROM ks.t WHERE k = ?"), Some([1, 0, 0, 0, 0]));
    assert_eq!(watching.figures("SELECT v FROM ks.t WHERE k = ?"), None);
}

#[test]
fn secrets_are_not_in_the_statistics() {
    let client = Client::new();
    client.run("CREATE ROLE bob WITH PASSWORD = 'secret'").unwrap();
    let rows = client.rows("SELECT statement FROM system_views.statement_statistics");
    let all = format!("{rows:?}");
    assert!(all.contains("CREATE ROLE bob WITH PASSWORD = ?") && !all.contains("secret"), "{all}");
}

/// A transaction of the connection loses the row that another statement writes meanwhile.
#[test]
fn lost_row_is_named_with_its_statement() {
    let client = Client::new();
    client.run("INSERT INTO t (k, v) VALUES (7, 1)").unwrap();
    let other = Session::with_name("bob@127.0.0.1:8").with_user("bob");
    let as_other =
        |text: &str| block_on(client.executor.query(&other, text, &client.parameters(&[])));
    as_other("USE ks").unwrap();
    as_other("START TRANSACTION").unwrap();
    as_other("UPDATE t SET v = v + 1 WHERE k = 7").unwrap();
    client.run("UPDATE t SET v = 5 WHERE k = 7").unwrap();
    as_other("COMMIT").unwrap_err();
    let rows = client.rows(
        "SELECT number, table_name, key, attempts, outcome, user_name, client, statement \
         FROM system_views.conflicts",
    );
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    let expected = vec![
        Some(Value::Int(1)),
        text("ks.t"),
        text("k = 7"),
        Some(Value::Bigint(1)),
        text("failed"),
        text("bob"),
        text("bob@127.0.0.1:8"),
        text("COMMIT"),
    ];
    assert_eq!(rows, [expected]);
    assert_eq!(client.figures("COMMIT"), Some([1, 1, 1, 0, 0]));
}

#[test]
fn levels_show_their_statements() {
    let client = Client::new();
    let rows = client.rows(
        "SELECT admitted, running FROM system_views.service_levels \
         WHERE level = 'default' AND class = 'write'",
    );
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let Some(Value::Bigint(admitted)) = row[0] else { panic!("{row:?}") };
    assert!(admitted >= 4, "{admitted}");
    assert_eq!(row[1], Some(Value::Int(1)), "that of the query");
}
