//! `COPY` of the shell: dialects, options, refused rows, and files exchanged with stock cqlsh.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Server, clients, e2e, fail, rows, shell, succeed};

const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', \
                        'replication_factor': 1};";

/// A database with a table `k.t`, and what to do with files in its directory.
struct Table(tempfile::TempDir);

impl Table {
    fn new(columns: &str) -> Self {
        let table = Self(tempfile::tempdir().unwrap());
        table.run(&format!("{KEYSPACE} CREATE TABLE k.t ({columns});"));
        table
    }

    fn path(&self, file: &str) -> String {
        self.0.path().join(file).display().to_string()
    }

    fn shell(&self, statements: &str) -> Command {
        shell(&self.0.path().join("data"), statements)
    }

    fn run(&self, statements: &str) -> String {
        succeed(&mut self.shell(statements))
    }

    /// Imports a text; returns what the shell says, on both streams.
    fn import(&self, text: &str, options: &str) -> Result<String, String> {
        fs::write(self.path("in.csv"), text).unwrap();
        let mut command = self.shell(&format!("COPY k.t FROM '{}' {options}", self.path("in.csv")));
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        if output.status.success() { Ok(said) } else { Err(said) }
    }

    fn export(&self, options: &str) -> String {
        self.run(&format!("COPY k.t TO '{}' {options}", self.path("out.csv")));
        fs::read_to_string(self.path("out.csv")).unwrap()
    }

    fn rows(&self) -> String {
        rows(&self.0.path().join("data"), "SELECT * FROM k.t")
    }
}

/// Columns without a list or a header stand as in cqlsh: the key, and the others by name.
#[test]
fn columns_stand_in_the_order_of_cqlsh() {
    let table = Table::new("k int, c int, zz text static, aa text, PRIMARY KEY (k, c)");
    table.import("1,1,A,Z\n", "").unwrap();
    assert_eq!(table.rows(), "{\"k\":1,\"c\":1,\"zz\":\"Z\",\"aa\":\"A\"}\n");
    assert_eq!(table.export("WITH HEADER = true"), "k,c,aa,zz\n1,1,A,Z\n");
    let keys = Table::new("b int, a int, d int, c int, PRIMARY KEY ((b, a), d, c)");
    keys.import("1,2,3,4\n", "").unwrap();
    assert_eq!(keys.rows(), "{\"b\":1,\"a\":2,\"d\":3,\"c\":4}\n");
}

#[test]
fn both_dialects_are_read_and_written() {
    let table = Table::new("k int PRIMARY KEY, v text");
    table.import("1,\"say \\\"hi\\\", ok\"\n2,back\\\\slash\n3,\"\"\n4,\n", "").unwrap();
    let expected = "1,\"say \\\"hi\\\", ok\"\n2,back\\\\slash\n3,\"\"\n4,\n";
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&table.export("")), lines(expected));
    let rfc = "1,\"say \"\"hi\"\", ok\"\n2,back\\slash\n3,\"\"\n4,\n";
    assert_eq!(lines(&table.export("WITH ESCAPE = '\"'")), lines(rfc));
    let before = table.rows();
    table.run("TRUNCATE k.t");
    table.import(rfc, "WITH ESCAPE = '\"'").unwrap();
    assert_eq!(table.rows(), before);
    // Doubled quotes are read in both, and a lone backslash is never dropped.
    table.import("5,\"a \"\"b\"\"\"\n", "").unwrap();
    let error = table.import("6,C:\\new\n", "").unwrap_err();
    assert!(error.contains("line 1: field 2: \\ before n") && error.contains("ESCAPE"), "{error}");
}

/// Lines that end with CR LF are those of an export of cqlsh, which displays texts first.
#[test]
fn export_of_cqlsh_is_known_by_its_line_ends() {
    let table = Table::new("k int PRIMARY KEY, v text");
    let said = table.import("1,back\\\\\\\\slash\r\n2,a\\\\nb\r\n", "").unwrap();
    assert!(said.contains("export of cqlsh") && said.contains("CQLSHEXPORT"), "{said}");
    let rows = table.rows();
    assert!(rows.contains("\"back\\\\slash\"") && rows.contains("\"a\\nb\""), "{rows}");
    table.import("1,a\\\\nb\r\n", "WITH CQLSHEXPORT = false").unwrap();
    assert!(table.rows().contains("\"a\\\\nb\""), "{}", table.rows());
    let error = table.import("1,C:\\\\users\r\n", "").unwrap_err();
    assert!(error.contains("column v: cqlsh exports no \\u"), "{error}");
}

