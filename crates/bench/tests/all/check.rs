//! Counts among the figures of the documents: `carnet-bench check --counted`, as CI runs it.

use std::process::{Command, Output};

fn check(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carnet-bench"));
    command.arg("check").args(arguments).output().unwrap()
}

#[test]
fn counts_are_those_of_the_documents() {
    let output = check(&["--counted", "--json"]);
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert!(out.lines().count() >= 4, "{out}");
    assert!(out.lines().all(|line| line.contains("\"verdict\":\"same\"")), "{out}");
}

/// A figure that is worse is named. The documents are copied, with another recorded value.
#[test]
fn worse_figures_are_named() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = std::fs::read_to_string(docs.join("figures.json")).unwrap();
    let mut figures: serde_json::Value = serde_json::from_str(&text).unwrap();
    let figures_of = figures.as_array_mut().unwrap();
    let worst = figures_of.iter_mut().find(|figure| figure["name"] == "storage.commit-entry-v2").unwrap();
    let value = worst["value"].as_f64().unwrap();
    worst["value"] = (value / 1.3).into();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("figures.json"), figures.to_string()).unwrap();
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
