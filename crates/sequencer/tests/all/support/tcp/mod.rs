//! Processes over one cluster in memory, each with its own port, on real time.
#![allow(unreachable_pub, reason = "a module of tests")]

pub mod relay;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{
    Bytes, CellKey, PartitionKey, SeededRng, SystemClock, TableId, ThreadSpawn, ThreadTimer,
    Timestamp, WorkerTasks, block_on,
};
use carnet_sequencer::{ClusterLog, Environment, LeaseOptions, Options, Security, TcpNetwork};
use carnet_store::cluster::MemoryCluster;
use carnet_store::{BeginKind, Begun, CommitLog, CommitRequest, Context, ReadSet, Write};
use carnet_txn::{CommitChecker, reader};
use tokio::runtime::Runtime;

use relay::Relay;

const TABLE: TableId = TableId(1000);

pub type Log = ClusterLog<MemoryCluster, TcpNetwork>;

/// A process of the database.
pub struct Member {
    pub log: Arc<Log>,
    pub network: TcpNetwork,
}

/// The processes of a database and the cluster below them.
pub struct Database {
    pub cluster: Arc<MemoryCluster>,
    pub security: Security,
    pub runtime: Runtime,
    pub environment: Environment,
    started: AtomicU64,
}

/// Options under which no process takes over from a live leader: on a busy machine that would abort
/// transactions in flight.
pub fn options() -> Options {
    let lease = LeaseOptions { timeout: Duration::from_secs(600), ..LeaseOptions::default() };
    Options { lease, leader_timeout: Duration::from_secs(60), ..Options::default() }
}

/// Like [`options`], but for a process that will not find a leader.
pub fn impatient() -> Options {
    Options { leader_timeout: Duration::from_millis(300), ..options() }
}

impl Database {
    pub fn new(security: Security) -> Self {
        let clock = Arc::new(SystemClock);
        let environment = Environment {
            timer: Arc::new(ThreadTimer::new(Arc::clone(&clock) as _, &ThreadSpawn)),
            clock,
            tasks: Arc::new(WorkerTasks::new("tasks", &ThreadSpawn)),
            row_tables: Arc::default(),
        };
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let started = AtomicU64::new(0);
        Self { cluster: Arc::default(), security, runtime, environment, started }
    }

    pub fn start(&self) -> Member {
        self.start_with(self.security.clone(), options())
    }

    pub fn start_with(&self, security: Security, options: Options) -> Member {
        self.start_as(None, security, options)
    }

    /// Starts a process that the others reach through a relay.
    pub fn start_behind(&self, relay: &Relay) -> Member {
        let member = self.start_as(Some(relay.place()), self.security.clone(), options());
        relay.lead_to(&member.network);
        member
    }

    fn start_as(&self, advertise: Option<String>, security: Security, options: Options) -> Member {
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let runtime = self.runtime.handle().clone();
        let network = TcpNetwork::bind(listen, advertise, security, runtime).unwrap();
        let log = ClusterLog::open(
            Arc::clone(&self.cluster),
            network.clone(),
            network.address().clone(),
            self.environment.clone(),
            &mut SeededRng::new(self.started.fetch_add(1, Ordering::SeqCst)),
            options,
            Arc::new(|start| Box::new(CommitChecker::resuming(start))),
        );
        network.serve(&log.handler());
        Member { log: Arc::new(log), network }
    }
}

impl Member {
    pub fn begin(&self, kind: BeginKind) -> Begun {
        block_on(self.log.begin(&Context::unbounded(), kind)).unwrap()
    }

    /// Makes this process lead: the first one to begin does.
    pub fn lead(&self) {
        self.begin(BeginKind::ReadOnly);
        assert!(self.log.is_leading());
    }

    pub fn put(&self, key: &CellKey, value: &'static str) -> Timestamp {
        let begun = self.begin(BeginKind::ReadWrite);
        let committed = block_on(self.log.commit(&Context::unbounded(), put(begun, key, value)));
        self.log.end(begun);
        committed.unwrap()
    }

    pub fn read(&self, key: &CellKey) -> Option<Bytes> {
        let (begun, context) = (self.begin(BeginKind::ReadOnly), Context::unbounded());
        let found = block_on(reader::read(&*self.log, &context, key, begun.read)).unwrap();
        self.log.end(begun);
        found.and_then(|version| version.payload)
    }
}

pub fn cell(name: &str) -> CellKey {
    CellKey::new(TABLE, &PartitionKey::new("p"), name)
}

pub fn put(begun: Begun, key: &CellKey, value: &'static str) -> CommitRequest {
    let writes = vec![Write { key: key.clone(), payload: Some(value.into()) }];
    CommitRequest::new(begun, begun.start.unwrap(), ReadSet::default(), writes)
}
