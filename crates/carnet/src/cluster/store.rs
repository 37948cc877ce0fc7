//! A cluster of any type, behind the object-safe trait.

use std::sync::Arc;

use carnet_base::{Bytes, CellKey, Encoding, Result, TableId, Timestamp, Version, WallTime};
use carnet_sequencer::{ClusterLog, Transport};
use carnet_store::cluster::Cluster;
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, Outcome, Page, RangeRequest,
};
use carnet_store_cql::{RequestCounters, Requests};

use super::any::{AnyBackup, AnyCluster, Call};

/// A cluster, with this process's share of the database on it.
pub(crate) struct ClusterStore<C: Cluster, T: Transport> {
    pub(crate) log: ClusterLog<C, T>,
    /// Request counters of a CQL cluster.
    pub(crate) requests: Option<Arc<RequestCounters>>,
}

impl<C: Cluster, T: Transport> AnyCluster for ClusterStore<C, T> {
    fn kept(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Option<Version>>> {
        self.log.kept(context, key, at)
    }

    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Result<Option<Version>>> {
        Box::pin(self.log.get(context, key, at))
    }

    fn get_many<'a>(
        &'a self,
        context: &'a Context,
        keys: &'a [CellKey],
        at: At,
        bytes_max: usize,
    ) -> Call<'a, Result<Vec<Option<Version>>>> {
        Box::pin(self.log.get_many(context, keys, at, bytes_max))
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, Result<Page>> {
        Box::pin(self.log.range(context, request))
    }

    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Result<Begun>> {
        Box::pin(self.log.begin(context, kind))
    }

    fn end(&self, begun: Begun) {
        self.log.end(begun);
    }

    fn commit<'a>(
        &'a self,
        context: &'a Context,
        request: CommitRequest,
    ) -> Call<'a, Result<Timestamp>> {
        Box::pin(self.log.commit(context, request))
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Result<Outcome>> {
        Box::pin(self.log.outcome(context, start))
    }

    fn outcome_for_reader<'a>(
        &'a self,
        context: &'a Context,
        start: Timestamp,
        read: Timestamp,
    ) -> Call<'a, Result<Outcome>> {
        Box::pin(self.log.outcome_for_reader(context, start, read))
    }

    fn published(&self) -> Timestamp {
        self.log.published()
    }

    fn timestamp_at<'a>(
        &'a self,
        context: &'a Context,
        wall: WallTime,
    ) -> Call<'a, Result<Timestamp>> {
        Box::pin(self.log.timestamp_at(context, wall))
    }

    fn wall_time_of<'a>(
        &'a self,
        context: &'a Context,
        commit: Timestamp,
    ) -> Call<'a, Result<WallTime>> {
        Box::pin(self.log.wall_time_of(context, commit))
    }

    fn swept<'a>(&'a self, context: &'a Context) -> Call<'a, Result<Timestamp>> {
        Box::pin(self.log.swept(context))
    }

    fn create_table(&self, table: TableId) -> Call<'_, Result<()>> {
        Box::pin(self.log.create_table(table))
    }

    fn sweep(&self) -> Call<'_, Result<()>> {
        Box::pin(async {
            let report = self.log.sweep_past_retention().await?;
            tracing::info!(?report, "swept");
            Ok(())
        })
    }

    fn migrate(&self, to: Encoding) -> Call<'_, Result<Option<Timestamp>>> {
        Box::pin(self.log.migrate(to))
    }

    fn leave(&self) -> Call<'_, ()> {
        Box::pin(self.log.leave())
    }

    fn announce(&self, what: Bytes) -> Call<'_, Result<()>> {
        Box::pin(self.log.announce(what))
    }

    fn withdraw(&self) {
        self.log.withdraw();
    }

    fn announced(&self) -> Vec<Bytes> {
        self.log.announced()
    }

    fn begin_backup(&self, id: u64) -> Call<'_, Result<Box<dyn AnyBackup>>> {
        Box::pin(
            async move { Ok(Box::new(self.log.begin_backup(id).await?) as Box<dyn AnyBackup>) },
        )
    }

    fn is_leading(&self) -> bool {
        self.log.is_leading()
    }

    fn requests(&self) -> Option<Requests> {
        self.requests.as_deref().map(RequestCounters::read)
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
