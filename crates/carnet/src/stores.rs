//! The stores of a [`Db`](crate::Db), for what only some of them have.
//!
//! Transactions use a [`StoreHandle`], whatever the store.

use std::sync::Arc;

use carnet_base::{Error, Result, TableId};
use carnet_store::{MemoryStore, RowTables, StoreHandle};
use carnet_store_cql::RequestCounters;
use carnet_store_local::LocalStore;

use crate::cluster::ClusterStore;

/// One of the stores.
#[derive(Clone)]
pub(crate) enum AnyStore {
    Local(Arc<LocalStore>),
    Memory(Arc<MemoryStore>),
    Cluster {
        store: Arc<dyn ClusterStore>,
        /// Request counters of a CQL cluster.
        requests: Option<Arc<RequestCounters>>,
    },
}

impl AnyStore {
    /// Makes a handle for transactions.
    pub(crate) fn handle(&self) -> StoreHandle {
        match self {
            Self::Local(store) => Arc::clone(store).into(),
            Self::Memory(store) => Arc::clone(store).into(),
            Self::Cluster { store, .. } => {
                let store: Arc<dyn ClusterStore> = Arc::clone(store);
                StoreHandle::from(store as Arc<dyn carnet_store::Store>)
            }
        }
    }

    /// Returns the embedded store.
    pub(crate) fn local(&self) -> Option<&LocalStore> {
        match self {
            Self::Local(store) => Some(store),
            Self::Memory(_) | Self::Cluster { .. } => None,
        }
    }

    /// Returns the embedded store for `what`, which other stores do not support.
    pub(crate) fn local_for(&self, what: &str) -> Result<&LocalStore> {
        let other = match self {
            Self::Local(store) => return Ok(store),
            Self::Memory(_) => "in memory",
            Self::Cluster { .. } => "over a cluster",
        };
        Err(Error::unsupported(format!("{what} of a database {other}")))
    }

    /// Returns the store over a cluster.
    pub(crate) fn cluster(&self) -> Option<&dyn ClusterStore> {
        match self {
            Self::Cluster { store, .. } => Some(&**store),
            Self::Local(_) | Self::Memory(_) => None,
        }
    }

    /// Adds a raw table before anything of it is read or written: its values are no deltas.
    pub(crate) fn add_raw(&self, table: TableId) {
        let add = |tables: &RowTables| tables.add_raw(table);
        match self {
            Self::Local(store) => add(store.row_tables()),
            Self::Memory(store) => add(store.row_tables()),
            Self::Cluster { store, .. } => add(&store.row_tables()),
        }
    }

    /// Creates the cluster tables for the cells of new tables, before the creating transaction
    /// commits.
    pub(crate) async fn create_tables(&self, tables: &[TableId]) -> Result<()> {
        let Some(store) = self.cluster() else { return Ok(()) };
        for table in tables {
            store.create_table(*table).await?;
        }
        Ok(())
    }
}
