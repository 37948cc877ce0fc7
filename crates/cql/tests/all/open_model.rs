//! Random schedules of transactions that stay open: their answers are those of a serial run.
//!
//! Several transactions run at once, a statement of one at a time. Afterwards the committed ones run
//! one after the other, in the order of their commits, as single statements on a new database, which
//! has no transactions of several statements. Each statement has to give the answer that it gave
//! before, and both databases have to end with the same rows. A schedule that fails names its seed;
//! `SEED=n cargo test -p carnet-cql --test all open_model::` replays it alone.

use carnet::{Db, Durability, Uuid, block_on};
use carnet_base::{Rng, SeededRng};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{CqlError, CqlErrorKind, Executor, Parameters, Session};

use crate::support::cluster::TestCluster;

const SCHEDULES: u64 = 60;
const STEPS: u64 = 60;
/// Transactions that are open at once.
const OPEN: usize = 4;

const SCAN: &str = "SELECT k, c, v, s FROM ks.t";

fn query(executor: &Executor, text: &str) -> Result<Response, CqlError> {
    block_on(executor.query(&Session::new(), text, &Parameters::default()))
}

fn database(db: Db) -> Executor {
    let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE ks.t (k int, c int, v int, s int STATIC, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.n (k int PRIMARY KEY, n counter)",
    ] {
        query(&executor, text).unwrap();
    }
    executor
}

/// Returns an answer as a text: rows without the names of their columns, or an error's kind.
fn answer(response: &Result<Response, CqlError>) -> String {
    match response {
        Ok(Response::Rows(Rows { rows, .. })) => format!("{rows:?}"),
        Ok(response) => format!("{response:?}"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Statement in two parts, between or behind which `USING TRANSACTION` belongs.
struct Drawn {
    head: String,
    tail: String,
}

impl Drawn {
    fn new(head: String, tail: String) -> Self {
        Self { head, tail }
    }

    fn alone(&self) -> String {
        format!("{} {}", self.head, self.tail)
    }

    fn inside(&self, id: Uuid) -> String {
        format!("{} USING TRANSACTION {id} {}", self.head, self.tail)
    }
}

fn draw(rng: &mut SeededRng) -> Drawn {
    let (k, c, v) = (rng.below(2), rng.below(3), rng.below(100));
    let row = format!("WHERE k = {k} AND c = {c}");
    let none = String::new;
    match rng.below(13) {
        0 => Drawn::new(format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, {v})"), none()),
        1 => {
            let insert = format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, {v}) IF NOT EXISTS");
            Drawn::new(insert, none())
        }
        2 => Drawn::new("UPDATE ks.t".into(), format!("SET v = {v} {row} IF v = null")),
        3 => Drawn::new("UPDATE ks.t".into(), format!("SET v = v + 1 {row}")),
        4 => Drawn::new("UPDATE ks.t".into(), format!("SET s = {v} WHERE k = {k}")),
        5 => Drawn::new("DELETE FROM ks.t".into(), row),
        6 => Drawn::new("DELETE FROM ks.t".into(), format!("WHERE k = {k} AND c > {c}")),
        7 => Drawn::new("UPDATE ks.n".into(), format!("SET n = n + {v} WHERE k = {k}")),
        8 => Drawn::new(format!("SELECT n FROM ks.n WHERE k = {k}"), none()),
        9 => Drawn::new(SCAN.into(), none()),
        10 => Drawn::new(format!("{SCAN} WHERE k = {k} AND c >= {c} LIMIT 1"), none()),
        11 => {
            let insert = format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, {c}, {v});");
            let batch = format!("{insert} DELETE FROM ks.t WHERE k = {k} AND c = 0; APPLY BATCH");
            Drawn::new("BEGIN BATCH".into(), batch)
        }
        _ => Drawn::new(format!("{SCAN} {row}"), none()),
    }
}

/// A transaction: its statements, and the answers to them.
struct Running {
    id: Uuid,
    statements: Vec<(Drawn, String)>,
}

/// Transaction that has committed, at its place in the order of commits. A transaction that wrote
/// nothing comes after the commits that it saw.
struct Committed {
    place: (u64, bool),
    statements: Vec<(Drawn, String)>,
}

/// Draws the server of a statement.
fn any<'e>(servers: &'e [Executor], rng: &mut SeededRng) -> &'e Executor {
    match servers {
        [only] => only,
        _ => &servers[usize::try_from(rng.below(servers.len() as u64)).unwrap()],
    }
}

fn start(executor: &Executor, level: &str) -> Running {
    let begin = format!("START DETACHED TRANSACTION ISOLATION LEVEL {level}");
    let Ok(Response::Rows(rows)) = query(executor, &begin) else { panic!("it starts") };
    let id = Uuid::from_slice(rows.values()[0][0].as_ref().unwrap()).unwrap();
    Running { id, statements: Vec::new() }
}