#[test]
fn counters_are_added() {
    let table = Table::new("a int, k text, c counter, b counter, PRIMARY KEY (k, a)");
    table.import("x,1,5,7\nx,2,,-3\n", "WITH CHUNKSIZE = 1").unwrap();
    table.import("x,1,1,\n", "").unwrap();
    let expected =
        "{\"k\":\"x\",\"a\":1,\"b\":6,\"c\":7}\n{\"k\":\"x\",\"a\":2,\"b\":null,\"c\":-3}\n";
    assert_eq!(table.rows(), expected);
    assert_eq!(table.export(""), "x,1,6,7\nx,2,,-3\n");
}

#[test]
fn refused_rows_are_passed_over_and_kept() {
    let table = Table::new("k text PRIMARY KEY, v int");
    let text = "a,1\n\"b\",many\n,3\nd,4\n\"e\n\",\"5\n6\"\nf,7\n";
    let kept = table.path("bad.csv");
    let options = format!("WITH MAXERRORS = 2 AND ERRFILE = '{kept}'");
    let said = table.import(text, &options).unwrap();
    assert!(said.contains("3 rows imported") && said.contains("3 refused and written"), "{said}");
    assert!(said.contains("line 2, column v: ") && said.contains("line 3"), "{said}");
    assert_eq!(fs::read_to_string(&kept).unwrap(), "\"b\",many\n\"e\n\",\"5\n6\"\n,3\n");
    // The kept records are not overwritten.
    let error = table.import(text, &options).unwrap_err();
    assert!(error.contains("ERRFILE"), "{error}");
    let kept = table.path("more.csv");
    let options = format!("WITH MAXPARSEERRORS = 1 AND ERRFILE = '{kept}'");
    let error = table.import("g,x\nh,1\ni,y\nj,2\n", &options).unwrap_err();
    assert!(error.contains("line 3, column v") && error.contains("with 1 row imported"), "{error}");
    assert_eq!(table.rows().lines().count(), 4);
}

#[test]
fn timestamps_have_the_form_of_an_option() {
    let table = Table::new("k int PRIMARY KEY, at timestamp");
    table.import("1,02.01.2026 03:04\n", "WITH DATETIMEFORMAT = '%d.%m.%Y %H:%M'").unwrap();
    assert_eq!(table.export(""), "1,2026-01-02 03:04:00.000000+0000\n");
    let written = table.export("WITH DATETIMEFORMAT = '%H:%M on %F' AND PAGESIZE = 1");
    assert_eq!(written, "1,03:04 on 2026-01-02\n");
    let said =
        table.import("2,2026-01-02\n", "WITH NUMPROCESSES = 4 AND MAXBATCHSIZE = 2").unwrap();
    assert!(said.contains("Without effect here: NUMPROCESSES, MAXBATCHSIZE."), "{said}");
}

/// Rows of every type, exported and imported by stock cqlsh and by this shell in all pairs.
#[test]
fn copies_of_cqlsh_and_of_the_shell_are_equal() {
    let Some(python) = clients::python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let drive = |step: &str| {
        let server = Server::start(&data, &[]);
        let mut command = Command::new(&python);
        command.arg(e2e("cqlsh_copy.py")).arg(server.port()).arg(step).arg(directory.path());
        succeed(command.env("HOME", directory.path()));
    };
    drive("make");
    copy_by_shell(&data, directory.path());
    drive("check");
}

fn copy_by_shell(data: &Path, folder: &Path) {
    const SCALARS: &str = "asci, big, bl, bo, da, de, dou, fl, addr, li, ma, se, fr, small, tiny, \
                           ti, stamp, tu, tid, u, \"Person\"";
    let written = format!("k, c, zz, aa, breaks, break_list, {SCALARS}, var, vec, z_duration");
    let readable = format!("k, c, zz, aa, {SCALARS}, person_null, var, vec");
    let folder = folder.display();
    let copies = format!(
        "COPY copies.of_cqlsh ({written}) FROM '{folder}/cqlsh.csv';
         COPY copies.of_cqlsh_counts FROM '{folder}/cqlsh_counts.csv';
         COPY copies.source ({readable}) TO '{folder}/carnet_readable.csv';
         COPY copies.source TO '{folder}/carnet.csv';
         COPY copies.source TO '{folder}/carnet_rfc.csv' WITH ESCAPE = '\"' AND HEADER = true;
         COPY copies.own FROM '{folder}/carnet.csv';
         COPY copies.own_rfc FROM '{folder}/carnet_rfc.csv' WITH ESCAPE = '\"' AND HEADER = true;
         COPY copies.source_counts TO '{folder}/carnet_counts.csv';
         COPY copies.own_counts FROM '{folder}/carnet_counts.csv';
         COPY copies.own_rfc_counts FROM '{folder}/carnet_counts.csv';"
    );
    succeed(&mut shell(data, &copies));
    let error = fail(&mut shell(data, "COPY copies.own (nothing) TO STDOUT"));
    assert!(error.contains("nothing"), "{error}");
}
