//! `carnet shell`: scripts, formats, COPY, and error messages.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Server, carnet, clients, e2e, fail, rows, shell, succeed};

const BANK: &str = "
    CREATE KEYSPACE bank WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE bank.accounts (id int PRIMARY KEY, owner text, balance bigint);
    INSERT INTO bank.accounts (id, owner, balance) VALUES (1, 'Ada', 70);
    INSERT INTO bank.accounts (id, owner) VALUES (2, '');
";
const ACCOUNTS: &str = "SELECT id, owner, balance FROM bank.accounts";
const ACCOUNT_ROWS: &str = "{\"id\":1,\"owner\":\"Ada\",\"balance\":70}\n\
                            {\"id\":2,\"owner\":\"\",\"balance\":null}\n";

/// A database with two accounts.
fn bank() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    succeed(&mut shell(directory.path(), BANK));
    directory
}

/// Runs a script file in its directory.
fn script(directory: &Path, text: &str) -> Command {
    fs::write(directory.join("script.cql"), text).unwrap();
    let mut command = carnet();
    command.arg("shell").arg(directory.join("data")).arg("-f").arg(directory.join("script.cql"));
    command
}

#[test]
fn readme_example_runs_and_keeps_its_sum() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bank.cql");
    let mut command = carnet();
    let said = succeed(command.args(["shell", "-f"]).arg(&example));
    assert!(said.starts_with("-- A bank:"), "{said}");
    let sum = "│        8 ┆  1000 │";
    assert_eq!(said.matches(sum).count(), 2, "before the transfers and after them: {said}");
    assert_eq!(said.matches("│ False     │").count(), 1, "one transfer is refused: {said}");
    assert!(said.contains("│  1 ┆      70 ┆ Ada Lovelace │"), "{said}");
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut command = carnet();
        let again = command.arg("shell").arg(directory.path().join("data")).arg("-f").arg(&example);
        assert_eq!(succeed(again).matches(sum).count(), 2, "a second run gives the same");
    }
    let mut command = carnet();
    let quiet = succeed(command.args(["shell", "--quiet", "-f"]).arg(&example));
    assert!(!quiet.contains("--") && quiet.contains(sum), "{quiet}");
}

#[test]
fn rows_are_printed_in_three_formats() {
    let bank = bank();
    let query = |format: &[&str]| succeed(shell(bank.path(), ACCOUNTS).args(format));
    assert_eq!(query(&["--json"]), ACCOUNT_ROWS);
    assert_eq!(query(&["--csv"]), "id,owner,balance\n1,Ada,70\n2,,\n");
    let table = query(&[]);
    assert!(table.contains("│  1 ┆ Ada   ┆      70 │"), "{table}");
    assert!(table.contains("│  2 ┆       ┆       ∅ │"), "{table}");
    assert!(table.ends_with("(2 rows)\n"), "{table}");
}

#[test]
fn statements_come_from_standard_input_too() {
    let bank = bank();
    let mut command = carnet();
    command.arg("shell").arg(bank.path()).args(["--json", "-k", "bank"]);
    let input = bank.path().join("input.cql");
    fs::write(&input, "SELECT owner FROM accounts WHERE id = 1; HELP;").unwrap();
    #[expect(clippy::disallowed_methods, reason = "not a database's file")]
    command.stdin(fs::File::open(&input).unwrap());
    assert_eq!(succeed(&mut command), "{\"owner\":\"Ada\"}\n");
}

#[test]
fn result_of_many_pages_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let lines: String = (0..2_500).map(|n| format!("{n}\n")).collect();
    fs::write(directory.path().join("n.csv"), lines).unwrap();
    let text = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
                'replication_factor': 1}; USE k; CREATE TABLE n (a int PRIMARY KEY); \
                COPY n FROM 'n.csv'; SELECT * FROM n;";
    let said = succeed(script(directory.path(), text).arg("--csv"));
    let mut numbers: Vec<u32> = said.lines().skip(1).map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..2_500).collect::<Vec<_>>());
}

#[test]
fn script_stops_at_its_first_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("{BANK}\n-- next\nSELECT owner\n  WHERE id = 1;\nDROP TABLE bank.accounts;");
    let error = fail(&mut script(directory.path(), &text));
    assert!(error.contains("script.cql, line 9, column 3: "), "{error}");
    assert!(error.contains("\n    WHERE id = 1\n    ^"), "{error}");
    // Statements before the mistake have run, statements after it have not.
    assert_eq!(rows(&directory.path().join("data"), ACCOUNTS), ACCOUNT_ROWS);
}

