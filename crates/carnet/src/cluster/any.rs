//! Object-safe traits of clusters of any type, and of their backups.
//!
//! The calls are boxed: the cost is negligible compared with a network round trip, and the futures
//! of the embedded store stay small.

use std::future::Future;
use std::pin::Pin;

use carnet_base::{Bytes, CellKey, Encoding, Result, TableId, Timestamp, Version, WallTime};
use carnet_sequencer::backup::Label;
use carnet_store::{At, BeginKind, Begun, CommitRequest, Context, Outcome, Page, RangeRequest};
use carnet_store_cql::Requests;

/// A boxed call in progress.
pub(super) type Call<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Object-safe variant of [`CellStore`](carnet_store::CellStore) and
/// [`CommitLog`](carnet_store::CommitLog).
pub(crate) trait AnyCluster: Send + Sync + 'static {
    /// See [`ClusterLog::kept`](carnet_sequencer::ClusterLog::kept).
    fn kept(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Option<Version>>>;
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Result<Option<Version>>>;
    fn get_many<'a>(
        &'a self,
        context: &'a Context,
        keys: &'a [CellKey],
        at: At,
        bytes_max: usize,
    ) -> Call<'a, Result<Vec<Option<Version>>>>;
    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, Result<Page>>;
    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Result<Begun>>;
    fn end(&self, begun: Begun);
    fn commit<'a>(
        &'a self,
        context: &'a Context,
        request: CommitRequest,
    ) -> Call<'a, Result<Timestamp>>;
    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Result<Outcome>>;
    fn outcome_for_reader<'a>(
        &'a self,
        context: &'a Context,
        start: Timestamp,
        read: Timestamp,
    ) -> Call<'a, Result<Outcome>>;
    fn published(&self) -> Timestamp;
    fn timestamp_at<'a>(
        &'a self,
        context: &'a Context,
        wall: WallTime,
    ) -> Call<'a, Result<Timestamp>>;
    fn wall_time_of<'a>(
        &'a self,
        context: &'a Context,
        commit: Timestamp,
    ) -> Call<'a, Result<WallTime>>;
    fn swept<'a>(&'a self, context: &'a Context) -> Call<'a, Result<Timestamp>>;
    /// Creates the cluster table for the cells of a new table, before the creating transaction
    /// commits.
    fn create_table(&self, table: TableId) -> Call<'_, Result<()>>;
    /// Garbage-collects versions past the retention, if this process leads.
    fn sweep(&self) -> Call<'_, Result<()>>;
    fn migrate(&self, to: Encoding) -> Call<'_, Result<Option<Timestamp>>>;
    /// Gives up the lease, if this process leads.
    fn leave(&self) -> Call<'_, ()>;
    /// See [`ClusterLog::announce`](carnet_sequencer::ClusterLog::announce).
    fn announce(&self, what: Bytes) -> Call<'_, Result<()>>;
    /// See [`ClusterLog::withdraw`](carnet_sequencer::ClusterLog::withdraw).
    fn withdraw(&self);
    /// See [`ClusterLog::announced`](carnet_sequencer::ClusterLog::announced).
    fn announced(&self) -> Vec<Bytes>;
    /// Begins a backup with an id.
    fn begin_backup(&self, id: u64) -> Call<'_, Result<Box<dyn AnyBackup>>>;
    /// Returns `true` if this process leads, as far as it knows.
    fn is_leading(&self) -> bool;
    /// Returns the request counters of a CQL cluster.
    fn requests(&self) -> Option<Requests>;
}

/// Object-safe variant of [`Backup`](carnet_sequencer::backup::Backup).
pub(crate) trait AnyBackup: Send + Sync {
    fn commit(&self) -> Timestamp;
    fn renew(&self) -> Call<'_, Result<()>>;
    fn finish(self: Box<Self>, store: &str) -> Call<'_, Result<Label>>;
    fn give_up(self: Box<Self>) -> Call<'static, ()>;
}