fn commit(servers: &[Executor], rng: &mut SeededRng, running: Running) -> Option<Committed> {
    let (executor, id) = (any(servers, rng), running.id);
    let before = servers.iter().map(|server| server.db().published().get()).max().unwrap();
    match query(executor, &format!("COMMIT TRANSACTION {id}")) {
        Err(error) => {
            assert_eq!(*error.kind(), CqlErrorKind::Aborted, "{error}");
            return None;
        }
        Ok(response) => assert_eq!(response, Response::Void),
    }
    let Ok(Response::Rows(rows)) = query(executor, &format!("SELECT outcome({id})")) else {
        panic!("it has an outcome")
    };
    let values = rows.values();
    let outcome = values[0][0].as_deref();
    assert!(matches!(outcome, Some(b"committed" | b"read only")), "{outcome:?}");
    let at = values[0][1].as_ref().unwrap();
    let at = u64::from_be_bytes(at[..].try_into().unwrap());
    Some(Committed { place: (at, at <= before), statements: running.statements })
}

/// Runs a schedule, each statement through one of the servers; returns the committed transactions in
/// their order.
fn run(servers: &[Executor], rng: &mut SeededRng, level: &str) -> Vec<Committed> {
    let mut open: Vec<Running> = Vec::new();
    let mut committed = Vec::new();
    for _ in 0..STEPS {
        if open.len() < OPEN {
            open.push(start(any(servers, rng), level));
        }
        let some = usize::try_from(rng.below(open.len() as u64)).unwrap();
        match rng.below(10) {
            0 | 1 => {
                let running = open.swap_remove(some);
                committed.extend(commit(servers, rng, running));
            }
            2 => {
                let id = open.swap_remove(some).id;
                let end = if rng.chance(500) { "KILL" } else { "ROLLBACK" };
                query(any(servers, rng), &format!("{end} TRANSACTION {id}")).unwrap();
            }
            _ => {
                let drawn = draw(rng);
                let response = query(any(servers, rng), &drawn.inside(open[some].id));
                open[some].statements.push((drawn, answer(&response)));
            }
        }
    }
    committed.extend(open.into_iter().filter_map(|running| commit(servers, rng, running)));
    committed.sort_by_key(|committed| committed.place);
    committed
}

/// Returns the first statement whose answer differs from that of a serial run.
fn difference(servers: &[Executor], rng: &mut SeededRng, level: &str) -> Option<String> {
    let serial = database(Db::builder().in_memory());
    for Committed { statements, place } in run(servers, rng, level) {
        for (drawn, before) in statements {
            let again = answer(&query(&serial, &drawn.alone()));
            if again != before {
                let text = drawn.alone();
                return Some(format!("{text} at {place:?}: {before}, in a serial run {again}"));
            }
        }
    }
    for all in [SCAN, "SELECT * FROM ks.n"] {
        let (found, expected) = (query(&servers[0], all), query(&serial, all));
        if answer(&found) != answer(&expected) {
            return Some(format!("{all}: {found:?}, in a serial run {expected:?}"));
        }
    }
    None
}

fn seeds() -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (0..SCHEDULES).collect(),
    }
}

#[test]
fn schedules_in_memory_are_serializable() {
    for seed in seeds() {
        let executor = database(Db::builder().in_memory());
        let mut rng = SeededRng::new(seed);
        let found = difference(&[executor], &mut rng, "STRICT SERIALIZABLE");
        assert_eq!(found, None, "SEED={seed} cargo test -p carnet-cql --test all open_model::");
    }
}

#[test]
fn schedules_on_disk_are_serializable() {
    for seed in seeds() {
        let directory = tempfile::tempdir().unwrap();
        let builder = Db::builder().durability(Durability::None).flush_bytes(3_000);
        let executor = database(builder.open(directory.path().join("db")).unwrap());
        let mut rng = SeededRng::new(seed);
        let found = difference(&[executor], &mut rng, "SERIALIZABLE");
        assert_eq!(found, None, "SEED={seed} cargo test -p carnet-cql --test all open_model::");
    }
}

/// Every seventh schedule: a process over a cluster starts its own threads. The statements of a
/// transaction go through two servers.
#[test]
fn schedules_over_a_cluster_are_serializable() {
    for seed in seeds().into_iter().step_by(7) {
        let cluster = TestCluster::new();
        let other = NodeInfo::local(Uuid::from_u64_pair(3, 4));
        let other = NodeInfo { address: [10, 0, 0, 2].into(), ..other };
        let servers = [database(cluster.open("one")), Executor::new(cluster.open("other"), other)];
        let handlers = servers.each_ref().map(|server| {
            let handler = server.forward_handler();
            server.db().serve_forwarded(&handler);
            server.announce().unwrap();
            handler
        });
        wait_for_announcements(&servers);
        let mut rng = SeededRng::new(seed);
        let found = difference(&servers, &mut rng, "STRICT SERIALIZABLE");
        assert_eq!(found, None, "SEED={seed} cargo test -p carnet-cql --test all open_model::");
        assert!(servers.iter().all(|server| server.forwarded_statements() > (0, 0)));
        drop(handlers);
    }
}

#[expect(clippy::disallowed_methods, reason = "announcements are sent once a second")]
fn wait_for_announcements(servers: &[Executor]) {
    while servers.iter().any(|server| server.look_at_peers().1.is_empty()) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The comparison can fail: at snapshot isolation some schedule is not serializable.
#[test]
fn schedules_at_snapshot_isolation_are_not_all_serializable() {
    let is_serial = |seed| {
        let executor = database(Db::builder().in_memory());
        difference(&[executor], &mut SeededRng::new(seed), "SNAPSHOT").is_none()
    };
    assert!(!(0..SCHEDULES).all(is_serial));
}
