//! The stores of a [`Db`](crate::Db), behind one type.

use std::sync::Arc;

use carnet_base::{CellKey, CellPage, Result, TableId, Timestamp, Version, WallTime};
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, MemoryStore, Outcome, Page,
    RangeRequest, Spill,
};
use carnet_store_local::LocalStore;

use crate::cluster::AnyCluster;

/// One of the stores. An enum, because traits with methods that return futures are not object-safe.
/// Clones share the store; each clone fills a cache line, so that threads do not contend for its
/// reference count.
#[derive(Clone)]
#[repr(align(64))]
pub(crate) enum AnyStore {
    Local(Arc<LocalStore>),
    Memory(Arc<MemoryStore>),
    Cluster(Arc<dyn AnyCluster>),
}

macro_rules! each {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Self::Local($store) => $call,
            Self::Memory($store) => $call,
            Self::Cluster($store) => $call,
        }
    };
}

impl CellStore for AnyStore {
    async fn get(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        if let Self::Cluster(store) = self
            && let Some(kept) = store.kept(context, key, at)?
        {
            return Ok(kept);
        }
        each!(self, store => store.get(context, key, at).await)
    }

    async fn get_many(
        &self,
        context: &Context,
        keys: &[CellKey],
        at: At,
        bytes_max: usize,
    ) -> Result<Vec<Option<Version>>> {
        each!(self, store => store.get_many(context, keys, at, bytes_max).await)
    }

    fn is_delta(&self, table: TableId, version: &Version) -> bool {
        match self {
            // It merges deltas itself.
            Self::Local(_) => false,
            Self::Memory(store) => store.is_delta(table, version),
            Self::Cluster(store) => store.is_delta(table, version),
        }
    }

    async fn get_chain(
        &self,
        context: &Context,
        key: &CellKey,
        at: At,
        max: usize,
    ) -> Result<Vec<Version>> {
        each!(self, store => store.get_chain(context, key, at, max).await)
    }

    fn merged(
        &self,
        context: &Context,
        key: &CellKey,
        row: &Version,
        read: Timestamp,
        versions: usize,
    ) {
        if let Self::Cluster(store) = self {
            store.merged(context, key, row, read, versions);
        }
    }

    async fn range(&self, context: &Context, request: &RangeRequest) -> Result<Page> {
        each!(self, store => store.range(context, request).await)
    }

    async fn page(&self, context: &Context, request: &RangeRequest) -> Result<Option<CellPage>> {
        match self {
            Self::Local(store) => store.page(context, request).await,
            Self::Memory(store) => store.page(context, request).await,
            // A page carries no commit decisions, which reads over a cluster need.
            Self::Cluster(_) => Ok(None),
        }
    }
}

impl CommitLog for AnyStore {
    async fn begin(&self, context: &Context, kind: BeginKind) -> Result<Begun> {
        each!(self, store => store.begin(context, kind).await)
    }

    fn takes_delta(&self, key: &CellKey) -> bool {
        match self {
            Self::Local(store) => store.takes_delta(key),
            Self::Memory(store) => store.takes_delta(key),
            Self::Cluster(store) => store.takes_delta(key),
        }
    }

    fn end(&self, begun: Begun) {
        each!(self, store => store.end(begun));
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        each!(self, store => store.commit(context, request).await)
    }

    async fn outcome(&self, context: &Context, start: Timestamp) -> Result<Outcome> {
        each!(self, store => store.outcome(context, start).await)
    }

    async fn outcome_for_reader(
        &self,
        context: &Context,
        start: Timestamp,
        read: Timestamp,
    ) -> Result<Outcome> {
        each!(self, store => store.outcome_for_reader(context, start, read).await)
    }

    fn spill(&self, start: Timestamp) -> Option<Arc<dyn Spill>> {
        match self {
            Self::Local(store) => store.spill(start),
            Self::Memory(_) | Self::Cluster(_) => None,
        }
    }

    fn published(&self) -> Timestamp {
        each!(self, store => store.published())
    }

    async fn timestamp_at(&self, context: &Context, wall: WallTime) -> Result<Timestamp> {
        each!(self, store => store.timestamp_at(context, wall).await)
    }

    fn wall_time(&self) -> Option<WallTime> {
        match self {
            Self::Local(store) => store.wall_time(),
            Self::Memory(store) => store.wall_time(),
            Self::Cluster(_) => None,
        }
    }

    async fn wall_time_of(&self, context: &Context, commit: Timestamp) -> Result<WallTime> {
        each!(self, store => store.wall_time_of(context, commit).await)
    }

    async fn swept(&self, context: &Context) -> Result<Timestamp> {
        each!(self, store => store.swept(context).await)
    }
}

impl AnyStore {
    /// Adds a raw table before anything of it is read or written: its values are no deltas.
    pub(crate) fn add_raw(&self, table: TableId) {
        match self {
            Self::Local(store) => store.row_tables().add_raw(table),
            Self::Memory(store) => store.row_tables().add_raw(table),
            Self::Cluster(store) => store.row_tables().add_raw(table),
        }
    }

    /// Creates the cluster tables for the cells of new tables, before the creating transaction
    /// commits.
    pub(crate) async fn create_tables(&self, tables: &[TableId]) -> Result<()> {
        let Self::Cluster(store) = self else { return Ok(()) };
        for table in tables {
            store.create_table(*table).await?;
        }
        Ok(())
    }
}
