//! Stock clients against the real server. Their programs are in `tests/e2e`.

#[expect(clippy::disallowed_methods, unreachable_pub, reason = "an example is an application")]
#[path = "../../../../examples/transactions/retry.rs"]
mod retry;

use std::path::{Path, PathBuf};
use std::process::Command;

use carnet::catalog::{self, KeyspaceSchema};
use carnet::{Db, Uuid, block_on};
use carnet_cql::Executor;
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use scylla::client::session_builder::SessionBuilder;
use scylla::routing::Token;

use crate::support::{Server, clients, e2e, succeed};

#[test]
fn python_driver_runs_application_statements() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    succeed(Command::new(python).arg(e2e("python_driver.py")).arg(server.port()));
}

#[test]
fn python_driver_keeps_transactions_open() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new(python);
    command.arg(e2e("open_transactions.py")).arg(server.port());
    succeed(command.arg(example("transactions")));
    let (_, figures) = server.get("/metrics");
    assert!(figures.contains("carnet_open_transactions 0\n"), "{figures}");
    assert!(figures.contains("carnet_open_transactions_ended_total{end=\"killed\"} 2\n"));
}

#[test]
fn node_driver_runs_transactions_again() {
    let Some(node) = clients::node() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules")).arg(e2e("open_transactions.js"));
    succeed(command.arg(server.port()).arg(example("transactions")));
}

#[test]
fn java_driver_runs_transactions_again() {
    let Some(jars) = clients::java() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new("java");
    command.arg("-cp").arg(jars.join("*")).arg(example("transactions/Transfers.java"));
    succeed(command.arg(server.port()));
}

#[test]
fn go_driver_runs_transactions_again() {
    let source = example("transactions/transfers.go");
    let Some(program) = clients::go_program(&source, "github.com/gocql/gocql v1.7.0") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    succeed(Command::new(program).arg(server.port()));
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_driver_runs_transactions_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let session = SessionBuilder::new().known_node(server.cql.to_string()).build().await.unwrap();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "INSERT INTO ks.t (k, v) VALUES (1, 0)",
    ] {
        session.query_unpaged(statement, &[]).await.unwrap();
    }
    let read = "SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION ?";
    let write = "UPDATE ks.t USING TRANSACTION ? SET v = ? WHERE k = 1";
    let increment = async || {
        for _ in 0..10 {
            let body = async |transaction: Uuid| {
                let found = session.query_unpaged(read, (transaction,)).await?;
                let (v,): (i32,) = found.into_rows_result().unwrap().single_row().unwrap();
                session.query_unpaged(write, (transaction, v + 1)).await.map(|_| ())
            };
            retry::run_transaction(&session, 50, body).await.unwrap();
        }
    };
    tokio::join!(increment(), increment(), increment(), increment());
    let found = session.query_unpaged("SELECT v FROM ks.t", &[]).await.unwrap();
    let (v,): (i32,) = found.into_rows_result().unwrap().single_row().unwrap();
    assert_eq!(v, 40);
}

/// A server that ends rolls open transactions back, and does not wait for their clients.
#[tokio::test]
async fn open_transaction_ends_with_a_drain() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let session = SessionBuilder::new().known_node(server.cql.to_string()).build().await.unwrap();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
    ] {
        session.query_unpaged(statement, &[]).await.unwrap();
    }
    let rows = session.query_unpaged("START DETACHED TRANSACTION", &[]).await.unwrap();
    let rows = rows.into_rows_result().unwrap();
    let (transaction,): (Uuid,) = rows.single_row().unwrap();
    let insert = "INSERT INTO ks.t (k, v) VALUES (1, 1) USING TRANSACTION ?";
    session.query_unpaged(insert, (transaction,)).await.unwrap();
    server.terminate();
    let (status, said) = server.wait();
    assert!(status.success(), "{said}");
    let db = Db::open(directory.path()).unwrap();
    let executor = Executor::new(db, NodeInfo::local(Uuid::nil()));
    let query =
        |text: &str| block_on(executor.query(&Default::default(), text, &Default::default()));
    let Ok(Response::Rows(rows)) = query(&format!("SELECT outcome({transaction})")) else {
        panic!("the restarted server knows its outcome")
    };
    assert_eq!(rows.values()[0][0].as_deref(), Some(&b"aborted"[..]));
    let Ok(Response::Rows(rows)) = query("SELECT * FROM ks.t") else { panic!("rows") };
    assert!(rows.rows.is_empty());
}

