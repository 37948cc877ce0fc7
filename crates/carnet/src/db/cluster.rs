//! Databases over a cluster, as the façade opens and leaves them.

use std::sync::Arc;

use carnet_base::{Bytes, Error, Result, Rng as _, SeededRng, block_on};

use super::{Builder, Db};
use crate::cluster::backup::ClusterBackup;
use crate::cluster::{
    self, Address, Cluster, ClusterUrl, Handler, Requests, SequencerOptions, Transport,
};
use crate::stores::AnyStore;

impl Builder {
    /// Opens a database over a cluster that a URL names, as [`Builder::open`] does.
    ///
    /// Settings of the storage engine (durability, memory, files) mean nothing there.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the cluster cannot be reached, does not take the keyspace, or no
    /// process leads in time; `Corrupted` where its tables are not Carnet's.
    pub async fn open_url(self, url: &ClusterUrl) -> Result<Db> {
        self.refuse_read_only()?;
        let store =
            Box::pin(cluster::connect(url, self.retention, &self.clock, &*self.spawn)).await?;
        Ok(self.finish(Arc::new(AnyStore::Cluster(Arc::from(store))), None))
    }

    /// Opens a database over a cluster and a network of the caller's, such as those in memory, as
    /// a process that others reach at an address. `listen` connects what answers them to it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use carnet::Db;
    /// use carnet::base::{Tasks, ThreadSpawn, WorkerTasks};
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
    /// As [`Builder::open_url`].
    pub fn open_cluster<C: Cluster, T: Transport>(
        self,
        cluster: Arc<C>,
        network: T,
        address: Address,
        options: SequencerOptions,
        listen: impl FnOnce(&Arc<dyn Handler>) + Send,
    ) -> Result<Db> {
        self.refuse_read_only()?;
        let doors = cluster::doors(&self.clock, &*self.spawn);
        let opening = cluster::open(cluster, network, address, doors, options, listen, None);
        let store = block_on(Box::pin(opening))?;
        Ok(self.finish(Arc::new(AnyStore::Cluster(Arc::from(store))), None))
    }
}

impl Db {
    /// Leaves the database to the other processes over its cluster: where this one leads, the
    /// next takes over at once instead of after the lease. Calls fail from then on. An embedded
    /// database has no others, and is closed when its last handle is dropped.
    pub async fn leave(&self) {
        if let AnyStore::Cluster(store) = &*self.inner.store {
            store.leave().await;
        }
    }

    /// Tells the other processes of a database over a cluster something of this one, until it tells
    /// something else, [withdraws](Self::withdraw) it or [leaves](Self::leave): where it serves
    /// clients, for instance. Waits for an answer of the leader, for two seconds at most. An embedded
    /// database has no others.
    ///
    /// # Errors
    ///
    /// `Invalid` for more than a kilobyte, or nothing.
    pub fn announce(&self, what: impl Into<Bytes>) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Cluster(store) => block_on(store.announce(what.into())),
            AnyStore::Local(_) | AnyStore::Memory(_) => Ok(()),
        }
    }

    /// Takes back what was [announced](Self::announce), without waiting for anybody.
    pub fn withdraw(&self) {
        if let AnyStore::Cluster(store) = &*self.inner.store {
            store.withdraw();
        }
    }

    /// Returns what all processes of a database over a cluster announce, this one among them, as it
    /// was told last: who dies is gone after seconds. Nothing before this one announces something.
    #[must_use]
    pub fn announced(&self) -> Vec<Bytes> {
        match &*self.inner.store {
            AnyStore::Cluster(store) => store.announced(),
            AnyStore::Local(_) | AnyStore::Memory(_) => Vec::new(),
        }
    }

    /// Begins a backup of a database over a cluster. It does not copy anything: the cluster's own
    /// tools do, while transactions go on, until [`ClusterBackup::finish`]. Nothing that the copy
    /// needs is swept meanwhile, whichever process leads. `docs/cassandra.md` tells how.
    ///
    /// ```
    /// # fn main() -> carnet::Result<()> {
    /// # use std::sync::Arc;
    /// # use carnet::base::{Tasks, ThreadSpawn, WorkerTasks};
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
    /// `Unavailable` where no process leads, or another backup is under way, which takes a minute to
    /// find out; `Unsupported` for a database elsewhere, of which [`Db::backup`] takes backups.
    pub fn begin_cluster_backup(&self) -> Result<ClusterBackup> {
        match &*self.inner.store {
            AnyStore::Cluster(store) => {
                let id = SeededRng::from_entropy().next_u64();
                block_on(store.begin_backup(id)).map(ClusterBackup)
            }
            AnyStore::Local(_) | AnyStore::Memory(_) => Err(Error::unsupported(
                "a backup by the cluster's tools of a database that is not over a cluster",
            )),
        }
    }

    /// Returns how many requests this process has sent to its cluster; a database elsewhere has
    /// none.
    #[must_use]
    pub fn cluster_requests(&self) -> Option<Requests> {
        match &*self.inner.store {
            AnyStore::Cluster(store) => store.requests(),
            AnyStore::Local(_) | AnyStore::Memory(_) => None,
        }
    }

    /// Tells whether this process leads the database: an embedded one always does.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        match &*self.inner.store {
            AnyStore::Cluster(store) => store.is_leading(),
            AnyStore::Local(_) | AnyStore::Memory(_) => true,
        }
    }
}
