//! The drivers' settings of `docs/security.md` connect as they stand there, with another address, password and directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{clients, e2e, succeed};
use crate::tls::{PASSWORD, Secured};

const PAGE: &str = include_str!("../../../../docs/security.md");
const CQL: &str = "SELECT release_version FROM system.local";

impl Secured {
    /// Returns the directory in which the files of the page are in `tls`.
    fn directory(&self) -> &Path {
        self.files.parent().unwrap()
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
    fn run_in_place(&self, command: &mut Command) {
        // cqlsh stores a history in the user's home directory.
        succeed(command.env("HOME", self.directory()).current_dir(self.directory()));
    }
}

#[test]
fn python_and_cqlsh_connect_as_on_the_page() {
    let Some(python) = clients::python() else { return };
    let secured = Secured::with_users();
    let port = secured.server.port();
    let block = secured.block("ssl.create_default_context");
    let with_port = block.replace("[\"127.0.0.1\"],", &format!("[\"127.0.0.1\"], port={port},"));
    assert_ne!(block, with_port);
    let text = format!(
        "{with_port}\nassert cluster.connect().execute(\"{CQL}\").one()\ncluster.shutdown()\n"
    );
    secured.run_in_place(Command::new(&python).arg(secured.write("page.py", &text)));
    let settings = secured.write("cqlshrc", &secured.block("[ssl]"));
    let mut cqlsh = Command::new(python.with_file_name("cqlsh"));
    cqlsh.arg("--ssl").arg(format!("--cqlshrc={}", settings.display()));
    secured.run_in_place(cqlsh.args(["-u", "ann", "-p", PASSWORD, "127.0.0.1", &port, "-e", CQL]));
}

#[test]
fn node_connects_as_on_the_page() {
    let Some(node) = clients::node() else { return };
    let secured = Secured::with_users();
    let block = secured.block("new cassandra.Client");
    let address = format!("'127.0.0.1:{}'", secured.server.port());
    let with_port =
        block.replace("'127.0.0.1'", &address).replace("'password'", &format!("'{PASSWORD}'"));
    let text = format!(
        "const cassandra = require('cassandra-driver');\n{with_port}\n\
         client.execute('{CQL}').then(() => client.shutdown());\n"
    );
    let mut command = Command::new("node");
    command.env("NODE_PATH", node.join("node_modules")).arg(secured.write("page.js", &text));
    secured.run_in_place(&mut command);
}

#[test]
fn go_connects_as_on_the_page() {
    let secured = Secured::with_users();
    let block = secured.block("gocql.NewCluster");
    // The program is built once, whatever the port.
    let text = format!(
        "package main\n\nimport (\n\t\"os\"\n\t\"strconv\"\n\n\t\"github.com/gocql/gocql\"\n)\n\nfunc main() {{\n{block}\n\
         \tcluster.Port, _ = strconv.Atoi(os.Args[1])\n\tsession, err := cluster.CreateSession()\n\
         \tif err != nil {{\n\t\tpanic(err)\n\t}}\n\tsession.Close()\n}}\n"
    );
    let source = secured.write("page.go", &text);
    let Some(program) = clients::go_program(&source, "github.com/gocql/gocql v1.7.0") else {
        return;
    };
    secured.run_in_place(Command::new(program).arg(secured.server.port()));
}

#[test]
fn java_connects_as_on_the_page() {
    let Some(jars) = clients::java() else { return };
    let secured = Secured::with_users();
    for command in secured.block("keytool -importcert").lines() {
        secured.run_in_place(Command::new("sh").args(["-c", command]));
    }
    secured.write("application.conf", &secured.block("ssl-engine-factory"));
    let classes = format!("{}:{}", jars.join("*").display(), secured.directory().display());
    let mut command = Command::new("java");
    command.arg("-cp").arg(classes).arg(e2e("Tls.java"));
    secured.run_in_place(command.arg(secured.server.port()));
}
