//! A database over a cluster passes the store's suite, near its leader and far from it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    CellKey, Encoding, Result, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, Timestamp,
    Version, WorkerTasks, block_on,
};
use carnet_sequencer::{Address, ClusterLog, Doors, LeaseOptions, LocalNetwork, Options};
use carnet_store::cluster::MemoryCluster;
use carnet_store::conformance::{PlainOrder, run};
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, Outcome, Page, RangeRequest,
};

type Log = ClusterLog<MemoryCluster, LocalNetwork>;

/// One process, or one that follows another.
struct Processes {
    asked: Log,
    _leader: Option<Log>,
}

fn open(
    cluster: &Arc<MemoryCluster>,
    network: &LocalNetwork,
    doors: &Doors,
    (name, encoding): (&str, Encoding),
) -> Log {
    let address = Address::new(name).unwrap();
    // On a busy machine nobody takes over meanwhile: that would abort what is under way.
    let lease = LeaseOptions { timeout: Duration::from_secs(600), ..LeaseOptions::default() };
    let make_order = Arc::new(|first: Timestamp| -> Box<dyn carnet_store::CommitOrder> {
        Box::new(PlainOrder::starting_above(first))
    });
    let log = ClusterLog::open(
        Arc::clone(cluster),
        network.clone(),
        address.clone(),
        doors.clone(),
        &mut SeededRng::new(name.len() as u64),
        Options { encoding, lease, ..Options::default() },
        make_order,
    );
    network.listen(address, &log.handler());
    log
}

fn processes(is_follower: bool, encoding: Encoding) -> Processes {
    let clock = Arc::new(SystemClock);
    let doors = Doors {
        timer: Arc::new(ThreadTimer::new(Arc::clone(&clock) as _, &ThreadSpawn)),
        clock,
        tasks: Arc::new(WorkerTasks::new("tasks", &ThreadSpawn)),
    };
    let cluster = Arc::new(MemoryCluster::new());
    let network = LocalNetwork::new(Arc::clone(&doors.tasks));
    let first = open(&cluster, &network, &doors, ("first", encoding));
    // Whoever begins first leads.
    block_on(first.begin(&Context::unbounded(), BeginKind::ReadOnly)).unwrap();
    assert!(first.is_leading());
    if !is_follower {
        return Processes { asked: first, _leader: None };
    }
    let second = open(&cluster, &network, &doors, ("the second", encoding));
    Processes { asked: second, _leader: Some(first) }
}

impl CellStore for Processes {
    async fn get(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        self.asked.get(context, key, at).await
    }

    async fn range(&self, context: &Context, request: &RangeRequest) -> Result<Page> {
        self.asked.range(context, request).await
    }
}

impl CommitLog for Processes {
    async fn begin(&self, context: &Context, kind: BeginKind) -> Result<Begun> {
        self.asked.begin(context, kind).await
    }

    fn end(&self, begun: Begun) {
        self.asked.end(begun);
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        self.asked.commit(context, request).await
    }

    async fn outcome(&self, context: &Context, start: Timestamp) -> Result<Outcome> {
        self.asked.outcome(context, start).await
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
