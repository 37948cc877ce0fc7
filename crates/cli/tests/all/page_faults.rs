//! Sentences of the pages that were false once, tried on the real binary.

use std::fs;

use crate::support::{Server, carnet, fail, succeed};

/// A directory on the command line does not replace the cluster of the settings file in silence.
#[test]
fn directory_beside_a_cluster_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("carnet.toml");
    fs::write(&file, "[cluster]\nurl = \"cassandra://127.0.0.1:1/bank\"\n").unwrap();
    let serve = ["serve", "--config", file.to_str().unwrap(), "data"];
    let error = fail(carnet().args(serve).current_dir(folder.path()));
    assert!(error.contains("a database on a cluster, and data names another one"), "{error}");
    assert!(!folder.path().join("data").exists());
}

#[test]
fn disk_metrics_are_absent_without_a_scheduler() {
    for (scheduler, has_lines) in [("on", true), ("off", false)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("carnet.toml");
        fs::write(&file, format!("[io]\nscheduler = \"{scheduler}\"\n")).unwrap();
        let data = folder.path().join("data");
        let server = Server::start(&data, &["--config", file.to_str().unwrap()]);
        let (_, metrics) = server.get("/metrics");
        assert_eq!(metrics.contains("\ncarnet_io_bytes_total{"), has_lines, "{scheduler}");
    }
}

/// The connection of the shell has the transaction: docs/cql.md#transactions-that-stay-open.
#[test]
fn mistake_in_a_transaction_says_that_it_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let address = server.cql.to_string();
    let error =
        fail(carnet().args(["shell", "--server", &address, "-e", "START TRANSACTION; SELEC 1"]));
    assert!(error.contains("; the transaction is still open"), "{error}");
    let outside = fail(carnet().args(["shell", "--server", &address, "-e", "SELEC 1"]));
    assert!(!outside.contains("still open"), "{outside}");
}

/// A cast is exact, or refused: docs/cql.md#calculations.
#[test]
fn casts_of_decimals_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let create = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
                  CREATE TABLE k.t (k int PRIMARY KEY, d decimal); INSERT INTO k.t (k, d) VALUES (1, 1E+30); \
                  SELECT CAST(d AS varint) AS n FROM k.t";
    let said = succeed(carnet().arg("shell").arg(folder.path()).args(["-e", create]));
    assert!(said.contains(" 1000000000000000000000000000000"), "{said}");
}
