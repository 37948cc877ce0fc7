//! Runs README's commands as printed.
//!
//! The commands' programs are replaced by the binaries that were built for the tests, and ports by
//! free ones; everything else is literal. A command that is added to README must be added here. The
//! one for a cluster runs in `cassandra.rs`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{Server, carnet, clients, succeed};

const README: &str = include_str!("../../../../README.md");
const CARGO_RUN: &str = "cargo run --release -- ";

/// Returns the code blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    README.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Returns all commands, without their comments.
fn commands() -> Vec<&'static str> {
    let command = |line: &'static str| line.split("  #").next().unwrap().trim();
    blocks("sh").into_iter().flat_map(str::lines).map(command).collect()
}

/// Returns the arguments of a `cargo run` command.
fn arguments(command: &str) -> Vec<&str> {
    let arguments = command.strip_prefix(CARGO_RUN).unwrap();
    arguments.split_whitespace().map(|argument| argument.trim_matches('\'')).collect()
}

/// Runs `carnet` in a directory that has the examples, like a clone.
fn run(directory: &Path, command: &str) -> String {
    succeed(carnet().args(arguments(command)).current_dir(directory))
}

fn clone() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    symlink(examples.canonicalize().unwrap(), directory.path().join("examples")).unwrap();
    directory
}

#[test]
fn every_printed_command_is_known() {
    let known = [
        "cargo run --release -- shell -f examples/bank.cql",
        // The tests themselves.
        "cargo test --workspace",
        "cargo run --release -- shell ./carnet-data -f examples/bank.cql",
        "cargo run --release -- serve ./carnet-data",
        "cqlsh",
        "scripts/cassandra up",
        "cargo run --release -- shell --store 'cassandra://127.0.0.1:PORT/bank?replication=1' -f \
         examples/bank.cql",
    ];
    assert_eq!(commands(), known, "what README prints is run by the tests of this file");
    assert_eq!(blocks("sql").len(), 1);
}

#[test]
fn the_first_command_runs() {
    let said = run(clone().path(), commands()[0]);
    assert!(said.contains("8 ┆  1000"), "{said}");
}

#[test]
fn the_transaction_runs_in_the_shell_and_in_cqlsh() {
    let directory = clone();
    let [fill, serve] = [commands()[2], commands()[3]];
    assert!(run(directory.path(), fill).contains("8 ┆  1000"));
    let transaction = blocks("sql")[0];
    let data = arguments(serve)[1];
    let said =
        succeed(carnet().args(["shell", data, "-e", transaction]).current_dir(directory.path()));
    assert!(said.contains("70") && said.contains("ada.balance"), "{said}");

    let Some(python) = clients::python() else { return };
    assert_eq!(arguments(serve)[0], "serve");
    let server = Server::start(&directory.path().join(data), &[]);
    let port = server.port();
    let mut cqlsh = Command::new(python.with_file_name("cqlsh"));
    cqlsh.args(["--no-color", "127.0.0.1", &port]).env("HOME", directory.path());
    let select = "SELECT balance FROM bank.accounts WHERE id = 1";
    let input = directory.path().join("transaction.cql");
    fs::write(&input, format!("{transaction}{select};\n")).unwrap();
    let said = succeed(cqlsh.arg("-f").arg(input));
    assert!(said.contains("ada.balance") && said.contains("40"), "{said}");
    assert!(said.lines().any(|line| line.trim() == "10"), "30 were paid twice: {said}");
}
