//! Databases over a cluster: opening, leaving, announcements and backups.

use std::sync::{Arc, Weak};
use std::time::Duration;

use carnet_base::{
    Bytes, Error, ErrorKind, Result, Rng as _, SeededRng, ThreadTimer, Timer as _, block_on,
};
use carnet_sequencer::ClusterLog;
use carnet_store::{LoadRawTables, Loading};
use carnet_store_cql::RequestCounters;

use super::builder::Builder;
use super::database::{Db, Inner};
use crate::catalog;
use crate::cluster::backup::ClusterBackup;
use crate::cluster::{
    self, Address, Cluster, ClusterFigures, ClusterStore, ClusterUrl, Handler, SequencerOptions,
    Transport,
};
use crate::stores::AnyStore;

/// Number of tries to read the catalog at the opening; the waits between them double.
const CATALOG_TRIES: u32 = 6;
const CATALOG_FIRST_WAIT: Duration = Duration::from_millis(100);

impl Builder {
    /// Opens the database over the cluster that a URL names; see [`Builder::open`].
    ///
    /// Settings of the storage engine (durability, memory, files) have no effect.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the cluster cannot be reached, refuses the keyspace, or no process leads
    /// in time; `Corrupted` if its tables are not Carnet's.
    pub async fn open_url(self, url: &ClusterUrl) -> Result<Db> {
        self.refuse_read_only()?;
        let conflict_bytes = self.transaction_memory().conflicts;
        let (clock, spawn) = (&self.clock, &*self.spawn);
        let connecting = cluster::connect(url, self.retention, conflict_bytes, clock, spawn);
        let (store, requests) = Box::pin(connecting).await?;
        Box::pin(self.finish_cluster(store, Some(requests))).await
    }

    /// Opens a database over the caller's cluster and network, such as those in memory. `address`
    /// is where other processes reach this one; `listen` connects the handler of their requests to
    /// it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use carnet::Db;
    /// use carnet_base::{Tasks, ThreadSpawn, WorkerTasks};
    /// use carnet::cluster::{Address, LocalNetwork, MemoryCluster, SequencerOptions};
    ///
    /// # fn main() -> carnet::Result<()> {
    /// let cluster = Arc::new(MemoryCluster::new());
    /// let network = LocalNetwork::new(Arc::new(WorkerTasks::new("network", &ThreadSpawn)));
    /// let process = |name: &str| {
    ///     let (address, options) = (Address::new(name)?, SequencerOptions::default());
    ///     let (network, cluster) = (network.clone(), Arc::clone(&cluster));
    ///     let at = address.clone();
    ///     let listen = |handler: &_| network.listen(at, handler);
    ///     Db::builder().open_cluster(cluster, network.clone(), address, options, listen)
    /// };
    /// let (one, other) = (process("one")?, process("other")?);
    /// let stock = one.raw("stock")?;
    /// one.transact(|tx| stock.put(tx, "apples", "3"))?;
    /// let snapshot = other.snapshot()?;
    /// assert_eq!(other.raw("stock")?.get(&snapshot, "apples")?.as_deref(), Some(&b"3"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Builder::open_url`].
    pub fn open_cluster<C: Cluster, T: Transport>(
        self,
        cluster: Arc<C>,
        network: T,
        address: Address,
        options: SequencerOptions,
        listen: impl FnOnce(&Arc<dyn Handler>) + Send,
    ) -> Result<Db> {
        self.refuse_read_only()?;
        let environment = cluster::environment(&self.clock, &*self.spawn);
        let conflict_bytes = self.transaction_memory().conflicts;
        let settings = cluster::Settings { options, conflict_bytes };
        let opening = cluster::open(cluster, network, address, environment, settings, listen);
        let store = block_on(Box::pin(opening))?;
        block_on(self.finish_cluster(store, None))
    }

    /// Opens a database over a process's share of a cluster, for the simulator, which opens the
    /// share itself and knows its raw tables. Waits for nothing.
    #[doc(hidden)]
    #[must_use]
    pub fn open_log<C: Cluster, T: Transport>(self, log: Arc<ClusterLog<C, T>>) -> Db {
        self.finish(Arc::new(AnyStore::Cluster { store: log, requests: None }), None)
    }

    /// Completes the opening, and reads the list of raw tables. Without it a process would take the
    /// deltas of a row for the row, so the opening fails if it cannot be read.
    async fn finish_cluster(
        self,
        store: Arc<dyn ClusterStore>,
        requests: Option<Arc<RequestCounters>>,
    ) -> Result<Db> {
        let row_tables = store.row_tables();
        let timer = ThreadTimer::lazy(Arc::clone(&self.clock), Arc::clone(&self.spawn));
        let db = self.finish(Arc::new(AnyStore::Cluster { store, requests }), None);
        row_tables.load_with(Box::new(CatalogLoader(Arc::downgrade(&db.inner))));
        let mut wait = CATALOG_FIRST_WAIT;
        for _ in 1..CATALOG_TRIES {
            match row_tables.refresh().await {
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    tracing::warn!(%error, "the catalog cannot be read; trying again");
                }
                read => return read.map(|()| db),
            }
            timer.wait(wait).await;
            wait *= 2;
        }
        row_tables.refresh().await.map(|()| db)
    }
}

