//! The drivers' own integration tests against the real server.
//!
//! `tests/suites` has a list for each driver: the tests that fail on Carnet, with reasons. Another
//! test that fails is a regression. A listed test that passes is reported in one line, and fails
//! the long edition, `CARNET_SUITES=all`, which also runs the slow tests.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Server, clients, e2e, text};

/// The list of a driver.
#[derive(Debug, Default)]
struct List {
    /// Least number of tests that pass.
    passes: usize,
    /// Reasons of the tests that fail.
    fails: BTreeMap<String, String>,
    /// Tests that only the long edition runs.
    slow: Vec<String>,
}

/// Reads a list: the pinned module, then lines of `passes N`, `slow TEST` and `TEST: reason`.
fn list(path: &Path) -> List {
    let mut list = List::default();
    let content = fs::read_to_string(path).unwrap();
    let lines = content.lines().skip(1);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(count) = line.strip_prefix("passes ") {
            list.passes = count.parse().unwrap();
        } else if let Some(test) = line.strip_prefix("slow ") {
            list.slow.push(test.to_owned());
        } else {
            let (test, reason) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?}"));
            list.fails.insert(test.to_owned(), reason.to_owned());
        }
    }
    assert!(list.passes > 0, "{}: how many tests pass?", path.display());
    list
}

/// Returns each test's result (`PASS`, `FAIL` or `SKIP`) in the output of `go test -v`.
fn results(output: &str) -> BTreeMap<&str, &str> {
    let result = |line| {
        let (_, result): (_, &str) = str::split_once(line, "--- ")?;
        let (verdict, rest) = result.split_once(": ")?;
        let (test, _) = rest.split_once(" (")?;
        ["PASS", "FAIL", "SKIP"].contains(&verdict).then_some((test, verdict))
    };
    output.lines().filter_map(result).collect()
}

/// Returns the lines of a failed test, which precede its result.
fn excerpt<'o>(output: &'o str, test: &str) -> Vec<&'o str> {
    let start = format!("=== RUN   {test}");
    output.lines().skip_while(|line| *line != start).take(12).collect()
}

fn check(output: &str, list: &List, path: &Path) {
    let results = results(output);
    let is_listed = |test: &str| {
        let parents = test.match_indices('/').map(|(at, _)| &test[..at]);
        parents.chain([test]).any(|name| list.fails.contains_key(name))
    };
    let failed = results.iter().filter(|(_, result)| **result == "FAIL").map(|(test, _)| *test);
    // A test fails with its subtests.
    let is_parent = |test: &str| results.keys().any(|name| name.starts_with(&format!("{test}/")));
    let new: Vec<&str> = failed.filter(|test| !is_listed(test) && !is_parent(test)).collect();
    let excerpts: Vec<String> = new.iter().map(|test| excerpt(output, test).join("\n")).collect();
    assert!(new.is_empty(), "{new:?} fail, and passed before:\n{}", excerpts.join("\n\n"));
    let passed = results.values().filter(|result| **result == "PASS").count();
    let tail = &output[output.floor_char_boundary(output.len().saturating_sub(2_000))..];
    assert!(passed >= list.passes, "{passed} of {} tests passed:\n{tail}", list.passes);
    for test in list.fails.keys().filter(|test| results.get(test.as_str()) == Some(&"PASS")) {
        let report = format!("{test} passes now: remove its line from {}", path.display());
        assert!(!is_long_edition(), "{report}");
        // `eprintln` would be captured in a passing test.
        let _ = writeln!(io::stderr(), "{report}");
    }
    if is_long_edition() {
        let unknown = list.fails.keys().find(|test| !results.contains_key(test.as_str()));
        assert_eq!(unknown, None, "{}: there is no such test", path.display());
    }
}

fn is_long_edition() -> bool {
    env::var("CARNET_SUITES").is_ok_and(|edition| edition == "all")
}

/// Runs the tests of a Go module that pass options for Cassandra as gocql does.
fn run_gocql(name: &str, protocol: u8) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/suites").join(name);
    let Some(module) = clients::go_suite(&path) else { return };
    let list = list(&path);
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut suite = Command::new(module.join("suite.test"));
    suite.current_dir(&module).args(["-test.v", "-test.timeout=5m"]);
    suite.args(["-rf=1", "-clusterSize=1", "-autowait=200ms", "-gocql.timeout=20s"]);
    suite.arg("-gocql.cversion=5.0.6").arg(format!("-proto={protocol}"));
    suite.arg(format!("-cluster={}", server.cql));
    if !is_long_edition() && !list.slow.is_empty() {
        suite.arg(format!("-test.skip=^({})$", list.slow.join("|")));
    }
    let output = suite.output().unwrap();
    check(&format!("{}{}", text(&output.stdout), text(&output.stderr)), &list, &path);
}

/// Runs the tests of the Python driver.
#[test]
fn python_driver_passes_its_own_tests() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/suites/python");
    let Some(home) = clients::python_suite(&path) else { return };
    let list = list(&path);
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("carnet.toml");
    fs::write(&settings, "[server]\ntimestamps = \"record\"\n").unwrap();
    let database = directory.path().join("data");
    let server = Server::start(&database, &["--config", settings.to_str().unwrap()]);
    let mut suite = Command::new(home.join("python/bin/python"));
    suite.current_dir(home.join("source")).arg(e2e("python_suite.py")).arg(server.port());
    suite.env("USE_CASS_EXTERNAL", "1").env("CASSANDRA_VERSION", "5.0.6");
    suite.env("CLUSTER_IP", "127.0.0.1").arg("--timeout=100");
    for folder in ["cqlengine", "standard"] {
        if is_long_edition() || !list.slow.iter().any(|slow| slow == folder) {
            suite.arg(format!("tests/integration/{folder}"));
        }
    }
    let output = suite.output().unwrap();
    check(&format!("{}{}", text(&output.stdout), text(&output.stderr)), &list, &path);
}

#[test]
fn gocql_1_passes_its_own_tests() {
    run_gocql("gocql_1", 4);
}

#[test]
fn gocql_2_passes_its_own_tests() {
    run_gocql("gocql_2", 5);
}
