//! Bulk loads of stock drivers with their defaults: many requests in flight, a log that is synced before each
//! acknowledgement, and another process that syncs files on the same disk. No request may fail.
//!
//! The long edition: `CARNET_BULK_ROWS=100000 CARNET_BULK_BUSY=6 cargo test --release -p carnet-cli --test all bulk::`
//!
//! | variable | |
//! | --- | --- |
//! | `CARNET_BULK_ROWS` | rows of a load |
//! | `CARNET_BULK_BUSY` | processes that keep a processor busy meanwhile |

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::support::{Guard, Server, clients, e2e, succeed};

/// Number of rows of a load, the second argument of each program, unless a variable sets it. A server without
/// optimizations takes 0.7 ms of processor time for a row, and drivers give up after seconds.
const ROWS: usize = if cfg!(debug_assertions) { 3_000 } else { 20_000 };

fn variable(name: &str) -> Option<usize> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

fn row_count() -> usize {
    variable("CARNET_BULK_ROWS").unwrap_or(ROWS)
}

/// Loads run one after the other: each uses the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

/// A server with an empty table `bulk.t`, beside a process that writes and syncs a file over and over.
struct Bulk {
    server: Server,
    _writer: Guard,
    _busy: Vec<Guard>,
    _directory: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Bulk {
    fn start() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(&directory.path().join("db"), &[]);
        let writer = write_and_sync(&directory.path().join("other"));
        let busy = (0..variable("CARNET_BULK_BUSY").unwrap_or(0)).map(|_| keep_busy()).collect();
        Self { server, _writer: writer, _busy: busy, _directory: directory, _alone: alone }
    }

    /// Runs a program, which loads the rows and exits with an error if a request fails.
    fn load(&self, program: &mut Command) {
        succeed(program.arg(self.server.port()).arg(row_count().to_string()));
        self.check();
    }

    fn check(&self) {
        let (_, figures) = self.server.get("/metrics");
        let refused = figures.lines().filter(|line| line.starts_with("carnet_shed_total{"));
        let refused: Vec<_> = refused.filter(|line| !line.ends_with(" 0")).collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

fn write_and_sync(file: &Path) -> Guard {
    let script = "while :; do dd if=/dev/zero of=\"$0\" bs=1M count=4 conv=fsync; done";
    let mut sh = Command::new("sh");
    sh.args(["-c", script]).arg(file).stdin(Stdio::null());
    Guard::new(sh.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn keep_busy() -> Guard {
    Guard::new(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
}

#[test]
fn python_driver_loads_rows() {
    let Some(python) = clients::python() else { return };
    Bulk::start().load(Command::new(python).arg(e2e("bulk.py")));
}

#[test]
fn node_driver_loads_rows() {
    let Some(node) = clients::node() else { return };
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules")).arg(e2e("bulk.js"));
    Bulk::start().load(&mut command);
}

#[test]
fn java_driver_loads_rows() {
    let Some(jars) = clients::java() else { return };
    let mut command = Command::new("java");
    command.arg("-cp").arg(jars.join("*")).arg(e2e("Bulk.java"));
    Bulk::start().load(&mut command);
}

#[test]
fn go_driver_loads_rows() {
    let source = e2e("bulk.go");
    let Some(program) = clients::go_program(&source, "github.com/gocql/gocql v1.7.0") else {
        return;
    };
    Bulk::start().load(&mut Command::new(program));
}

#[test]
fn rust_driver_loads_rows() {
    let bulk = Bulk::start();
    Runtime::new().unwrap().block_on(load(&bulk.server.cql.to_string()));
    bulk.check();
}

async fn load(address: &str) {
    let session = SessionBuilder::new().known_node(address).build().await.unwrap();
    let session = Arc::new(session);
    for statement in [
        "CREATE KEYSPACE bulk WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE bulk.t (k int PRIMARY KEY, v text)",
    ] {
        session.query_unpaged(statement, &[]).await.unwrap();
    }
    let insert = session.prepare("INSERT INTO bulk.t (k, v) VALUES (?, ?)").await.unwrap();
    let rows = 0..i32::try_from(row_count()).unwrap();
    let inserts = rows.map(|row| {
        let (session, insert) = (Arc::clone(&session), insert.clone());
        async move { session.execute_unpaged(&insert, (row, "x".repeat(100))).await.map(|_| ()) }
    });
    let inserts: JoinSet<_> = inserts.collect();
    inserts.join_all().await.into_iter().for_each(Result::unwrap);
    let found = session.query_unpaged("SELECT count(*) FROM bulk.t", &[]).await.unwrap();
    let (count,): (i64,) = found.into_rows_result().unwrap().single_row().unwrap();
    assert_eq!(count, i64::try_from(row_count()).unwrap());
}