/// Reads the raw tables from the catalog, as long as the database is open.
struct CatalogLoader(Weak<Inner>);

impl LoadRawTables for CatalogLoader {
    fn load(&self) -> Loading<'_> {
        Box::pin(async {
            let inner = self.0.upgrade();
            let inner = inner.ok_or_else(|| Error::unavailable("the database is closed"))?;
            catalog::raw_tables(&Db { inner }.snapshot_async().await?).await
        })
    }
}

impl Db {
    /// Leaves the cluster: if this process leads, the next leader takes over at once instead of
    /// after the lease. Later calls fail. Has no effect on an embedded database, which is closed
    /// when its last handle is dropped.
    pub async fn leave(&self) {
        if let Some(store) = self.inner.store.cluster() {
            // It has no errors.
            let _ = store.leave().await;
        }
    }

    /// Sends an announcement to the other processes of a database over a cluster, for example the
    /// address at which this process serves clients. It replaces the previous one, and holds until
    /// [`withdraw`](Self::withdraw) or [`leave`](Self::leave). Waits for the leader's reply, at
    /// most two seconds. Has no effect on an embedded database.
    ///
    /// # Errors
    ///
    /// `Invalid` for an empty announcement, or one above one kilobyte.
    pub fn announce(&self, what: impl Into<Bytes>) -> Result<()> {
        let store = self.inner.store.cluster();
        store.map_or(Ok(()), |store| block_on(store.announce(what.into())))
    }

    /// Withdraws the [announcement](Self::announce), without waiting for a reply.
    pub fn withdraw(&self) {
        if let Some(store) = self.inner.store.cluster() {
            store.withdraw();
        }
    }

    /// Returns the latest known announcements of all processes of a database over a cluster,
    /// including this one. A crashed process disappears after some seconds. Empty until this
    /// process announces something.
    #[must_use]
    pub fn announced(&self) -> Vec<Bytes> {
        self.inner.store.cluster().map_or_else(Vec::new, ClusterStore::announced)
    }

    /// Begins a backup of a database over a cluster. The call copies nothing: the cluster's own
    /// tools do, until [`ClusterBackup::finish`]; transactions continue. Garbage collection keeps
    /// all data that the copy needs, even if the leader changes. See `docs/cassandra.md`.
    ///
    /// ```
    /// # fn main() -> carnet::Result<()> {
    /// # use std::sync::Arc;
    /// # use carnet_base::{Tasks, ThreadSpawn, WorkerTasks};
    /// # use carnet::cluster::{Address, LocalNetwork, MemoryCluster, SequencerOptions};
    /// # let network = LocalNetwork::new(Arc::new(WorkerTasks::new("network", &ThreadSpawn)));
    /// # let (cluster, address) = (Arc::new(MemoryCluster::new()), Address::new("one")?);
    /// # let options = SequencerOptions::default();
    /// # let db = carnet::Db::builder().open_cluster(cluster, network, address, options, |_| ())?;
    /// let backup = db.begin_cluster_backup()?;
    /// // … copy the tables, and call renew() every ten seconds …
    /// backup.renew()?;
    /// let label = backup.finish("a cluster in memory")?;
    /// assert!(label.commit <= db.published());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Unavailable` if no process leads or another backup is in progress, which takes up to a
    /// minute to detect; `Unsupported` for other stores, which [`Db::backup`] backs up.
    pub fn begin_cluster_backup(&self) -> Result<ClusterBackup> {
        let store = self.inner.store.cluster().ok_or_else(|| {
            Error::unsupported(
                "a backup by the cluster's tools of a database that is not over a cluster",
            )
        })?;
        let id = SeededRng::from_entropy().next_u64();
        block_on(store.begin_backup(id)).map(ClusterBackup)
    }

    /// Returns figures of this process's use of its cluster; `None` for other stores. Requests are counted for
    /// clusters that are reached by a driver.
    #[must_use]
    pub fn cluster_figures(&self) -> Option<ClusterFigures> {
        let AnyStore::Cluster { store, requests } = &*self.inner.store else { return None };
        let counters = requests.as_deref();
        Some(ClusterFigures {
            requests: counters.map(RequestCounters::read).unwrap_or_default(),
            failed: counters.map(RequestCounters::read_failed).unwrap_or_default(),
            nodes: counters.and_then(RequestCounters::nodes),
            status: store.status(),
            is_failing: counters.is_some_and(RequestCounters::is_failing),
            syncs_later: counters.is_some_and(RequestCounters::syncs_later),
        })
    }

    /// Returns the consistency of this process's requests to its cluster. All processes of a database must have the same.
    /// `None` for an embedded database, and for a cluster that is not reached by a driver.
    #[must_use]
    pub fn consistency(&self) -> Option<&str> {
        let AnyStore::Cluster { requests, .. } = &*self.inner.store else { return None };
        requests.as_deref().map(RequestCounters::consistency)
    }

    /// Returns the estimated memory of the cells that this process caches, in bytes; `None` for an
    /// embedded database, and without a cache.
    #[must_use]
    pub fn cell_cache_bytes(&self) -> Option<usize> {
        self.inner.store.cluster()?.cell_cache_bytes()
    }

    /// Returns `true` if this process leads the database; always `true` for an embedded one.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.inner.store.cluster().is_none_or(ClusterStore::is_leading)
    }
}
