//! A database over a real cluster passes the store's conformance suite.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    CellKey, Encoding, Result, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, Timestamp,
    Version, WorkerTasks, block_on,
};
use carnet_sequencer::{Address, ClusterLog, Environment, LeaseOptions, LocalNetwork, Options};
use carnet_store::conformance::{PlainOrder, run};
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitRequest, Context, Outcome, Page, RangeRequest,
};
use carnet_store_cql::CqlCluster;

use crate::keyspace::keyspace;

type Log = ClusterLog<CqlCluster, LocalNetwork>;

/// A database whose commits are decided by one poll. The suite drops the future of a commit after
/// its first poll, and expects a *decided* commit to stay in force; over a network one poll decides
/// nothing.
struct Decided(Log);

impl CellStore for Decided {
    async fn get(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        self.0.get(context, key, at).await
    }

    async fn range(&self, context: &Context, request: &RangeRequest) -> Result<Page> {
        self.0.range(context, request).await
    }
}

impl CommitLog for Decided {
    async fn begin(&self, context: &Context, kind: BeginKind) -> Result<Begun> {
        Box::pin(self.0.begin(context, kind)).await
    }

    fn end(&self, begun: Begun) {
        self.0.end(begun);
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        block_on(self.0.commit(context, request))
    }

    async fn outcome(&self, context: &Context, start: Timestamp) -> Result<Outcome> {
        Box::pin(self.0.outcome(context, start)).await
    }

    fn published(&self) -> Timestamp {
        self.0.published()
    }
}

fn open(cluster: CqlCluster, encoding: Encoding) -> Decided {
    let clock = Arc::new(SystemClock);
    let environment = Environment {
        timer: Arc::new(ThreadTimer::new(Arc::clone(&clock) as _, &ThreadSpawn)),
        clock,
        tasks: Arc::new(WorkerTasks::new("tasks", &ThreadSpawn)),
        row_tables: Arc::default(),
    };
    let network = LocalNetwork::new(Arc::clone(&environment.tasks));
    let address = Address::new("first").unwrap();
    // Long enough that no process takes over on a busy machine: that would abort transactions in
    // flight.
    let lease = LeaseOptions { timeout: Duration::from_secs(600), ..LeaseOptions::default() };
    let make_order = Arc::new(|first: Timestamp| -> Box<dyn carnet_store::CommitOrder> {
        Box::new(PlainOrder::starting_above(first))
    });
    let log = ClusterLog::open(
        Arc::new(cluster),
        network.clone(),
        address.clone(),
        environment,
        &mut SeededRng::new(1),
        // Without a cell cache, so that the cluster answers.
        Options { encoding, lease, cell_cache_bytes: 0, ..Options::default() },
        make_order,
    );
    network.listen(address, &log.handler());
    block_on(log.begin(&Context::unbounded(), BeginKind::ReadOnly)).unwrap();
    assert!(log.is_leading());
    Decided(log)
}

#[test]
fn a_leader_over_cassandra_conforms() {
    let Some(keyspace) = keyspace() else { return };
    run(|| open(keyspace.connect_to_another(), Encoding::V3));
}

#[test]
fn the_second_encoding_conforms_over_cassandra() {
    let Some(keyspace) = keyspace() else { return };
    run(|| open(keyspace.connect_to_another(), Encoding::V2));
}
