//! Running statements: their list, and their end by `KILL STATEMENT`.

use std::time::Duration;

use carnet::{Db, Durability, Value};
use carnet_admission::{
    AdmissionLimits, AdmissionRequest, Arrived, Class, GateLimits, Level, Workload,
};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Hashing, Parameters, Session};
use carnet_server::{CqlBackend, Limits};
use tempfile::TempDir;

use crate::support::{RESULT, Running, pause};

const INVALID: i32 = 0x2200;
const UNKNOWN: i32 = 0x1700;

/// Returns an executor of a table with 2,000 rows, on a gate with this number of places.
fn executor(running_max: usize) -> (Executor, TempDir) {
    let shed_after = Duration::from_secs(60);
    let gate = GateLimits { running_max, queue_max: 100, queue_bytes_max: 1 << 20, shed_after };
    let limits = AdmissionLimits { statements: gate, system: gate };
    let directory = tempfile::tempdir().unwrap();
    let durability = Durability::None;
    let db = Db::builder().admission(limits).durability(durability).open(directory.path()).unwrap();
    let executor = Executor::new(db, NodeInfo::local(carnet::Uuid::from_bytes([7; 16])));
    run(&executor, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    run(&executor, "CREATE TABLE ks.t (p int, c int, PRIMARY KEY (p, c))");
    for batch in 0..20 {
        let inserts: String = (0..100)
            .map(|row| format!("INSERT INTO ks.t (p, c) VALUES (1, {}); ", 100 * batch + row))
            .collect();
        run(&executor, &format!("BEGIN UNLOGGED BATCH {inserts} APPLY BATCH"));
    }
    (executor, directory)
}

fn run(executor: &Executor, cql: &str) -> Vec<Vec<Option<carnet::Bytes>>> {
    let (session, none) = (Session::new(), Parameters::default());
    match carnet::block_on(executor.query(&session, cql, &none)).unwrap() {
        Response::Rows(rows) => rows.values(),
        _ => Vec::new(),
    }
}

/// A statement that takes many seconds.
fn endless() -> String {
    let sums = vec!["sum(c * 3)"; 5_000].join(", ");
    format!("SELECT {sums} FROM ks.t WHERE p = 1")
}

/// Waits until a `SELECT` is listed in a state, with rows read if it runs, and returns its id.
fn listed(executor: &Executor, state: &str) -> i64 {
    let query = format!(
        "SELECT id, statement, rows_read FROM system_views.queries WHERE state = '{state}'"
    );
    for _ in 0..10_000 {
        let rows = run(executor, &query);
        let rows_read = |row: &[Option<carnet::Bytes>]| bigint(row[2].as_ref().unwrap());
        if let [row] = &rows[..]
            && (state == "queued" || rows_read(row) > 0)
        {
            let text = String::from_utf8(row[1].as_ref().unwrap().to_vec()).unwrap();
            assert!(text.starts_with("SELECT ") && !text.contains(['3', '7']), "{text}");
            return bigint(row[0].as_ref().unwrap());
        }
        pause(Duration::from_millis(1));
    }
    panic!("no statement is {state}");
}

fn bigint(bytes: &carnet::Bytes) -> i64 {
    match carnet::DataType::Bigint.deserialize(bytes).unwrap() {
        Value::Bigint(number) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn scan_is_listed_and_killed() {
    let (executor, _directory) = executor(4);
    let server = Running::of(CqlBackend::new(executor.clone()), Limits::default(), None);
    let mut client = server.client(5);
    client.query(1, &endless());
    let id = listed(&executor, "running");
    let mut operator = server.client(5);
    operator.query(2, &format!("KILL STATEMENT {id}"));
    assert_eq!(operator.receive().opcode, RESULT);
    let killed = client.receive();
    assert_eq!(killed.stream, 1);
    killed.assert_error(INVALID, "the statement was killed; nothing was written");
    assert_eq!(killed.payload("carnet.error").as_deref(), Some("killed"));
    server.eventually("it has left the list", |_| {
        run(&executor, "SELECT id FROM system_views.queries").is_empty()
    });
    let figures = executor.db().admission().unwrap().figures(Class::Read);
    assert_eq!((figures.running, figures.waiting), (0, 0), "its place is free");
    client.query(3, "SELECT c FROM ks.t WHERE p = 1 AND c = 1");
    assert_eq!(client.receive().opcode, RESULT, "the connection goes on");
    operator.query(4, &format!("KILL STATEMENT {id}"));
    operator.receive().assert_error(INVALID, "does not run here: it has ended, or never was");
}

#[test]
fn statement_in_the_queue_is_killed_at_once() {
    let (executor, _directory) = executor(1);
    let admission = executor.db().admission().unwrap();
    let (level, workload) = (Level::default(), Workload::Unspecified);
    let request = AdmissionRequest::new(&level, Class::Read, workload, 1);
    let Ok(Arrived::Admitted(_holds_the_place)) = admission.arrive(request) else {
        panic!("there is room")
    };
    let server = Running::of(CqlBackend::new(executor.clone()), Limits::default(), None);
    let mut client = server.client(4);
    client.query(1, "SELECT c FROM ks.t WHERE p = 7 AND c = 7");
    let id = listed(&executor, "queued");
    run(&executor, &format!("KILL STATEMENT {id}"));
    client.receive().assert_error(INVALID, "the statement was killed; nothing was written");
    assert_eq!(admission.figures(Class::Read).waiting, 0);
}

/// Hashing a password neither reads nor commits, and may take longer than a client waits.
#[test]
fn statement_that_does_not_end_is_dropped_with_an_unknown_outcome() {
    let (executor, _directory) = executor(4);
    executor.set_hashing(Hashing::new(|_| std::future::pending()));
    let server = Running::of(CqlBackend::new(executor.clone()), Limits::default(), None);
    let mut client = server.client(5);
    client.query(1, "CREATE ROLE bob WITH PASSWORD = 'secret'");
    let mut found = None;
    server.eventually("it is listed", |_| {
        let rows = run(&executor, "SELECT id, statement FROM system_views.queries");
        found = rows.into_iter().next();
        found.is_some()
    });
    let found = found.unwrap();
    let text = String::from_utf8(found[1].as_ref().unwrap().to_vec()).unwrap();
    assert_eq!(text, "CREATE ROLE bob WITH PASSWORD = ?");
    run(&executor, &format!("KILL STATEMENT {}", bigint(found[0].as_ref().unwrap())));
    let states = run(&executor, "SELECT state FROM system_views.queries");
    assert_eq!(states[0][0].as_deref(), Some(&b"killed"[..]), "it has time to end by itself");
    let answer = client.receive();
    answer.assert_error(UNKNOWN, "whether it took effect is not known");
    assert_eq!(answer.payload("carnet.error").as_deref(), Some("unknown"));
    client.query(2, "SELECT c FROM ks.t WHERE p = 1 AND c = 1");
    assert_eq!(client.receive().opcode, RESULT, "the connection goes on");
}
