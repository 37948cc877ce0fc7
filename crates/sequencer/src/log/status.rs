//! What operators see of a process's part in the database.

use carnet_base::Epoch;
use carnet_store::cluster::Cluster;

use super::cluster_log::ClusterLog;
use crate::cells::CellCache;
use crate::node::Role;
use crate::sweep::SweepStatus;
use crate::transport::Transport;

/// State of a process's part in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether this process leads, as far as it knows.
    pub is_leading: bool,
    /// Term of the leader that this process knows; `None` if it knows none.
    pub term: Option<Epoch>,
    /// Number of cells in the cell cache; `None` without a cache.
    pub cached_cells: Option<usize>,
    /// The sweep of this process's term; `None` if it does not lead.
    pub sweep: Option<SweepStatus>,
}

impl<C: Cluster, T: Transport> ClusterLog<C, T> {
    /// Returns the state of this process's part in the database.
    #[must_use]
    pub fn status(&self) -> Status {
        let cached_cells = self.inner.cells.as_ref().map(CellCache::len);
        let status = Status { cached_cells, ..Status::default() };
        match self.inner.node.role() {
            Role::Leading(leader) if !leader.is_over() => Status {
                is_leading: true,
                term: Some(leader.epoch()),
                sweep: Some(leader.sweep().status()),
                ..status
            },
            Role::Following(_, term) => Status { term: Some(term), ..status },
            Role::Leading(_) | Role::Unknown | Role::Stopped(_) => status,
        }
    }
}
