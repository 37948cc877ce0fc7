//! Tests: commits of other transactions with which a statement's transaction conflicts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use carnet::{Db, Isolation, Tx, Uuid, block_on};
use carnet_base::{Clock, MemoryBudget, Moment, WallTime, lock};

use super::applied::Form;
use super::first_build::FirstBuild;
use super::outline::Outline;
use super::prepared::Statements;
use super::*;
use crate::ast::Statement;
use crate::compile::Plan;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::{Response, Rows};
use crate::steps::Steps;
use crate::system::{NodeInfo, Peer};

/// Table `t` of one partition, k = 1, with the static column `s` at 1 and the rows c = v = 1, …,
/// 40.
struct Fixture {
    executor: Executor,
    session: Session,
}

impl Fixture {
    fn new() -> Self {
        let node = NodeInfo::local(Uuid::from_u64_pair(1, 2));
        let executor = Executor::new(Db::builder().in_memory(), node);
        let fixture = Self { executor, session: Session::new() };
        fixture.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        fixture.query("USE ks");
        fixture.query("CREATE TABLE t (k int, c int, v int, s int STATIC, PRIMARY KEY (k, c))");
        fixture.query("INSERT INTO t (k, c, v, s) VALUES (1, 1, 1, 1)");
        for c in 2..=40 {
            fixture.query(&format!("INSERT INTO t (k, c, v) VALUES (1, {c}, {c})"));
        }
        fixture
    }

    fn query(&self, text: &str) -> Response {
        let parameters = Parameters::default();
        block_on(self.executor.query(&self.session, text, &parameters)).unwrap()
    }

    /// Runs a statement in a transaction of the caller.
    async fn run_in(&self, tx: &Tx, text: &str) {
        let statements = Statements::parse(text).unwrap();
        let steps = Steps::new();
        let plan = self.executor.plan(tx, &statements, (Some("ks"), None), &steps).await.unwrap();
        let environment = self.executor.environment(&[], &steps);
        match &*plan {
            Plan::Select(plan) => {
                let parameters = Parameters::default();
                let rows = select::run(tx, plan, &environment, &parameters, None).await.unwrap();
                assert!(!rows.rows.is_empty(), "{text}");
            }
            Plan::Writes(plans) => {
                let writes: Vec<_> = plans.iter().map(|plan| (plan, environment)).collect();
                write::run(tx, &writes, Form::Single, None).await.unwrap();
            }
            Plan::Transaction(_) => panic!("the statement is one"),
        }
    }
}

/// Returns `true` if a transaction that runs `statements` is refused when another one commits
/// `meanwhile` before it commits.
fn is_refused(isolation: Isolation, statements: &[&str], meanwhile: &str) -> bool {
    let fixture = Fixture::new();
    block_on(async {
        let options = fixture.executor.db().transaction().isolation(isolation);
        let tx = options.begin_async().await.unwrap();
        for statement in statements {
            fixture.run_in(&tx, statement).await;
        }
        let parameters = Parameters::default();
        fixture.executor.query(&fixture.session, meanwhile, &parameters).await.unwrap();
        tx.commit().await.is_err()
    })
}

/// A row that is inserted while the statement builds an index or a view would be missing in it. The
/// second attempt does not build, so that writers of a busy table cannot prevent it.
#[test]
fn creation_depends_on_the_rows_that_it_builds_from() {
    let creates = [
        "CREATE INDEX ON t (v)",
        "CREATE MATERIALIZED VIEW w AS SELECT k, c, v FROM t \
         WHERE v IS NOT NULL AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c)",
    ];
    for isolation in [Isolation::StrictSerializable, Isolation::Snapshot] {
        for create in creates {
            let fixture = Fixture::new();
            let build = FirstBuild::default();
            let (is_unbuilt, committed) = fixture.create(isolation, create, &build);
            assert!(!is_unbuilt && committed.is_err(), "{isolation}: {create}");
            let (is_unbuilt, committed) = fixture.create(isolation, create, &build);
            assert!(is_unbuilt && committed.is_ok(), "{isolation}: {create}: {committed:?}");
        }
    }
}

