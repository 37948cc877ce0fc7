//! The object-safe trait of clusters of any type, and its implementation.

use std::sync::Arc;

use carnet_base::{Bytes, CellKey, Encoding, Result, TableId, Timestamp, Version, WallTime};
use carnet_sequencer::{Address, ClusterLog, ForwardHandler, Transport, Unanswered};
use carnet_store::cluster::Cluster;
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, Outcome, Page,
    RangeRequest, RowTables,
};
use carnet_store_cql::{RequestCounters, Requests};

use super::any::{AnyBackup, Call};

/// A cluster, with this process's share of the database on it.
pub(crate) struct ClusterStore<C: Cluster, T: Transport> {
    pub(crate) log: Arc<ClusterLog<C, T>>,
    /// Request counters of a CQL cluster.
    pub(crate) requests: Option<Arc<RequestCounters>>,
}

/// Declares [`AnyCluster`] with methods of [`ClusterLog`], and implements them by calls of these.
///
/// The futures of `async` methods are boxed: the cost is negligible compared with a network round
/// trip, and the futures of the embedded store stay small.
macro_rules! any_cluster {
    (
        async { $(fn $call:ident<$life:lifetime>($($arg:ident: $type:ty),*) -> $output:ty;)* }
        sync { $(fn $name:ident($($sync_arg:ident: $sync_type:ty),*) -> $sync_output:ty;)* }
    ) => {
        /// Object-safe variant of [`CellStore`] and [`CommitLog`], with other methods of
        /// [`ClusterLog`].
        pub(crate) trait AnyCluster: Send + Sync + 'static {
            $(fn $call<$life>(&$life self, $($arg: $type),*) -> Call<$life, $output>;)*
            $(fn $name(&self, $($sync_arg: $sync_type),*) -> $sync_output;)*
            /// Garbage-collects versions past the retention, if this process leads.
            fn sweep(&self) -> Call<'_, Result<()>>;
            /// Begins a backup with an id.
            fn begin_backup(&self, id: u64) -> Call<'_, Result<Box<dyn AnyBackup>>>;
            /// Returns the request counters of a CQL cluster.
            fn requests(&self) -> Option<Requests>;
        }

        impl<C: Cluster, T: Transport> AnyCluster for ClusterStore<C, T> {
            $(fn $call<$life>(&$life self, $($arg: $type),*) -> Call<$life, $output> {
                Box::pin(self.log.$call($($arg),*))
            })*

            $(fn $name(&self, $($sync_arg: $sync_type),*) -> $sync_output {
                self.log.$name($($sync_arg),*)
            })*

            fn sweep(&self) -> Call<'_, Result<()>> {
                Box::pin(async {
                    let report = self.log.sweep_past_retention().await?;
                    tracing::info!(?report, "swept");
                    Ok(())
                })
            }

            fn begin_backup(&self, id: u64) -> Call<'_, Result<Box<dyn AnyBackup>>> {
                Box::pin(async move {
                    Ok(Box::new(self.log.begin_backup(id).await?) as Box<dyn AnyBackup>)
                })
            }

            fn requests(&self) -> Option<Requests> {
                self.requests.as_deref().map(RequestCounters::read)
            }
        }
    };
}

any_cluster! {
    async {
        fn get<'a>(context: &'a Context, key: &'a CellKey, at: At) -> Result<Option<Version>>;
        fn get_many<'a>(
            context: &'a Context,
            keys: &'a [CellKey],
            at: At,
            bytes_max: usize
        ) -> Result<Vec<Option<Version>>>;
        fn get_chain<'a>(
            context: &'a Context,
            key: &'a CellKey,
            at: At,
            max: usize
        ) -> Result<Vec<Version>>;
        fn range<'a>(context: &'a Context, request: &'a RangeRequest) -> Result<Page>;
        fn begin<'a>(context: &'a Context, kind: BeginKind) -> Result<Begun>;
        fn commit<'a>(context: &'a Context, request: CommitRequest) -> Result<Timestamp>;
        fn outcome<'a>(context: &'a Context, start: Timestamp) -> Result<Outcome>;
        fn outcome_for_reader<'a>(
            context: &'a Context,
            start: Timestamp,
            read: Timestamp
        ) -> Result<Outcome>;
        fn timestamp_at<'a>(context: &'a Context, wall: WallTime) -> Result<Timestamp>;
        fn wall_time_of<'a>(context: &'a Context, commit: Timestamp) -> Result<WallTime>;
        fn swept<'a>(context: &'a Context) -> Result<Timestamp>;
        fn create_table<'a>(table: TableId) -> Result<()>;
        fn migrate<'a>(to: Encoding) -> Result<Option<Timestamp>>;
        fn leave<'a>() -> ();
        fn announce<'a>(what: Bytes) -> Result<()>;
        fn forward<'a>(to: &'a Address, what: Bytes) -> Result<Result<Bytes>, Unanswered>;
    }
    sync {
        fn kept(context: &Context, key: &CellKey, at: At) -> Result<Option<Option<Version>>>;
        fn end(begun: Begun) -> ();
        fn published() -> Timestamp;
        fn withdraw() -> ();
        fn announced() -> Vec<Bytes>;
        fn address() -> Address;
        fn serve_forwarded(handler: &Arc<dyn ForwardHandler>) -> ();
        fn is_leading() -> bool;
        fn row_tables() -> Arc<RowTables>;
        fn takes_delta(key: &CellKey) -> bool;
        fn is_delta(table: TableId, version: &Version) -> bool;
        fn merged(
            context: &Context,
            key: &CellKey,
            row: &Version,
            read: Timestamp,
            versions: usize
        ) -> ();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use carnet_sequencer::LocalNetwork;
    use carnet_store_cql::CqlCluster;

    use super::*;

    type Log = ClusterLog<CqlCluster, LocalNetwork>;

    fn bytes_of<A, B, C, F: Future>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    /// Each call is boxed, and filling the box copies the future: rare, large parts must be boxed
    /// themselves.
    #[test]
    fn leader_calls_are_small_futures() {
        assert!(bytes_of(<Log as CommitLog>::begin) < 4 << 10);
        assert!(bytes_of(<Log as CommitLog>::outcome) < 4 << 10);
    }
}
