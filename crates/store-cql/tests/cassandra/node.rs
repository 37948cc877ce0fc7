//! One Cassandra for all tests.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::{env, io, process};

use carnet_base::{SystemClock, block_on};
use carnet_store_cql::{CqlCluster, CqlOptions, Replication};

/// A node that runs while its script's standard input is open: until this process ends.
struct Node {
    contact_point: String,
    process_id: Option<i32>,
    _script: Option<Child>,
}

static NODE: OnceLock<Option<Node>> = OnceLock::new();

/// Held for reading by whoever uses the node, for writing by whoever pauses it.
static RUNNING: RwLock<()> = RwLock::new(());

/// A keyspace on the node, to be used by one test.
pub(crate) struct Keyspace {
    node: &'static Node,
    pub(crate) options: CqlOptions,
    _running: Option<RwLockReadGuard<'static, ()>>,
}

impl Keyspace {
    pub(crate) fn connect(&self) -> CqlCluster {
        block_on(CqlCluster::connect(&self.options, Arc::new(SystemClock))).unwrap()
    }

    /// Connects to a further keyspace that nobody has used.
    pub(crate) fn connect_to_another(&self) -> CqlCluster {
        block_on(CqlCluster::connect(&fresh(self.node), Arc::new(SystemClock))).unwrap()
    }
}

/// Makes options of a keyspace that nobody has used; `None` where there is no Cassandra.
pub(crate) fn keyspace() -> Option<Keyspace> {
    let node = NODE.get_or_init(start).as_ref()?;
    let running = RUNNING.read().unwrap_or_else(PoisonError::into_inner);
    Some(Keyspace { node, options: fresh(node), _running: Some(running) })
}

/// The same with the node for this test alone, and its process id.
pub(crate) fn keyspace_alone<T>(test: impl FnOnce(&Keyspace, rustix::process::Pid) -> T) {
    let Some(node) = NODE.get_or_init(start) else { return };
    let Some(id) = node.process_id else {
        say("skipped: a node that was started elsewhere is not paused");
        return;
    };
    let _alone = RUNNING.write().unwrap_or_else(PoisonError::into_inner);
    test(
        &Keyspace { node, options: fresh(node), _running: None },
        rustix::process::Pid::from_raw(id).unwrap(),
    );
}

fn fresh(node: &Node) -> CqlOptions {
    static USED: AtomicUsize = AtomicUsize::new(0);
    let number = USED.fetch_add(1, Ordering::Relaxed);
    let name = format!("test{}_{number}", process::id());
    let points = vec![node.contact_point.clone()];
    let replication = Replication::EveryDatacenter(1);
    CqlOptions { replication, ..CqlOptions::new(points, name) }
}

fn start() -> Option<Node> {
    if let Ok(contact_point) = env::var("CARNET_CASSANDRA") {
        return Some(Node { contact_point, process_id: None, _script: None });
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra");
    let mut script = Command::new(script)
        .args(["run", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
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

/// Not `eprintln`, which a test that passes keeps to itself.
fn say(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}
