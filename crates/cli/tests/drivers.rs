//! Stock clients against the real server. Their programs are in `tests/e2e`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;
use std::process::Command;

use carnet::catalog::{self, KeyspaceSchema};
use carnet::{Db, block_on};
use scylla::client::session_builder::SessionBuilder;
use scylla::routing::Token;
use support::{Server, clients, e2e, succeed};

#[test]
fn python_driver_runs_application_statements() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    succeed(Command::new(python).arg(e2e("python_driver.py")).arg(server.port()));
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
