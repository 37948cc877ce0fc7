//! A database at rest writes nothing, whatever statements it ran before.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use carnet::{Bytes, Db, Durability, Uuid, block_on};
use carnet_base::{Clock, Moment, Rng, SeededRng, Stepped, WallTime};
use carnet_cql::system::NodeInfo;
use carnet_cql::{Bound, Executor, Parameters, Session, Values};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::{Kind, SimDisk};

/// Wall time at which a clock begins.
const BEGIN_SECONDS: i64 = 1_700_000_000;
const WORKERS: usize = 16;

/// Clock that stands still until it is moved, in seconds.
struct Manual(AtomicI64);

impl Clock for Manual {
    fn now(&self) -> Moment {
        Moment(Duration::from_secs(self.0.load(Ordering::SeqCst).unsigned_abs()))
    }

    fn wall(&self) -> WallTime {
        WallTime((BEGIN_SECONDS + self.0.load(Ordering::SeqCst)) * 1_000_000)
    }
}

struct Bed {
    executor: Executor,
    db: Db,
    session: Session,
    disk: SimDisk,
    clock: Arc<Manual>,
    workers: Stepped,
}

impl Bed {
    fn new() -> Self {
        let bed = Self::open(&SimDisk::new(1), &Arc::new(Manual(AtomicI64::new(0))));
        bed.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        bed
    }

    fn with_table() -> Self {
        let bed = Self::new();
        bed.run("CREATE TABLE ks.t (k int PRIMARY KEY, a text, b text, c text, d int)");
        bed
    }

