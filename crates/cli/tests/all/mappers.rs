//! Object mappers and further drivers against the real server. Their programs are in `tests/e2e`.

use std::process::Command;

use crate::support::{Server, clients, e2e, succeed};

fn run_on_server(command: &mut Command) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let server = Server::start(directory.path(), &[]);
    succeed(command.arg(server.port()));
}

#[test]
fn cqlengine_maps_every_type() {
    let Some(python) = clients::python() else { return };
    run_on_server(Command::new(python).arg(e2e("cqlengine_models.py")));
}

#[test]
fn express_cassandra_maps_every_type() {
    let Some(node) = clients::node() else { return };
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules"));
    run_on_server(command.arg(e2e("express_cassandra.js")));
}

#[test]
fn spring_data_maps_every_type() {
    let Some(jars) = clients::spring() else { return };
    let mut command = Command::new("java");
    run_on_server(command.arg("-cp").arg(jars.join("*")).arg(e2e("spring/Spring.java")));
}

#[test]
fn cdrs_tokio_stores_every_type() {
    let Some(program) = clients::cdrs() else { return };
    run_on_server(&mut Command::new(program));
}
