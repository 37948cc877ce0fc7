//! Changes of the database's servers and of its schema, for this server's clients.
//!
//! Changes of the schema are found by comparing it with the one of the last check, whether this
//! server made them or another, so that clients are notified of each once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use carnet::{Isolation, Uuid};
use carnet_cql::Executor;
use carnet_cql::system::{self, Peer, SchemaDigest};
use tokio::sync::{Mutex, Notify};

use crate::protocol::event::Event;

/// Interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time after a change by this server until the schema is compared, which reads all of it: a series
/// of changes is compared ten times a second at most.
const COLLECT_TIME: Duration = Duration::from_millis(100);

/// Timeout for a check of the schema; meanwhile news of servers wait.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of checks, usually one a second, between two looks for indexes and views whose build has stopped.
const BUILD_CHECKS: u32 = 10;
/// The same after a change of the schema. The process that made it usually builds by itself; it may
/// have been a shell, which has ended.
const BUILD_CHECKS_AFTER_CHANGE: u32 = 2;

/// Checks of the other servers and of the schema.
pub(crate) struct Watch {
    others: Mutex<Others>,
    /// Wakes the next check after a change of the schema by this server.
    changed: Notify,
    /// Whether there is a schema to compare with.
    compares: AtomicBool,
}

impl Watch {
    /// Reads the state before the first client, which is not an event.
    pub(crate) async fn start(executor: &Executor) -> Self {
        let mut others = Others::default();
        others.check(executor).await;
        let compares = AtomicBool::new(others.is_checked);
        Self { others: Mutex::new(others), changed: Notify::new(), compares }
    }

    /// Waits for the time of the next check; returns the events since the last one.
    #[expect(clippy::disallowed_methods, reason = "the server owns a runtime")]
    pub(crate) async fn next(&self, executor: &Executor) -> Vec<Event> {
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = self.changed.notified() => tokio::time::sleep(COLLECT_TIME).await,
        }
        let mut others = self.others.lock().await;
        let knew_schema = others.schema.is_some();
        let events = others.check(executor).await;
        // The first schema is compared with none: it may have a change that no client knows.
        self.compares.store(knew_schema && others.is_checked, Ordering::Release);
        events
    }

    /// Hastens the next check after a change of the schema by this server; returns `true` if the check
    /// reports it.
    pub(crate) fn note_change(&self) -> bool {
        self.changed.notify_one();
        self.compares.load(Ordering::Acquire)
    }
}

/// State of the other servers at the last check.
struct Others {
    schema: Option<(Uuid, SchemaDigest)>,
    /// Whether the last check of the schema succeeded.
    is_checked: bool,
    /// Number of checks until the next look for builds that have stopped.
    build_in: u32,
}

impl Default for Others {
    fn default() -> Self {
        Self { schema: None, is_checked: false, build_in: BUILD_CHECKS }
    }
}

