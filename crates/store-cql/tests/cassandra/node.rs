//! One Cassandra for all tests of a binary; tests of other crates include this file, too.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::{env, io};

/// A node that runs while its script's standard input is open, that is, until this process ends. Or
/// a node that was started elsewhere.
pub(crate) struct Node {
    pub(crate) contact_point: String,
    /// `None` if it is not known.
    #[allow(dead_code, reason = "not every test pauses it")]
    pub(crate) process_id: Option<i32>,
    _script: Option<Child>,
}

/// Returns the node; `None` if there is no Cassandra.
pub(crate) fn node() -> Option<&'static Node> {
    static NODE: OnceLock<Option<Node>> = OnceLock::new();
    NODE.get_or_init(start).as_ref()
}

fn start() -> Option<Node> {
    if let Ok(contact_point) = env::var("CARNET_CASSANDRA") {
        let process_id = env::var("CARNET_CASSANDRA_PID").ok().map(|id| id.trim().parse().unwrap());
        return Some(Node { contact_point, process_id, _script: None });
    }
    // The feature is off by default; it affects only tables that use it.
    start_with(if has_masks() { "dynamic_data_masking_enabled: true" } else { "" })
}

/// Returns `true` for versions with dynamic data masking. Cassandra 4 lacks it, and does not start
/// with the setting.
pub(crate) fn has_masks() -> bool {
    !env::var("CARNET_CASSANDRA_VERSION").is_ok_and(|version| version.starts_with("4."))
}

/// Starts a node for a single test, with additional lines for its `cassandra.yaml`; it ends when it
/// is dropped.
pub(crate) fn start_with(yaml: &str) -> Option<Node> {
    run(script().env("CARNET_CASSANDRA_YAML", yaml))
}

/// Starts a node for a single test that acknowledges writes before they are on its disk.
#[allow(dead_code, reason = "used by the tests of one crate")]
pub(crate) fn start_that_syncs_later() -> Option<Node> {
    run(script().env("CARNET_CASSANDRA_SYNC", "periodic"))
}

fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra"))
}

fn run(script: &mut Command) -> Option<Node> {
    let mut script =
        script.args(["run", "1"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(script.stdout.take().unwrap()).lines();
    let mut line = || lines.next().and_then(Result::ok);
    let Some(contact_point) = line() else {
        let status = script.wait().unwrap();
        let is_missing = status.code() == Some(3);
        assert!(is_missing && env::var("CI").is_err(), "no Cassandra: {status}");
        say("skipped: no Java or Maven here to run a Cassandra with");
        return None;
    };
    let process_id = line().unwrap().trim().parse().unwrap();
    Some(Node { contact_point, process_id: Some(process_id), _script: Some(script) })
}

/// Prints a message even if the test passes, unlike `eprintln`.
pub(crate) fn say(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}