impl Fixture {
    /// Creates an index or view in a transaction beside an insertion; returns whether the build is
    /// left to the background, and the result of the commit.
    fn create(
        &self,
        isolation: Isolation,
        create: &str,
        build: &FirstBuild,
    ) -> (bool, carnet::Result<()>) {
        let parsed = crate::parse(create, &crate::Limits::default()).unwrap();
        let steps = Steps::new();
        let environment = &self.executor.environment(&[], &steps);
        block_on(async {
            let options = self.executor.db().transaction().isolation(isolation);
            let tx = options.begin_async().await.unwrap();
            let created = match &parsed.statement {
                Statement::CreateIndex(create) => {
                    indexes::create(&tx, create, Some("ks"), build).await
                }
                Statement::CreateView(create) => {
                    views::create(&tx, create, Some("ks"), environment, build).await
                }
                other => panic!("{other:?}"),
            };
            let insert = "INSERT INTO t (k, c, v) VALUES (1, 99, 99)";
            let parameters = Parameters::default();
            self.executor.query(&self.session, insert, &parameters).await.unwrap();
            (created.unwrap().1, tx.commit().await.map(drop))
        })
    }
}

#[test]
fn timeouts_count_from_the_arrival_of_what_may_be_refused() {
    let fixture = Fixture::new();
    let [arrived, read] = [3, 10].map(|seconds| Moment(Duration::from_secs(seconds)));
    let select = "SELECT v FROM t WHERE k = 1 AND c = 1 USING TIMEOUT 5s";
    let terms = |session: &Session| {
        let parsed = crate::parse(select, &crate::Limits::default()).unwrap();
        let outline = Outline::of_statement(&parsed.statement, Some("ks"), |_| None);
        fixture.executor.terms(session, &outline)
    };
    let times = RequestTimes { arrived, read, unread: None };
    let deadline = |session: &Session| terms(session).deadline(times);
    let (patient, timeout) = (Session::new(), Duration::from_secs(5));
    assert_eq!(deadline(&patient), Some(read.after(timeout)));
    let refused = Session::new().with_throw_on_overload(true);
    assert_eq!(deadline(&refused), Some(arrived.after(timeout)));
    let ann = Session::new().with_user("ann");
    assert_eq!(terms(&ann).tenant, ann.tenant());
    assert_ne!(terms(&ann).tenant, terms(&patient).tenant);
}

