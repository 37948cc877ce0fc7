//! A database over a cluster passes the store's conformance suite, on its leader and on a follower.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    Call, CellKey, Encoding, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, Timestamp, Version,
    WorkerTasks, block_on,
};
use carnet_sequencer::{
    Address, ClusterLog, Environment, LeaseOptions, LocalNetwork, Options, Secret, Security,
    TcpNetwork, Transport,
};
use carnet_store::cluster::MemoryCluster;
use carnet_store::conformance::{PlainOrder, run};
use carnet_store::{
    At, BeginKind, Begun, CandidatePage, CellStore, CommitLog, CommitRequest, Context, LogStart,
    Outcome, RangeRequest,
};
use tokio::runtime::Runtime;

type Log<T> = ClusterLog<MemoryCluster, T>;

/// One process, or a follower and its leader.
struct Processes<T: Transport> {
    asked: Log<T>,
    _leader: Option<Log<T>>,
    _runtime: Option<Runtime>,
}

fn open<T: Transport>(
    cluster: &Arc<MemoryCluster>,
    network: T,
    address: &Address,
    environment: &Environment,
    encoding: Encoding,
) -> Log<T> {
    // Long enough that no process takes over on a busy machine: that would abort transactions in
    // flight.
    let lease = LeaseOptions { timeout: Duration::from_secs(600), ..LeaseOptions::default() };
    let make_order = Arc::new(|start: LogStart| -> Box<dyn carnet_store::CommitOrder> {
        Box::new(PlainOrder::starting_above(start.first))
    });
    // With one encoding reads use the cell cache, with the other they go to the cluster.
    let cell_cache_bytes = if encoding == Encoding::V3 { 1 << 20 } else { 0 };
    // Ports with the same digits must not give two processes the same seed.
    let seed = address
        .as_str()
        .bytes()
        .fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    ClusterLog::open(
        Arc::clone(cluster),
        network,
        address.clone(),
        environment.clone(),
        &mut SeededRng::new(seed),
        Options { encoding, lease, cell_cache_bytes, ..Options::default() },
        make_order,
    )
}

fn environment() -> Environment {
    let clock = Arc::new(SystemClock);
    Environment {
        timer: Arc::new(ThreadTimer::new(Arc::clone(&clock) as _, &ThreadSpawn)),
        clock,
        tasks: Arc::new(WorkerTasks::new("tasks", &ThreadSpawn)),
        row_tables: Arc::default(),
    }
}

/// Makes this process lead: the first one to begin does.
fn lead<T: Transport>(log: &Log<T>) {
    block_on(log.begin(&Context::unbounded(), BeginKind::ReadOnly)).unwrap();
    assert!(log.is_leading());
}

fn processes(is_follower: bool, encoding: Encoding) -> Processes<LocalNetwork> {
    let (environment, cluster) = (environment(), Arc::new(MemoryCluster::new()));
    let network = LocalNetwork::new(Arc::clone(&environment.tasks));
    let open = |name| {
        let address = Address::new(name).unwrap();
        let log = open(&cluster, network.clone(), &address, &environment, encoding);
        network.listen(address, &log.handler());
        log
    };
    let first = open("first");
    lead(&first);
    if !is_follower {
        return Processes { asked: first, _leader: None, _runtime: None };
    }
    Processes { asked: open("the second"), _leader: Some(first), _runtime: None }
}

fn processes_over_tcp() -> Processes<TcpNetwork> {
    let (environment, cluster) = (environment(), Arc::new(MemoryCluster::new()));
    let runtime = Runtime::new().unwrap();
    let open = || {
        let security = Security::Secret(Secret::new("known to both of them").unwrap());
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let network = TcpNetwork::bind(listen, None, security, runtime.handle().clone()).unwrap();
        let log = open(&cluster, network.clone(), network.address(), &environment, Encoding::V3);
        network.serve(&log.handler());
        log
    };
    let first = open();
    lead(&first);
    Processes { asked: open(), _leader: Some(first), _runtime: Some(runtime) }
}

impl<T: Transport> CellStore for Processes<T> {
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>> {
        self.asked.get(context, key, at)
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage> {
        self.asked.range(context, request)
    }
}

impl<T: Transport> CommitLog for Processes<T> {
    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun> {
        self.asked.begin(context, kind)
    }

    fn end(&self, begun: Begun) {
        self.asked.end(begun);
    }

    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp> {
        self.asked.commit(context, request)
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        self.asked.outcome(context, start)
    }

    fn published(&self) -> Timestamp {
        self.asked.published()
    }
}

#[test]
fn a_leader_conforms() {
    run(|| processes(false, Encoding::V3));
}

#[test]
fn a_follower_conforms() {
    run(|| processes(true, Encoding::V3));
}

#[test]
fn the_second_encoding_conforms() {
    run(|| processes(true, Encoding::V2));
}

#[test]
fn a_follower_over_tcp_conforms() {
    run(processes_over_tcp);
}
