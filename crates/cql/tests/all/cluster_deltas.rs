//! Versions that hold a part of a row, over a cluster in memory.

use std::sync::Arc;
use std::time::Duration;

use carnet::cluster::SequencerOptions;
use carnet::{Bytes, Db, Uuid, block_on};
use carnet_base::{Rng as _, SeededRng};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session};
use carnet_storage::disk::sim::SimDisk;

use crate::support::cluster::TestCluster;

struct Client(Executor);

impl Client {
    fn on(db: Db) -> Self {
        Self(Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2))))
    }

    fn run(&self, statement: &str) -> Response {
        block_on(self.0.query(&Session::new(), statement, &Parameters::default()))
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    fn rows(&self, select: &str) -> Vec<Vec<Option<Bytes>>> {
        let Response::Rows(rows) = self.run(select) else { panic!("rows") };
        rows.values()
    }

    fn number(&self, select: &str) -> i64 {
        let rows = self.rows(select);
        let value = rows.first().and_then(|row| row[0].clone());
        value.map_or(0, |value| i64::from_be_bytes(value[..].try_into().unwrap()))
    }

    fn create_tables(&self) {
        self.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        self.run(
            "CREATE TABLE ks.t (k int, c int, a int, b text, l set<int>, s int STATIC, \
             PRIMARY KEY (k, c))",
        );
        self.run("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)");
    }
}

/// Options with which versions are swept as soon as no snapshot sees them.
fn swept_at_once() -> SequencerOptions {
    let mut options = SequencerOptions::default();
    options.sweep.every = Duration::from_millis(3);
    options.sweep.retention = Duration::ZERO;
    options
}

#[test]
fn additions_of_two_processes_are_all_counted() {
    let cluster = TestCluster::new();
    let processes = ["one", "other"].map(|name| {
        let db = cluster.open_with(name, swept_at_once());
        Client::on(db)
    });
    processes[0].create_tables();
    std::thread::scope(|scope| {
        for client in &processes {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 0..40 {
                        client.run("UPDATE ks.n SET n = n + 1 WHERE k = 1");
                        if round % 10 == 0 {
                            client.number("SELECT n FROM ks.n WHERE k = 1");
                        }
                    }
                });
            }
        }
    });
    for client in &processes {
        assert_eq!(client.number("SELECT n FROM ks.n WHERE k = 1"), 160);
    }
}

/// Of two blind writes of a row one may have the smaller start and the larger commit, and is refused. Its statement runs
/// again, in turn, without its client.
#[test]
fn blind_changes_of_a_hot_row_do_not_fail() {
    let cluster = TestCluster::new();
    let processes = ["one", "other"].map(|name| Client::on(cluster.open(name)));
    processes[0].create_tables();
    std::thread::scope(|scope| {
        for (process, client) in processes.iter().enumerate() {
            for thread in 0..40 {
                scope.spawn(move || {
                    for round in 0..5 {
                        client.run("UPDATE ks.n SET n = n + 1 WHERE k = 1");
                        let element = (process * 40 + thread) * 5 + round;
                        let set = format!("l = l + {{{element}}}, a = {element}");
                        client.run(&format!("UPDATE ks.t SET {set} WHERE k = 1 AND c = 1"));
                    }
                });
            }
        }
    });
    for client in &processes {
        assert_eq!(client.number("SELECT n FROM ks.n WHERE k = 1"), 400);
        let rows = client.rows("SELECT l FROM ks.t WHERE k = 1 AND c = 1");
        let elements = rows[0][0].as_ref().unwrap();
        assert_eq!(elements[..4], 400_i32.to_be_bytes(), "number of the elements");
    }
}

/// The engine merges versions itself, so that it is a model of the reader that merges them.
#[test]
fn random_changes_give_the_same_rows_as_on_a_disk() {
    for seed in 0..6 {
        let mut rng = SeededRng::new(seed);
        let cluster = TestCluster::new();
        let open = |name| match seed % 2 {
            0 => cluster.open_with(name, swept_at_once()),
            _ => cluster.open(name),
        };
        let processes = [Client::on(open("one")), Client::on(open("other"))];
        let disk = Db::builder().open_on(Arc::new(SimDisk::new(seed))).unwrap();
        let (disk, memory) = (Client::on(disk), Client::on(Db::builder().in_memory()));
        for client in [&processes[0], &disk, &memory] {
            client.create_tables();
        }
        for step in 0..150 {
            let statement = random_statement(&mut rng);
            disk.run(&statement);
            memory.run(&statement);
            let process = usize::from(rng.below(2) == 0);
            processes[process].run(&statement);
            if step % 5 > 0 {
                continue;
            }
            for select in [
                "SELECT * FROM ks.t",
                "SELECT * FROM ks.t WHERE k = 1 ORDER BY c DESC",
                "SELECT * FROM ks.t WHERE k IN (0, 1) AND c IN (0, 1, 2)",
                "SELECT * FROM ks.n",
            ] {
                let wanted = disk.rows(select);
                for client in [&processes[0], &processes[1], &memory] {
                    assert_eq!(client.rows(select), wanted, "seed {seed}, step {step}: {select}");
                }
            }
        }
    }
}

