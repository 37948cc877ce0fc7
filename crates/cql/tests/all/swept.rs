//! Moments that are swept: a retry cannot succeed, and the error does not invite drivers to one.

use std::sync::Arc;
use std::time::Duration;

use carnet::{Db, Durability, Timestamp, Uuid, block_on};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, CqlErrorKind, Executor, Parameters, Session};
use carnet_storage::disk::sim::SimDisk;

fn executor() -> Executor {
    let builder = Db::builder().durability(Durability::None).retention(Duration::ZERO);
    let db = builder.open_on(Arc::new(SimDisk::new(1))).unwrap();
    Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)))
}

fn query(executor: &Executor, text: &str, parameters: &Parameters) -> Result<Response, CqlError> {
    block_on(executor.query(&Session::new(), text, parameters))
}

fn run(executor: &Executor, text: &str) -> Result<Response, CqlError> {
    query(executor, text, &Parameters::default())
}

/// Returns an executor with three rows.
fn filled() -> Executor {
    let executor = executor();
    run(&executor, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}").unwrap();
    run(&executor, "CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c))").unwrap();
    for c in 0..3 {
        run(&executor, &format!("INSERT INTO ks.t (k, c) VALUES (1, {c})")).unwrap();
    }
    executor
}

/// Commits, and drops all earlier versions.
fn sweep(executor: &Executor) {
    let before = executor.db().published();
    while block_on(executor.db().swept()).unwrap() <= before {
        run(executor, "INSERT INTO ks.t (k, c) VALUES (1, 3)").unwrap();
        executor.db().flush().unwrap();
        executor.db().compact().unwrap();
    }
}

#[track_caller]
fn assert_invalid(result: Result<Response, CqlError>, words: &str) {
    let error = result.unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Invalid, "{error}");
    assert!(error.message().contains("GC watermark"), "it names the oldest moment: {error}");
    assert!(error.message().contains(words), "{error}");
}

#[test]
fn swept_moment_is_invalid() {
    let executor = filled();
    let at: Timestamp = executor.db().published();
    sweep(&executor);
    assert_invalid(run(&executor, &format!("SELECT c FROM ks.t AS OF {at}")), "");
    assert_invalid(run(&executor, &format!("START DETACHED TRANSACTION AS OF {at}")), "");
}

#[test]
fn page_of_a_swept_snapshot_is_invalid() {
    let executor = filled();
    let select = "SELECT c FROM ks.t WHERE k = 1";
    let mut parameters = Parameters { page_rows: Some(1), ..Parameters::default() };
    let Ok(Response::Rows(Rows { paging_state, .. })) = query(&executor, select, &parameters)
    else {
        panic!("a page")
    };
    sweep(&executor);
    parameters.paging_state = paging_state;
    assert_invalid(query(&executor, select, &parameters), "begin the query anew");
}
