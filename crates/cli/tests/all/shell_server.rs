//! `carnet shell --server`: the shell on a server, and what scripts made for cqlsh contain.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Server, carnet, fail, shell, succeed};

const SCHEMA: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
                      'replication_factor': 1}; CREATE TABLE k.t (a int PRIMARY KEY, b text);";

/// Runs statements through a server.
fn remote(server: &Server, cql: &str) -> Command {
    let mut command = carnet();
    command.args(["shell", "--server", &server.cql.to_string(), "-e", cql]);
    command
}

/// Runs a script's bytes on a database beside it.
fn script(directory: &Path, bytes: &[u8]) -> Command {
    let path = directory.join("script.cql");
    fs::write(&path, bytes).unwrap();
    let mut command = carnet();
    command.args(["shell", "-q"]).arg(directory.join("data")).arg("-f").arg(path);
    command
}

#[test]
fn shell_on_a_server_does_what_the_local_one_does() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &[]);
    succeed(&mut remote(&server, SCHEMA));
    let said = succeed(
        remote(&server, "USE k; INSERT INTO t (a, b) VALUES (1, 'x'); SELECT * FROM t")
            .arg("--json"),
    );
    assert_eq!(said, "{\"a\":1,\"b\":\"x\"}\n");
    // A transaction is of the connection, and a USE as well.
    let text = "USE k; START TRANSACTION; INSERT INTO t (a) VALUES (2); SELECT count(*) FROM t; \
                ROLLBACK; SELECT count(*) FROM t; START TRANSACTION; INSERT INTO t (a) VALUES (3); COMMIT";
    let said = succeed(remote(&server, text).arg("--csv"));
    let counts: Vec<&str> = said.lines().filter(|line| line.len() == 1).collect();
    assert_eq!(counts, ["2", "1"], "{said}");
    let file = directory.path().join("t.csv");
    let copy = format!(
        "COPY k.t TO '{0}'; CREATE TABLE k.u (a int PRIMARY KEY, b text); COPY k.u FROM '{0}'; \
         SELECT a FROM k.u",
        file.display()
    );
    let said = succeed(remote(&server, &copy).arg("--csv"));
    let mut keys: Vec<&str> = said.lines().skip(1).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["1", "3"]);
    let error = fail(&mut remote(&server, "SELECT * FROM k.nothing"));
    assert!(error.starts_with("error: -e, line 1: ") && error.contains("nothing"), "{error}");
}

/// A detached transaction ends; the transaction of the shell stays open.
#[test]
fn end_of_another_transaction_leaves_the_open_one() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &[]);
    for end in ["COMMIT", "ROLLBACK"] {
        let started = succeed(remote(&server, "START DETACHED TRANSACTION").arg("--csv"));
        let id = started.lines().nth(1).and_then(|row| row.split(',').next()).unwrap();
        let text = format!("START TRANSACTION; {end} TRANSACTION {id}; LOGIN other");
        let error = fail(&mut remote(&server, &text));
        assert!(error.contains("LOGIN inside a transaction"), "{error}");
    }
}

/// Checks the steps of a traced read, and that their times do not fall.
fn check_trace(traced: &str) {
    let tables: Vec<&str> = traced.split("microseconds,").collect();
    let [_, steps] = tables[..] else {
        panic!("the query of the steps is not traced, and other statements are: {traced}")
    };
    let steps: Vec<&str> = steps.lines().skip(1).collect();
    let time = |step: &&str| step.split(',').next().unwrap().parse().unwrap();
    let times: Vec<u64> = steps.iter().map(time).collect();
    assert!(times.is_sorted() && times.last() > Some(&0), "{times:?}");
    for activity in ["at timestamp ", "Found 1 rows", "Request complete"] {
        assert!(steps.iter().any(|step| step.contains(activity)), "{activity}: {steps:?}");
    }
}