#[test]
fn default_retries_go_to_another_server() {
    if let Some(python) = clients::python() {
        succeed(Command::new(python).arg(e2e("default_retries.py")));
    }
    if let Some(node) = clients::node() {
        let mut command = Command::new("node");
        command.env("NODE_PATH", node.join("node_modules"));
        succeed(command.arg(e2e("default_retries.js")));
    }
}

/// Returns a folder of the examples.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

#[test]
fn cqlsh_runs_interactive_commands() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &[]);
    let mut command = Command::new(python);
    command.arg(e2e("cqlsh.py")).arg(server.port());
    // cqlsh stores a history and a configuration in the user's home directory.
    succeed(command.env("HOME", directory.path()));
}

#[test]
fn node_driver_runs_application_statements() {
    let Some(node) = clients::node() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules"));
    succeed(command.arg(e2e("node_driver.js")).arg(server.port()));
}

#[test]
fn node_driver_stores_every_type() {
    let Some(node) = clients::node() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules"));
    succeed(command.arg(e2e("types.js")).arg(server.port()));
}

#[test]
fn java_driver_stores_every_type() {
    let Some(jars) = clients::java() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new("java");
    command.arg("-cp").arg(jars.join("*")).arg(e2e("Types.java"));
    succeed(command.arg(server.port()));
}

/// Keyspaces with replication settings that earlier builds stored and drivers cannot read.
const OLD_KEYSPACES: [(&str, &[(&str, &str)]); 5] = [
    ("old_simple", &[("class", "SimpleStrategy")]),
    ("old_zero", &[("class", "SimpleStrategy"), ("replication_factor", "0")]),
    ("old_network", &[("class", "NetworkTopologyStrategy"), ("replication_factor", "3")]),
    ("old_center", &[("class", "NetworkTopologyStrategy"), ("dc1", "3")]),
    ("old_class", &[("class", "NoStrategy")]),
];

fn create_old_keyspaces(directory: &Path) {
    let db = Db::open(directory).unwrap();
    for (name, settings) in OLD_KEYSPACES {
        let replication = settings.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        let replication = replication.collect();
        let schema = KeyspaceSchema { replication, ..KeyspaceSchema::local(name) };
        db.transact(|tx| block_on(catalog::create_keyspace(tx.as_async(), &schema))).unwrap();
    }
    db.close().unwrap();
}

#[test]
fn python_driver_maps_tokens_of_every_keyspace() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    create_old_keyspaces(directory.path());
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new(python);
    command.arg(e2e("token_maps.py")).arg(server.port());
    succeed(command.args(OLD_KEYSPACES.map(|(name, _)| name)));
}

#[test]
fn java_driver_maps_tokens_of_every_keyspace() {
    let Some(jars) = clients::java() else { return };
    let directory = tempfile::tempdir().unwrap();
    create_old_keyspaces(directory.path());
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new("java");
    command.arg("-cp").arg(jars.join("*")).arg(e2e("TokenMaps.java")).arg(server.port());
    succeed(command.args(OLD_KEYSPACES.map(|(name, _)| name)));
}

#[tokio::test]
async fn rust_driver_maps_tokens_of_every_keyspace() {
    let directory = tempfile::tempdir().unwrap();
    create_old_keyspaces(directory.path());
    let server = Server::start(directory.path(), &[]);
    let session = SessionBuilder::new().known_node(server.cql.to_string()).build().await.unwrap();
    for (name, replication) in [
        ("rust_s", "{'class': 'SimpleStrategy'}"),
        ("rust_n", "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}"),
    ] {
        let create = format!("CREATE KEYSPACE {name} WITH replication = {replication}");
        session.query_unpaged(create, &[]).await.unwrap();
    }
    session.refresh_metadata().await.unwrap();
    let state = session.get_cluster_state();
    for keyspace in OLD_KEYSPACES.map(|(name, _)| name).into_iter().chain(["rust_s", "rust_n"]) {
        let replicas = state.get_token_endpoints(keyspace, "t", Token::new(42));
        assert_eq!(replicas.len(), 1, "{keyspace}: {:?}", state.get_keyspace(keyspace));
    }
}

