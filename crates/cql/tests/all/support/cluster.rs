//! Databases over a cluster in memory.

use std::sync::Arc;

use carnet::cluster::{Address, LocalNetwork, MemoryCluster, SequencerOptions};
use carnet::{Builder, Db};
use carnet_base::{Clock, Tasks, ThreadSpawn, WorkerTasks};

/// Cluster in memory, and the network of its processes.
pub(crate) struct TestCluster {
    cluster: Arc<MemoryCluster>,
    network: LocalNetwork,
}

impl TestCluster {
    pub(crate) fn new() -> Self {
        let tasks: Arc<dyn Tasks> = Arc::new(WorkerTasks::new("network", &ThreadSpawn));
        Self { cluster: Arc::new(MemoryCluster::new()), network: LocalNetwork::new(tasks) }
    }

    /// Returns the number of reads of cells, by all processes.
    pub(crate) fn cell_reads(&self) -> u64 {
        self.cluster.cell_reads()
    }

    /// Opens the database in another process.
    pub(crate) fn open(&self, name: &str) -> Db {
        self.open_with(name, SequencerOptions::default())
    }

    /// Opens the database in another process, with a clock.
    pub(crate) fn open_at(&self, name: &str, clock: Arc<dyn Clock>) -> Db {
        self.open_by(name, SequencerOptions::default(), Db::builder().clock(clock))
    }

    /// Opens the database in another process, with options.
    pub(crate) fn open_with(&self, name: &str, options: SequencerOptions) -> Db {
        self.open_by(name, options, Db::builder())
    }

    fn open_by(&self, name: &str, options: SequencerOptions, builder: Builder) -> Db {
        let address = Address::new(name).unwrap();
        let (at, network) = (address.clone(), self.network.clone());
        let listen = |handler: &_| self.network.listen(at, handler);
        let cluster = Arc::clone(&self.cluster);
        builder.open_cluster(cluster, network, address, options, listen).unwrap()
    }
}
