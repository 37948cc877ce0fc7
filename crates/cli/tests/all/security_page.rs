//! The drivers' settings of `docs/security.md` connect as they stand there, with another address, password and directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{clients, e2e, succeed};
use crate::tls::{PASSWORD, Secured};

const PAGE: &str = include_str!("../../../../docs/security.md");
const CQL: &str = "SELECT release_version FROM system.local";

/// A server, and a directory for programs with the files of the page in `tls`.
struct Reader {
    secured: Secured,
}

impl Reader {
    fn new() -> Self {
        Self { secured: Secured::with_users() }
    }

    fn directory(&self) -> &Path {
        self.secured.files.parent().unwrap()
    }

    /// Returns the block of the page that contains some words, for this server.
    fn block(&self, words: &str) -> String {
        let blocks = PAGE.split("\n```").skip(1).step_by(2);
        let mut found = blocks
            .filter_map(|block| block.split_once('\n'))
            .filter(|(_, text)| text.contains(words));
        let (_, text) = found.next().unwrap_or_else(|| panic!("no block has {words:?}"));
        assert!(found.next().is_none(), "several blocks have {words:?}");
        text.replace("10.0.0.9", "127.0.0.1").replace("password\"", &format!("{PASSWORD}\""))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs a command in the directory to which the page's relative paths refer.
    fn run(&self, command: &mut Command) {
        // cqlsh stores a history in the user's home directory.
        succeed(command.env("HOME", self.directory()).current_dir(self.directory()));
    }
}

#[test]
fn python_and_cqlsh_connect_as_on_the_page() {
    let Some(python) = clients::python() else { return };
    let reader = Reader::new();
    let port = reader.secured.server.port();
    let block = reader.block("ssl.create_default_context");
    let with_port = block.replace("[\"127.0.0.1\"],", &format!("[\"127.0.0.1\"], port={port},"));
    assert_ne!(block, with_port);
    let text = format!(
        "{with_port}\nassert cluster.connect().execute(\"{CQL}\").one()\ncluster.shutdown()\n"
    );
    reader.run(Command::new(&python).arg(reader.write("page.py", &text)));
    let settings = reader.write("cqlshrc", &reader.block("[ssl]"));
    let mut cqlsh = Command::new(python.with_file_name("cqlsh"));
    cqlsh.arg("--ssl").arg(format!("--cqlshrc={}", settings.display()));
    reader.run(cqlsh.args(["-u", "ann", "-p", PASSWORD, "127.0.0.1", &port, "-e", CQL]));
}

#[test]
fn node_connects_as_on_the_page() {
    let Some(node) = clients::node() else { return };
    let reader = Reader::new();
    let block = reader.block("new cassandra.Client");
    let address = format!("'127.0.0.1:{}'", reader.secured.server.port());
    let with_port =
        block.replace("'127.0.0.1'", &address).replace("'password'", &format!("'{PASSWORD}'"));
    let text = format!(
        "const cassandra = require('cassandra-driver');\n{with_port}\n\
         client.execute('{CQL}').then(() => client.shutdown());\n"
    );
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules")).arg(reader.write("page.js", &text));
    reader.run(&mut command);
}

#[test]
fn go_connects_as_on_the_page() {
    let reader = Reader::new();
    let block = reader.block("gocql.NewCluster");
    // The program is built once, whatever the port.
    let text = format!(
        "package main\n\nimport (\n\t\"os\"\n\t\"strconv\"\n\n\t\"github.com/gocql/gocql\"\n)\n\nfunc main() {{\n{block}\n\
         \tcluster.Port, _ = strconv.Atoi(os.Args[1])\n\tsession, err := cluster.CreateSession()\n\
         \tif err != nil {{\n\t\tpanic(err)\n\t}}\n\tsession.Close()\n}}\n"
    );
    let source = reader.write("page.go", &text);
    let Some(program) = clients::go_program(&source, "github.com/gocql/gocql v1.7.0") else {
        return;
    };
    reader.run(Command::new(program).arg(reader.secured.server.port()));
}

#[test]
fn java_connects_as_on_the_page() {
    let Some(jars) = clients::java() else { return };
    let reader = Reader::new();
    for command in reader.block("keytool -importcert").lines() {
        reader.run(Command::new("sh").args(["-c", command]));
    }
    reader.write("application.conf", &reader.block("ssl-engine-factory"));
    let classes = format!("{}:{}", jars.join("*").display(), reader.directory().display());
    let mut command = Command::new("java");
    command.arg("-cp").arg(classes).arg(e2e("TlsOfSettings.java"));
    reader.run(command.arg(reader.secured.server.port()).arg(PASSWORD));
}
