//! A database over a real cluster passes the store's conformance suite.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{
    Call, CellKey, Encoding, SeededRng, SystemClock, ThreadSpawn, ThreadTimer, Timestamp, Version,
    WorkerTasks, block_on,
};
use carnet_sequencer::{Address, ClusterLog, Environment, LeaseOptions, LocalNetwork, Options};
use carnet_store::conformance::{PlainOrder, run};
use carnet_store::{
    At, BeginKind, Begun, CandidatePage, CellStore, CommitLog, CommitRequest, Context, Outcome,
    RangeRequest,
};
use carnet_store_cql::CqlCluster;

use crate::keyspace::keyspace;

type Log = ClusterLog<CqlCluster, LocalNetwork>;

/// A database whose commits are decided by one poll. The suite drops the future of a commit after
/// its first poll, and expects a *decided* commit to stay in force; over a network one poll decides
/// nothing.
struct Decided(Log);

impl CellStore for Decided {
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>> {
        self.0.get(context, key, at)
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage> {
        self.0.range(context, request)
    }
}

impl CommitLog for Decided {
    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun> {
        self.0.begin(context, kind)
    }

    fn end(&self, begun: Begun) {
        self.0.end(begun);
    }

    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp> {
        Call::ready(block_on(self.0.commit(context, request)))
    }

    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        self.0.outcome(context, start)
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
    let make_order =
        Arc::new(|start: carnet_store::LogStart| -> Box<dyn carnet_store::CommitOrder> {
            Box::new(PlainOrder::starting_above(start.first))
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
