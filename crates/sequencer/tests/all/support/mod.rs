//! Processes over a cluster, on virtual time.
#![allow(unreachable_pub, reason = "a module of tests")]

pub mod log;
pub mod scripted;
pub mod tcp;
pub mod world;

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    Bytes, CellKey, Encoding, KeyRange, PartitionKey, Result, SeededRng, TableId, Timestamp,
    block_on,
};
use carnet_sequencer::lease::Lease;
use carnet_sequencer::{Address, ClusterLog, Environment, LeaseOptions, LocalNetwork, Options};
use carnet_store::cluster::{ReadMode, Register, Registers};
use carnet_store::{
    BeginKind, Begun, CommitLog, CommitRequest, Context, PageLimit, ReadSet, Write,
};
use carnet_txn::{CommitChecker, Isolation, Transaction, reader};

use scripted::{Replicas, Scripted};
use world::{Process, World};

pub const TABLE: TableId = TableId(1000);

pub type Log = ClusterLog<Scripted, LocalNetwork>;

/// Returns options without a cell cache: every read goes to the cluster.
pub fn asking() -> Options {
    Options { cell_cache_bytes: 0, ..Options::default() }
}

/// A process of the database.
pub struct Member {
    pub log: Arc<Log>,
    pub cluster: Arc<Scripted>,
    pub process: Arc<Process>,
    pub address: Address,
}

/// The processes of a database and the cluster below them.
pub struct Database {
    pub world: World,
    pub replicas: Arc<Replicas>,
    pub network: LocalNetwork,
    pub options: Options,
}

impl Database {
    pub fn new() -> Self {
        Self::with(asking())
    }

    pub fn with(options: Options) -> Self {
        let world = World::default();
        // The network goes on while a process is paused.
        let network = LocalNetwork::new(world.process());
        Self { world, replicas: Arc::default(), network, options }
    }

    pub fn encoded(encoding: Encoding) -> Self {
        Self::with(Options { encoding, ..asking() })
    }

    pub fn with_bound_step(bound_step: u64) -> Self {
        let lease = LeaseOptions { bound_step, ..LeaseOptions::default() };
        Self::with(Options { lease, ..asking() })
    }

    /// Starts a process. The first one leads.
    pub fn start(&self, name: &str) -> Member {
        let cluster = Scripted::new(&self.replicas);
        let process = self.world.process();
        let address = Address::new(name).unwrap();
        let environment = Environment {
            timer: Arc::new(self.world.time.clone()),
            clock: Arc::new(self.world.time.clone()),
            tasks: Arc::clone(&process) as _,
            row_tables: Arc::default(),
        };
        let seed = name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(257) ^ u64::from(byte));
        let log = ClusterLog::open(
            Arc::clone(&cluster),
            self.network.clone(),
            address.clone(),
            environment,
            &mut SeededRng::new(seed),
            self.options,
            Arc::new(|start| Box::new(CommitChecker::resuming(start))),
        );
        self.network.listen(address.clone(), &log.handler());
        let member = Member { log: Arc::new(log), cluster, process, address };
        self.world.settle();
        member
    }

    /// Lets the lease expire, so that another process can take it.
    pub fn let_lease_run_out(&self) {
        self.world.pass(Duration::from_secs(3));
    }

    pub fn lease(&self) -> Lease {
        let read = self.replicas.memory.read_register(Register::Lease, ReadMode::Serial);
        Lease::decode(&block_on(read).unwrap().unwrap()).unwrap()
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.world.run(future)
    }

    pub fn begin(&self, member: &Member, kind: BeginKind) -> Begun {
        self.run(member.log.begin(&Context::unbounded(), kind)).unwrap()
    }

    pub fn writer(&self, member: &Member) -> Begun {
        self.begin(member, BeginKind::ReadWrite)
    }

    pub fn snapshot(&self, member: &Member) -> Timestamp {
        self.begin(member, BeginKind::ReadOnly).read
    }

    pub fn commit(
        &self,
        member: &Member,
        begun: Begun,
        key: &CellKey,
        value: &'static str,
    ) -> Result<Timestamp> {
        let committed = self.run(member.log.commit(&Context::unbounded(), put(begun, key, value)));
        member.log.end(begun);
        committed
    }

    pub fn put(&self, member: &Member, key: &CellKey, value: &'static str) -> Timestamp {
        self.commit(member, self.writer(member), key, value).unwrap()
    }

    pub fn read(&self, member: &Member, key: &CellKey, read: Timestamp) -> Option<Bytes> {
        let found = self.run(reader::read(&*member.log, &Context::unbounded(), key, read));
        found.unwrap().and_then(|version| version.payload)
    }

    /// Reads the table's cells in a transaction.
    pub fn scan(&self, transaction: &Transaction) -> Vec<CellKey> {
        let range = KeyRange::table(TABLE);
        let page = transaction.range(&range, false, PageLimit::cells(100));
        self.run(page).unwrap().cells.iter().map(|cell| cell.key.to_key()).collect()
    }

    pub fn transaction(&self, member: &Member, isolation: Isolation) -> Transaction {
        let log = Arc::clone(&member.log);
        let begun = Transaction::begin(log, Context::unbounded(), BeginKind::ReadWrite, isolation);
        self.run(begun).unwrap()
    }
}

pub fn cell(name: &str) -> CellKey {
    CellKey::new(TABLE, &PartitionKey::new("p"), name)
}

pub fn put(begun: Begun, key: &CellKey, value: &'static str) -> CommitRequest {
    let writes = vec![Write { key: key.clone(), payload: Some(value.into()) }];
    CommitRequest::new(begun, begun.start.unwrap(), ReadSet::default(), writes)
}
