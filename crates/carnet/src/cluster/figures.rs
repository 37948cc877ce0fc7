//! Figures of a process's use of its cluster.

use carnet_sequencer::Status;
use carnet_store_cql::{Nodes, Requests};

/// Figures of a process's use of its cluster since its start.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ClusterFigures {
    /// Numbers of requests, whatever their results.
    pub requests: Requests,
    /// Numbers of requests that no node answered.
    pub failed: Requests,
    /// Nodes of the cluster; `None` for a cluster that is not reached by a driver.
    pub nodes: Option<Nodes>,
    /// This process's part in the database.
    pub status: Status,
    /// Whether the last request failed.
    pub is_failing: bool,
    /// Whether a node acknowledges writes before they are on its disk.
    pub syncs_later: bool,
}