#[test]
fn a_wrong_statement_names_its_line() {
    let bank = bank();
    let error = fail(&mut shell(bank.path(), "\nSELECT * FROM bank.nothing;"));
    assert!(error.starts_with("error: -e, line 2: "), "{error}");
    assert!(error.contains("bank.nothing"), "{error}");
    let error = fail(&mut shell(bank.path(), "SELECT 'open"));
    assert!(error.contains("line 1, column 1: the string has no end"), "{error}");
    let error = fail(&mut shell(bank.path(), "CREATE TRIGGER owner"));
    assert!(error.contains("not supported yet: "), "{error}");
    assert_eq!(rows(bank.path(), ACCOUNTS), ACCOUNT_ROWS);
}

#[test]
fn script_runs_scripts_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::write(directory.path().join("sub/bank.cql"), format!("{BANK} SOURCE 'more.cql';")).unwrap();
    fs::write(directory.path().join("sub/more.cql"), ACCOUNTS).unwrap();
    let said = succeed(script(directory.path(), "SOURCE 'sub/bank.cql';").arg("--json"));
    assert_eq!(said, ACCOUNT_ROWS);
    let error = fail(&mut script(directory.path(), "SOURCE 'script.cql';"));
    assert!(error.contains("does one run itself?"), "{error}");
}

#[test]
fn a_copy_out_and_in_again_is_equal() {
    let directory = tempfile::tempdir().unwrap();
    let table = "(id int PRIMARY KEY, t text, b blob, d double, f float, n varint, m decimal, \
                 x boolean, w timestamp, y date, z time, u uuid, i inet, s smallint, y1 tinyint)";
    let text = format!(
        "CREATE KEYSPACE k WITH replication = {{'class': 'SimpleStrategy', \
         'replication_factor': 1}}; USE k; CREATE TABLE a {table}; CREATE TABLE b {table};
         INSERT INTO a (id, t, b, d, f, n, m, x, w, y, z, u, i, s, y1) VALUES (1, \
         'a, \"b\"\nc;''d', 0x00ff, 1e300, -0.1, 123456789012345678901234567890, 1.50, true, \
         '2026-01-02 03:04:05.678Z', '2026-01-02', '03:04:05.678901234', \
         f81d4fae-7dec-11d0-a765-00a0c91e6bf6, '::1', -32768, 127);
         INSERT INTO a (id, t) VALUES (2, '');
         COPY a TO 'a.csv' WITH HEADER = true AND NULL = 'none' AND DELIMITER = ';';
         COPY b FROM 'a.csv' WITH HEADER = true AND NULL = 'none' AND DELIMITER = ';';
         COPY b (t, id) TO STDOUT WITH NULL = 'none';"
    );
    let said = succeed(script(directory.path(), &text).arg("--json"));
    let mut lines: Vec<&str> = said.trim_end().split_inclusive("\n\"").collect();
    lines.sort_unstable();
    assert_eq!(said.len(), "\"a, \"\"b\"\"\nc;'d\",1\n,2\n".len(), "{said}");
    let data = directory.path().join("data");
    let (a, b) = (rows(&data, "SELECT * FROM k.a"), rows(&data, "SELECT * FROM k.b"));
    assert_eq!(a.lines().count(), 2);
    assert_eq!(a, b);
    // The second copy has the same bytes.
    let again = "COPY k.b TO 'b.csv' WITH HEADER = true AND NULL = 'none' AND DELIMITER = ';';";
    succeed(&mut script(directory.path(), again));
    let file = |name: &str| fs::read(directory.path().join(name)).unwrap();
    assert_eq!(file("a.csv"), file("b.csv"));
}

