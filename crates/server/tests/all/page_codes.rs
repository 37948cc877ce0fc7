//! Tries the causes of the table of errors in `docs/cql.md` on a server: each has the code that the table names.

use crate::support::{Client, ERROR, EXECUTE, QUERY, Response, Running};
use bytes::BufMut;
use carnet::Db;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, OpenLimits};
use carnet_server::{CqlBackend, Limits};

const PAGE: &str = include_str!("../../../../docs/cql.md");
const BEGIN: &str = "<!-- errors: made of crates/server/src/failure_docs.rs -->\n";
const END: &str = "<!-- end of errors -->";

const FAILURES: &str = include_str!("../../src/failure.rs");

/// Causes that statements alone do not make, with the text and the name of the test that tries them.
const ELSEWHERE: [(&str, &str, &str); 6] = [
    ("the statement lost to another transaction", FAILURES, "conflict_says_that_it_may_be_retried"),
    (
        "the server is overloaded",
        include_str!("admission.rs"),
        "overload_is_refused_and_every_request_answered",
    ),
    ("`KILL STATEMENT`", include_str!("running.rs"), "scan_is_listed_and_killed"),
    ("the effect of the statement is unknown", FAILURES, "retryable_and_unknown_are_kept_apart"),
    ("the store cannot be reached", FAILURES, "retryable_and_unknown_are_kept_apart"),
    ("stored bytes are damaged", FAILURES, "retryable_and_unknown_are_kept_apart"),
];

/// Each cause of the page, by its first words, with statements that have its code.
const TRIED: &[(&str, &[&str])] = &[
    (
        "a transaction ended by `RAISE`",
        &[
            "BEGIN TRANSACTION LET a = (SELECT v FROM k.t WHERE k = 1); IF a.v = 1 THEN RAISE 'no'; END IF \
           COMMIT TRANSACTION",
        ],
    ),
    ("the statement timed out", &["SELECT * FROM k.t USING TIMEOUT 0ms"]),
    ("a function of values failed", &["SELECT v / 0 FROM k.t", "SELECT v % 0 FROM k.t"]),
    (
        "the text is not CQL",
        &[
            "SELEC v FROM k.t",
            "SELECT * FROM k.t WHERE NOT v = 1",
            "UPDATE k.t SET m['a'] += 1 WHERE k = 1",
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH colour = 'red'",
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH gc_grace_seconds = 'soon'",
        ],
    ),
    (
        "the statement would change a system keyspace",
        &[
            "DROP KEYSPACE system",
            "CREATE TABLE system.t (k int PRIMARY KEY)",
            "DROP TABLE system.local",
        ],
    ),
    (
        "the statement does not match the existing tables",
        &[
            "SELECT w FROM k.t",
            "SELECT * FROM k.none",
            "INSERT INTO k.t (k, v) VALUES (1, 'text')",
            "CREATE TYPE k.y (a int)",
            "CREATE INDEX i ON k.t (v)",
            "CREATE SERVICE LEVEL s",
            "CREATE SERVICE LEVEL s2 WITH colour = 1",
            "CREATE SERVICE LEVEL s2 WITH shares = 'many'",
            "CREATE SERVICE LEVEL s2 WITH shares = 0",
            "CREATE KEYSPACE l WITH replication = {'class': 'LocalStrategy'}",
        ],
    ),
    (
        "the statement is not supported yet",
        &[
            "CREATE FUNCTION k.f (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS 'x'",
            "CREATE TRIGGER g ON k.t USING 'x'",
            "UPDATE k.t SET v = 1 WHERE k = 1 IF c LIKE 'a%'",
        ],
    ),
    ("the moment of `AS OF`", &["SELECT * FROM k.t AS OF '2001-01-01'"]),
    (
        "a value, a key or a number of things is beyond",
        &[
            "INSERT INTO k.t (k) VALUES (1) USING TTL 630720001",
            "SELECT * FROM k.t ORDER BY x ANN OF [1, 0] LIMIT 1001 ALLOW FILTERING",
        ],
    ),
    ("the transaction is not open", &["COMMIT", "ROLLBACK"]),
    (
        "an option of a keyspace or table has a value",
        &[
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH gc_grace_seconds = -1",
            "CREATE TABLE k.u (k int PRIMARY KEY) WITH compression = {'class': 'Foo'}",
            "CREATE KEYSPACE l WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 0}",
            "CREATE KEYSPACE l WITH replication = {'class': 'Other'}",
        ],
    ),
    (
        "the keyspace, table or view to create exists",
        &[
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE k.t (k int PRIMARY KEY)",
            "CREATE MATERIALIZED VIEW k.w AS SELECT * FROM k.t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
        ],
    ),
];

/// A row of the table: cause without links, code and name of the outcome.
struct Row {
    cause: String,
    code: i32,
    name: Option<String>,
}

fn rows() -> Vec<Row> {
    let table = PAGE.split_once(BEGIN).unwrap().1.split_once(END).unwrap().0;
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" |").map(str::trim).collect();
        let code = cells[1].strip_prefix("v5: ").unwrap_or(cells[1]);
        let code = code.trim_start_matches("0x").split(';').next().unwrap();
        let name = cells[2].trim_matches('`');
        // Links stand in brackets.
        let cause = cells[0].replace(['[', ']'], "");
        Row {
            cause,
            code: i32::from_str_radix(code, 16).unwrap(),
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        }
    };
    table.lines().skip(2).map(row).collect()
}