#[test]
fn traces_show_steps_with_their_times() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let script = format!("{SCHEMA} INSERT INTO k.t (a) VALUES (1);");
    let read = "TRACING ON\nSELECT * FROM k.t;";
    let server = Server::start(&data, &[]);
    succeed(&mut remote(&server, &script));
    check_trace(&succeed(remote(&server, read).arg("--csv")));
    server.terminate();
    server.wait();
    check_trace(&succeed(shell(&data, read).arg("--csv")));
}

/// The shell on a directory warns of what a server warns of.
#[test]
fn warnings_are_those_of_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let warn = "CREATE KEYSPACE IF NOT EXISTS w WITH replication = {'class': 'SimpleStrategy', \
                'replication_factor': 3}; SELECT count(*) FROM k.t;";
    let warnings = |command: &mut Command| {
        let said = command.output().unwrap().stderr;
        let said = String::from_utf8(said).unwrap();
        let lines = said.lines().filter(|line| line.starts_with("warning: "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let server = Server::start(&data, &[]);
    succeed(&mut remote(&server, SCHEMA));
    let of_server = warnings(&mut remote(&server, warn));
    succeed(&mut remote(&server, "DROP KEYSPACE w"));
    server.terminate();
    server.wait();
    assert_eq!(of_server.len(), 2, "{of_server:?}");
    assert_eq!(warnings(&mut shell(&data, warn)), of_server);
}

/// A statement that fails is often the one whose steps are of interest.
#[test]
fn trace_of_a_failed_statement_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let check = |command: &mut Command| {
        let output = command.args(["--csv", "--keep-going"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.matches("microseconds,activity").count(), 1, "{said}");
        assert!(said.contains("Request complete"), "{said}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("nothing") && error.contains("1 statement failed"), "{error}");
    };
    let failing = "TRACING ON\nSELECT * FROM k.nothing;";
    let server = Server::start(&data, &[]);
    succeed(&mut remote(&server, SCHEMA));
    check(&mut remote(&server, failing));
    let twice = "TRACING ON\nSELECT * FROM k.nothing;\nSELECT * FROM k.nothing;";
    let output = remote(&server, twice).arg("--keep-going").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let ids: BTreeSet<&str> = said.lines().filter(|line| line.starts_with("Trace ")).collect();
    assert_eq!(ids.len(), 2, "each has its own: {said}");
    server.terminate();
    server.wait();
    check(&mut shell(&data, failing));
}

#[test]
fn facts_and_levels_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Server::start(&data, &[]);
    succeed(&mut remote(&server, SCHEMA));
    let text = "SHOW HOST\nCONSISTENCY\nCONSISTENCY serial\nSELECT a FROM k.t;\nCONSISTENCY LOCAL_SERIAL\n\
                SERIAL CONSISTENCY\nSERIAL CONSISTENCY LOCAL_SERIAL\nCLEAR\nCLS\n";
    let said = succeed(&mut remote(&server, text));
    let expected = [
        &format!("Connected to Carnet at {}", server.cql),
        "(consistency level ONE)",
        "(consistency level SERIAL)",
        "(consistency level LOCAL_SERIAL)",
        "(serial consistency level SERIAL)",
        "(serial consistency level LOCAL_SERIAL)",
    ];
    let mut rest = said.as_str();
    for line in expected {
        rest = rest.split_once(line).unwrap_or_else(|| panic!("{line:?} in {said}")).1;
    }
    // A terminal is cleared, and not a script's output.
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let error = fail(&mut remote(&server, "SERIAL CONSISTENCY QUORUM"));
    assert!(error.contains("expected a level (SERIAL, LOCAL_SERIAL), found QUORUM"), "{error}");
    server.terminate();
    server.wait();
    let said = succeed(&mut shell(&data, "SHOW HOST\nCONSISTENCY SERIAL\nSERIAL CONSISTENCY"));
    assert!(said.starts_with("Connected to Carnet in this process\n"), "{said}");
    assert_eq!(said.matches("(without effect: this database is strictly").count(), 2, "{said}");
}

#[test]
fn trace_is_shown_again_by_its_id() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &[]);
    succeed(&mut remote(&server, SCHEMA));
    let traced = succeed(&mut remote(&server, "TRACING ON\nSELECT a FROM k.t;"));
    let (_, rest) = traced.split_once("\nTrace ").unwrap();
    let (id, steps) = rest.split_once(":\n").unwrap();
    let again = succeed(&mut remote(&server, &format!("SHOW SESSION {id}")));
    assert!(steps.contains("Request complete"), "{steps}");
    assert_eq!(again, format!("\nTrace {id}:\n{steps}"));
    let error = fail(&mut remote(&server, "SHOW SESSION one"));
    assert!(error.contains("expected SHOW SESSION and the id of a trace"), "{error}");
}