impl Others {
    /// Checks again; returns the events since the last check.
    async fn check(&mut self, executor: &Executor) -> Vec<Event> {
        let (before, now) = executor.look_at_peers();
        let own = &executor.node().data_center;
        for peer in strangers(own, &before, &now) {
            tracing::warn!(
                server = %peer.address,
                data_center = peer.data_center,
                own,
                "a server of this database names another data centre than this server: drivers that \
                 prefer one of them do not use the other server; set server.data_center to one name"
            );
        }
        warn_of_other_consistencies(executor.db().consistency(), &before, &now);
        let servers = changes_of_servers(&before, &now);
        if !servers.is_empty() {
            if servers.iter().any(|event| matches!(event, Event::Status { is_up: false, .. })) {
                // A server that has left may have been building an index or a view.
                executor.db().build_derived();
            }
            // Changes of the schema are found by comparison: the first look must not be put off.
            if self.schema.is_some() {
                return servers;
            }
        }
        // The cluster may be unavailable; changes are noticed when it is back.
        let checked = self.check_schema(executor).await;
        self.is_checked = checked.is_ok();
        let changes = checked.unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot check the schema");
            Vec::new()
        });
        if !changes.is_empty() {
            self.build_in = self.build_in.min(BUILD_CHECKS_AFTER_CHANGE);
        }
        self.build_in -= 1;
        if self.build_in == 0 {
            self.build_in = BUILD_CHECKS;
            // Two servers that build the same take turns.
            executor.db().build_derived();
        }
        servers.into_iter().chain(changes).collect()
    }

    async fn check_schema(&mut self, executor: &Executor) -> carnet::Result<Vec<Event>> {
        // Not strict: that would be a conditional read of the cluster every second.
        let options = executor.db().transaction().isolation(Isolation::Serializable);
        let tx = options.timeout(CHECK_TIMEOUT).snapshot_async(None).await?;
        executor.db().refresh_levels_by(&tx).await?;
        executor.db().refresh_roles_by(&tx).await?;
        let version = system::schema_version(&tx).await?;
        if self.schema.as_ref().is_some_and(|(known, _)| *known == version) {
            return Ok(Vec::new());
        }
        let digest = SchemaDigest::read(&tx, executor.node()).await?;
        let before = self.schema.take();
        let changes = before.map_or_else(Vec::new, |(_, before)| digest.changes_since(&before));
        self.schema = Some((version, digest));
        Ok(changes.into_iter().map(Event::Schema).collect())
    }
}

/// Returns the servers that joined and left. A server that was replaced at its address did both.
fn changes_of_servers(before: &[Peer], now: &[Peer]) -> Vec<Event> {
    let gone = before.iter().filter(|peer| !now.contains(peer)).flat_map(|peer| {
        let address = peer.address;
        [Event::Status { is_up: false, address }, Event::Topology { is_new: false, address }]
    });
    let new = now.iter().filter(|peer| !before.contains(peer)).flat_map(|peer| {
        let address = peer.address;
        [Event::Topology { is_new: true, address }, Event::Status { is_up: true, address }]
    });
    gone.chain(new).collect()
}

fn warn_of_other_consistencies(own: Option<&str>, before: &[Peer], now: &[Peer]) {
    for peer in of_other_consistency(own, before, now) {
        tracing::warn!(
            server = %peer.address,
            consistency = peer.consistency,
            own,
            "a server of this database asks another majority of the cluster than this server: reads of one may miss \
             writes of the other; set consistency and local_dc in both URLs to the same"
        );
    }
}

/// Returns the servers that joined with another data centre than this server's.
fn strangers<'p>(own: &str, before: &[Peer], now: &'p [Peer]) -> Vec<&'p Peer> {
    joined(before, now, |peer| peer.data_center != own)
}

/// Returns the servers that joined with another consistency than this server's. Embedded databases have none.
fn of_other_consistency<'p>(own: Option<&str>, before: &[Peer], now: &'p [Peer]) -> Vec<&'p Peer> {
    let Some(own) = own else { return Vec::new() };
    joined(before, now, |peer| peer.consistency.as_deref().is_some_and(|other| other != own))
}

