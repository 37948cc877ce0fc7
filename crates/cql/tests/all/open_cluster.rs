//! Transactions that stay open over a cluster in memory: two servers of one database.

use std::sync::Arc;
use std::time::Duration;

use carnet::cluster::ForwardHandler;
use carnet::{Uuid, block_on};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, CqlErrorKind, Executor, Parameters, Session};

use crate::support::cluster::TestCluster;

struct Servers {
    one: Executor,
    other: Executor,
    _handlers: Vec<Arc<dyn ForwardHandler>>,
}

impl Servers {
    fn new() -> Self {
        let cluster = TestCluster::new();
        let server = |name: &str, number: u8| {
            let mut node = NodeInfo::local(Uuid::from_u64_pair(number.into(), 7)).among_others();
            node.address = [10, 0, 0, number].into();
            let executor = Executor::new(cluster.open(name), node);
            executor.announce().unwrap();
            executor
        };
        let (one, other) = (server("one", 1), server("other", 2));
        let handler = |server: &Executor| {
            let handler = server.forward_handler();
            server.db().serve_forwarded(&handler);
            handler
        };
        let servers = Self { _handlers: vec![handler(&one), handler(&other)], one, other };
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
            "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
            "INSERT INTO ks.t (k, v) VALUES (1, 1)",
        ] {
            query(&servers.one, text).unwrap();
        }
        servers
    }

    #[expect(clippy::disallowed_methods, reason = "announcements are sent once a second")]
    fn wait_for_announcements(&self) {
        for _ in 0..1_000 {
            let (_, found) = self.other.look_at_peers();
            if !found.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the servers do not find each other");
    }
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

fn outcome(executor: &Executor, id: Uuid) -> String {
    let Ok(Response::Rows(rows)) = query(executor, &format!("SELECT outcome({id})")) else {
        panic!("it has an outcome")
    };
    String::from_utf8(rows.values()[0][0].as_ref().unwrap().to_vec()).unwrap()
}

#[test]
fn another_server_joins_and_knows_the_outcome() {
    let servers = Servers::new();
    let Servers { one, other, .. } = &servers;
    servers.wait_for_announcements();
    let id = start(one);
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 2 WHERE k = 1");
    query(one, &write).unwrap();
    query(other, &write).unwrap();
    assert_eq!((outcome(one, id), outcome(other, id)), ("open".into(), "open".into()));
    query(one, &format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!((outcome(one, id), outcome(other, id)), ("committed".into(), "committed".into()));
    let id = start(one);
    query(one, &format!("UPDATE ks.t USING TRANSACTION {id} SET v = 3 WHERE k = 1")).unwrap();
    query(one, &format!("ROLLBACK TRANSACTION {id}")).unwrap();
    assert_eq!((outcome(one, id), outcome(other, id)), ("aborted".into(), "aborted".into()));
}

/// The next leader knows no open transaction of the last one, so that it is aborted for anyone who asks.
/// The server that holds it does not say that it is open.
#[test]
#[expect(clippy::disallowed_methods, reason = "another process leads after a while")]
fn aborted_transaction_is_not_open_for_its_holder() {
    let Servers { one, other, _handlers } = Servers::new();
    let id = start(&other);
    query(&other, &format!("INSERT INTO ks.t (k, v) VALUES (2, 2) USING TRANSACTION {id}"))
        .unwrap();
    assert_eq!(outcome(&other, id), "open");
    block_on(one.db().leave());
    let mut tries = 0;
    while outcome(&other, id) == "open" {
        tries += 1;
        assert!(tries < 1_000, "it stays open");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(outcome(&other, id), "aborted");
    let error = query(&other, &format!("COMMIT TRANSACTION {id}")).unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Aborted, "{error}");
    assert_eq!(outcome(&other, id), "aborted");
}

#[test]
fn statement_of_another_server_conflicts() {
    let Servers { one, other, .. } = Servers::new();
    let id = start(&one);
    query(&one, &format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}")).unwrap();
    query(&one, &format!("INSERT INTO ks.t (k, v) VALUES (2, 2) USING TRANSACTION {id}")).unwrap();
    query(&other, "UPDATE ks.t SET v = 9 WHERE k = 1").unwrap();
    let error = query(&one, &format!("COMMIT TRANSACTION {id}")).unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Aborted, "{error}");
    assert_eq!(outcome(&other, id), "aborted");
}

/// Any server aborts the open transaction of another one by its start timestamp: a put-unless-exists of
/// an abort, which the holder finds when it commits.
#[test]
fn open_transaction_of_another_server_is_aborted_by_its_start() {
    let Servers { one, other, _handlers } = Servers::new();
    for (holder, killer) in [(&one, &other), (&other, &one)] {
        let id = start(holder);
        query(holder, &format!("UPDATE ks.t USING TRANSACTION {id} SET v = 9 WHERE k = 1"))
            .unwrap();
        let Ok(Response::Rows(rows)) = query(
            holder,
            &format!(
                "SELECT start_timestamp FROM system_views.transactions WHERE id = {id} ALLOW FILTERING"
            ),
        ) else {
            panic!("it is listed")
        };
        let start =
            i64::from_be_bytes(rows.values()[0][0].as_ref().unwrap()[..].try_into().unwrap());
        query(killer, &format!("KILL TRANSACTION {start}")).unwrap();
        assert_eq!(
            (outcome(holder, id), outcome(killer, id)),
            ("aborted".into(), "aborted".into())
        );
        let error = query(holder, &format!("COMMIT TRANSACTION {id}")).unwrap_err();
        assert_eq!(*error.kind(), CqlErrorKind::Aborted, "{error}");
        // Again it is no error; a start that committed is one.
        query(killer, &format!("KILL TRANSACTION {start}")).unwrap();
    }
    let Ok(Response::Rows(rows)) = query(&one, "SELECT v FROM ks.t WHERE k = 1") else {
        panic!("a row")
    };
    assert_eq!(rows.values()[0][0].as_deref(), Some(&1_i32.to_be_bytes()[..]));
    let mut committed = None;
    one.db()
        .list_commits(carnet::Timestamp::ZERO, carnet::Timestamp::MAX, &mut |_, start, entry| {
            if let carnet::CommitEntry::Committed(_) = entry {
                committed = Some(start);
            }
            Ok(())
        })
        .unwrap();
    let error = query(&other, &format!("KILL TRANSACTION {}", committed.unwrap())).unwrap_err();
    assert!(error.message().contains("was committed at"), "{error}");
}