#[test]
fn description_can_be_run() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("served"), &[]);
    succeed(&mut remote(&server, SCHEMA));
    let described = succeed(&mut remote(&server, "DESCRIBE KEYSPACE k"));
    succeed(&mut script(directory.path(), described.as_bytes()));
}

#[test]
fn many_rows_of_a_server_are_paged() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &[]);
    succeed(&mut remote(&server, SCHEMA));
    let file = directory.path().join("n.csv");
    fs::write(&file, (0..2_500).map(|n| format!("{n}\n")).collect::<String>()).unwrap();
    let copy = format!("COPY k.t (a) FROM '{}'; SELECT a FROM k.t", file.display());
    assert_eq!(succeed(remote(&server, &copy).arg("--csv")).lines().count(), 2_501);
}

#[test]
fn login_takes_the_password_from_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("data"), &["--roles"]);
    let first = fs::read_to_string(directory.path().join("data/first-superuser")).unwrap();
    let (user, password) = first.trim().split_once(':').unwrap();
    let secret = directory.path().join("secret");
    fs::write(&secret, password).unwrap();
    let mut command = remote(&server, "LIST ROLES");
    let said = succeed(command.args(["--user", user, "--password-file"]).arg(&secret));
    assert!(said.contains(user), "{said}");
    let error = fail(remote(&server, "LIST ROLES").args(["--user", user]));
    assert!(error.contains("--password-file"), "{error}");
    fail(&mut remote(&server, "LIST ROLES"));
}

#[test]
fn commands_end_with_their_line() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("sub.cql"), SCHEMA).unwrap();
    let text = "WARNING: cqlsh was built against 5.0.0, but this server is 4.0. It won't all work!\n\
                SOURCE 'sub.cql'\nSHOW VERSION\nCONSISTENCY QUORUM\nPAGING OFF\nEXPAND ON\n\
                INSERT INTO k.t (a, b) VALUES (1, 'x');\nCAPTURE 'out.txt'\nSELECT * FROM k.t;\n\
                CAPTURE OFF\nquit\nSELECT nonsense;";
    let said = succeed(&mut script(directory.path(), text.as_bytes()));
    assert!(said.contains("[carnet shell ") && !said.contains("row 1"), "{said}");
    let captured = fs::read_to_string(directory.path().join("out.txt")).unwrap();
    assert_eq!(captured, "── row 1 ──\na │ 1\nb │ x\n(1 row)\n");
}

#[test]
fn marks_and_encodings_of_files_are_recognized() {
    let directory = tempfile::tempdir().unwrap();
    succeed(&mut script(directory.path(), format!("\u{feff}{SCHEMA}").as_bytes()));
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let insert = "INSERT INTO k.t (a, b) VALUES (1, 'café'); SELECT b FROM k.t;";
    let said = succeed(&mut script(directory.path(), &wide(&format!("\u{feff}{insert}"))));
    assert!(said.contains("café"), "{said}");
    let error = fail(&mut script(directory.path(), &wide(SCHEMA)));
    assert!(error.contains("UTF-16") && error.contains("iconv"), "{error}");
}

