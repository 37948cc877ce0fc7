//! `carnet stress` with the real binary: on a directory, on a server, and on a killed server.

use crate::support::{Server, carnet, fail, rows, shell, succeed, text};

const VERDICT: &str = "strictly serializable, nothing acknowledged is missing";

#[test]
fn a_directory_is_driven_and_its_history_written() {
    let directory = tempfile::tempdir().unwrap();
    for (workload, name) in [
        ("list-append", "history.edn"),
        ("register,write-skew", "history.json"),
        ("phantom,bank", "history"),
    ] {
        let history = directory.path().join(name);
        let mut stress = carnet();
        stress.arg("stress").arg("--dir").arg(directory.path().join("data"));
        stress.args(["--workload", workload, "--seconds", "1", "--clients", "4", "--seed", "1"]);
        let said = succeed(stress.arg("--history").arg(&history));
        assert!(said.contains(VERDICT), "{said}");
        let text = std::fs::read_to_string(&history).unwrap();
        let ok = if name.ends_with(".json") { "\"type\":\"ok\"" } else { ":type :ok" };
        assert!(text.lines().count() > 20 && text.contains(ok), "{text}");
    }
}

#[test]
fn a_server_is_driven() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let address = server.cql.to_string();
    for workload in ["list-append,phantom", "register", "bank,write-skew"] {
        let mut stress = carnet();
        stress.args(["stress", "--server", &address, "--workload", workload]);
        let said = succeed(stress.args(["--seconds", "2", "--clients", "8"]));
        assert!(said.contains(VERDICT), "{said}");
    }
}

/// The verdict rejects anomalies that snapshot isolation permits: a violating history from the real
/// server ends with exit code 1.
#[test]
fn snapshot_isolation_violates_the_verdict() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("carnet.toml");
    std::fs::write(&config, "[database]\nisolation = \"snapshot\"\n").unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data, &["--config", config.to_str().unwrap()]);
    let address = server.cql.to_string();
    for (workload, says) in [("write-skew", "is on call"), ("phantom", "on 8 seats")] {
        let history = directory.path().join(format!("{workload}.edn"));
        let mut stress = carnet();
        stress.args(["stress", "--server", &address, "--workload", workload]);
        stress.args(["--seconds", "20", "--clients", "16"]).arg("--history").arg(&history);
        let output = stress.output().unwrap();
        let (said, error) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{workload}: {said}{error}");
        assert!(error.contains(says), "{workload}: {error}");
        assert!(said.contains("strict-serializable                VIOLATED"), "{workload}: {said}");
        assert!(std::fs::read_to_string(&history).unwrap().contains(":type :ok"));
    }
}

/// The long edition is in `CONTRIBUTING.md`.
#[test]
fn killed_server_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut stress = carnet();
    stress.arg("stress").arg("--dir").arg(directory.path().join("data"));
    stress.args(["--workload", "list-append,bank"]);
    let said = succeed(stress.args(["--kill-every", "1", "--seconds", "6", "--clients", "8"]));
    assert!(said.contains(VERDICT), "{said}");
}

#[test]
fn keyspaces_of_users_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let make = |keyspace: &str| {
        let class = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        let text = format!(
            "CREATE KEYSPACE {keyspace} WITH replication = {class}; \
             CREATE TABLE {keyspace}.lists (k int PRIMARY KEY); \
             INSERT INTO {keyspace}.lists (k) VALUES (7);"
        );
        succeed(&mut shell(&data, &text));
    };
    let killing = || {
        let mut stress = carnet();
        stress.arg("stress").arg("--dir").arg(&data);
        stress.args(["--kill-every", "1", "--seconds", "1", "--clients", "2"]);
        stress
    };
    make("stress");
    // The second run replaces the tables of the first.
    for _ in 0..2 {
        succeed(&mut killing());
        assert_eq!(rows(&data, "SELECT k FROM stress.lists"), "{\"k\":7}\n");
    }
    succeed(&mut shell(&data, "DROP KEYSPACE carnet_stress"));
    make("carnet_stress");
    let output = killing().output().unwrap();
    // The server that it starts has said something before.
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("carnet stress did not make") && error.contains("lists"), "{error}");
    assert_eq!(rows(&data, "SELECT k FROM carnet_stress.lists"), "{\"k\":7}\n");
}

#[test]
fn directory_in_use_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let _server = Server::start(directory.path(), &[]);
    let error = fail(carnet().arg("stress").arg("--dir").arg(directory.path()));
    assert!(error.contains("in use by process"), "{error}");
}

