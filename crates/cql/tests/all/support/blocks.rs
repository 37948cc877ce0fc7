//! Golden scripts: blocks separated by an empty line, each with optional comments, a statement,
//! `----`, and its outcome.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SEPARATOR: &str = "----";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts").join(name)
}

/// Reads a script.
pub(crate) fn read(scripts: &str, name: &str) -> String {
    std::fs::read_to_string(folder(scripts).join(name)).expect("the script is there")
}

/// Runs a script, and returns it with the outcome of each statement.
pub(crate) fn run(script: &str, mut outcome: impl FnMut(&str) -> String) -> String {
    let mut blocks = Vec::new();
    for block in script.trim_end().split("\n\n") {
        let input = block.split_once(SEPARATOR).map_or(block, |(input, _)| input).trim_end();
        let is_comment = |line: &&str| line.starts_with('#');
        let comments: Vec<&str> = input.lines().take_while(is_comment).collect();
        let statement: Vec<&str> = input.lines().skip_while(is_comment).collect();
        let mut done = comments.join("\n");
        if !statement.is_empty() {
            let statement = statement.join("\n");
            let between = if done.is_empty() { "" } else { "\n" };
            let _ = write!(done, "{between}{statement}\n{SEPARATOR}\n{}", outcome(&statement));
        }
        blocks.push(done.trim_end().to_owned());
    }
    blocks.join("\n\n") + "\n"
}

/// Returns the statements of a script.
pub(crate) fn statements(script: &str) -> Vec<String> {
    let mut statements = Vec::new();
    run(script, |statement| {
        statements.push(statement.to_owned());
        String::new()
    });
    statements
}

/// Compares a script's outcomes with the expected ones; rewrites them with `UPDATE_GOLDENFILES`.
pub(crate) fn compare(scripts: &str, name: &str, script: &str, done: &str) {
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(folder(scripts).join(name), done).expect("the script can be written");
        return;
    }
    assert!(script.contains(SEPARATOR), "{name} expects nothing");
    for (expected, found) in script.split("\n\n").zip(done.split("\n\n")) {
        assert_eq!(found, expected, "in {name}");
    }
    assert_eq!(done, script, "in {name}");
}

/// Fails if a folder contains other scripts than the known ones.
pub(crate) fn check_none_forgotten(scripts: &str, known: &[&str]) {
    let mut found: Vec<String> = std::fs::read_dir(folder(scripts))
        .expect("the folder can be listed")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    found.sort();
    let mut known = known.to_vec();
    known.sort_unstable();
    assert_eq!(found, known);
}