#[test]
fn script_keeps_going_if_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("{SCHEMA} SELEC; SELECT x FROM k.t; INSERT INTO k.t (a) VALUES (7)");
    let error = fail(script(directory.path(), text.as_bytes()).arg("--keep-going"));
    assert!(error.ends_with("error: 2 statements failed\n"), "{error}");
    let said = succeed(shell(&directory.path().join("data"), "SELECT a FROM k.t").arg("--csv"));
    assert_eq!(said, "a\n7\n");
}

#[test]
fn new_database_among_other_files_needs_create() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("thesis.txt"), "").unwrap();
    let error = fail(&mut shell(directory.path(), SCHEMA));
    assert!(error.contains("thesis.txt") && error.contains("--create"), "{error}");
    succeed(shell(directory.path(), SCHEMA).arg("--create"));
    succeed(&mut shell(directory.path(), "SELECT * FROM k.t"));
    let mut host = carnet();
    let error =
        fail(host.current_dir(directory.path()).args(["shell", "127.0.0.1", "-e", "USE k"]));
    assert!(error.contains("--server 127.0.0.1"), "{error}");
    assert!(!directory.path().join("127.0.0.1").exists());
}

/// A misspelled name is as bad as a refused statement.
#[test]
fn check_counts_statements_on_missing_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let schema = path("schema.cql", SCHEMA);
    let queries =
        path("queries.cql", "SELECT b FROM k.tt;\nSELECT a FROM k.tt; SELECT a FROM k.t;");
    let check = |arguments: &[&str]| {
        let mut command = carnet();
        command.arg("check").arg(&schema).arg(&queries).args(arguments);
        let output = command.output().unwrap();
        let [said, error] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code().unwrap(), said, error)
    };
    let (code, said, error) = check(&[]);
    assert_eq!(code, 1);
    let told =
        "queries.cql, line 1, column 1: would fail unless it exists: table k.tt does not exist";
    assert_eq!(said.matches(told).count(), 1, "{said}");
    assert!(error.contains("2 of 5 statements would fail unless"), "{error}");
    let (code, said, _) = check(&["--allow-missing"]);
    assert_eq!(code, 0);
    assert!(said.contains("5 statements, none refused; 2 are on tables"), "{said}");
    fs::write(&queries, "SELECT c FROM k.t; SELECT b FROM k.tt").unwrap();
    let (code, _, error) = check(&["--allow-missing"]);
    assert_eq!(code, 1);
    assert!(error.contains("1 of 4 statements would be refused, and 1 would fail"), "{error}");
}

/// `USING TIMESTAMP` is treated as by a server with the same setting.
#[test]
fn timestamps_are_treated_as_told() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    succeed(&mut shell(&data, SCHEMA));
    let write = "INSERT INTO k.t (a, b) VALUES (1, 'x') USING TIMESTAMP 5";
    let error = fail(&mut shell(&data, write));
    assert!(error.contains("TIMESTAMP"), "{error}");
    succeed(shell(&data, write).args(["--timestamps", "record"]));
    let read = "SELECT WRITETIME(b) AS time FROM k.t";
    assert_eq!(succeed(shell(&data, read).arg("--csv")), "time\n5\n");
    let path = directory.path().join("write.cql");
    fs::write(&path, format!("{SCHEMA} {write};")).unwrap();
    fail(carnet().arg("check").arg(&path));
    succeed(carnet().arg("check").arg(&path).args(["--timestamps", "ignore"]));
}

#[test]
fn check_names_every_refused_option() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump.cql");
    let table = "CREATE TABLE old.t (a int PRIMARY KEY, b text) WITH";
    fs::write(
        &path,
        format!(
            "{table} odd = 1 AND comment = 'c' AND other = 2; SELECT b FROM old.t WHERE b = 'x';"
        ),
    )
    .unwrap();
    let output = carnet().arg("check").arg(&path).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("'odd'") && said.contains("'other'"), "{said}");
    assert!(said.contains("ALLOW FILTERING") && !said.contains("'comment'"), "{said}");
    fs::write(&path, SCHEMA).unwrap();
    assert_eq!(succeed(carnet().arg("check").arg(&path)), "2 statements, none refused\n");
}
