//! Backups of a database over a cluster, as the façade takes and restores them.

use std::sync::Arc;

use carnet_base::{
    Clock, Result, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, Timer, Timestamp, block_on,
};
use carnet_sequencer::backup::{Backup, restore as restore_copy};
pub use carnet_sequencer::backup::{Label, RENEW_EVERY, RestoreProgress, Restored};
use carnet_store::cluster::Cluster;
use carnet_store_cql::CqlCluster;

use super::open::cql_options;
use super::store::Call;
use super::url::ClusterUrl;

/// The version of this program, as labels of backups name it.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A backup that has begun: from here to its [end](ClusterBackup::finish) the tables of the cluster
/// may be copied by its own tools, each replica and each table at a moment of its own.
///
/// Whoever drops it leaves the sweep held for about a minute.
pub struct ClusterBackup(pub(crate) Box<dyn AnyBackup>);

impl ClusterBackup {
    /// Returns B: what commits up to it is in the backup, and nothing later.
    #[must_use]
    pub fn commit(&self) -> Timestamp {
        self.0.commit()
    }

    /// Says that the backup lives: to be called every [`RENEW_EVERY`]. It blocks the calling thread.
    ///
    /// # Errors
    ///
    /// `Conflict` where the sweep is not held any more: the backup cannot succeed. `Unavailable`: the
    /// next call tries again.
    pub fn renew(&self) -> Result<()> {
        block_on(self.0.renew())
    }

    /// Ends the backup once the copy has ended. The label is what a restore needs beside the copy;
    /// `store` says in it where the database was, for people.
    ///
    /// # Errors
    ///
    /// `Conflict` where the sweep was not held all the time, or the commit table was migrated
    /// meanwhile: the copy is no backup. `Unavailable`.
    pub fn finish(self, store: &str) -> Result<Label> {
        block_on(self.0.finish(store))
    }

    /// Ends the backup without one.
    pub fn give_up(self) {
        block_on(self.0.give_up());
    }
}

/// A backup over any cluster.
pub(crate) trait AnyBackup: Send + Sync {
    fn commit(&self) -> Timestamp;
    fn renew(&self) -> Call<'_, Result<()>>;
    fn finish(self: Box<Self>, store: &str) -> Call<'_, Result<Label>>;
    fn give_up(self: Box<Self>) -> Call<'static, ()>;
}

impl<C: Cluster> AnyBackup for Backup<C> {
    fn commit(&self) -> Timestamp {
        self.commit()
    }

    fn renew(&self) -> Call<'_, Result<()>> {
        Box::pin(self.renew())
    }

    fn finish(self: Box<Self>, store: &str) -> Call<'_, Result<Label>> {
        Box::pin((*self).finish(store, PROGRAM))
    }

    fn give_up(self: Box<Self>) -> Call<'static, ()> {
        Box::pin((*self).give_up())
    }
}

/// Makes a database of a copy that was put back into a cluster's tables, before any process is
/// started on them. It blocks the calling thread.
///
/// # Errors
///
/// `Invalid` where the tables are not the copy that the label is of, or were in use since: nothing
/// was changed. `Unavailable` where a process leads, or a replica is away: run it again, no process
/// leads before it has ended. `Corrupted`.
pub fn restore(
    url: &ClusterUrl,
    label: &Label,
    tell: impl Fn(RestoreProgress) + Send + Sync,
) -> Result<Restored> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let timer: Arc<dyn Timer> = Arc::new(ThreadTimer::new(Arc::clone(&clock), &ThreadSpawn));
    block_on(Box::pin(async {
        let cluster = CqlCluster::connect_to_existing(&cql_options(url)?, clock).await?;
        let mut rng = SeededRng::from_entropy();
        restore_copy(&Arc::new(cluster), &timer, &url.sequencer, label, &mut rng, tell).await
    }))
}
