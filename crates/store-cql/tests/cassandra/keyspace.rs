//! A keyspace for each test, on a shared node.

use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use carnet_base::sync::{read, write};
use carnet_base::{SystemClock, block_on};
use carnet_store_cql::{CqlCluster, CqlOptions, Replication};

use crate::node::{Node, node, say};

/// Held for reading while a test uses the node, and for writing while a test pauses it.
static RUNNING: RwLock<()> = RwLock::new(());

/// A keyspace on the node, for one test.
pub(crate) struct Keyspace {
    node: &'static Node,
    pub(crate) options: CqlOptions,
    _running: Option<RwLockReadGuard<'static, ()>>,
}

impl Keyspace {
    pub(crate) fn connect(&self) -> CqlCluster {
        block_on(CqlCluster::connect(&self.options, Arc::new(SystemClock))).unwrap()
    }

    /// Connects to another unused keyspace.
    pub(crate) fn connect_to_another(&self) -> CqlCluster {
        block_on(CqlCluster::connect(&fresh(self.node), Arc::new(SystemClock))).unwrap()
    }
}

/// Creates options of an unused keyspace; `None` if there is no Cassandra.
pub(crate) fn keyspace() -> Option<Keyspace> {
    let node = node()?;
    let running = read(&RUNNING);
    Some(Keyspace { node, options: fresh(node), _running: Some(running) })
}

/// Like [`keyspace`], but runs a test alone on the node and passes the process id.
pub(crate) fn keyspace_alone<T>(test: impl FnOnce(&Keyspace, rustix::process::Pid) -> T) {
    let Some(node) = node() else { return };
    let Some(id) = node.process_id else {
        say("skipped: the node's process id is not known");
        return;
    };
    let _alone = write(&RUNNING);
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
