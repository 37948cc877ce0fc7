//! Statements that are killed: whatever their kind, they end without effect.

use std::sync::Arc;

use carnet::{Db, Uuid, block_on};
use carnet_admission::{
    AdmissionLimits, AdmissionRequest, Arrived, Class, Level, Permit, Workload,
};
use carnet_cql::ast::BatchKind;
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    BatchItem, CqlError, CqlErrorKind, Executor, Grant, Parameters, Session, StatementSource,
    Values,
};

struct Fixture {
    executor: Executor,
    session: Session,
}

impl Fixture {
    fn new() -> Self {
        let db = Db::builder().admission(AdmissionLimits::of_server(2)).in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let fixture = Self { executor, session: Session::with_name("127.0.0.1:7") };
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
            "USE ks",
            "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))",
            "CREATE TABLE near (k int PRIMARY KEY, v vector<float, 2>)",
            "CREATE INDEX near_v ON near (v) USING 'sai'",
            "INSERT INTO t (k, c, v) VALUES (1, 1, 1)",
            "INSERT INTO near (k, v) VALUES (1, [1.0, 2.0])",
        ] {
            fixture.run(text, Grant::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        fixture
    }

    fn run(&self, text: &str, grant: Grant) -> Result<Response, CqlError> {
        let parameters = Parameters { grant, ..Parameters::default() };
        block_on(self.executor.query(&self.session, text, &parameters))
    }

    fn rows(&self, text: &str) -> Rows {
        let Ok(Response::Rows(rows)) = self.run(text, Grant::default()) else { panic!("{text}") };
        rows
    }

    fn permit(&self) -> Arc<Permit> {
        let level = Level::default();
        let request = AdmissionRequest::new(&level, Class::Write, Workload::Unspecified, 1);
        match self.executor.db().admission().unwrap().arrive(request) {
            Ok(Arrived::Admitted(permit)) => Arc::new(permit),
            _ => panic!("there is room"),
        }
    }

    fn killed(&self) -> Grant {
        let permit = self.permit();
        permit.progress().kill();
        Grant { permit: Some(permit), ..Grant::default() }
    }
}

#[test]
fn killed_statements_have_no_effect() {
    let fixture = Fixture::new();
    for text in [
        "SELECT v FROM t WHERE k = 1 AND c = 1",
        "SELECT v FROM t WHERE k = 1",
        "SELECT v FROM t",
        "SELECT sum(v) FROM t",
        "SELECT k FROM near ORDER BY v ANN OF [1.0, 1.0] LIMIT 3",
        "INSERT INTO t (k, c, v) VALUES (2, 2, 2)",
        "UPDATE t SET v = v + 1 WHERE k = 1 AND c = 1",
        "DELETE FROM t WHERE k = 1",
        "INSERT INTO t (k, c, v) VALUES (2, 2, 2) IF NOT EXISTS",
        "BEGIN BATCH INSERT INTO t (k, c, v) VALUES (2, 2, 2); DELETE FROM t WHERE k = 1; APPLY BATCH",
        "BEGIN TRANSACTION LET a = (SELECT v FROM t WHERE k = 1 AND c = 1); \
         UPDATE t SET v = 7 WHERE k = 1 AND c = 1; COMMIT TRANSACTION",
        "CREATE TABLE another (k int PRIMARY KEY)",
    ] {
        let error = fixture.run(text, fixture.killed()).unwrap_err();
        assert_eq!(*error.kind(), CqlErrorKind::Killed, "{text}: {error}");
        assert!(error.message().contains("nothing was written"), "{text}: {error}");
    }
    let text = "INSERT INTO t (k, c, v) VALUES (2, 2, 2)".to_owned();
    let items = vec![BatchItem::Text { text, values: Values::default() }];
    let parameters = Parameters { grant: fixture.killed(), ..Parameters::default() };
    let batch = fixture.executor.batch(&fixture.session, BatchKind::Unlogged, items, &parameters);
    assert_eq!(*block_on(batch).unwrap_err().kind(), CqlErrorKind::Killed);
    let found = fixture.rows("SELECT v FROM t");
    assert_eq!(found.rows.len(), 1);
    assert_eq!(found.values()[0][0].as_deref(), Some(&[0, 0, 0, 1][..]));
    assert!(fixture.run("SELECT * FROM another", Grant::default()).is_err());
}

/// A part of a transaction is not committed, and one that has changed nothing stays open.
#[test]
fn killed_statement_of_an_open_transaction_leaves_it_open() {
    let fixture = Fixture::new();
    fixture.run("START TRANSACTION", Grant::default()).unwrap();
    let error = fixture.run("SELECT v FROM t WHERE k = 1", fixture.killed()).unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Killed);
    assert!(error.message().ends_with("the transaction is still open"), "{error}");
    fixture.run("UPDATE t SET v = 5 WHERE k = 1 AND c = 1", Grant::default()).unwrap();
    fixture.run("COMMIT", Grant::default()).unwrap();
}

