//! Prepared statements: their memory is bounded, and its estimate is not too low.
//! The tests need a process to themselves: the allocator counts the bytes of all threads.

#![expect(clippy::unwrap_used, reason = "helpers outside of #[test] functions unwrap as well")]

use std::alloc::System;
use std::sync::{Arc, Mutex, MutexGuard};

use carnet::{Db, Uuid, Value, block_on};
use carnet_base::lock;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Bound, CqlError, CqlErrorKind, Executor, Parameters, Prepared, Session, Values};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: usize = 1 << 20;

/// The allocator counts for the whole process: tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    lock(&ALONE)
}

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new() -> Self {
        let node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
        let executor = Executor::new(Db::builder().in_memory(), node);
        let client = Self { executor, session: Session::new() };
        client.run(
            "CREATE KEYSPACE ks WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        client.run("USE ks");
        client.run("CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))");
        let columns: String = (0..200).map(|n| format!(", column_{n} text")).collect();
        client.run(&format!("CREATE TABLE wide (k int PRIMARY KEY{columns})"));
        client
    }

    fn run(&self, text: &str) {
        block_on(self.executor.query(&self.session, text, &Parameters::default())).unwrap();
    }

    fn prepare(&self, text: &str) -> Result<Arc<Prepared>, CqlError> {
        block_on(self.executor.prepare(&self.session, text, None))
    }

    /// Prepares a statement and executes it with nulls, which may fail: the plan is cached before.
    fn prepare_and_run(&self, text: &str) {
        let prepared = self.prepare(text).unwrap();
        let values = Values::Positional(vec![Bound::Null; prepared.markers.len()]);
        let parameters = Parameters { values, ..Parameters::default() };
        let _ = block_on(self.executor.execute(&self.session, &prepared, &parameters));
    }

    fn execute(&self, prepared: &Prepared, values: &[i32]) {
        let value = |n: &i32| Bound::Bytes(Value::Int(*n).serialize());
        let values = Values::Positional(values.iter().map(value).collect());
        let parameters = Parameters { values, ..Parameters::default() };
        block_on(self.executor.execute(&self.session, prepared, &parameters)).unwrap();
    }
}

fn bytes_of(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// Returns a select of `bytes` bytes with the cheapest content: one long literal.
fn long(number: usize, bytes: usize) -> String {
    let text = format!("SELECT v FROM t WHERE k = {number} AND c = ? AND v = '' ALLOW FILTERING");
    let padding = "x".repeat(bytes - text.len());
    text.replace("''", &format!("'{padding}'"))
}

fn batch(writes: usize) -> String {
    let insert = "INSERT INTO t (k, c, v) VALUES (1, 2, 'x');".repeat(writes);
    format!("BEGIN BATCH {insert} APPLY BATCH")
}

#[test]
fn thirteen_large_statements_stay_within_bytes() {
    let _alone = alone();
    let client = Client::new();
    client.executor.set_prepared_bytes_max(16 * MIB);
    let region = Region::new(ALLOCATOR);
    for number in 0..13 {
        client.prepare(&long(number, MIB)).unwrap();
        assert!(client.executor.prepared_size().1 <= 16 * MIB);
    }
    assert_eq!(client.executor.prepared_size().0, 5, "each is charged for three copies");
    assert!(bytes_of(&region) <= 16 * MIB, "{} bytes are allocated", bytes_of(&region));
}

#[test]
fn statement_beyond_its_share_is_refused() {
    let _alone = alone();
    let client = Client::new();
    let region = Region::new(ALLOCATOR);
    let error = client.prepare(&batch(24_000)).unwrap_err();
    assert_eq!(error.kind(), &CqlErrorKind::Invalid);
    assert!(error.message().contains("send it without preparing it"), "{error}");
    assert_eq!(client.executor.prepared_size(), (0, 0));
    // Neither tree nor plan was built; only the text was allocated.
    assert!(region.change().bytes_allocated < 4 * MIB);
    client.prepare(&batch(1_000)).unwrap();
}

#[test]
fn recently_executed_statement_survives() {
    let _alone = alone();
    let client = Client::new();
    client.executor.set_prepared_bytes_max(16 * MIB);
    let busy = client.prepare("SELECT v FROM t WHERE k = ? AND c = ?").unwrap();
    let idle = client.prepare("SELECT v FROM t WHERE k = ?").unwrap();
    for number in 0..13 {
        client.prepare(&long(number, MIB)).unwrap();
        let found = client.executor.prepared(&busy.id).unwrap();
        client.execute(&found, &[1, 2]);
    }
    assert!(client.executor.prepared(&idle.id).is_none(), "drivers are told to prepare it again");
    let again = client.prepare("SELECT v FROM t WHERE k = ?").unwrap();
    assert_eq!(again.id, idle.id);
    client.execute(&again, &[1]);
}

/// Each statement is prepared and executed once, so that the plan is cached as well.
#[test]
fn estimate_covers_what_is_allocated() {
    let _alone = alone();
    let ones = vec!["1"; 10_000].join(",");
    let conditions = vec!["v = 'a'"; 20].join(" AND ");
    let deletes = "DELETE FROM t WHERE k=1;".repeat(2_000);
    let lets = "UPDATE t SET v='a' WHERE k=1 AND c=1;".repeat(1_000);
    let wide: String = (0..200).map(|n| format!(",column_{n}")).collect();
    let marks = ",?".repeat(200);
    for (name, text) in [
        ("select", "SELECT v FROM t WHERE k = 1".to_owned()),
        ("all columns", "SELECT * FROM wide".to_owned()),
        ("insert", "INSERT INTO t (k, c, v) VALUES (1, 2, 'x')".to_owned()),
        ("markers", format!("INSERT INTO wide (k{wide}) VALUES (1{marks})")),
        ("batch", batch(1_000)),
        ("deletes", format!("BEGIN BATCH {deletes} APPLY BATCH")),
        ("in", format!("SELECT v FROM t WHERE k IN ({ones})")),
        ("condition", format!("UPDATE t SET v = 'b' WHERE k = 1 AND c = 1 IF {conditions}")),
        ("literal", long(1, MIB - 100)),
        ("sum", format!("SELECT k{} FROM t", "+1".repeat(5_000))),
        ("casts", format!("SELECT v{} FROM t", ",CAST(k AS text)".repeat(2_000))),
        ("names", format!("SELECT v{} FROM t", ",k".repeat(5_000))),
        ("transaction", format!("BEGIN TRANSACTION {lets} COMMIT TRANSACTION")),
    ] {
        let client = Client::new();
        client.executor.set_prepared_bytes_max(1 << 30);
        // Fill the caches of the schema first.
        client.run("SELECT * FROM t WHERE k = 1 AND c = 1");
        client.run("SELECT * FROM wide WHERE k = 1");
        // Several copies, so that the database's own allocations hardly count.
        let copies = if text.len() < 1_000 { 50 } else { 4 };
        let region = Region::new(ALLOCATOR);
        for copy in 0..copies {
            client.prepare_and_run(&format!("{text} // {copy}"));
        }
        let allocated = bytes_of(&region);
        let (_, estimated) = client.executor.prepared_size();
        println!(
            "{name}: {} bytes allocated, {} estimated",
            allocated / copies,
            estimated / copies
        );
        assert!(allocated <= estimated, "{name}: {allocated} allocated, {estimated} estimated");
    }
}
