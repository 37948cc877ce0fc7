//! Faults, and how they are reported.

use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use carnet_base::{
    CellKey, Clock, Epoch, ErrorKind, PartitionKey, SystemClock, TableId, Timestamp, block_on,
};
use carnet_store::Context;
use carnet_store::cluster::{
    ClusterCells, CommitRow, CommitRows, CommitTable, Fault, NewEntry, ReadMode, Register,
    Registers as _, RowAnswer, Statement, VersionWrite,
};
use carnet_store_cql::{CqlCluster, CqlOptions, Replication};
use rustix::process::{Pid, Signal, kill_process};

use crate::keyspace::{keyspace, keyspace_alone};

fn write() -> VersionWrite {
    VersionWrite {
        key: CellKey::new(TableId(1), &PartitionKey::new("p"), "c"),
        start: Timestamp::new(5).unwrap(),
        statement: Statement(0),
        payload: Some("x".into()),
    }
}

fn row() -> CommitRow {
    CommitRow { table: CommitTable::V3, row: "r".into() }
}

fn entries() -> [NewEntry; 1] {
    [NewEntry { column: "a".into(), value: "1".into() }]
}

fn connect(options: &CqlOptions) -> CqlCluster {
    block_on(CqlCluster::connect(options, Arc::new(SystemClock))).unwrap()
}

#[test]
fn without_a_majority_reads_and_blind_writes_fail() {
    let Some(keyspace) = keyspace() else { return };
    // Two of three replicas are on nodes that do not exist. (Conditional writes count the existing
    // nodes, and go on.)
    let replication = Replication::EveryDatacenter(3);
    let cluster = connect(&CqlOptions { replication, ..keyspace.options.clone() });
    let context = Context::unbounded();
    let fault = block_on(cluster.write_versions(&context, &[write()])).unwrap_err();
    assert!(matches!(fault, Fault::Failed(_)), "{fault}");
    assert_eq!(fault.into_error().kind(), ErrorKind::Unavailable);
    let key = write().key;
    let read = cluster.read_version(&context, &key, Timestamp::MAX);
    assert!(!block_on(read).unwrap_err().is_unknown());
}

#[test]
fn a_deadline_that_has_passed_sends_nothing() {
    let Some(keyspace) = keyspace() else { return };
    let cluster = keyspace.connect();
    let late = Context::until(SystemClock.now());
    let fault = block_on(cluster.write_versions(&late, &[write()])).unwrap_err();
    assert!(!fault.is_unknown());
    assert_eq!(fault.into_error().kind(), ErrorKind::Timeout);
    let (context, key) = (Context::unbounded(), write().key);
    let read = cluster.read_version(&context, &key, Timestamp::MAX);
    assert_eq!(block_on(read).unwrap(), None);
}

/// Stops a process, and waits until all of its threads are stopped.
fn stop(node: Pid) {
    kill_process(node, Signal::STOP).unwrap();
    let threads = format!("/proc/{}/task", node.as_raw_nonzero());
    let is_still = |thread: fs::DirEntry| {
        // A thread that has just ended counts as stopped.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
        state.is_empty() || state.starts_with(['T', 'Z', 'X'])
    };
    // Without such a folder the state of the threads is unknown.
    while fs::read_dir(&threads)
        .is_ok_and(|mut threads| !threads.all(|thread| thread.is_ok_and(is_still)))
    {
        thread::yield_now();
    }
}

