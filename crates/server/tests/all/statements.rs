//! Statements over the protocol: prepared ids, descriptions of columns, deadlines and the drain.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use carnet::Db;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session, Timeouts};
use carnet_server::{CqlBackend, Limits};

use crate::support::{Client, ERROR, EXECUTE, PREPARE, RESULT, Response, Running};

const UNPREPARED: i32 = 0x2500;
const TIMEOUTS: [i32; 2] = [0x1100, 0x1200];
/// Kind of the RESULT of a PREPARE.
const PREPARED: i32 = 4;
const VALUES: u8 = 0x01;
const SKIP_METADATA: u8 = 0x02;
const NO_METADATA: i32 = 0x04;

fn executor() -> Executor {
    let executor = Executor::new(
        Db::builder().in_memory(),
        NodeInfo::local(carnet::Uuid::from_bytes([7; 16])),
    );
    let (session, none) = (Session::new(), Parameters::default());
    let run = |cql: &str| drop(carnet::block_on(executor.query(&session, cql, &none)).unwrap());
    run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    run("CREATE TABLE ks.t (k int PRIMARY KEY, a int, m map<text, int>)");
    run("INSERT INTO ks.t (k, a) VALUES (1, 2)");
    executor
}

fn server(executor: Executor) -> Running {
    let limits = Limits { drain_timeout: Duration::from_millis(100), ..Limits::default() };
    Running::of(CqlBackend::new(executor), limits, None)
}

fn ask(client: &mut Client, text: &str) -> Response {
    client.query(1, text);
    client.receive()
}

/// Prepares a statement, and returns its id.
fn prepare(client: &mut Client, text: &str) -> Bytes {
    let mut body = Vec::new();
    body.put_i32(i32::try_from(text.len()).unwrap());
    body.put_slice(text.as_bytes());
    client.send(1, PREPARE, 0, &body);
    let response = client.receive();
    assert_eq!(response.opcode, RESULT, "{response:?}");
    let mut body = response.body;
    assert_eq!(body.get_i32(), PREPARED);
    let len = usize::from(body.get_u16());
    body.split_to(len)
}

/// Executes a statement without values over v4, and asks to leave descriptions out.
fn execute(client: &mut Client, id: &Bytes) -> Response {
    execute_with(client, id, &[])
}

fn execute_with(client: &mut Client, id: &Bytes, values: &[i32]) -> Response {
    let mut body = Vec::new();
    body.put_u16(id.len().try_into().unwrap());
    body.put_slice(id);
    body.put_u16(1);
    body.put_u8(SKIP_METADATA | VALUES);
    body.put_u16(values.len().try_into().unwrap());
    for value in values {
        body.put_i32(4);
        body.put_i32(*value);
    }
    client.send(1, EXECUTE, 0, &body);
    client.receive()
}

fn string(body: &mut Bytes) -> String {
    let len = usize::from(body.get_u16());
    String::from_utf8(body.split_to(len).to_vec()).unwrap()
}

/// Decodes the rows of a response like a driver, by the names in it or else by `known`. All columns
/// are ints.
fn columns(response: &Response, known: &[&str]) -> Vec<(String, i32)> {
    assert_eq!(response.opcode, RESULT, "{response:?}");
    let mut body = response.body.clone();
    assert_eq!(body.get_i32(), 2, "rows");
    let (flags, count) = (body.get_i32(), body.get_i32());
    let mut names: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
    if flags & NO_METADATA == 0 {
        names.clear();
        let (_keyspace, _table) = (string(&mut body), string(&mut body));
        for _ in 0..count {
            names.push(string(&mut body));
            assert_eq!(body.get_u16(), 9, "an int");
        }
    }
    assert_eq!(body.get_i32(), 1, "one row");
    let values = (0..count).map(|_| {
        assert_eq!(body.get_i32(), 4);
        body.get_i32()
    });
    let values: Vec<i32> = values.collect();
    names.into_iter().zip(values).collect()
}

