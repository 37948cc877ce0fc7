//! Counts among the figures of the documents: `carnet-bench check --counted`, as CI runs it.

use std::process::{Command, Output};

use serde_json::{Value, json};

fn check(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carnet-bench"));
    command.arg("check").args(arguments).output().unwrap()
}

fn recorded() -> Vec<Value> {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = std::fs::read_to_string(docs.join("figures.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Copies the records, with another value of one of them.
fn with_value(name: &str, change: impl Fn(f64) -> f64) -> tempfile::TempDir {
    let mut records = recorded();
    let record = records.iter_mut().find(|record| record["name"] == name).unwrap();
    record["value"] = json!(change(record["value"].as_f64().unwrap()));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("figures.json"), json!(records).to_string()).unwrap();
    folder
}

#[test]
fn counts_are_those_of_the_documents() {
    let output = check(&["--counted", "--json"]);
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert!(out.lines().count() >= 6, "{out}");
    assert!(out.lines().all(|line| line.contains("\"verdict\":\"same\"")), "{out}");
}

/// A figure that is worse is named.
#[test]
fn worse_figures_are_named() {
    let folder = with_value("storage.commit-entry-v2", |value| value / 1.3);
    let folder = folder.path().to_str().unwrap();
    let output = check(&["storage.commit-entry-v2", "--docs", folder]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        error.contains(
            "worse than recorded by more than a quarter, or not measured: storage.commit-entry-v2"
        ),
        "{error}"
    );
    let unknown = check(&["nothing", "--docs", folder]);
    let error = String::from_utf8_lossy(&unknown.stderr);
    assert!(error.contains("there is no group or figure nothing; the groups are "), "{error}");
}

/// `--record` stores the measured figures, makes the tables of the pages, and keeps the other records.
#[test]
fn recorded_figures_are_in_the_pages() {
    let name = "storage.commit-entry-v2";
    let folder = with_value(name, |value| value * 3.0);
    let page = folder.path().join("page.md");
    std::fs::write(&page, format!("a <!-- figure: {name} -->9<!-- end --> b\n")).unwrap();
    let others = |records: Vec<Value>| -> Vec<Value> {
        records.into_iter().filter(|record| record["name"] != name).collect()
    };
    // The commit of the record is that of the directory.
    for words in
        ["init --quiet", "-c user.name=a -c user.email=a@b commit --quiet --allow-empty -m a"]
    {
        let mut git = Command::new("git");
        assert!(git.current_dir(&folder).args(words.split(' ')).status().unwrap().success());
    }
    let output = check(&[name, "--record", "--docs", folder.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.path().join("figures.json")).unwrap();
    let records: Vec<Value> = serde_json::from_str(&text).unwrap();
    let value = |records: &[Value]| {
        records.iter().find(|record| record["name"] == name).unwrap()["value"].clone()
    };
    let (value, wanted) = (value(&records), value(&recorded()));
    assert_eq!(value, wanted);
    assert_eq!(others(records), others(recorded()));
    let made = format!("a <!-- figure: {name} -->{value}<!-- end --> b\n");
    assert_eq!(std::fs::read_to_string(&page).unwrap(), made);
}
