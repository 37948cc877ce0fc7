//! Plan of a run.

use std::time::Duration;

use carnet_checker::Model;

use crate::net::{Conditions, Distribution};
use crate::service::Faults;
use crate::workload::Kind;

/// A run: its nodes, its clients and its faults.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The requests that clients make.
    pub workload: Kind,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of requests per second that clients make together, at random moments.
    pub rate: f64,
    /// Time during which clients make requests.
    pub time_limit: Duration,
    /// Maximum number of clients of each node. A client makes one request at a time; if all are
    /// busy, requests wait.
    pub clients_per_node: usize,
    /// Time after which a client assumes that a request is lost.
    pub client_timeout: Duration,
    /// Number of keys written before the clients begin.
    pub preload: u64,
    /// The network's faults.
    pub conditions: Conditions,
    /// The services' faults.
    pub faults: Faults,
    /// Interval after which nodes are cut off from each other or reunited, alternately.
    pub partition_every: Option<Duration>,
    /// Whether nodes that are cut off do not reach services, either.
    pub partition_services: bool,
    /// The model that the history has to satisfy.
    pub model: Model,
    /// Whether messages and requests are recorded, for [pictures](crate::pictures).
    pub traces: bool,
    /// Seed for all randomness outside the nodes.
    pub seed: u64,
}

impl Default for Plan {
    /// Two nodes and 100 transactions a second for 10 s, where nothing goes wrong.
    fn default() -> Self {
        Self {
            workload: Kind::TxnListAppend,
            nodes: 2,
            rate: 100.0,
            time_limit: Duration::from_secs(10),
            clients_per_node: 10,
            client_timeout: Duration::from_secs(5),
            preload: 0,
            conditions: Conditions {
                latency: Duration::ZERO,
                distribution: Distribution::Constant,
                loss: 0,
            },
            faults: Faults::default(),
            partition_every: None,
            partition_services: false,
            model: Model::StrictSerializable,
            traces: false,
            seed: 0,
        }
    }
}
