//! Statements that another server of the database forwards to a server.

use std::sync::Arc;

use carnet::cluster::{Address, LocalNetwork, MemoryCluster, SequencerOptions};
use carnet::{Db, Uuid, block_on};
use carnet_base::{Tasks, ThreadSpawn, WorkerTasks};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, CqlErrorKind, Executor, Parameters, Session};
use carnet_server::{CqlBackend, Limits};

use crate::support;
use crate::support::{Running, get, pause};

/// Returns the executors of two processes, and waits until the second one knows the first.
fn executors() -> [Executor; 2] {
    let cluster = Arc::new(MemoryCluster::new());
    let tasks: Arc<dyn Tasks> = Arc::new(WorkerTasks::new("network", &ThreadSpawn));
    let network = LocalNetwork::new(tasks);
    let executors = [1_u8, 2].map(|number| {
        let address = Address::new(format!("process {number}")).unwrap();
        let (at, of_listen) = (address.clone(), network.clone());
        let listen = |handler: &_| of_listen.listen(at, handler);
        let (cluster, network) = (Arc::clone(&cluster), network.clone());
        let options = SequencerOptions::default();
        let db = Db::builder().open_cluster(cluster, network, address, options, listen).unwrap();
        let mut node = NodeInfo::local(Uuid::from_u64_pair(number.into(), 7)).among_others();
        node.address = [10, 0, 0, number].into();
        let executor = Executor::new(db, node);
        executor.announce().unwrap();
        executor
    });
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
    ] {
        query(&executors[0], text).unwrap();
    }
    while executors[1].look_at_peers().1.is_empty() {
        pause(std::time::Duration::from_millis(5));
    }
    executors
}

fn query(executor: &Executor, text: &str) -> Result<Response, CqlError> {
    block_on(executor.query(&Session::new(), text, &Parameters::default()))
}

fn start(executor: &Executor) -> Uuid {
    let Ok(Response::Rows(rows)) = query(executor, "START DETACHED TRANSACTION") else {
        panic!("it starts")
    };
    Uuid::from_slice(rows.values()[0][0].as_ref().unwrap()).unwrap()
}

#[test]
fn server_runs_statements_of_other_servers_until_it_drains() {
    let [one, other] = executors();
    let id = start(&one);
    let write = format!("INSERT INTO ks.t (k, v) VALUES (1, 1) USING TRANSACTION {id}");
    let early = query(&other, &write).unwrap_err();
    assert!(early.message().contains("serves no statements"), "{early}");
    let mut server = Running::of(CqlBackend::new(one.clone()), Limits::default(), None);
    // The server begins to serve on a thread of its own.
    while let Err(error) = query(&other, &write) {
        assert!(error.message().contains("serves no statements"), "{error}");
        pause(std::time::Duration::from_millis(5));
    }
    // A long text starts on the long threads.
    let inserts: String =
        (2..2_000).map(|k| format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k}); ")).collect();
    query(&other, &format!("BEGIN BATCH USING TRANSACTION {id} {inserts} APPLY BATCH")).unwrap();
    let Ok(Response::Rows(Rows { rows, .. })) =
        query(&other, &format!("SELECT k FROM ks.t USING TRANSACTION {id}"))
    else {
        panic!("rows")
    };
    assert_eq!(rows.len(), 1_999);
    query(&other, &format!("COMMIT TRANSACTION {id}")).unwrap();
    let (_, metrics) = get(server.http, "/metrics");
    let served = "carnet_open_transactions_forwarded_total{direction=\"served\"} 4";
    assert!(metrics.contains(served), "{metrics}");
    let open = start(&one);
    let Ok(Response::Rows(listed)) = query(&other, "SELECT id FROM system_views.transactions")
    else {
        panic!("rows")
    };
    assert!(listed.values().iter().any(|row| row[0].as_deref() == Some(&open.into_bytes()[..])));
    server.shut_down();
    server.join();
    let commit = query(&other, &format!("COMMIT TRANSACTION {open}")).unwrap_err();
    assert_ne!(*commit.kind(), CqlErrorKind::Timeout, "{commit}");
    assert!(!matches!(commit.kind(), CqlErrorKind::Unknown { .. }), "{commit}");
}

/// A client that registered is notified of each change of the schema once, through whichever server
/// it was made.
#[test]
fn each_change_of_the_schema_is_told_once() {
    let [one, other] = executors();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let backend = runtime.block_on(CqlBackend::among_others(one));
    let server = Running::of(backend, Limits::default(), None);
    let mut registered = server.client(4);
    registered.register();
    let mut client = server.client(4);
    client.query(1, "CREATE TABLE ks.own (k int PRIMARY KEY)");
    assert_eq!(client.receive().opcode, support::RESULT);
    assert!(registered.receive().body.ends_with(b"\0\x05TABLE\0\x02ks\0\x03own"));
    query(&other, "CREATE TABLE ks.others (k int PRIMARY KEY)").unwrap();
    assert!(registered.receive().body.ends_with(b"\0\x05TABLE\0\x02ks\0\x06others"));
    pause(std::time::Duration::from_millis(1_500));
    assert_eq!(server.metrics.events.get(), 2);
}