#[test]
fn bad_row_stops_a_copy_after_the_good_ones() {
    let bank = bank();
    let copy = |csv: &str, chunk: u32| {
        let path = bank.path().join("bad.csv");
        fs::write(&path, csv).unwrap();
        let path = path.display();
        let copy = format!(
            "COPY bank.accounts (id, owner, balance) FROM '{path}' WITH CHUNKSIZE = {chunk};"
        );
        fail(&mut shell(bank.path(), &copy))
    };
    let count = || rows(bank.path(), "SELECT count(*) FROM bank.accounts");
    let error = copy("11,a,1\n12,\"b\nb\",2\n13,c,many\n14,d,4\n", 100);
    assert!(error.contains("bad.csv, line 4, column balance: "), "{error}");
    assert!(error.contains("with 2 rows imported"), "{error}");
    assert_eq!(count(), "{\"count\":4}\n");
    let error = copy("15,a,1\n16,b\n", 1);
    assert!(error.contains("bad.csv, line 2: it has 2 fields"), "{error}");
    // The statement, not the parser, refuses a null key.
    let error = copy("17,a,1\n,b,1\n18,c,1\n", 100);
    assert!(
        error.contains("bad.csv, line 2: ") && error.contains("with 1 row imported"),
        "{error}"
    );
    assert_eq!(count(), "{\"count\":6}\n");
    let error = fail(&mut shell(bank.path(), "COPY bank.accounts FROM 'nowhere.csv'"));
    assert!(error.contains("cannot read the file nowhere.csv"), "{error}");
    let error = fail(&mut shell(bank.path(), "COPY bank.accounts FRM 'a.csv'"));
    assert!(error.contains("line 1, column 20: expected FROM or TO, found FRM"), "{error}");
}

#[test]
fn a_header_names_the_columns() {
    let bank = bank();
    let path = bank.path().join("header.csv");
    let copy = format!("COPY bank.accounts FROM '{}' WITH HEADER = true", path.display());
    fs::write(&path, "Owner,ID\nGrace,3\n").unwrap();
    succeed(&mut shell(bank.path(), &copy));
    let third = rows(bank.path(), "SELECT owner, balance FROM bank.accounts WHERE id = 3");
    assert_eq!(third, "{\"owner\":\"Grace\",\"balance\":null}\n");
    fs::write(&path, "id,name\n4,Alan\n").unwrap();
    let error = fail(&mut shell(bank.path(), &copy));
    assert!(error.contains("\"name\"") && error.contains("id, balance, owner"), "{error}");
}

#[test]
fn copy_reads_standard_input_unless_it_is_the_script() {
    let bank = bank();
    let path = bank.path().join("rows.csv");
    let feed = |command: &mut Command, text: &str| {
        fs::write(&path, text).unwrap();
        #[expect(clippy::disallowed_methods, reason = "not a database's file")]
        command.stdin(fs::File::open(&path).unwrap());
    };
    let copy = "COPY bank.accounts (id, owner) FROM STDIN";
    let mut command = shell(bank.path(), copy);
    feed(&mut command, "5,Edsger\n6,Donald\n");
    assert_eq!(succeed(&mut command), "(2 rows imported from standard input)\n");
    let mut command = carnet();
    feed(command.arg("shell").arg(bank.path()), &format!("{copy};\n7,Leslie\n"));
    let error = fail(&mut command);
    assert!(error.contains("standard input is the script"), "{error}");
    assert_eq!(rows(bank.path(), "SELECT count(*) FROM bank.accounts"), "{\"count\":4}\n");
}

#[test]
fn a_scratch_database_is_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = carnet();
    command.env("TMPDIR", temporary.path());
    succeed(command.args(["shell", "-e", BANK]));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
    let mut command = carnet();
    command.env("TMPDIR", temporary.path());
    fail(command.args(["shell", "-e", "SELECT"]));
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn directory_of_a_running_server_is_left_alone() {
    let bank = bank();
    let server = Server::start(bank.path(), &[]);
    let error = fail(&mut shell(bank.path(), ACCOUNTS));
    assert!(error.contains(&format!("in use by process {}", server.process.id())), "{error}");
    assert_eq!(server.get("/readyz").0, "HTTP/1.1 200 OK");
    server.terminate();
    server.wait();
    assert_eq!(rows(bank.path(), ACCOUNTS), ACCOUNT_ROWS);
}

/// Damages a byte of a file; the shell must report it and change nothing.
fn corrupt(directory: &Path, name: &str, at: usize) {
    let path = directory.join(name);
    let before = fs::read(&path).unwrap();
    let mut damaged = before.clone();
    damaged[at] ^= 0x40;
    fs::write(&path, &damaged).unwrap();
    let error = fail(&mut shell(directory, ACCOUNTS));
    assert!(error.contains(name), "{error}");
    assert_eq!(fs::read(&path).unwrap(), damaged, "a damaged file was written to");
    fs::write(&path, before).unwrap();
    assert_eq!(rows(directory, ACCOUNTS), ACCOUNT_ROWS);
}

