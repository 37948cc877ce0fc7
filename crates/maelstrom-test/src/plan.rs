//! What a run is to do.

use std::time::Duration;

use carnet_checker::Model;

use crate::net::{Conditions, Distribution};
use crate::service::Faults;
use crate::workload::Kind;

/// A run: who takes part, what clients do, and what goes wrong.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What clients ask for.
    pub workload: Kind,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many requests a second clients make together, at random moments.
    pub rate: f64,
    /// For how long they make them.
    pub time_limit: Duration,
    /// How many clients each node has at most. A client makes one request at a time; where all are
    /// busy, requests wait.
    pub clients_per_node: usize,
    /// After this time a client takes a request for lost.
    pub client_timeout: Duration,
    /// How many keys are written before clients begin.
    pub preload: u64,
    /// What the network does to messages.
    pub conditions: Conditions,
    /// What services do.
    pub faults: Faults,
    /// After each such time nodes are cut off from each other, or reunited.
    pub partition_every: Option<Duration>,
    /// Whether nodes that are cut off do not reach services, either.
    pub partition_services: bool,
    /// What the history has to be.
    pub model: Model,
    /// Draws everything that is random outside of the nodes.
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
            seed: 0,
        }
    }
}
