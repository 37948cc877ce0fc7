//! The commands of `docs/from-cassandra.md`.

use std::process::Command;

use super::node;
use super::support::{Server, carnet, clients, rows, succeed};

const SCHEMA: &str = "\
    CREATE KEYSPACE guide WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n\
    CREATE TABLE guide.orders (customer text, placed timeuuid, total decimal, note text, \
      PRIMARY KEY (customer, placed)) WITH CLUSTERING ORDER BY (placed DESC);\n\
    CREATE TYPE guide.address (street text, zip int);\n\
    CREATE TABLE guide.customers (name text PRIMARY KEY, tags set<text>, home frozen<address>);\n\
    CREATE TABLE guide.visits (page text PRIMARY KEY, n counter);\n\
    INSERT INTO guide.orders (customer, placed, total, note) VALUES \
      ('ann', 50554d6e-29bb-11e5-b345-feff819cdc9f, 12.50, 'a, \"b\"');\n\
    INSERT INTO guide.customers (name, tags, home) VALUES \
      ('ann', {'x', 'y'}, {street: 'Main', zip: 8000});\n\
    UPDATE guide.visits SET n = n + 3 WHERE page = '/';\n";

#[test]
fn application_moves_by_the_guides_commands() {
    let (Some(node), Some(python)) = (node::node(), clients::python()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let cqlsh = |(host, port): (&str, &str), statement: &str| {
        let mut command = Command::new(python.with_file_name("cqlsh"));
        command.env("HOME", directory.path()).current_dir(directory.path());
        succeed(command.args([host, port, "-e", statement]))
    };
    let source = node.contact_point.split_once(':').unwrap();
    cqlsh(source, "DROP KEYSPACE IF EXISTS guide");
    for statement in SCHEMA.lines() {
        cqlsh(source, statement);
    }

    let schema = cqlsh(source, "DESCRIBE KEYSPACE guide");
    let is_schema = |line: &&str| !line.starts_with("WARNING");
    let schema: Vec<&str> = schema.lines().filter(is_schema).collect();
    std::fs::write(path("guide.cql"), schema.join("\n")).unwrap();
    let data = path("data");
    succeed(carnet().arg("shell").arg(&data).arg("-f").arg(path("guide.cql")));

    let server = Server::start(&data, &[]);
    let copy = server.cql.to_string();
    let import = |table: &str| {
        let from = format!("cassandra://{}/guide.{table}", node.contact_point);
        let mut command = carnet();
        command.args(["import", "--from", &from, "--server", &copy]);
        command
    };
    succeed(&mut import("orders"));
    succeed(import("orders").arg("--restart"));
    for table in ["customers", "visits"] {
        succeed(&mut import(table));
    }
    let file = "'customers.csv' WITH HEADER = true";
    cqlsh(source, &format!("COPY guide.customers TO {file}"));
    let copy = copy.split_once(':').unwrap();
    cqlsh(copy, "TRUNCATE guide.customers");
    cqlsh(copy, &format!("COPY guide.customers FROM {file}"));
    server.terminate();
    let (status, _) = server.wait();
    assert!(status.success(), "{status}");

    let orders = rows(&data, "SELECT * FROM guide.orders");
    assert!(orders.contains("12.50") && orders.contains("a, \\\"b\\\""), "{orders}");
    let customers = rows(&data, "SELECT tags, home FROM guide.customers");
    assert!(customers.contains("Main") && customers.contains("8000"), "{customers}");
    let visits = rows(&data, "SELECT n FROM guide.visits WHERE page = '/'");
    assert!(visits.contains('3'), "{visits}");
    cqlsh(source, "DROP KEYSPACE guide");
}