fn named(columns: &[(&str, i32)]) -> Vec<(String, i32)> {
    columns.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn client_of_v4_never_sees_columns_of_another_schema() {
    let server = server(executor());
    let (mut old, mut new) = (server.client(4), server.client(4));
    let text = "SELECT * FROM ks.u";
    assert_eq!(ask(&mut new, "CREATE TABLE ks.u (k int PRIMARY KEY, b int)").opcode, RESULT);
    assert_eq!(ask(&mut new, "INSERT INTO ks.u (k, b) VALUES (1, 2)").opcode, RESULT);
    let id = prepare(&mut old, text);
    let known = ["k", "b"];
    assert_eq!(columns(&execute(&mut old, &id), &known), named(&[("k", 1), ("b", 2)]));
    assert_eq!(ask(&mut new, "ALTER TABLE ks.u ADD a int").opcode, RESULT);
    assert_eq!(ask(&mut new, "UPDATE ks.u SET a = 3 WHERE k = 1").opcode, RESULT);
    execute(&mut old, &id).assert_error(UNPREPARED, "prepare it again");
    // Drivers give up a statement whose id changes.
    assert_eq!(prepare(&mut old, text), id);
    let expected = named(&[("k", 1), ("a", 3), ("b", 2)]);
    assert_eq!(columns(&execute(&mut old, &id), &known), expected);

    assert_eq!(ask(&mut new, "ALTER TABLE ks.u DROP a").opcode, RESULT);
    assert_eq!(ask(&mut new, "ALTER TABLE ks.u ADD aa int").opcode, RESULT);
    assert_eq!(ask(&mut new, "UPDATE ks.u SET aa = 4 WHERE k = 1").opcode, RESULT);
    assert_eq!(prepare(&mut new, text), id, "another client prepares it for the next schema");
    let expected = named(&[("k", 1), ("aa", 4), ("b", 2)]);
    let known = ["k", "a", "b"];
    assert_eq!(columns(&execute(&mut old, &id), &known), expected);
}

#[test]
fn prepared_ids_are_sha_256_of_keyspace_text_and_markers() {
    let server = server(executor());
    let mut client = server.client(4);
    let id = prepare(&mut client, "SELECT a FROM ks.t WHERE k = 1");
    assert_eq!(id.len(), 32);
    let others = ["SELECT a FROM ks.t WHERE k = 2", "SELECT a FROM ks.t WHERE k = ?"];
    assert!(others.iter().all(|text| prepare(&mut client, text) != id));
    assert_eq!(prepare(&mut client, "SELECT a FROM ks.t WHERE k = 1"), id);
    let insert = "INSERT INTO ks.v (k, x) VALUES (1, ?)";
    let mut prepare_for = |column: &str| {
        let create = format!("CREATE TABLE ks.v (k int PRIMARY KEY, {column})");
        assert_eq!(ask(&mut client, &create).opcode, RESULT);
        let id = prepare(&mut client, insert);
        assert_eq!(ask(&mut client, "DROP TABLE ks.v").opcode, RESULT);
        id
    };
    let of_int = prepare_for("x int");
    assert_eq!(prepare_for("x int, y int"), of_int);
    // A client that encodes ints must not write texts.
    assert_ne!(prepare_for("x text"), of_int);
    assert_eq!(ask(&mut client, "CREATE TABLE ks.v (k int PRIMARY KEY, x text)").opcode, RESULT);
    execute_with(&mut client, &of_int, &[7]).assert_error(UNPREPARED, "");
}

/// Returns a query that calculates for many seconds.
fn endless() -> String {
    let sums = vec!["a * a % 7"; 30_000].join(" + ");
    format!("SELECT {sums} FROM ks.many")
}

fn fill(executor: &Executor) {
    let (session, none) = (Session::new(), Parameters::default());
    let run = |cql: &str| drop(carnet::block_on(executor.query(&session, cql, &none)).unwrap());
    run("CREATE TABLE ks.many (k int, c int, a int, PRIMARY KEY (k, c))");
    for k in 0..20 {
        let inserts: Vec<String> = (0..100)
            .map(|c| format!("INSERT INTO ks.many (k, c, a) VALUES ({k}, {c}, 3);"))
            .collect();
        run(&format!("BEGIN UNLOGGED BATCH {} APPLY BATCH", inserts.concat()));
    }
}

#[test]
fn statement_past_its_deadline_ends_with_a_timeout() {
    let executor = executor();
    fill(&executor);
    let timeout = Duration::from_millis(50);
    executor.set_timeouts(Timeouts { statement: timeout, scan: timeout, schema: timeout });
    let server = server(executor);
    let mut client = server.client(4);
    let sets: Vec<String> = (0..40_000).map(|at| format!("m['{at}'] = {at}")).collect();
    for text in [endless(), format!("UPDATE ks.t SET {} WHERE k = 1", sets.join(", "))] {
        let (code, message) = ask(&mut client, &text).error();
        assert!(TIMEOUTS.contains(&code), "{code:#x} {message}");
    }
    let response = ask(&mut client, "SELECT m FROM ks.t WHERE k = 1");
    assert_eq!(response.opcode, RESULT, "the server answers: {response:?}");
}

#[test]
fn drain_cuts_a_statement_off_that_does_not_end() {
    let executor = executor();
    fill(&executor);
    let mut server = server(executor);
    let mut client = server.client(4);
    client.query(1, &endless());
    server.eventually("it runs", |metrics| metrics.requests_in_flight.get() > 0);
    server.shut_down();
    server.join();
    if let Some(response) = client.try_receive() {
        assert_eq!(response.opcode, ERROR, "it had not ended");
    }
}

/// The codes of errors that `docs/cql.md` describes by their causes.
#[test]
fn schema_errors_have_the_documented_codes() {
    let mut running = server(executor());
    let mut client = running.client(4);
    for text in [
        "CREATE TYPE ks.ty (a int)",
        "CREATE INDEX i ON ks.t (a)",
        "CREATE SERVICE LEVEL l",
        "CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM ks.t WHERE k IS NOT NULL AND a IS NOT NULL \
         PRIMARY KEY (a, k)",
    ] {
        let response = ask(&mut client, text);
        assert_eq!(response.opcode, RESULT, "{text}: {response:?}");
    }
    let keyspace = |name: &str, replication: &str| {
        format!("CREATE KEYSPACE {name} WITH replication = {{'class': {replication}}}")
    };
    let table = |option: &str| format!("CREATE TABLE ks.u (k int PRIMARY KEY) WITH {option}");
    for (text, code) in [
        (keyspace("ks", "'SimpleStrategy'"), 0x2400),
        ("CREATE TABLE ks.t (k int PRIMARY KEY)".into(), 0x2400),
        (
            "CREATE MATERIALIZED VIEW ks.v AS SELECT * FROM ks.t WHERE k IS NOT NULL AND a IS NOT \
             NULL PRIMARY KEY (a, k)"
                .into(),
            0x2400,
        ),
        ("CREATE TYPE ks.ty (a int)".into(), 0x2200),
        ("CREATE INDEX i ON ks.t (a)".into(), 0x2200),
        ("CREATE SERVICE LEVEL l".into(), 0x2200),
        ("CREATE SERVICE LEVEL m WITH colour = 1".into(), 0x2200),
        (keyspace("n", "'LocalStrategy'"), 0x2200),
        (keyspace("n", "'OtherStrategy'"), 0x2300),
        (keyspace("n", "'SimpleStrategy', 'replication_factor': 0"), 0x2300),
        (table("gc_grace_seconds = -1"), 0x2300),
        (table("gc_grace_seconds = 'x'"), 0x2000),
        (table("colour = 1"), 0x2000),
        ("CREATE KEYSPACE n WITH colour = 1".into(), 0x2000),
        ("SELECT * FROM ks.t WHERE NOT k = 1".into(), 0x2000),
        ("SELECT * FROM ks.none".into(), 0x2200),
        ("TRUNCATE system.local".into(), 0x2100),
    ] {
        let response = ask(&mut client, &text);
        assert_eq!(response.opcode, ERROR, "{text}: {response:?}");
        assert_eq!(response.error().0, code, "{text}: {}", response.error().1);
    }
    drop(client);
    running.shut_down();
}