#[test]
fn listed_statement_shows_its_progress_without_values() {
    let fixture = Fixture::new();
    let (executor, session) = (&fixture.executor, &fixture.session);
    let began = executor.db().now();
    let source = StatementSource::text("ALTER ROLE r WITH PASSWORD = 'secret' AND x = 17");
    let entry = executor.enter(session, source, began, None, None);
    let query = "SELECT state, statement, rows_read, client FROM system_views.queries";
    let texts = |rows: Rows| -> Vec<String> {
        let row = rows.values().remove(0);
        let text = |cell: &carnet::Bytes| String::from_utf8_lossy(cell).into_owned();
        row.iter().map(|cell| cell.as_ref().map_or_else(String::new, text)).collect()
    };
    let queued = texts(fixture.rows(query));
    assert_eq!(queued[0], "queued");
    assert_eq!(queued[1], "ALTER ROLE r WITH PASSWORD = ? AND x = ?");
    let permit = fixture.permit();
    entry.begin(Some(&permit));
    let grant = Grant { permit: Some(Arc::clone(&permit)), ..Grant::default() };
    fixture.run("SELECT v FROM t WHERE k = 1", grant).unwrap();
    let running = texts(fixture.rows(query));
    assert_eq!((&*running[0], &*running[3]), ("running", "127.0.0.1:7"));
    assert_eq!(running[2].as_bytes(), 1_i64.to_be_bytes());
    drop(entry);
    assert_eq!(fixture.rows(query).rows.len(), 0);
}

#[test]
fn role_sees_and_kills_its_own_statements() {
    let fixture = Fixture::new();
    fixture.run("CREATE ROLE ann WITH LOGIN = true", Grant::default()).unwrap();
    let executor = &fixture.executor;
    let ann = Session::with_name("ann@127.0.0.1:8").with_role("ann");
    let bob = Session::with_name("bob@127.0.0.1:9").with_user("bob");
    let enter = |session: &Session| {
        let source = StatementSource::text("SELECT 1");
        executor.enter(session, source, executor.db().now(), None, None)
    };
    let (own, other) = (enter(&ann), enter(&bob));
    let as_ann = |text: &str| {
        let parameters = Parameters::default();
        let run = executor.query(&ann, text, &parameters);
        match block_on(run) {
            Ok(Response::Rows(rows)) => Ok(rows.values()),
            Ok(_) => Ok(Vec::new()),
            Err(error) => Err(error.kind().clone()),
        }
    };
    let listed = |rows: Rows| -> Vec<i64> {
        let id = |row: Vec<Option<carnet::Bytes>>| {
            i64::from_be_bytes(row[0].as_deref().unwrap().try_into().unwrap())
        };
        rows.values().into_iter().map(id).collect()
    };
    let all = listed(fixture.rows("SELECT id FROM system_views.queries"));
    let [first, second] = all[..] else { panic!("{all:?}") };
    let seen = as_ann("SELECT id FROM system_views.queries").unwrap();
    assert_eq!(seen, [[Some(carnet::Bytes::copy_from_slice(&first.to_be_bytes()))]]);
    assert_eq!(as_ann(&format!("KILL STATEMENT {second}")), Err(CqlErrorKind::Unauthorized));
    assert_eq!(as_ann("KILL STATEMENT 999"), Err(CqlErrorKind::Unauthorized), "nor learns of it");
    as_ann(&format!("KILL STATEMENT {first}")).unwrap();
    block_on(own.killed());
    let mut wait = std::pin::pin!(other.killed());
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(wait.as_mut().poll(&mut task).is_pending());
    fixture.run("GRANT MODIFY ON system_views.queries TO ann", Grant::default()).unwrap();
    as_ann(&format!("KILL STATEMENT {second}")).unwrap();
    assert!(wait.as_mut().poll(&mut task).is_ready());
}

/// A statement that is dropped before its end says whether it may have had an effect.
#[test]
fn change_within_a_transaction_has_no_effect_alone() {
    let fixture = Fixture::new();
    let (one, other) = (Session::with_name("127.0.0.1:8"), Session::with_name("127.0.0.1:9"));
    let is_without_effect = |session: &Session, class, text: &str| {
        let (permit, executor) = (fixture.permit(), &fixture.executor);
        let grant = Grant { permit: Some(Arc::clone(&permit)), ..Grant::default() };
        let parameters = Parameters { grant, ..Parameters::default() };
        let admission = Some((class, Level::default().id));
        let (source, now) = (StatementSource::text(text), executor.db().now());
        let entry = executor.enter(session, source, now, admission, Some(&permit));
        block_on(executor.query(session, text, &parameters)).unwrap();
        entry.is_without_effect()
    };
    let write = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1";
    assert!(is_without_effect(&one, Class::Read, "SELECT v FROM ks.t WHERE k = 1"));
    assert!(!is_without_effect(&one, Class::Write, write));
    assert!(!is_without_effect(&one, Class::System, "START TRANSACTION"));
    assert!(is_without_effect(&one, Class::Write, write));
    let elsewhere = "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 2";
    assert!(!is_without_effect(&other, Class::Write, elsewhere));
    assert!(!is_without_effect(&one, Class::System, "COMMIT"));
    let rows = fixture.rows("START DETACHED TRANSACTION").values();
    let id = Uuid::from_slice(rows[0][0].as_deref().unwrap()).unwrap();
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 1 WHERE k = 1 AND c = 1");
    assert!(is_without_effect(&other, Class::Write, &write), "of any connection");
    assert!(!is_without_effect(&other, Class::System, &format!("COMMIT TRANSACTION {id}")));
}

/// A stack of nested statements would overflow.
#[test]
fn explained_statement_is_not_nested() {
    let fixture = Fixture::new();
    let text = "EXPLAIN ".repeat(100_000);
    let error = fixture.run(&text, Grant::default()).unwrap_err();
    assert!(error.message().contains("expected SELECT, INSERT"), "{error}");
}