#[test]
fn workload_invariants_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    for (workload, held) in [
        ("bank", "held their total in every read"),
        ("write-skew", "one of each pair was on call in every read"),
        ("phantom", "no flight was overbooked in any read"),
    ] {
        let mut stress = carnet();
        stress.arg("stress").arg("--dir").arg(directory.path().join("data"));
        let said = succeed(stress.args(["--workload", workload, "--seconds", "1"]));
        assert!(said.contains(held), "{said}");
        assert_eq!(said.contains(VERDICT), workload != "bank", "{said}");
    }
}

#[test]
fn workloads_without_a_shared_history_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut stress = carnet();
    stress.arg("stress").arg("--dir").arg(directory.path().join("data"));
    let error = fail(stress.args(["--workload", "bank", "--history", "h.edn"]));
    assert!(error.contains("make no history"), "{error}");
    let mut stress = carnet();
    stress.arg("stress").arg("--dir").arg(directory.path().join("data"));
    let error = fail(stress.args(["--workload", "register,list-append"]));
    assert!(error.contains("lists or registers, not both"), "{error}");
    assert!(!directory.path().join("data").exists(), "nothing was begun");
}

/// Runs a load and returns its result.
fn load(place: [&str; 2], workload: &str, options: &[&str]) -> serde_json::Value {
    let mut stress = carnet();
    stress.arg("stress").args(place).args(["--workload", workload, "--rows", "2000", "--json"]);
    let said = succeed(stress.args(["--threads", "3", "--seconds", "1"]).args(options));
    serde_json::from_str(&said).unwrap()
}

fn check_loads(place: [&str; 2]) {
    for (workload, rows_each) in
        [("read", 1), ("write", 1), ("mixed", 1), ("scan", 7), ("multi-get", 7)]
    {
        let result = load(place, workload, &["--group", "7"]);
        let count = |name: &str| result[name].as_u64().unwrap();
        assert!(count("operations") > 5, "{result}");
        assert_eq!(count("rows"), rows_each * count("operations"), "{result}");
        assert_eq!((count("failed"), &result["workload"]), (0, &workload.into()), "{result}");
        let micros = |name: &str| result["latency_micros"][name].as_u64().unwrap();
        assert!(
            micros("p50") > 0 && micros("p50") <= micros("p99") && micros("p99") <= micros("max")
        );
    }
}

#[test]
fn loads_run_within_this_process() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    check_loads(["--dir", data.to_str().unwrap()]);
    // In an open loop every operation that is due runs once.
    let hdr = directory.path().join("latency.hgrm");
    let options = ["--rate", "100", "--hdr", hdr.to_str().unwrap()];
    let result = load(["--dir", data.to_str().unwrap()], "read", &options);
    assert_eq!(result["operations"], 100, "{result}");
    let percentiles = std::fs::read_to_string(&hdr).unwrap();
    assert!(
        percentiles.contains("Percentile") && percentiles.contains("Total count    =          100")
    );
}

#[test]
fn loads_run_through_a_server_and_show_in_its_statistics() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let address = server.cql.to_string();
    check_loads(["--server", &address]);
    // The last load was multi-get, of a table that it made.
    let mut statistics = carnet();
    statistics.args(["table-stats", "carnet_stress.load", "--at", &address, "--json"]);
    let row: serde_json::Value = serde_json::from_str(succeed(&mut statistics).trim()).unwrap();
    let number = |name: &str| row[name].as_f64().unwrap();
    assert!(number("writes") >= 2000.0 && number("cells_written") >= 2000.0, "{row}");
    assert!(number("cells_read") >= 7.0 * 6.0, "{row}");
    assert!(number("write_p99_ms") > 0.0 && number("write_p99_ms") < 10_000.0, "{row}");
    assert_eq!(number("tombstones_read"), 0.0, "{row}");
    let mut table = carnet();
    let table = succeed(table.args(["table-stats", "carnet_stress", "--at", &address]));
    assert!(table.contains("load_rows") && table.contains("cache_hit_rate"), "{table}");
}

#[test]
fn loads_refuse_what_they_cannot_do() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let refuse = |options: &[&str], why: &str| {
        let mut stress = carnet();
        stress.arg("stress").arg("--dir").arg(&data).args(options);
        let error = fail(&mut stress);
        assert!(error.contains(why), "{error}");
    };
    refuse(&["--workload", "read,write"], "run alone");
    refuse(&["--workload", "read,bank"], "run alone");
    refuse(&["--workload", "scan", "--kill-every", "3"], "are for workloads that are checked");
    refuse(
        &["--workload", "multi-get", "--group", "900", "--rows", "1000"],
        "at most half of --rows",
    );
}
