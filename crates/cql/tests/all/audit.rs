//! What the audit log is told of statements.

use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use carnet::{Bytes, Db, Uuid, block_on};
use carnet_base::lock;
use carnet_cql::ast::BatchKind;
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    AuditCategory, AuditEntry, AuditLog, BatchItem, Bound, Executor, Grant, Parameters, Session,
    Values,
};

/// A log that keeps its entries, but for reads by `monitor`.
#[derive(Default)]
struct Kept(Mutex<Vec<AuditEntry>>);

impl AuditLog for Kept {
    fn wants(&self, category: AuditCategory, user: Option<&str>) -> bool {
        (category, user) != (AuditCategory::Query, Some("monitor"))
    }

    fn write(&self, entry: AuditEntry) {
        lock(&self.0).push(entry);
    }
}

struct Fixture {
    executor: Executor,
    log: Arc<Kept>,
    ann: Session,
}

impl Fixture {
    fn new() -> Self {
        let node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
        let executor = Executor::new(Db::builder().in_memory(), node);
        let ann = Session::with_name("ann@127.0.0.1:7").with_user("ann");
        let fixture = Self { executor, log: Arc::default(), ann };
        fixture.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        fixture.run("CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
        fixture.executor.set_audit(Arc::clone(&fixture.log) as Arc<dyn AuditLog>);
        fixture
    }

    fn run(&self, text: &str) {
        let _ = block_on(self.executor.query(&self.ann, text, &Parameters::default()));
    }

    fn entry(&self) -> AuditEntry {
        let mut entries = std::mem::take(&mut *lock(&self.log.0));
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.pop().unwrap()
    }
}

#[test]
fn statements_are_told_with_their_outcome() {
    let fixture = Fixture::new();
    fixture.run("INSERT INTO ks.t (k, v) VALUES (1, 'a')");
    let entry = fixture.entry();
    let expected = AuditEntry {
        category: AuditCategory::Dml,
        operation: "INSERT",
        user: Some("ann".into()),
        client: "127.0.0.1:7".to_owned(),
        keyspaces: vec!["ks".to_owned()],
        statement: "INSERT INTO ks.t (k, v) VALUES (1, 'a')".to_owned(),
        error: None,
    };
    assert_eq!(entry, expected);
    fixture.run("SELECT v FROM ks.missing");
    assert!(fixture.entry().error.unwrap().contains("ks.missing does not exist"));
    fixture.run("CREATE ROLE bob WITH PASSWORD = 'secret' AND LOGIN = true");
    let entry = fixture.entry();
    assert_eq!(entry.statement, "CREATE ROLE bob WITH PASSWORD = '***' AND LOGIN = true");
    fixture.run(&format!("INSERT INTO ks.t (k, v) VALUES (1, '{}')", "x".repeat(1 << 20)));
    let text = fixture.entry().statement;
    assert!(text.len() < 5_000 && text.ends_with('…'), "{} bytes", text.len());
    fixture.run(&format!("DROP KEYSPACE \"{}\"", "x".repeat(1 << 20)));
    let AuditEntry { keyspaces, error, .. } = fixture.entry();
    let len = keyspaces.concat().len() + error.unwrap().len();
    assert!(len < 2_000, "{len} bytes of keyspaces and error");
}

#[test]
fn refused_statements_are_told() {
    let fixture = Fixture::new();
    fixture.run("CREATE ROLE eve WITH LOGIN = true");
    fixture.entry();
    let eve = Session::with_name("eve@127.0.0.1:8").with_role("eve");
    let text = "SELECT v FROM ks.t WHERE k = 1";
    block_on(fixture.executor.query(&eve, text, &Parameters::default())).unwrap_err();
    let entry = fixture.entry();
    assert_eq!(entry.user.as_deref(), Some("eve"));
    assert!(entry.error.unwrap().contains("eve has no SELECT permission"));
    fixture.run("DROP ROLE eve");
    fixture.entry();
    block_on(fixture.executor.query(&eve, text, &Parameters::default())).unwrap_err();
    assert!(fixture.entry().error.unwrap().contains("role eve was dropped"));
}

#[test]
fn values_of_markers_are_not_told() {
    let fixture = Fixture::new();
    let text = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
    let prepare = fixture.executor.prepare(&fixture.ann, text, None);
    let prepared = block_on(prepare).unwrap();
    assert_eq!(lock(&fixture.log.0).len(), 0, "a preparation has no effect");
    let values = || {
        let texts = [Bytes::from_static(&[0, 0, 0, 1]), Bytes::from_static(b"confidential")];
        Values::Positional(texts.map(Bound::Bytes).to_vec())
    };
    let parameters = Parameters { values: values(), ..Parameters::default() };
    block_on(fixture.executor.execute(&fixture.ann, &prepared, &parameters)).unwrap();
    assert_eq!(fixture.entry().statement, text);
    let prepared = BatchItem::Prepared { prepared, values: values() };
    let other = "DELETE FROM ks.t WHERE k = 2".to_owned();
    let items = vec![prepared, BatchItem::Text { text: other, values: Values::default() }];
    let parameters = Parameters::default();
    let batch = fixture.executor.batch(&fixture.ann, BatchKind::Logged, items, &parameters);
    block_on(batch).unwrap();
    let entry = fixture.entry();
    assert_eq!((entry.operation, entry.keyspaces), ("BATCH", vec!["ks".to_owned()]));
    assert_eq!(entry.statement, format!("{text}; DELETE FROM ks.t WHERE k = 2; "));
}

#[test]
fn unwanted_entries_are_not_made() {
    let fixture = Fixture::new();
    let monitor = Session::with_name("monitor@127.0.0.1:8").with_user("monitor");
    let text = "SELECT v FROM ks.t";
    block_on(fixture.executor.query(&monitor, text, &Parameters::default())).unwrap();
    assert_eq!(lock(&fixture.log.0).len(), 0);
}

/// The future of a statement is dropped when its client disconnects.
#[test]
fn statement_that_is_cut_off_is_told() {
    let fixture = Fixture::new();
    for key in 0..2_000 {
        fixture.run(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'a')"));
    }
    lock(&fixture.log.0).clear();
    let grant = Grant { yield_now: Some(|| Box::pin(std::future::pending())), ..Grant::default() };
    let parameters = Parameters { grant, ..Parameters::default() };
    {
        let count = "SELECT count(*) FROM ks.t";
        let mut count = Box::pin(fixture.executor.query(&fixture.ann, count, &parameters));
        let mut context = Context::from_waker(Waker::noop());
        assert!(count.as_mut().poll(&mut context).is_pending(), "it yields and never goes on");
        assert_eq!(lock(&fixture.log.0).len(), 0);
    }
    assert!(fixture.entry().error.unwrap().contains("whether it took effect is not known"));
}
