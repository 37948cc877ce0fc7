//! Keeps `docs/documents.md` honest: every command in its tables runs in a small form, or is parsed.
//!
//! * A command of `carnet` runs as printed, in a folder where `DATA` is a database, with a server's
//!   free port for that of the page, and with options that make it small.
//! * A command that starts a server is started, and stopped when it answers.
//! * Other programs take minutes to build: their arguments are parsed by tests of their own
//!   (`carnet-bench`, `carnet-maelstrom-test`), and tests and examples that are named must exist.

use std::path::{Path, PathBuf};

use crate::support::{Server, carnet, shell, succeed};

const PAGE: &str = include_str!("../../../../docs/documents.md");
const SERVER: &str = "127.0.0.1:9042";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rows of the page's tables with five columns: document, item, where, how to try it, figure.
fn rows() -> Vec<Vec<&'static str>> {
    let cells =
        |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>();
    let rows = PAGE.lines().filter(|line| line.starts_with("| 0")).map(cells);
    // A row without a figure ends with an empty cell.
    rows.filter(|row| row.len() >= 4).collect()
}

/// Texts between backquotes.
fn quoted(cell: &'static str) -> Vec<&'static str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn commands() -> Vec<&'static str> {
    rows().iter().flat_map(|row| quoted(row[3])).collect()
}

/// Splits a command into words as a shell does that knows double quotes only.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in command.split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Options that make a command of `carnet` small.
fn small(words: &[String]) -> &'static [&'static str] {
    let is_load = |word: &String| ["multi-get", "read", "scan"].contains(&word.as_str());
    match words[0].as_str() {
        "stress" if words.iter().any(is_load) => &["--seconds", "1", "--rows", "1000"],
        "stress" => &["--seconds", "1"],
        "iotune" => &["--seconds", "2", "--scratch-mib", "16"],
        _ => &[],
    }
}

#[test]
fn every_row_names_files_and_a_command() {
    let rows = rows();
    assert!(rows.len() > 25, "{} rows", rows.len());
    for row in &rows {
        let places = quoted(row[2]);
        assert!(!places.is_empty(), "{row:?} names no place");
        for place in places {
            assert!(root().join(place).exists(), "{place} of {row:?} does not exist");
        }
        assert_eq!(quoted(row[3]).len(), 1, "{row:?} must have one command");
    }
    for document in ["000", "001", "002", "003", "004"] {
        assert!(rows.iter().any(|row| row[0] == document), "{document} has no row");
    }
    assert!(PAGE.contains("## Absent on purpose"));
}

#[test]
fn commands_of_carnet_run() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("DATA");
    succeed(&mut shell(
        &data,
        "CREATE KEYSPACE bank WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
         CREATE TABLE bank.accounts (id int PRIMARY KEY, balance bigint);
         INSERT INTO bank.accounts (id, balance) VALUES (1, 10);",
    ));
    let served = tempfile::tempdir().unwrap();
    let server = Server::start(served.path(), &[]);
    let mut run = 0;
    for command in commands() {
        let Some(arguments) = command.strip_prefix("carnet ") else { continue };
        let words = words(&arguments.replace(SERVER, &server.cql.to_string()));
        if words[0] == "serve" {
            let options: Vec<&str> = words[2..].iter().map(String::as_str).collect();
            drop(Server::start(&folder.path().join(&words[1]), &options));
            run += 1;
            continue;
        }
        let mut one = carnet();
        let out = succeed(one.args(&words).args(small(&words)).current_dir(folder.path()));
        assert!(!out.trim().is_empty() || words[0] == "shell", "{command} says nothing");
        run += 1;
    }
    assert!(run >= 15, "{run} commands ran");
}

/// Tests and examples exist under the names that the page gives them.
#[test]
fn other_commands_name_what_exists() {
    for command in commands() {
        if command.starts_with("carnet ") {
            continue;
        }
        let words = words(command);
        let behind = |option: &str| {
            let at = words.iter().position(|word| word == option)?;
            words.get(at + 1).cloned()
        };
        if let Some(directory) = behind("cd") {
            assert!(root().join(&directory).join("Cargo.toml").exists(), "{command}");
            continue;
        }
        let package = behind("-p").unwrap_or_else(|| panic!("{command} names no package"));
        let name = package.strip_prefix("carnet-").unwrap_or("carnet");
        let folder = root().join("crates").join(name);
        assert!(folder.join("Cargo.toml").exists(), "{command}: no package {package}");
        if let Some(test) = behind("--test") {
            let module =
                behind(&test).and_then(|filter| Some(filter.split_once("::")?.0.to_owned()));
            let module = module.unwrap_or_else(|| panic!("{command} names no module of {test}"));
            let file = folder.join("tests").join(test).join(format!("{module}.rs"));
            assert!(file.exists(), "{command}");
        }
        if let Some(example) = behind("--example") {
            let examples = folder.join("examples").join(&example);
            let is_there =
                examples.join("main.rs").exists() || examples.with_extension("rs").exists();
            assert!(is_there, "{command}");
        }
        let is_parsed = ["carnet-bench", "carnet-maelstrom-test"].contains(&package.as_str());
        let is_named = behind("--test").is_some() || behind("--example").is_some();
        assert!(is_parsed || is_named || words[1] == "test", "{command} is neither run nor parsed");
    }
}
