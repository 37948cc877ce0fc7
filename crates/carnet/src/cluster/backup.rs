//! Backups of a database over a cluster: taking and restoring them.

use std::sync::Arc;

use carnet_base::{
    Call, Clock, Result, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, Timer, Timestamp,
    block_on,
};
use carnet_sequencer::backup::{Backup, restore as restore_copy};
pub use carnet_sequencer::backup::{Label, RENEW_EVERY, RestoreProgress, Restored};
use carnet_store::cluster::Cluster;
use carnet_store_cql::CqlCluster;

use super::any_backup::AnyBackup;
use super::open::cql_options;
use super::url::ClusterUrl;

/// Version of this program, for the labels of backups.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// A backup in progress. Until [`finish`](ClusterBackup::finish) the cluster's own tools may copy
/// the tables, each replica and each table at a different time.
///
/// If it is dropped, garbage collection stays paused for about a minute.
pub struct ClusterBackup(pub(crate) Box<dyn AnyBackup>);

impl ClusterBackup {
    /// Returns the backup's commit B: the backup contains exactly the commits up to B.
    #[must_use]
    pub fn commit(&self) -> Timestamp {
        self.0.commit()
    }

    /// Renews the backup's hold on garbage collection. Call it every [`RENEW_EVERY`]. It blocks the
    /// calling thread.
    ///
    /// # Errors
    ///
    /// `Conflict` if the hold was lost: the backup cannot succeed. `Unavailable`: the next call
    /// retries.
    pub fn renew(&self) -> Result<()> {
        block_on(self.0.renew())
    }

    /// Ends the backup after the copy is complete. A restore needs the returned label in addition
    /// to the copy. `store` is stored in the label, as a description of the source for operators.
    ///
    /// # Errors
    ///
    /// `Conflict` if the hold was lost at any time, or the commit table was migrated meanwhile: the
    /// copy is not a valid backup. `Unavailable`.
    pub fn finish(self, store: &str) -> Result<Label> {
        block_on(self.0.finish(store))
    }

    /// Aborts the backup.
    pub fn give_up(self) {
        // It has no errors.
        let _ = block_on(self.0.give_up());
    }
}

impl<C: Cluster> AnyBackup for Backup<C> {
    fn commit(&self) -> Timestamp {
        self.commit()
    }

    fn renew(&self) -> Call<'_, ()> {
        Call::boxed(self.renew())
    }

    fn finish(self: Box<Self>, store: &str) -> Call<'_, Label> {
        Call::boxed((*self).finish(store, PROGRAM))
    }

    fn give_up(self: Box<Self>) -> Call<'static, ()> {
        Call::boxed(async {
            (*self).give_up().await;
            Ok(())
        })
    }
}

/// Restores a database from a copy that the cluster's tools have put back into its tables. Call it
/// before any process uses these tables. It blocks the calling thread.
///
/// # Errors
///
/// `Invalid` if the tables do not match the label, or were used since: nothing was changed.
/// `Unavailable` if a process leads or a replica is down: run the restore again; no process can
/// lead before it has finished. `Corrupted`.
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
