//! Runs the examples of `docs/checker.md`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PAGE: &str = include_str!("../../../../docs/checker.md");

/// Returns the first block of a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n```{language}")).unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap().0
}

/// Checks a history in a file with options, as the page's commands do.
fn check(options: &[&str], name: &str, history: &str) -> Output {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, history).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_carnet-checker"));
    command.args(options).arg(&path).output().unwrap()
}

#[test]
fn write_skew_is_reported_as_on_the_page() {
    let history = "
        {:index 0, :type :invoke, :process 0, :f :txn, :value [[:r :x nil] [:append :y 1]]}
        {:index 1, :type :invoke, :process 1, :f :txn, :value [[:r :y nil] [:append :x 2]]}
        {:index 2, :type :ok, :process 0, :f :txn, :value [[:r :x []] [:append :y 1]]}
        {:index 3, :type :ok, :process 1, :f :txn, :value [[:r :y []] [:append :x 2]]}
        {:index 4, :type :invoke, :process 0, :f :txn, :value [[:r :x nil] [:r :y nil]]}
        {:index 5, :type :ok, :process 0, :f :txn, :value [[:r :x [2]] [:r :y [1]]]}";
    let output = check(&[], "skew.edn", history);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines = said.lines();
    for line in block("text").lines().filter(|line| line.trim() != "…") {
        assert!(
            lines.any(|found| found == line),
            "{line:?} is missing, or not in this order:\n{said}"
        );
    }
    let snapshot = check(&["--model", "snapshot-isolation"], "skew.edn", history);
    assert_eq!(snapshot.status.code(), Some(0));
}

#[test]
fn format_on_the_page_is_read() {
    let output = check(&[], "format.edn", block("clojure"));
    // Other clients wrote the values that are read: the history is refused, but it was read.
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
}
