//! The state of this process, which its handle and its background tasks share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use carnet_base::{Error, ErrorKind, Moment, Result, Timestamp};
use carnet_store::cluster::Cluster;
use carnet_store::{Context, RowTables};

use super::open_snapshots::Open;
use crate::cells::CellCache;
use crate::members::Announced;
use crate::message::ClientId;
use crate::node::Node;
use crate::shared_read::SharedRead;
use crate::transport::Transport;

pub(super) struct Inner<C: Cluster, T: Transport> {
    pub(super) cluster: Arc<C>,
    pub(super) node: Arc<Node<C>>,
    pub(super) transport: T,
    pub(super) client: ClientId,
    pub(super) open: Mutex<Open>,
    /// First timestamps of the epochs that released snapshots to this process.
    pub(super) epochs: Mutex<BTreeMap<Timestamp, ()>>,
    pub(super) published: AtomicU64,
    pub(super) sweep_mark: Arc<SharedRead<Result<Timestamp, String>>>,
    pub(super) cells: Option<CellCache>,
    pub(super) announced: Mutex<Announced>,
}

impl<C: Cluster, T: Transport> Inner<C, T> {
    pub(super) fn row_tables(&self) -> &RowTables {
        &self.node.environment().row_tables
    }

    pub(super) fn now(&self) -> Moment {
        self.node.environment().timer.now()
    }

    pub(super) fn check(&self, context: &Context) -> Result<()> {
        match context.deadline() {
            Some(deadline) if self.now() >= deadline => Err(Error::new(
                ErrorKind::Timeout,
                "the deadline passed before the call was done; nothing was written",
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn saw(&self, published: Timestamp) {
        self.published.fetch_max(published.get(), Ordering::AcqRel);
    }
}