impl Row {
    fn check(&self, response: &Response, statement: &str) {
        assert_eq!(response.opcode, ERROR, "{statement} succeeds");
        let (code, message) = response.error();
        assert_eq!(
            code, self.code,
            "{statement}: 0x{code:04x} {message}; the page says: {}",
            self.cause
        );
        assert_eq!(response.payload("carnet.error"), self.name, "{statement}: {message}");
    }
}

fn row<'a>(rows: &'a [Row], cause: &str) -> &'a Row {
    let mut found = rows.iter().filter(|row| row.cause.starts_with(cause));
    let row = found.next().unwrap_or_else(|| panic!("the page has no cause that begins: {cause}"));
    assert!(found.next().is_none(), "several causes begin: {cause}");
    row
}

fn server(limits: OpenLimits) -> Running {
    let node = NodeInfo::local(carnet::Uuid::from_bytes([7; 16]));
    let executor = Executor::new(Db::builder().in_memory(), node);
    executor.set_open_limits(limits);
    Running::of(CqlBackend::new(executor), Limits::default(), None)
}

fn client(server: &Running) -> Client {
    server.client(4)
}

fn ask(client: &mut Client, text: &str) -> Response {
    client.query(1, text);
    client.receive()
}

fn succeed(client: &mut Client, text: &str) {
    let response = ask(client, text);
    assert_ne!(response.opcode, ERROR, "{text}: {response:?}");
}

fn filled(server: &Running) -> Client {
    let mut client = client(server);
    for statement in [
        "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE k.t (k int PRIMARY KEY, v int, m map<text, int>, c text, x vector<float, 2>)",
        "CREATE TYPE k.y (a int)",
        "CREATE INDEX i ON k.t (v)",
        "CREATE MATERIALIZED VIEW k.w AS SELECT * FROM k.t WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k)",
        "CREATE SERVICE LEVEL s",
        "INSERT INTO k.t (k, v) VALUES (1, 1)",
    ] {
        succeed(&mut client, statement);
    }
    client
}

#[test]
fn statements_have_the_codes_of_the_page() {
    let (rows, server) = (rows(), server(OpenLimits::default()));
    let mut client = filled(&server);
    for (cause, statements) in TRIED {
        let row = row(&rows, cause);
        for statement in *statements {
            row.check(&ask(&mut client, statement), statement);
        }
    }
}

#[test]
fn ids_and_states_that_no_server_returned() {
    let (rows, server) = (rows(), server(OpenLimits::default()));
    let mut client = filled(&server);
    let mut body = Vec::new();
    body.put_u16(32);
    body.put_slice(&[9; 32]);
    body.put_u16(1);
    body.put_u8(0);
    client.send(1, EXECUTE, 0, &body);
    row(&rows, "a table of the prepared statement changed").check(&client.receive(), "EXECUTE");
    let (text, state) = ("SELECT * FROM k.t", b"no state");
    let mut body = Vec::new();
    body.put_i32(i32::try_from(text.len()).unwrap());
    body.put_slice(text.as_bytes());
    body.put_u16(1);
    // With a page size and a state.
    body.put_u8(0x04 | 0x08);
    body.put_i32(10);
    body.put_i32(i32::try_from(state.len()).unwrap());
    body.put_slice(state);
    client.send(1, QUERY, 0, &body);
    row(&rows, "the paging state is unknown").check(&client.receive(), "QUERY");
}

#[test]
fn open_transactions_end_and_are_limited() {
    let limits =
        OpenLimits { transactions_max: 1, per_client_max: Some(1), ..OpenLimits::default() };
    let (rows, server) = (rows(), server(limits));
    let (mut one, mut two) = (filled(&server), client(&server));
    succeed(&mut one, "START TRANSACTION");
    let refused = ask(&mut two, "START TRANSACTION");
    row(&rows, "the server has no memory for the request").check(&refused, "START");
    // A text that is not CQL leaves the transaction open, and says so.
    let (code, message) = ask(&mut one, "SELEC 1").error();
    assert_eq!(code, 0x2000);
    assert!(message.contains("; the transaction is still open\n"), "{message}");
    let wrong = ask(&mut one, "INSERT INTO k.t (k, v) VALUES (?, ?)");
    assert!(wrong.error().1.contains("the transaction is still open"), "{wrong:?}");
    succeed(&mut one, "UPDATE k.t SET v = 2 WHERE k = 1");
    succeed(&mut two, "UPDATE k.t SET v = 3 WHERE k = 1");
    let lost = ask(&mut one, "COMMIT");
    row(&rows, "a transaction that stays open has ended").check(&lost, "COMMIT");
}

#[test]
fn every_cause_is_tried() {
    let tried = TRIED.iter().map(|(cause, _)| *cause);
    let others = [
        "a table of the prepared statement changed",
        "the paging state is unknown",
        "the server has no memory for the request",
        "a transaction that stays open has ended",
    ];
    let elsewhere = ELSEWHERE.iter().map(|(cause, file, test)| {
        assert!(file.contains(&format!("fn {test}()")), "{cause}: there is no test {test}");
        *cause
    });
    let known: Vec<&str> = tried.chain(others).chain(elsewhere).collect();
    for Row { cause, .. } in rows() {
        assert!(known.iter().any(|known| cause.starts_with(known)), "no test tries: {cause}");
    }
}
