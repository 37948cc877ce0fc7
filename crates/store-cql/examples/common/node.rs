//! A single-node Cassandra for the lifetime of this process.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A node that runs while its script's standard input is open.
pub(crate) struct Node {
    pub(crate) contact_point: String,
    script: Child,
}

impl Node {
    /// Starts a node with additional lines in its configuration.
    pub(crate) fn start(yaml: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra");
        let mut script = Command::new(script)
            .args(["run", "1"])
            .env("CARNET_CASSANDRA_YAML", yaml)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
        let mut line = || lines.next().expect("scripts/cassandra says why").unwrap();
        let contact_point = line();
        // The script ends if its last line, the process id, is not read.
        line();
        Self { contact_point, script }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        // Wait until the node has ended, to free the processor for the next one.
        self.script.wait().unwrap();
    }
}
