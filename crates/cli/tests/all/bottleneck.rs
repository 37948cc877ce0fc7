//! `carnet bottleneck`: reports of a server, and failures to reach it.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::support::{Server, carnet, fail, shell, succeed, text};

fn bottleneck(at: &str) -> Command {
    let mut command = carnet();
    command.args(["bottleneck", "--at", at]);
    command
}

#[test]
fn idle_server_has_no_bottleneck() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let at = server.cql.to_string();
    let said = succeed(&mut bottleneck(&at));
    // A busy machine is reported as such.
    assert!(
        said.starts_with("none: statements waited for ") || said.starts_with("cpu: "),
        "{said}"
    );
    let said = succeed(bottleneck(&at).arg("--json"));
    let is_why = said.contains("\"why\":\"none\"") || said.contains("\"why\":\"cpu\"");
    assert!(is_why && said.contains("\"causes\":["), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn server_that_has_users_wants_a_password() {
    let directory = tempfile::tempdir().unwrap();
    let (users, password) = (directory.path().join("users"), directory.path().join("password"));
    let mut hash = carnet();
    let mut child = hash
        .args(["hash-password", "ann"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "correct horse").unwrap();
    fs::write(&users, text(&child.wait_with_output().unwrap().stdout)).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&password, "correct horse\n").unwrap();
    let (users, password) = (users.to_str().unwrap(), password.to_str().unwrap());
    let server = Server::start(&directory.path().join("data"), &["--users", users]);
    let at = server.cql.to_string();
    let error = fail(&mut bottleneck(&at));
    assert!(error.contains(&format!("cannot connect to {at}: ")), "{error}");
    let said = succeed(bottleneck(&at).args(["--user", "ann", "--password-file", password]));
    // A busy machine is reported as such.
    assert!(said.starts_with("none: ") || said.starts_with("cpu: "), "{said}");
}

#[test]
fn address_without_a_server_is_named() {
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = fail(&mut bottleneck(&at));
    assert!(error.starts_with(&format!("error: cannot connect to {at}: ")), "{error}");
    let output = carnet().args(["bottleneck", "--user", "ann"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "a user needs a password");
}

#[test]
fn shell_measures_no_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let error = fail(&mut shell(directory.path(), "SHOW BOTTLENECK"));
    assert!(error.contains("without admission control"), "{error}");
}