#[test]
fn hung_node_leaves_writes_unknown_until_settled() {
    keyspace_alone(|keyspace, node| {
        let timeout = Duration::from_secs(2);
        // The node is not left before the requests have timed out.
        let keepalive = Duration::from_secs(60);
        let options =
            CqlOptions { request_timeout: timeout, keepalive, ..keyspace.options.clone() };
        let cluster = connect(&options);
        block_on(cluster.move_epoch(&row(), None, Epoch(1))).unwrap();
        block_on(cluster.create_table(TableId(1))).unwrap();
        // Prepared while the node answers, so that the later statements are sent.
        let other = NewEntry { column: "z".into(), value: "0".into() };
        block_on(cluster.put_unless_exists(&row(), Some(Epoch(1)), &[other])).unwrap();
        block_on(cluster.write_versions(&Context::unbounded(), &[])).unwrap();
        let context = Context::unbounded();
        let other = VersionWrite { start: Timestamp::new(4).unwrap(), ..write() };
        block_on(cluster.write_versions(&context, &[other])).unwrap();

        stop(node);
        let put = block_on(cluster.put_unless_exists(&row(), Some(Epoch(1)), &entries()));
        let deadline = Context::until(SystemClock.now().after(Duration::from_millis(300)));
        let begun = SystemClock.now();
        let written = block_on(cluster.write_versions(&deadline, &[write()]));
        let took = SystemClock.now().since(begun);
        kill_process(node, Signal::CONT).unwrap();

        assert!(put.unwrap_err().is_unknown());
        assert!(written.unwrap_err().is_unknown());
        assert!(took < timeout, "the deadline was before the timeout: {took:?}");
        // Whatever the outcome of the put is, the next conditional write settles it, and it does
        // not change any more.
        let mut answer = block_on(cluster.put_unless_exists(&row(), Some(Epoch(1)), &entries()));
        for _ in 0..10 {
            if answer.is_ok() {
                break;
            }
            answer = block_on(cluster.put_unless_exists(&row(), Some(Epoch(1)), &entries()));
        }
        match answer.unwrap() {
            RowAnswer::Applied => {}
            RowAnswer::Refused { epoch, existing } => {
                assert_eq!(epoch, Some(Epoch(1)));
                assert_eq!(existing[0].staged.as_deref(), Some(&b"1"[..]));
            }
        }
        assert_eq!(block_on(cluster.touch(&row(), &entries())).unwrap(), RowAnswer::Applied);
    });
}

/// The first write to a table waits for the names of tables, or for its creation, no longer than a request may take.
#[test]
fn first_use_of_a_table_ends_with_the_time_of_a_request() {
    keyspace_alone(|keyspace, node| {
        let (timeout, keepalive) = (Duration::from_secs(2), Duration::from_secs(60));
        let options =
            CqlOptions { request_timeout: timeout, keepalive, ..keyspace.options.clone() };
        let cluster = connect(&options);
        assert_eq!(cluster.requests().consistency(), "quorum");
        let write = || block_on(cluster.write_versions(&Context::unbounded(), &[write()]));
        stop(node);
        let begun = SystemClock.now();
        let written = write();
        let took = SystemClock.now().since(begun);
        kill_process(node, Signal::CONT).unwrap();
        let fault = written.unwrap_err();
        assert!(!fault.is_unknown() && fault.to_string().contains("cannot be used yet"), "{fault}");
        assert!(took < 4 * timeout, "{took:?}");
        let works_again = (0..20).any(|_| write().is_ok());
        assert!(works_again, "the table is made once the node answers");
    });
}

/// A node that hangs keeps its connections open. Its requests end when it is left, long before
/// their timeout.
#[test]
fn hung_node_is_left_after_the_keepalive() {
    keyspace_alone(|keyspace, node| {
        let (timeout, keepalive) = (Duration::from_secs(30), Duration::from_millis(500));
        let options =
            CqlOptions { request_timeout: timeout, keepalive, ..keyspace.options.clone() };
        let cluster = connect(&options);
        block_on(cluster.move_epoch(&row(), None, Epoch(1))).unwrap();
        let other = NewEntry { column: "z".into(), value: "0".into() };
        block_on(cluster.put_unless_exists(&row(), Some(Epoch(1)), &[other])).unwrap();
        cluster.requests().check(SystemClock.now()).unwrap();

        stop(node);
        let begun = SystemClock.now();
        let put = block_on(cluster.put_unless_exists(&row(), Some(Epoch(1)), &entries()));
        let took = SystemClock.now().since(begun);
        assert!(put.unwrap_err().is_unknown());
        assert!(took < timeout / 3, "the request waited for {took:?}");
        // Requests fail at once, and after a while the cluster counts as away.
        let away = loop {
            let _ = block_on(cluster.read_register(Register::Lease, ReadMode::Quorum));
            thread::yield_now();
            if let Err(away) = cluster.requests().check(SystemClock.now()) {
                break away.to_string();
            }
            assert!(SystemClock.now().since(begun) < timeout, "the cluster never counts as away");
        };
        kill_process(node, Signal::CONT).unwrap();
        assert!(away.contains("has answered none of"), "{away}");
        while block_on(cluster.read_register(Register::Lease, ReadMode::Quorum)).is_err() {
            assert!(SystemClock.now().since(begun) < 2 * timeout, "it is not used again");
        }
        cluster.requests().check(SystemClock.now()).unwrap();
    });
}
