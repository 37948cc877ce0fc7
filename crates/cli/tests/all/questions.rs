//! The stranger's questions in `docs/dashboard.md`: each command answers on a real server, and each click
//! leads to a page and a card that exist.

use std::path::Path;
use std::process::Command;

use crate::support::{Server, carnet, succeed};

const PAGE: &str = include_str!("../../../../docs/dashboard.md");
const SHELL: &str = "carnet shell --server 127.0.0.1:9042";

/// Question whose answer is that no statement waits.
const IDLE: &str = "Who locks this row?";

/// Rows of the table: the question, the click and the command.
fn questions() -> Vec<[&'static str; 3]> {
    let (_, section) = PAGE.split_once("\n## A stranger's questions\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cells = |line: &'static str| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("not three cells: {cells:?}"))
    };
    rows.filter(|line| !line.starts_with("| ---")).map(cells).collect()
}

/// Returns the command of a cell for a shell.
fn command(cell: &str) -> String {
    let text = cell.trim_matches('`').replace("\\|", "|");
    text.strip_prefix('…').map(|rest| format!("{SHELL}{rest}")).unwrap_or(text)
}

fn run(server: &Server, statement: &str) -> String {
    let mut command = carnet();
    let arguments = ["shell", "--server", &server.cql.to_string(), "--csv", "-e", statement];
    succeed(command.args(arguments))
}

/// Lets a transaction lose a row to another statement.
fn lose_a_row(server: &Server) {
    let mut command = carnet();
    let server = server.cql.to_string();
    let lost = "START DETACHED TRANSACTION";
    let started = succeed(command.args(["shell", "--server", &server, "--csv", "-e", lost]));
    let id = started.lines().nth(1).and_then(|row| row.split(',').next()).unwrap().to_owned();
    let insert = "INSERT INTO shop.sales (id) VALUES (7) IF NOT EXISTS";
    for (statement, is_lost) in [
        (format!("{insert} USING TRANSACTION {id}"), false),
        (insert.to_owned(), false),
        (format!("COMMIT TRANSACTION {id}"), true),
    ] {
        let output =
            carnet().args(["shell", "--server", &server, "-e", &statement]).output().unwrap();
        assert_eq!(!output.status.success(), is_lost, "{statement}: {output:?}");
    }
}

#[test]
fn commands_answer() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &[]);
    run(
        &server,
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; \
         CREATE TABLE shop.sales (id int PRIMARY KEY); INSERT INTO shop.sales (id) VALUES (1); \
         CREATE SERVICE LEVEL gold; ATTACH SERVICE LEVEL gold TO ann",
    );
    lose_a_row(&server);
    let binary = Path::new(env!("CARGO_BIN_EXE_carnet")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    for [question, _, cell] in questions() {
        let started = run(&server, "START DETACHED TRANSACTION");
        let id = started.lines().nth(1).and_then(|row| row.split(',').next()).unwrap();
        let text = command(cell).replace("KILL TRANSACTION id", &format!("KILL TRANSACTION {id}"));
        assert!(text.starts_with(SHELL) || text.starts_with("curl "), "{question} {text}");
        let text = text.replace("127.0.0.1:9042", &server.cql.to_string());
        let text = text.replace("127.0.0.1:9180", &server.http.to_string());
        let said = succeed(
            Command::new("sh")
                .args(["-c", &text])
                .env("PATH", &path)
                .env_remove("RUST_LOG")
                .env("HOME", directory.path()),
        );
        assert!(!said.trim().is_empty(), "{question} {text} says nothing");
        if question == IDLE {
            assert!(said.contains("table_name") && said.contains("(0 rows)"), "{text}: {said}");
        } else {
            assert!(!said.contains("(0 rows)"), "{question} {text}: {said}");
        }
    }
    assert!(questions().len() >= 12);
}

#[test]
fn clicks_lead_to_pages_and_cards() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/dashboard");
    let mut scripts = std::fs::read_to_string(folder.join("main.js")).unwrap();
    for entry in std::fs::read_dir(folder.join("pages")).unwrap() {
        scripts.push_str(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    for [question, click, _] in questions().into_iter().filter(|row| !row[1].starts_with("the ")) {
        for step in click.split("; ") {
            let (page, card) =
                step.split_once(", ").map_or((step, None), |(page, card)| (page, Some(card)));
            assert!(scripts.contains(&format!("'{page}'")), "{question}: no page {page}");
            let Some(card) = card.map(|card| card.trim_matches('*')) else { continue };
            let is_there =
                scripts.contains(&format!("\"{card}")) || scripts.contains(&format!(">{card}<"));
            assert!(is_there, "{question}: no card {card} on {page}");
        }
    }
}
