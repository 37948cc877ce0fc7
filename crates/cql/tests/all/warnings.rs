//! Warnings about statements that are heavy in Cassandra, with its thresholds.

use std::sync::Arc;

use carnet::{Db, Uuid, block_on};
use carnet_base::MemoryBudget;
use carnet_cql::ast::BatchKind;
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    AnswerMemory, BatchItem, Executor, Grant, Parameters, Session, Values, WarnThresholds,
};

struct Client {
    executor: Executor,
    session: Session,
}

impl Client {
    fn new(db: Db) -> Self {
        let executor = Executor::new(db, NodeInfo::local(Uuid::nil()));
        let client = Self { executor, session: Session::new() };
        for text in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
            "USE ks",
            "CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))",
        ] {
            client.run(text);
        }
        client
    }

    /// Runs a statement, and returns its warnings.
    fn run(&self, text: &str) -> Vec<String> {
        self.warned(async |parameters| {
            self.executor.query(&self.session, text, &parameters).await.unwrap();
        })
    }

    fn batch(&self, kind: BatchKind, texts: &[String]) -> Vec<String> {
        self.warned(async |parameters| {
            let item = |text: &String| BatchItem::Text {
                text: text.clone(),
                values: Values::Positional(Vec::new()),
            };
            let items = texts.iter().map(item).collect();
            self.executor.batch(&self.session, kind, items, &parameters).await.unwrap();
        })
    }

    fn warned(&self, run: impl AsyncFnOnce(Parameters)) -> Vec<String> {
        let memory = Arc::new(AnswerMemory::new(&MemoryBudget::new(1 << 24), 1 << 24));
        let grant = Grant { memory: Some(Arc::clone(&memory)), ..Grant::default() };
        block_on(run(Parameters { grant, ..Parameters::default() }));
        memory.take_warnings().into_iter().map(String::from).collect()
    }
}

fn inserts(partitions: usize, bytes: usize) -> Vec<String> {
    let text = "x".repeat(bytes);
    let insert = |p| format!("INSERT INTO t (p, c, v) VALUES ({p}, 1, '{text}')");
    (0..partitions).map(insert).collect()
}

fn text_of(kind: &str, statements: &[String]) -> String {
    format!("BEGIN {kind} BATCH {}; APPLY BATCH", statements.join("; "))
}

#[test]
fn large_batches_are_warned_of() {
    let client = Client::new(Db::builder().in_memory());
    let (small, large) = (inserts(2, 2_000), inserts(2, 3_000));
    for warnings in [
        client.run(&text_of("", &large)),
        client.run(&text_of("UNLOGGED", &large)),
        client.batch(BatchKind::Logged, &large),
    ] {
        let [warning] = &warnings[..] else { panic!("one warning, not {warnings:?}") };
        assert!(warning.starts_with("Batch for [ks.t] is of size 6"), "{warning}");
        assert!(warning.contains("exceeding specified threshold of 5120 by "), "{warning}");
    }
    assert_eq!(client.run(&text_of("", &small)), [""; 0]);
    assert_eq!(client.run(&large[0]), [""; 0], "no batch");
    let one_partition = inserts(1, 9_000);
    assert_eq!(client.run(&text_of("", &one_partition)), [""; 0]);
}

#[test]
fn unlogged_batches_of_many_partitions_are_warned_of() {
    let client = Client::new(Db::builder().in_memory());
    let expected = "Unlogged batch covering 11 partitions detected against table [ks.t]. You should use \
                    a logged batch for atomicity, or asynchronous writes for performance.";
    assert_eq!(client.run(&text_of("UNLOGGED", &inserts(11, 1))), [expected]);
    assert_eq!(client.batch(BatchKind::Unlogged, &inserts(11, 1)), [expected]);
    assert_eq!(client.run(&text_of("UNLOGGED", &inserts(10, 1))), [""; 0]);
    client.run("CREATE TABLE u (p int PRIMARY KEY, v text)");
    let other = "INSERT INTO u (p, v) VALUES (1, 'x')".to_owned();
    let of_two_tables = [inserts(10, 1), vec![other]].concat();
    assert_eq!(client.run(&text_of("UNLOGGED", &of_two_tables)), [""; 0], "ten keys");
    assert_eq!(client.run(&text_of("", &inserts(11, 1))), [""; 0]);
}

#[test]
fn reads_over_many_deleted_rows_are_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    for db in [Db::builder().in_memory(), Db::open(dir.path().join("db")).unwrap()] {
        let client = Client::new(db);
        for c in 0..1_002 {
            client.run(&format!("INSERT INTO t (p, c) VALUES (1, {c})"));
        }
        let read = "SELECT c FROM t WHERE p = 1";
        client.run("DELETE FROM t WHERE p = 1 AND c < 1000");
        assert_eq!(client.run(read), [""; 0]);
        client.run("DELETE FROM t WHERE p = 1 AND c = 1000");
        let expected = "Read 1 live rows and 1001 tombstone cells for a query of ks.t (see \
                        tombstone_warn_threshold)";
        assert_eq!(client.run(read), [expected]);
        client.run("START TRANSACTION");
        assert_eq!(client.run(read), [expected]);
        assert_eq!(client.run(read), [expected], "each statement counts its own");
        client.run("ROLLBACK");
        assert_eq!(client.run("SELECT c FROM t WHERE p = 1 AND c > 1000"), [""; 0]);
    }
}

#[test]
fn thresholds_are_settings() {
    let client = Client::new(Db::builder().in_memory());
    client.executor.set_warn_thresholds(WarnThresholds {
        batch_bytes: 64 << 10,
        unlogged_partitions: 20,
        tombstones: 2,
    });
    assert_eq!(client.run(&text_of("UNLOGGED", &inserts(20, 2_000))), [""; 0]);
    assert_eq!(client.run(&text_of("UNLOGGED", &inserts(21, 4_000))).len(), 2);
    client.run("DELETE FROM t WHERE p IN (1, 2, 3)");
    assert_eq!(client.run("SELECT v FROM t").len(), 1);
}
