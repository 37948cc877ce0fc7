//! The object-safe trait of stores over clusters of any type.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use carnet_base::{Bytes, Call, CommitEntry, Encoding, Result, TableId, Timestamp};
use carnet_sequencer::{Address, ClusterLog, ForwardHandler, Status, Transport, Unanswered};
use carnet_store::cluster::Cluster;
use carnet_store::{CommitListing, RowTables, Store};

use super::any_backup::AnyBackup;

/// Answer to forwarded bytes.
type Forwarded<'a> = Pin<Box<dyn Future<Output = Result<Result<Bytes>, Unanswered>> + Send + 'a>>;

/// A store over a cluster: what [`ClusterLog`] has beside the methods of a [`Store`].
pub(crate) trait ClusterStore: Store {
    fn create_table(&self, table: TableId) -> Call<'_, ()>;
    fn row_tables(&self) -> Arc<RowTables>;
    fn migrate(&self, to: Encoding) -> Call<'_, Option<Timestamp>>;
    fn is_leading(&self) -> bool;
    fn status(&self) -> Status;
    /// Returns the memory of the cell cache; `None` if there is none.
    fn cell_cache_bytes(&self) -> Option<usize>;
    fn leave(&self) -> Call<'_, ()>;
    fn announce(&self, what: Bytes) -> Call<'_, ()>;
    fn withdraw(&self);
    fn announced(&self) -> Vec<Bytes>;
    fn address(&self) -> Address;
    fn serve_forwarded(&self, handler: &Arc<dyn ForwardHandler>);
    fn forward<'a>(&'a self, to: &'a Address, what: Bytes) -> Forwarded<'a>;
    /// Lists entries of the commit table.
    fn list_commits<'a>(
        &'a self,
        starts: (Timestamp, Timestamp),
        visit: &'a mut (dyn FnMut(Encoding, Timestamp, CommitEntry) -> Result<()> + Send),
    ) -> Call<'a, CommitListing>;
    /// Garbage-collects versions past the retention, if this process leads.
    fn sweep(&self) -> Call<'_, ()>;
    /// Begins a backup with an id.
    fn begin_backup(&self, id: u64) -> Call<'_, Box<dyn AnyBackup>>;
}

impl<C: Cluster, T: Transport> ClusterStore for ClusterLog<C, T> {
    fn create_table(&self, table: TableId) -> Call<'_, ()> {
        Call::boxed(self.create_table(table))
    }

    fn row_tables(&self) -> Arc<RowTables> {
        self.row_tables()
    }

    fn migrate(&self, to: Encoding) -> Call<'_, Option<Timestamp>> {
        Call::boxed(self.migrate(to))
    }

    fn list_commits<'a>(
        &'a self,
        starts: (Timestamp, Timestamp),
        visit: &'a mut (dyn FnMut(Encoding, Timestamp, CommitEntry) -> Result<()> + Send),
    ) -> Call<'a, CommitListing> {
        Call::boxed(self.commit_table().list(starts, visit))
    }

    fn is_leading(&self) -> bool {
        self.is_leading()
    }

    fn status(&self) -> Status {
        self.status()
    }

    fn cell_cache_bytes(&self) -> Option<usize> {
        self.cell_cache_bytes()
    }

    fn leave(&self) -> Call<'_, ()> {
        Call::boxed(async {
            self.leave().await;
            Ok(())
        })
    }

    fn announce(&self, what: Bytes) -> Call<'_, ()> {
        Call::boxed(self.announce(what))
    }

    fn withdraw(&self) {
        self.withdraw();
    }

    fn announced(&self) -> Vec<Bytes> {
        self.announced()
    }

    fn address(&self) -> Address {
        self.address()
    }

    fn serve_forwarded(&self, handler: &Arc<dyn ForwardHandler>) {
        self.serve_forwarded(handler);
    }

    fn forward<'a>(&'a self, to: &'a Address, what: Bytes) -> Forwarded<'a> {
        Box::pin(self.forward(to, what))
    }

    fn sweep(&self) -> Call<'_, ()> {
        Call::boxed(async {
            let report = self.sweep_past_retention().await?;
            tracing::info!(?report, "swept");
            Ok(())
        })
    }

    fn begin_backup(&self, id: u64) -> Call<'_, Box<dyn AnyBackup>> {
        Call::boxed(async move { Ok(Box::new(self.begin_backup(id).await?) as Box<dyn AnyBackup>) })
    }
}