/// Runs a query with this memory for answers.
fn query_within(
    fixture: &Fixture,
    bytes: usize,
    page_rows: Option<usize>,
) -> Result<Rows, CqlError> {
    // Fetched cells always have room.
    let budget = MemoryBudget::new(bytes + (1 << 20));
    let memory = Some(Arc::new(AnswerMemory::new(&budget, bytes / 2)));
    let grant = Grant { memory, ..Grant::default() };
    let parameters = Parameters { page_rows, grant, ..Parameters::default() };
    let query = fixture.executor.query(&fixture.session, "SELECT v FROM large", &parameters);
    match block_on(query)? {
        Response::Rows(rows) => Ok(rows),
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_keep_to_their_memory() {
    const ROWS: usize = 50;
    let fixture = Fixture::new();
    fixture.query("CREATE TABLE large (k int PRIMARY KEY, v text)");
    for key in 0..ROWS {
        fixture.query(&format!("INSERT INTO large (k, v) VALUES ({key}, '{key:0>10000}')"));
    }
    let all = query_within(&fixture, 8 << 20, None).unwrap();
    assert_eq!(all.rows.len(), ROWS);
    let error = query_within(&fixture, 256 << 10, None).unwrap_err();
    assert_eq!(error.kind(), &CqlErrorKind::Invalid, "half of it is too little: {error}");
    assert!(error.message().contains(".large)"), "it names the table: {error}");
    // A page ends when memory runs out.
    let page = query_within(&fixture, 256 << 10, Some(ROWS)).unwrap();
    assert!((10..=14).contains(&page.rows.len()), "{}", page.rows.len());
    assert!(page.paging_state.is_some());
    let page = query_within(&fixture, 0, Some(ROWS)).unwrap();
    assert_eq!(page.rows.len(), 1, "a page has a row at least");
}

#[test]
fn memory_of_levels_limits_their_answers() {
    let fixture = Fixture::new();
    fixture.query("CREATE TABLE large (k int PRIMARY KEY, v text)");
    for key in 0..20 {
        fixture.query(&format!("INSERT INTO large (k, v) VALUES ({key}, '{key:0>10000}')"));
    }
    fixture.query("ALTER SERVICE LEVEL default WITH memory_soft = 60000 AND memory_hard = 100000");
    let error = query_within(&fixture, 8 << 20, None).unwrap_err();
    assert_eq!(error.kind(), &CqlErrorKind::Invalid);
    assert!(error.message().contains("memory_hard of the service level default"), "{error}");
    let page = query_within(&fixture, 8 << 20, Some(20)).unwrap();
    assert!((9..=10).contains(&page.rows.len()), "{}", page.rows.len());

    let memory = AnswerMemory::new(&MemoryBudget::new(1 << 20), 1 << 20);
    let level = fixture.executor.db().levels().effective(&[] as &[&str]);
    memory.apply(&level);
    memory.grow_to(50_000, 0).unwrap();
    assert_eq!(memory.beyond_soft_limit(), None);
    memory.grow_to(90_000, 0).unwrap();
    assert_eq!(memory.beyond_soft_limit(), Some((90_000, 60_000)));
    fixture.query("ALTER SERVICE LEVEL default WITH memory_hard = null AND memory_soft = null");
    assert_eq!(query_within(&fixture, 8 << 20, None).unwrap().rows.len(), 20);
}

/// Fetched cells that are not yet returned count as well.
#[test]
fn fetched_cells_are_charged() {
    let budget = MemoryBudget::new(104_000);
    let memory = AnswerMemory::new(&budget, 50_000);
    memory.grow_to(1_000, 90_000).unwrap();
    assert_eq!(budget.used(), 91_000, "an eighth is left to smaller answers");
    assert!(memory.grow_to(20_000, 90_000).is_err());
    assert!(memory.grow_to(60_000, 0).is_err(), "the result is too long");
    memory.grow_to(20_000, 0).unwrap();
}

/// A page of many rows may exceed the maximum by one row; a row of its own may not.
#[test]
fn long_row_is_charged_before_it_is_made() {
    let budget = MemoryBudget::new(100_000);
    let memory = AnswerMemory::new(&budget, 30_000);
    memory.grow_by_row(25_000, 20_000).unwrap();
    assert_eq!(budget.used(), 45_000);
    let error = memory.grow_by_row(0, 30_001).unwrap_err();
    assert_eq!(error.kind(), &CqlErrorKind::Invalid, "{error}");
}

#[test]
fn kept_results_are_charged_beside_the_answer() {
    let budget = MemoryBudget::new(100_000);
    let memory = AnswerMemory::new(&budget, 60_000);
    memory.keep(40_000).unwrap();
    assert_eq!(budget.used(), 40_000);
    memory.grow_to(20_000, 10_000).unwrap();
    assert_eq!(budget.used(), 70_000);
    assert!(memory.grow_to(20_001, 0).is_err());
    memory.keep(0).unwrap();
    memory.grow_to(60_000, 0).unwrap();
}

/// Its elements are decoded and encoded in one go, on a thread that others wait for.
#[test]
fn statement_yields_before_it_works_on_a_long_collection() {
    static YIELDS: AtomicU32 = AtomicU32::new(0);
    let db = Db::builder().clock(Arc::new(StillClock)).in_memory();
    let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
    let fixture = Fixture { executor, session: Session::new() };
    fixture.query("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
    fixture.query("CREATE TABLE ks.lists (k int PRIMARY KEY, l list<int>)");
    for (k, len) in [(1, 100), (2, 60_000)] {
        let list = vec!["7"; len].join(", ");
        fixture.query(&format!("INSERT INTO ks.lists (k, l) VALUES ({k}, [{list}])"));
    }
    let yields = |text: &str| {
        let yield_now: carnet_base::YieldNow = || {
            YIELDS.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(()))
        };
        let grant = Grant { yield_now: Some(yield_now), ..Grant::default() };
        let parameters = Parameters { grant, ..Parameters::default() };
        let before = YIELDS.load(Ordering::Relaxed);
        block_on(fixture.executor.query(&fixture.session, text, &parameters)).unwrap();
        YIELDS.load(Ordering::Relaxed) - before
    };
    assert_eq!(yields("SELECT l FROM ks.lists WHERE k = 1"), 0);
    assert_eq!(yields("SELECT l FROM ks.lists WHERE k = 2"), 1);
    assert_eq!(yields("UPDATE ks.lists SET l[0] = 8 WHERE k = 1"), 0);
    assert_eq!(yields("UPDATE ks.lists SET l[0] = 8 WHERE k = 2"), 1);
}

/// Clock whose time slices never end.
#[derive(Debug)]
struct StillClock;

impl Clock for StillClock {
    fn now(&self) -> Moment {
        Moment::default()
    }

    fn wall(&self) -> WallTime {
        WallTime(1_700_000_000_000_000)
    }
}

/// Each `LET` of a transaction is charged until the transaction ends.
#[test]
fn rows_of_lets_are_charged_together() {
    let fixture = Fixture::new();
    fixture.query("CREATE TABLE large (k int PRIMARY KEY, v text)");
    let long = "x".repeat(100_000);
    fixture.query(&format!("INSERT INTO large (k, v) VALUES (1, '{long}')"));
    let budget = MemoryBudget::new(8 << 20);
    let run = |lets: usize, result: &str| {
        let lets: String =
            (0..lets).map(|at| format!("LET r{at} = (SELECT v FROM large WHERE k = 1);")).collect();
        let text = format!("BEGIN TRANSACTION {lets} {result} COMMIT TRANSACTION");
        let memory = Some(Arc::new(AnswerMemory::new(&budget, 1 << 20)));
        let grant = Grant { memory, ..Grant::default() };
        let parameters = Parameters { grant, ..Parameters::default() };
        block_on(fixture.executor.query(&fixture.session, &text, &parameters))
    };
    run(9, "SELECT r8.v;").unwrap();
    for (lets, result) in [(11, "SELECT r0.v;"), (9, "SELECT r0.v, r1.v;")] {
        let error = run(lets, result).unwrap_err();
        assert!(error.message().contains("memory that one answer may have"), "{error}");
    }
    assert_eq!(budget.used(), 0);
}

#[test]
fn answer_waits_for_no_memory_of_others() {
    let budget = MemoryBudget::new(100_000);
    let _others = budget.charge(90_000).unwrap();
    let memory = AnswerMemory::new(&budget, 100_000);
    memory.grow_to(10_000, 0).unwrap();
    let error = memory.grow_to(20_000, 0).unwrap_err();
    assert!(matches!(error.kind(), CqlErrorKind::Overloaded { .. }), "{error}");
    assert!(error.message().contains("try again after"), "{error}");
}

#[test]
fn large_answers_leave_memory_to_small_ones() {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    let budget = MemoryBudget::new(16 * MIB);
    let answer = || AnswerMemory::new(&budget, 16 * MIB);
    let (large, medium, small) = (answer(), answer(), answer());
    let is_full = |answer: &AnswerMemory, bytes| {
        let error = answer.grow_to(bytes, 0).unwrap_err();
        matches!(error.kind(), CqlErrorKind::Overloaded { .. })
    };
    large.grow_to(12 * MIB, 0).unwrap();
    assert!(is_full(&large, 12 * MIB + 16 * KIB));
    let mediums: Vec<AnswerMemory> = (0..2).map(|_| answer()).collect();
    mediums.iter().for_each(|medium| medium.grow_to(MIB, 0).unwrap());
    assert!(is_full(&medium, 65 * KIB));
    let smalls: Vec<AnswerMemory> = (0..32).map(|_| answer()).collect();
    for other in &smalls {
        assert!(AnswerMemory::fits_small(&budget));
        other.grow_to(64 * KIB, 0).unwrap();
    }
    assert!(is_full(&small, 16 * KIB) && !AnswerMemory::fits_small(&budget));
    drop((large, mediums, smalls));
    assert_eq!(budget.used(), 0);
}

#[test]
fn deleted_range_conflicts_with_insert_into_it() {
    let insert = "INSERT INTO t (k, c, v) VALUES (1, 50, 2)";
    let is_refused = |delete| is_refused(Isolation::Snapshot, &[delete], insert);
    assert!(is_refused("DELETE FROM t WHERE k = 1"));
    assert!(is_refused("DELETE FROM t WHERE k = 1 AND c > 0"));
    assert!(!is_refused("DELETE FROM t WHERE k = 1 AND c < 2"));
}

#[test]
fn condition_holds_until_commit() {
    let change = "UPDATE t SET s = 2 WHERE k = 1";
    let is_refused = |update| is_refused(Isolation::Snapshot, &[update], change);
    assert!(is_refused("UPDATE t SET v = 2 WHERE k = 1 AND c = 1 IF s = 1"));
    assert!(!is_refused("UPDATE t SET v = 2 WHERE k = 1 AND c = 1"));
    assert!(!is_refused("UPDATE t SET v = 2 WHERE k = 1 AND c = 1 IF v = 1"));
}

/// Returns the values of `c` for which a change or insertion of that row makes the transaction of a
/// `SELECT` conflict.
fn depends_on(select: &str, candidates: &[i32]) -> Vec<i32> {
    let write = "INSERT INTO t (k, c, v, s) VALUES (9, 9, 9, 9)";
    let refuses = |c: &&i32| {
        let change = format!("INSERT INTO t (k, c, v) VALUES (1, {c}, 99)");
        is_refused(Isolation::StrictSerializable, &[select, write], &change)
    };
    candidates.iter().filter(refuses).copied().collect()
}

#[test]
fn limit_bounds_the_read_set() {
    let around = [0, 1, 2, 3, 39, 41];
    assert_eq!(depends_on("SELECT * FROM t WHERE k = 1 LIMIT 1", &around), [0, 1]);
    assert_eq!(depends_on("SELECT * FROM t WHERE k = 1 LIMIT 2", &around), [0, 1, 2]);
    assert_eq!(depends_on("SELECT * FROM t LIMIT 1", &around), [0, 1]);
    let reverse = "SELECT * FROM t WHERE k = 1 ORDER BY c DESC LIMIT 2";
    assert_eq!(depends_on(reverse, &around), [39, 41]);
    assert_eq!(depends_on("SELECT * FROM t WHERE k = 1", &around), around);
}

#[test]
fn limit_bounds_the_read_set_of_filtered_rows() {
    let around = [0, 5, 20, 21, 22, 36, 38, 39, 41];
    let forward = "SELECT * FROM t WHERE k = 1 AND v > 20 LIMIT 1 ALLOW FILTERING";
    assert_eq!(depends_on(forward, &around), [0, 5, 20, 21]);
    let reverse = "SELECT * FROM t WHERE k = 1 AND v < 38 ORDER BY c DESC LIMIT 2 ALLOW FILTERING";
    assert_eq!(depends_on(reverse, &around), [36, 38, 39, 41]);
}

#[test]
fn limit_bounds_the_read_set_of_named_rows() {
    let around = [1, 2, 3, 4];
    let named = "SELECT * FROM t WHERE k = 1 AND c IN (1, 2, 3) LIMIT 1";
    assert_eq!(depends_on(named, &around), [1]);
    let filtered =
        "SELECT * FROM t WHERE k = 1 AND c IN (1, 2, 3, 4) AND v > 1 LIMIT 1 ALLOW FILTERING";
    assert_eq!(depends_on(filtered, &around), [1, 2]);
    let per_partition = "SELECT * FROM t WHERE k IN (1, 2) PER PARTITION LIMIT 1 LIMIT 1";
    assert_eq!(depends_on(per_partition, &[0, 1, 2]), [0, 1]);
}

/// A merge reads each partition up to its first row that was not returned.
#[test]
fn limit_bounds_the_read_set_of_merged_partitions() {
    let around = [0, 1, 2, 3, 38, 39, 41];
    let forward = "SELECT * FROM t WHERE k IN (1, 2) ORDER BY c LIMIT 2";
    assert_eq!(depends_on(forward, &around), [0, 1, 2]);
    let reverse = "SELECT * FROM t WHERE k IN (2, 1) ORDER BY c DESC LIMIT 2";
    assert_eq!(depends_on(reverse, &around), [39, 41]);
    let per_partition = "SELECT * FROM t WHERE k IN (1, 2) ORDER BY c PER PARTITION LIMIT 1";
    assert!(!depends_on(per_partition, &around).contains(&39));
}

/// A row of static columns only implies that its partition has no other row.
#[test]
fn static_row_depends_on_its_whole_partition() {
    let fixture = Fixture::new();
    fixture.query("INSERT INTO t (k, s) VALUES (2, 2)");
    block_on(async {
        let tx = fixture.executor.db().transaction().begin_async().await.unwrap();
        fixture.run_in(&tx, "SELECT * FROM t WHERE k = 2 LIMIT 1").await;
        fixture.run_in(&tx, "INSERT INTO t (k, c, v, s) VALUES (9, 9, 9, 9)").await;
        let parameters = Parameters::default();
        let insert = "INSERT INTO t (k, c, v) VALUES (2, 7, 7)";
        fixture.executor.query(&fixture.session, insert, &parameters).await.unwrap();
        assert!(tx.commit().await.is_err());
    });
}

#[test]
fn another_server_names_the_holder_of_a_transaction() {
    let holder = Fixture::new();
    let Response::Rows(rows) = holder.query("START DETACHED TRANSACTION") else { panic!("a row") };
    let id = Uuid::from_slice(rows.values()[0][0].as_ref().unwrap()).unwrap();
    let node = NodeInfo::local(Uuid::from_u64_pair(3, 4));
    let other = Executor::new(holder.executor.db().clone(), node);
    let peer = Peer {
        forward: None,
        host_id: holder.executor.node().host_id,
        address: "10.0.0.7:9042".parse().unwrap(),
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        consistency: None,
    };
    *lock(&other.shared.peers) = [peer].into();
    let text = format!("COMMIT TRANSACTION {id}");
    let refused = block_on(other.query(&Session::new(), &text, &Parameters::default()));
    let error = refused.unwrap_err();
    assert_eq!(
        error.message(),
        format!("transaction {id} is held by the server 10.0.0.7:9042: send its statements there")
    );
}
