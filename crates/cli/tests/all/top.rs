//! `carnet top`: a frame of a server with statements, and failures.

use crate::support::{Server, carnet, fail, shell, succeed};

fn top(server: &str) -> std::process::Command {
    let mut command = carnet();
    command.args(["top", "--server", server]);
    command
}

#[test]
fn frame_shows_load_statements_and_levels() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let address = server.cql.to_string();
    let script = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}; \
                  CREATE TABLE k.t (a int PRIMARY KEY, b text); \
                  INSERT INTO k.t (a, b) VALUES (1, 'secret'); SELECT b FROM k.t WHERE a = 1; \
                  EXPLAIN SELECT b FROM k.t;";
    let mut remote = carnet();
    let said = succeed(remote.args(["shell", "--server", &address, "-e", script]));
    assert!(said.contains("the whole table, in the order of tokens"), "{said}");
    let frame = succeed(top(&address).args(["--once", "--interval", "0.2"]));
    let has = |words: &str| assert!(frame.contains(words), "{words:?} is not in\n{frame}");
    has(&format!("carnet top  {address}"));
    has("statements ");
    has("bottleneck: ");
    has("INSERT INTO k.t (a, b) VALUES (?, …)");
    has("SELECT b FROM k.t WHERE a = ?");
    assert!(!frame.contains("system_views.statement_statistics"), "its own statements: {frame}");
    has("running statements (KILL STATEMENT id ends one)\n");
    has("open transactions (KILL TRANSACTION id ends one)\n  none\n");
    let is_level = |line: &str| line.starts_with("default") && line.contains(" read ");
    assert!(frame.lines().any(is_level), "{frame}");
    assert!(!frame.contains("secret") && !frame.contains('\u{1b}'), "{frame}");
}

#[test]
fn failures_are_named() {
    let error = fail(&mut top("127.0.0.1:1"));
    assert!(error.contains("standard output is not a terminal: add --once"), "{error}");
    let error = fail(top("127.0.0.1:1").arg("--once"));
    assert!(error.starts_with("error: cannot connect to 127.0.0.1:1: "), "{error}");
    let error = fail(top("127.0.0.1:1").args(["--once", "--interval", "0"]));
    assert!(error.contains("give at least 0.1 seconds"), "{error}");
}

#[test]
fn statement_that_does_not_run_is_not_killed() {
    let directory = tempfile::tempdir().unwrap();
    let error = fail(&mut shell(directory.path(), "KILL STATEMENT 17"));
    assert!(error.contains("statement 17 does not run here"), "{error}");
    assert_eq!(succeed(shell(directory.path(), "SHOW STATEMENTS").arg("--json")), "");
}