    fn open(disk: &SimDisk, clock: &Arc<Manual>) -> Self {
        let workers = Stepped::default();
        let db = Db::builder()
            .durability(Durability::None)
            .retention(Duration::from_secs(1))
            .clock(Arc::clone(clock) as Arc<dyn Clock>)
            .spawn(Arc::new(workers.clone()))
            .open_on(Arc::new(disk.clone()))
            .unwrap();
        let executor = Executor::new(db.clone(), NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let spawned = format!("{workers:?}");
        assert!((1..=WORKERS).any(|count| spawned.contains(&format!("({count} "))), "{spawned}");
        let (disk, clock) = (disk.clone(), Arc::clone(clock));
        Self { executor, db, session: Session::new(), disk, clock, workers }
    }

    fn reopened(self) -> Self {
        self.db.close().unwrap();
        let (disk, clock) = (self.disk.clone(), Arc::clone(&self.clock));
        drop(self);
        clock.0.fetch_add(1, Ordering::SeqCst);
        Self::open(&disk, &clock)
    }

    fn run(&self, statement: &str) {
        self.run_with(statement, &[]);
    }

    fn run_with(&self, statement: &str, values: &[Bytes]) {
        let values = values.iter().cloned().map(Bound::Bytes).collect();
        let parameters = Parameters { values: Values::Positional(values), ..Parameters::default() };
        block_on(self.executor.query(&self.session, statement, &parameters))
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// Runs a statement whose commit waits for the workers.
    fn run_beside_workers(&self, statement: &str, values: &[Bytes]) {
        thread::scope(|scope| {
            let statement = scope.spawn(|| self.run_with(statement, values));
            for step in 0.. {
                if statement.is_finished() {
                    break;
                }
                self.workers.step(step % WORKERS);
            }
        });
    }

    /// Returns the size of all tables.
    fn table_bytes(&self) -> usize {
        let names = self.disk.list().unwrap().into_iter();
        let tables = names.filter(|name| name.starts_with("sst-"));
        tables.map(|name| self.disk.contents(&name).unwrap().len()).sum()
    }

    /// Lets time pass without a client; returns the number of compactions.
    fn pass(&self, rounds: usize, seconds: i64) -> u64 {
        let before = self.db.metrics().unwrap().compactions;
        for _ in 0..rounds {
            self.clock.0.fetch_add(seconds, Ordering::SeqCst);
            for step in 0..10 * WORKERS {
                self.workers.step(step % WORKERS);
            }
        }
        self.db.metrics().unwrap().compactions - before
    }

    fn changes(&self) -> [u64; 5] {
        let kinds = [Kind::Write, Kind::Sync, Kind::Create, Kind::Rename, Kind::Remove];
        kinds.map(|kind| self.disk.count(kind))
    }

    /// Checks that the database writes no more than `compactions_max` compactions until it rests, and
    /// nothing afterwards.
    fn rests(&self, compactions_max: u64) {
        let compactions = self.pass(60, 1);
        assert!(compactions <= compactions_max, "{compactions} compactions in a minute");
        let before = self.changes();
        assert_eq!(self.pass(200, 600), 0, "compactions in the next day");
        assert_eq!(self.changes(), before, "writes in the next day");
    }
}

#[test]
fn new_database_with_a_keyspace_rests() {
    let bed = Bed::new();
    bed.db.compact().unwrap();
    bed.rests(1);
    let bed = bed.reopened();
    bed.rests(2);
    bed.db.compact().unwrap();
    bed.reopened().reopened().rests(2);
}

#[test]
fn updated_rows_rest() {
    let bed = Bed::with_table();
    for row in 0..200 {
        bed.run(&format!("INSERT INTO ks.t (k, a, b, c, d) VALUES ({row}, 'a', 'b', 'c', 1)"));
    }
    bed.pass(3, 1);
    bed.db.compact().unwrap();
    for column in ["a", "b", "c"] {
        for row in 0..200 {
            bed.run(&format!("UPDATE ks.t SET {column} = 'new' WHERE k = {row}"));
        }
    }
    bed.db.flush().unwrap();
    bed.rests(2);
}

#[test]
fn expiring_rows_rest_before_and_after_they_expire() {
    let bed = Bed::with_table();
    for row in 0..200 {
        bed.run(&format!(
            "INSERT INTO ks.t (k, a, b, c, d) VALUES ({row}, 'a', 'b', 'c', 1) USING TTL 1000000"
        ));
        bed.run(&format!("UPDATE ks.t SET d = 2 WHERE k = {row}"));
    }
    bed.db.compact().unwrap();
    bed.rests(2);
    bed.clock.0.fetch_add(1_000_000, Ordering::SeqCst);
    // A commit tells the store that the time has passed.
    bed.run("INSERT INTO ks.t (k, a) VALUES (1000, 'a')");
    bed.rests(3);
}

#[test]
fn deleted_rows_rest_behind_a_snapshot_and_after_it() {
    let bed = Bed::with_table();
    for row in 0..100 {
        bed.run(&format!("INSERT INTO ks.t (k, a) VALUES ({row}, 'a')"));
    }
    let snapshot = bed.db.snapshot().unwrap();
    bed.run("DELETE FROM ks.t WHERE k = 1");
    bed.run("TRUNCATE ks.t");
    bed.db.flush().unwrap();
    bed.run("DROP TABLE ks.t");
    let compactions = bed.pass(60, 1);
    assert!(compactions <= 1, "{compactions} compactions behind the snapshot");
    drop(snapshot);
    bed.rests(3);
}

/// The rows are in a table that the commit adopted.
#[test]
fn expired_rows_of_a_large_transaction_are_reclaimed() {
    let bed = Bed::with_table();
    let mut text = Bytes::from(vec![b'a'; 1 << 20]).to_vec();
    let mut rng = SeededRng::new(1);
    text.iter_mut().for_each(|byte| *byte = b' ' + u8::try_from(rng.below(90)).unwrap());
    let insert = |k| format!("INSERT INTO ks.t (k, a) VALUES ({k}, ?) USING TTL 5;");
    let inserts: String = (0..12).map(insert).collect();
    let texts = vec![Bytes::from(text); 12];
    bed.run_beside_workers(&format!("BEGIN BATCH {inserts} APPLY BATCH"), &texts);
    bed.db.flush().unwrap();
    bed.pass(10, 1);
    assert!(bed.table_bytes() > 10 << 20, "{} bytes", bed.table_bytes());
    for k in 100..103 {
        bed.run(&format!("INSERT INTO ks.t (k, a) VALUES ({k}, 'a')"));
        bed.pass(10, 1);
    }
    bed.db.flush().unwrap();
    bed.rests(4);
    assert!(bed.table_bytes() < 1 << 20, "{} bytes", bed.table_bytes());
}
