//! `carnet stress` with the real binary: on a directory, on a server, and on a server that is killed.

mod support;

use support::{Server, carnet, fail, succeed};

const VERDICT: &str = "strictly serializable, nothing acknowledged is missing";

#[test]
fn a_directory_is_driven_and_its_history_written() {
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("history.edn");
    for workload in ["list-append", "register", "list-append,bank"] {
        let mut stress = carnet();
        stress.arg("stress").arg("--dir").arg(directory.path().join("data"));
        stress.args(["--workload", workload, "--seconds", "1", "--clients", "4", "--seed", "1"]);
        let said = succeed(stress.arg("--history").arg(&history));
        assert!(said.contains(VERDICT), "{said}");
        let text = std::fs::read_to_string(&history).unwrap();
        assert!(text.lines().count() > 20 && text.contains(":type :ok"), "{text}");
    }
}

#[test]
fn a_server_is_driven() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let address = server.cql.to_string();
    for workload in ["list-append", "register", "bank,register"] {
        let mut stress = carnet();
        stress.args(["stress", "--server", &address, "--workload", workload]);
        let said = succeed(stress.args(["--seconds", "2", "--clients", "8"]));
        assert!(said.contains(VERDICT), "{said}");
    }
}

/// The long edition is in `CONTRIBUTING.md`.
#[test]
fn a_server_that_is_killed_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut stress = carnet();
    stress.arg("stress").arg("--dir").arg(directory.path().join("data"));
    stress.args(["--workload", "list-append,bank"]);
    let said = succeed(stress.args(["--kill-every", "1", "--seconds", "6", "--clients", "8"]));
    assert!(said.contains(VERDICT), "{said}");
}

#[test]
fn a_directory_that_is_in_use_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let _server = Server::start(directory.path(), &[]);
    let error = fail(carnet().arg("stress").arg("--dir").arg(directory.path()));
    assert!(error.contains("in use by process"), "{error}");
}

#[test]
fn a_bank_is_judged_by_its_total() {
    let directory = tempfile::tempdir().unwrap();
    let mut stress = carnet();
    stress.arg("stress").arg("--dir").arg(directory.path().join("data"));
    let said = succeed(stress.args(["--workload", "bank", "--seconds", "1"]));
    assert!(said.contains("held their total in every read"), "{said}");
    assert!(!said.contains(VERDICT), "there was nothing for the checker: {said}");
}

#[test]
fn workloads_that_make_no_history_together_are_refused() {
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
