//! Waits for the nodes of a cluster that a single fault must neither end nor prolong.

use std::time::Duration;

use carnet::cluster::statements;
use carnet_base::{Clock, SystemClock};

use super::fault::{Fault, NodeError};
use super::probe::Probe;
use super::proxy::{AGREEMENT, Proxy};
use super::{LATE, node};
use crate::support::{Server, secret_file};

/// A request's timeout, long enough to be told from the bound of a wait.
const PATIENT: &str = "request_timeout=40s&leader_timeout=60s&lease=50s";
/// Maximum time of a start, also on a busy machine.
const START_MAX: Duration = Duration::from_secs(30);

fn url(proxy: &Proxy, name: &str, settings: &str) -> String {
    format!(
        "cassandra://{}/{name}{}?replication=1&{settings}&keepalive=1s&listen=127.0.0.1:0&secret_file={}",
        proxy.address,
        std::process::id(),
        secret_file("sixteen-letters-or-more"),
    )
}

/// The driver gives up its wait for the nodes to agree at some errors of a node.
#[test]
fn schema_changes_although_a_node_refuses_to_tell_its_version() {
    let Some(node) = node::node() else { return };
    let proxy = Proxy::start(&node.contact_point, statements("any"), LATE);
    let url = url(&proxy, "agreement", "lease=1s");
    let server = Server::try_store(&url, "127.0.0.1:0", &[]).unwrap();
    let servers = [server];
    let mut probe = Probe::new(&servers);
    proxy.disturb((AGREEMENT, Fault::Refused(NodeError::Unavailable)), Duration::ZERO, None);
    probe.change_schema().unwrap();
    assert!(proxy.was_hit(Duration::ZERO), "the schema was changed without an agreement");
}

/// Settings are for a warning: a node that does not answer for them is given a second.
#[test]
fn server_starts_although_a_node_tells_no_settings() {
    let Some(node) = node::node() else { return };
    let proxy = Proxy::start(&node.contact_point, statements("any"), LATE);
    let url = url(&proxy, "settings", PATIENT);
    proxy.disturb(("schema Setting", Fault::Lost), START_MAX * 2, None);
    let begun = SystemClock.now();
    let server = Server::try_store(&url, "127.0.0.1:0", &[]).unwrap();
    let took = SystemClock.now().since(begun);
    assert!(proxy.was_hit(Duration::ZERO), "no setting was asked for");
    assert!(took < START_MAX, "the start took {took:?}: {}", server.log());
}