/// Serves with memory for a few prepared statements.
fn serve_with_little_prepared_memory(directory: &Path) -> Server {
    let config = directory.join("carnet.toml");
    std::fs::write(&config, "[server]\nprepared_memory = \"64KiB\"\n").unwrap();
    Server::start(&directory.join("data"), &["--config", config.to_str().unwrap()])
}

fn assert_statements_were_evicted(server: &Server) {
    let (_, figures) = server.get("/metrics");
    let figure = |name: &str| -> u64 {
        let line = figures.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    };
    assert!(figure("carnet_prepared_statements ") < 20, "{figures}");
    assert!(figure("carnet_prepared_bytes ") <= 64 << 10, "{figures}");
    assert!(figure("carnet_server_errors_total{code=\"unprepared\"} ") > 0, "{figures}");
}

#[test]
fn python_driver_prepares_evicted_statements_again() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = serve_with_little_prepared_memory(directory.path());
    succeed(Command::new(python).arg(e2e("prepare_again.py")).arg(server.port()));
    assert_statements_were_evicted(&server);
}

#[test]
fn node_driver_prepares_evicted_statements_again() {
    let Some(node) = clients::node() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = serve_with_little_prepared_memory(directory.path());
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules"));
    succeed(command.arg(e2e("prepare_again.js")).arg(server.port()));
    assert_statements_were_evicted(&server);
}

#[test]
fn java_driver_prepares_evicted_statements_again() {
    let Some(jars) = clients::java() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = serve_with_little_prepared_memory(directory.path());
    let mut command = Command::new("java");
    command.arg("-cp").arg(jars.join("*")).arg(e2e("PrepareAgain.java")).arg(server.port());
    succeed(&mut command);
    assert_statements_were_evicted(&server);
}

#[tokio::test]
async fn rust_driver_prepares_evicted_statements_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve_with_little_prepared_memory(directory.path());
    let session = SessionBuilder::new().known_node(server.cql.to_string()).build().await.unwrap();
    for statement in [
        "CREATE KEYSPACE again WITH replication = {'class': 'SimpleStrategy', \
         'replication_factor': 1}",
        "CREATE TABLE again.t (k int PRIMARY KEY, v int)",
    ] {
        session.query_unpaged(statement, &[]).await.unwrap();
    }
    let mut selects = Vec::new();
    for n in 0..30 {
        let text = format!("SELECT v, k AS n{n} FROM again.t WHERE k = ?");
        selects.push(session.prepare(text).await.unwrap());
    }
    for _ in 0..3 {
        for select in &selects {
            session.execute_unpaged(select, (1,)).await.unwrap();
        }
    }
    assert_statements_were_evicted(&server);
}

#[tokio::test]
async fn setting_lets_timestamps_be_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("carnet.toml");
    std::fs::write(&settings, "[server]\ntimestamps = \"ignore\"\n").unwrap();
    for (arguments, is_ignored) in
        [(&[][..], false), (&["--config", settings.to_str().unwrap()], true)]
    {
        let database = directory.path().join(format!("{is_ignored}"));
        let server = Server::start(&database, arguments);
        let address = server.cql.to_string();
        let session = SessionBuilder::new().known_node(address).build().await.unwrap();
        for create in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        ] {
            session.query_unpaged(create, &[]).await.unwrap();
        }
        let insert = "INSERT INTO ks.t (k, v) VALUES (1, 1) USING TIMESTAMP 5";
        let inserted = session.query_unpaged(insert, &[]).await;
        assert_eq!(inserted.is_ok(), is_ignored, "{inserted:?}");
    }
}