fn joined<'p>(
    before: &[Peer],
    now: &'p [Peer],
    is_wanted: impl Fn(&Peer) -> bool,
) -> Vec<&'p Peer> {
    now.iter().filter(|peer| is_wanted(peer) && !before.contains(peer)).collect()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use carnet::Db;
    use carnet::cluster::{Address, LocalNetwork, MemoryCluster, SequencerOptions};
    use carnet_base::{Signal, Spawn, ThreadSpawn, Worker, WorkerHandle, WorkerTasks, block_on};
    use carnet_cql::result::Response;
    use carnet_cql::system::NodeInfo;
    use carnet_cql::{CqlError, Parameters, Session};

    use super::*;

    fn peer(id: u128, port: u16) -> Peer {
        let address = SocketAddr::from(([10, 0, 0, 1], port));
        let (data_center, rack) = ("datacenter1".into(), "rack1".into());
        let host_id = Uuid::from_u128(id);
        Peer { forward: None, host_id, address, data_center, rack, consistency: None }
    }

    #[test]
    fn joining_and_leaving_servers_are_reported_once() {
        let (one, two) = (peer(1, 1), peer(2, 2));
        let new = |peer: &Peer| {
            let address = peer.address;
            [Event::Topology { is_new: true, address }, Event::Status { is_up: true, address }]
        };
        let gone = |peer: &Peer| {
            let address = peer.address;
            [Event::Status { is_up: false, address }, Event::Topology { is_new: false, address }]
        };
        let changes = |before: &[&Peer], now: &[&Peer]| {
            let owned = |peers: &[&Peer]| peers.iter().map(|peer| (*peer).clone()).collect();
            let (before, now): (Vec<Peer>, Vec<Peer>) = (owned(before), owned(now));
            changes_of_servers(&before, &now)
        };
        assert_eq!(changes(&[], &[&one]), new(&one));
        assert_eq!(changes(&[&one], &[&one]), []);
        assert_eq!(changes(&[&one], &[&two]), [gone(&one), new(&two)].concat());
        assert_eq!(changes(&[&two], &[]), gone(&two));
        let again = peer(3, 1);
        assert_eq!(changes(&[&one], &[&again]), [gone(&one), new(&again)].concat());
    }

    #[test]
    fn another_data_center_is_told_once() {
        let (own, other) = (peer(1, 1), Peer { data_center: "dc2".into(), ..peer(2, 2) });
        let now = [own.clone(), other.clone()];
        assert_eq!(strangers("datacenter1", &[], &now), [&other]);
        assert_eq!(strangers("dc2", std::slice::from_ref(&other), &now), [&own]);
        assert!(strangers("datacenter1", std::slice::from_ref(&other), &now).is_empty());
    }

    #[test]
    fn another_consistency_is_told_once() {
        let asks = |words: &str| Peer { consistency: Some(words.to_owned()), ..peer(1, 1) };
        let (all, local) = (asks("quorum"), asks("local_quorum in dc1"));
        let now = [all.clone(), local.clone(), peer(2, 2)];
        assert_eq!(of_other_consistency(Some("quorum"), &[], &now), [&local]);
        assert_eq!(of_other_consistency(Some("local_quorum in dc2"), &[], &now), [&all, &local]);
        assert!(
            of_other_consistency(Some("quorum"), std::slice::from_ref(&local), &now).is_empty()
        );
        assert!(of_other_consistency(None, &[], &now).is_empty());
    }

    /// Runs all workers but the builder of indexes and views.
    struct WithoutBuilder;

    impl Spawn for WithoutBuilder {
        fn spawn(&self, name: &str, signal: Signal, worker: Box<dyn Worker>) -> WorkerHandle {
            match name {
                "carnet-build" => WorkerHandle::detached(),
                _ => ThreadSpawn.spawn(name, signal, worker),
            }
        }
    }

    /// A cluster in memory and a network, for several servers.
    struct Servers {
        cluster: Arc<MemoryCluster>,
        network: LocalNetwork,
    }

    impl Servers {
        fn new() -> Self {
            let network = LocalNetwork::new(Arc::new(WorkerTasks::new("network", &ThreadSpawn)));
            Self { cluster: Arc::new(MemoryCluster::new()), network }
        }

        fn start(&self, number: u8, spawn: Arc<dyn Spawn>) -> Executor {
            let address = Address::new(format!("process {number}")).unwrap();
            let (at, of_listen) = (address.clone(), self.network.clone());
            let listen = |handler: &_| of_listen.listen(at, handler);
            let (cluster, network) = (Arc::clone(&self.cluster), self.network.clone());
            let (builder, options) = (Db::builder().spawn(spawn), SequencerOptions::default());
            let db = builder.open_cluster(cluster, network, address, options, listen).unwrap();
            let mut node = NodeInfo::local(Uuid::from_u64_pair(number.into(), 7)).among_others();
            node.address = [10, 0, 0, number].into();
            Executor::new(db, node)
        }
    }

    fn query(executor: &Executor, text: &str) -> Result<Response, CqlError> {
        block_on(executor.query(&Session::new(), text, &Parameters::default()))
    }

    /// Creates a table with rows for more than one step of a build.
    fn create_table(executor: &Executor) {
        query(executor, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}")
            .unwrap();
        query(executor, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)").unwrap();
        let inserts: String =
            (0..600).map(|k| format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k}); ")).collect();
        query(executor, &format!("BEGIN BATCH {inserts} APPLY BATCH")).unwrap();
    }

    fn eventually(is_so: &mut dyn FnMut() -> bool) {
        for _ in 0..10_000 {
            if is_so() {
                return;
            }
            pause();
        }
        panic!("it never happened");
    }

    /// A shell that creates an index and ends is on no list of servers.
    #[test]
    fn servers_build_what_a_process_left_that_never_joined() {
        let servers = Servers::new();
        let other = servers.start(2, Arc::new(ThreadSpawn));
        other.announce().unwrap();
        let mut others = Others::default();
        block_on(others.check(&other));
        let shell = servers.start(1, Arc::new(WithoutBuilder));
        create_table(&shell);
        query(&shell, "CREATE INDEX ON ks.t (v)").unwrap();
        block_on(shell.db().leave());
        drop(shell);
        eventually(&mut || {
            block_on(others.check(&other));
            query(&other, "SELECT k FROM ks.t WHERE v = 7").is_ok()
        });
    }

    /// Without a first look at the schema the next change would be taken for the state before it.
    #[test]
    fn first_check_knows_the_schema_beside_new_servers() {
        let servers = Servers::new();
        let one = servers.start(1, Arc::new(ThreadSpawn));
        let other = servers.start(2, Arc::new(ThreadSpawn));
        one.announce().unwrap();
        other.announce().unwrap();
        eventually(&mut || {
            let mut others = Others::default();
            let events = block_on(others.check(&other));
            assert!(others.schema.is_some(), "{events:?}");
            !events.is_empty()
        });
    }

    #[test]
    fn other_servers_go_on_with_the_build_of_one_that_leaves() {
        let servers = Servers::new();
        let one = servers.start(1, Arc::new(WithoutBuilder));
        let other = servers.start(2, Arc::new(ThreadSpawn));
        one.announce().unwrap();
        other.announce().unwrap();
        create_table(&one);
        let mut others = Others::default();
        eventually(&mut || {
            block_on(others.check(&other));
            !other.look_at_peers().1.is_empty()
        });
        query(&one, "CREATE INDEX ON ks.t (v)").unwrap();
        let by_index = || query(&other, "SELECT k FROM ks.t WHERE v = 7");
        block_on(others.check(&other));
        assert!(by_index().is_err(), "the index is not built");
        block_on(one.db().leave());
        drop(one);
        eventually(&mut || {
            block_on(others.check(&other));
            by_index().is_ok()
        });
    }

    #[expect(clippy::disallowed_methods, reason = "a test waits for other threads")]
    fn pause() {
        std::thread::sleep(Duration::from_millis(1));
    }

    #[test]
    fn schema_changes_are_reported_once() {
        let executor = Executor::new(Db::builder().in_memory(), NodeInfo::local(Uuid::nil()));
        let run = |text: &str| {
            block_on(executor.query(&Session::new(), text, &Parameters::default())).unwrap();
        };
        run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        let mut others = Others::default();
        assert_eq!(block_on(others.check(&executor)), []);
        assert_eq!(block_on(others.check(&executor)), []);
        run("CREATE TABLE ks.t (k int PRIMARY KEY)");
        let reported = block_on(others.check(&executor));
        assert!(
            matches!(&reported[..], [Event::Schema(change)] if change.keyspace == "ks"),
            "{reported:?}"
        );
        assert_eq!(block_on(others.check(&executor)), []);
    }
}