#[test]
fn a_corrupt_file_is_named_and_kept() {
    let bank = bank();
    corrupt(bank.path(), "MANIFEST", 20);
    let log = fs::read_dir(bank.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("wal-"))
        .min()
        .unwrap();
    // In the first record's body: later records show that it was synced.
    corrupt(bank.path(), &log, 100);
}

#[test]
fn full_disk_loses_no_acknowledged_write() {
    let bank = bank();
    // A limit on file size needs no privileges and fills no real disk.
    let log_bytes = fs::read_dir(bank.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .max()
        .unwrap();
    let blocks = log_bytes / 512 + 400;
    let statements: String = (100..2_000)
        .map(|id| {
            let owner = "x".repeat(500);
            format!("INSERT INTO bank.accounts (id, owner) VALUES ({id}, '{owner}');\n")
        })
        .collect();
    let input = bank.path().join("many.cql");
    fs::write(&input, statements).unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"", &blocks.to_string()])
        .arg(env!("CARGO_BIN_EXE_carnet"))
        .args(["shell", "--json"])
        .arg(bank.path())
        .arg("-f")
        .arg(&input)
        .stdin(Stdio::null());
    let error = fail(&mut command);
    assert!(error.contains("File too large"), "{error}");
    let line = error.split("many.cql, line ").nth(1).unwrap().split(':').next().unwrap();
    let acknowledged = line.parse::<usize>().unwrap() - 1;
    assert!((1..1_900).contains(&acknowledged), "{error}");
    let ids = rows(bank.path(), "SELECT id FROM bank.accounts");
    for id in 100..100 + acknowledged {
        assert!(ids.lines().any(|row| row == format!("{{\"id\":{id}}}")), "{id} is lost: {error}");
    }
    // The failed statement may be there, but no later one.
    assert!(ids.lines().count() <= 2 + acknowledged + 1);
    succeed(&mut shell(bank.path(), "INSERT INTO bank.accounts (id) VALUES (9999)"));
}

#[test]
fn a_full_disk_is_read_and_verified() {
    let bank = bank();
    let limited = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        // No file can grow.
        command
            .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_carnet"))
            .args(arguments)
            .stdin(Stdio::null());
        command
    };
    let path = bank.path().to_str().unwrap();
    let all = "SELECT id FROM bank.accounts";
    fail(&mut limited(&["shell", path, "-e", all]));
    let rows = succeed(&mut limited(&["shell", path, "--read-only", "--json", "-e", all]));
    assert_eq!(rows.lines().count(), 2, "{rows}");
    let write = "INSERT INTO bank.accounts (id) VALUES (9)";
    let error = fail(&mut limited(&["shell", path, "--read-only", "-e", write]));
    assert!(error.contains("for reading only"), "{error}");
    succeed(&mut limited(&["verify", path]));
}

#[test]
fn directory_that_cannot_be_created_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    let error = fail(&mut shell(&file, ACCOUNTS));
    assert!(error.contains(file.to_str().unwrap()), "{error}");
}

#[test]
fn terminal_session_works() {
    let Some(python) = clients::python() else { return };
    let mut command = Command::new(python);
    succeed(command.arg(e2e("interactive.py")).arg(env!("CARGO_BIN_EXE_carnet")));
}

/// A shell on a server, the progress of long work, and `carnet top`.
#[test]
fn terminal_session_on_a_server_works() {
    let Some(python) = clients::python() else { return };
    let mut command = Command::new(python);
    succeed(command.arg(e2e("interactive_server.py")).arg(env!("CARGO_BIN_EXE_carnet")));
}

#[test]
fn help_shows_examples() {
    for (arguments, example) in [
        (&["--help"][..], "carnet serve"),
        (&["shell", "--help"], "carnet shell -f examples/bank.cql"),
        (&["serve", "--help"], "--users users"),
        (&["hash-password", "--help"], ">> users"),
    ] {
        let said = succeed(carnet().args(arguments));
        assert!(said.contains("Example") && said.contains(example), "{said}");
    }
    assert_eq!(carnet().arg("shel").output().unwrap().status.code(), Some(2));
}
