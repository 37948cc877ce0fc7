//! Figures of a process's use of its cluster.

use carnet_store_cql::Requests;

/// Figures of a process's use of its cluster since its start.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ClusterFigures {
    /// Numbers of requests.
    pub requests: Requests,
    /// Whether this process leads the database.
    pub is_leading: bool,
    /// Whether the last request failed.
    pub is_failing: bool,
    /// Whether a node acknowledges writes before they are on its disk.
    pub syncs_later: bool,
}
