//! Stock clients against the real server. What they do is in `tests/e2e`.

mod support;

use std::process::Command;

use support::{Server, clients, e2e, succeed};

#[test]
fn the_python_driver_does_what_applications_do() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    succeed(Command::new(python).arg(e2e("python_driver.py")).arg(server.port()));
}

#[test]
fn cqlsh_does_what_people_do() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &[]);
    let mut command = Command::new(python);
    command.arg(e2e("cqlsh.py")).arg(server.port());
    // cqlsh keeps a history and a configuration in its user's home.
    succeed(command.env("HOME", directory.path()));
}

#[test]
fn the_node_driver_does_what_applications_do() {
    let Some(node) = clients::node() else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[]);
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules"));
    succeed(command.arg(e2e("node_driver.js")).arg(server.port()));
}