fn random_statement(rng: &mut SeededRng) -> String {
    let (k, c, value) = (rng.below(3), rng.below(3), rng.below(100));
    let row = format!("k = {k} AND c = {c}");
    match rng.below(12) {
        0 => format!("INSERT INTO ks.t (k, c, a, b, l, s) VALUES ({k}, {c}, 1, 'i', {{0}}, 3)"),
        1 => format!("INSERT INTO ks.t (k, c, a) VALUES ({k}, {c}, {value})"),
        2 | 3 => format!("UPDATE ks.t SET a = {value} WHERE {row}"),
        4 => format!("UPDATE ks.t SET b = 'v{value}' WHERE {row}"),
        5 => format!("UPDATE ks.t SET l = l + {{{}}} WHERE {row}", value % 5),
        6 => format!("UPDATE ks.t SET l = l - {{{}}} WHERE {row}", value % 5),
        7 => format!("DELETE a, l FROM ks.t WHERE {row}"),
        8 => format!("UPDATE ks.t SET s = {value} WHERE k = {k}"),
        9 if value < 30 => format!("DELETE FROM ks.t WHERE {row}"),
        10 if value < 20 => format!("DELETE FROM ks.t WHERE k = {k}"),
        _ => format!("UPDATE ks.n SET n = n + {value} WHERE k = {k}"),
    }
}

#[test]
fn blind_changes_by_another_process_read_nothing() {
    let cluster = TestCluster::new();
    // No process sweeps in the meantime: its reads would be counted.
    let [one, other] = ["one", "other"].map(|name| Client::on(cluster.open(name)));
    one.create_tables();
    for k in 0..20 {
        one.run(&format!("INSERT INTO ks.t (k, c, a, b, l, s) VALUES ({k}, 1, 1, 'b', {{1}}, 1)"));
        one.run(&format!("UPDATE ks.n SET n = n + 1 WHERE k = {k}"));
    }
    let changes = |k: u64| {
        [
            format!("UPDATE ks.t SET a = 2 WHERE k = {k} AND c = 1"),
            format!("UPDATE ks.t SET l = l + {{2}} WHERE k = {k} AND c = 1"),
            format!("UPDATE ks.t SET s = 2 WHERE k = {k}"),
            format!("INSERT INTO ks.t (k, c, b) VALUES ({k}, 1, 'c')"),
            format!("DELETE b FROM ks.t WHERE k = {k} AND c = 1"),
            format!("UPDATE ks.n SET n = n + 1 WHERE k = {k}"),
        ]
    };
    // The other process reads the schema with its first statements.
    for change in changes(0) {
        other.run(&change);
    }
    let before = cluster.cell_reads();
    for change in (1..20).flat_map(changes) {
        other.run(&change);
    }
    assert_eq!(cluster.cell_reads() - before, 0);
    assert_eq!(other.number("SELECT n FROM ks.n WHERE k = 7"), 2);
    assert!(cluster.cell_reads() > before, "reads are counted");
    let rows = other.rows("SELECT a, b, l, s FROM ks.t WHERE k = 7");
    assert_eq!(rows, one.rows("SELECT a, b, l, s FROM ks.t WHERE k = 7"));
    assert_eq!((rows[0][0].as_deref(), rows[0][1].as_deref()), (Some(&[0, 0, 0, 2][..]), None));
}

#[test]
fn raw_values_of_other_processes_are_no_deltas() {
    let cluster = TestCluster::new();
    let one = cluster.open_with("one", swept_at_once());
    let other = cluster.open_with("other", swept_at_once());
    let value = [2, 0, 0, 9];
    for round in 0..3 {
        let writer = if round % 2 == 0 { &other } else { &one };
        let table = writer.raw("raw").unwrap();
        writer.transact(|tx| table.put(tx, b"key", value)).unwrap();
        for db in [&one, &other] {
            let table = db.raw("raw").unwrap();
            assert_eq!(table.get(db, b"key").unwrap().unwrap()[..], value);
        }
    }
}
