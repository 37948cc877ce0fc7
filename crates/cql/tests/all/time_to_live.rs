//! Values that expire: `USING TTL`, `default_time_to_live` and `TTL()`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use carnet::{Bytes, Db, Durability, Uuid, block_on};
use carnet_base::{Clock, Moment, WallTime};
use carnet_cql::ast::BatchKind;
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{BatchItem, Bound, CqlError, Executor, Parameters, Session, Values};
use carnet_storage::disk::sim::SimDisk;

/// Wall time at which a clock begins.
const BEGIN_SECONDS: i64 = 1_700_000_000;

/// Clock that stands still until it is moved, in seconds.
#[derive(Default)]
struct Manual {
    now: AtomicI64,
    /// Seconds by which the wall clock is set ahead.
    ahead: AtomicI64,
}

impl Manual {
    fn pass(&self, seconds: i64) {
        self.now.fetch_add(seconds, Ordering::SeqCst);
    }

    fn set_ahead(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::SeqCst);
    }

    fn seconds(&self) -> i64 {
        self.now.load(Ordering::SeqCst)
    }
}

impl Clock for Manual {
    fn now(&self) -> Moment {
        Moment(Duration::from_secs(self.seconds().unsigned_abs()))
    }

    fn wall(&self) -> WallTime {
        let ahead = self.ahead.load(Ordering::SeqCst);
        WallTime((BEGIN_SECONDS + self.seconds() + ahead) * 1_000_000)
    }
}

struct Client {
    executor: Executor,
    session: Session,
    clock: Arc<Manual>,
}

impl Client {
    fn new(disk: Option<&SimDisk>, clock: &Arc<Manual>, retention: Duration) -> Self {
        let builder = Db::builder().durability(Durability::None).retention(retention);
        let builder = builder.clock(Arc::clone(clock) as Arc<dyn Clock>);
        let db = match disk {
            Some(disk) => builder.open_on(Arc::new(disk.clone())).unwrap(),
            None => builder.in_memory(),
        };
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        Self { executor, session: Session::new(), clock: Arc::clone(clock) }
    }

    fn create_tables(self) -> Self {
        self.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        self.run(
            "CREATE TABLE ks.t (k int, c int, a int, b int, s int STATIC, PRIMARY KEY (k, c))",
        );
        self
    }

    fn in_memory() -> Self {
        let clock = Arc::new(Manual::default());
        Self::new(None, &clock, Duration::from_secs(600)).create_tables()
    }

    fn on_disk(disk: &SimDisk) -> Self {
        let clock = Arc::new(Manual::default());
        Self::new(Some(disk), &clock, Duration::from_secs(600)).create_tables()
    }

    fn try_run(&self, statement: &str) -> Result<Response, CqlError> {
        block_on(self.executor.query(&self.session, statement, &Parameters::default()))
    }

    fn run(&self, statement: &str) -> Response {
        self.try_run(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    fn refused(&self, statement: &str) -> String {
        self.try_run(statement).expect_err(statement).message().to_owned()
    }

    /// Returns the rows of a query of `int` columns.
    fn numbers(&self, select: &str) -> Vec<Vec<Option<i32>>> {
        let Response::Rows(rows) = self.run(select) else { panic!("{select}") };
        numbers(&rows)
    }

    /// Returns the columns `a`, `b` and `s` of a row.
    fn row(&self, k: i32) -> Vec<Vec<Option<i32>>> {
        self.numbers(&format!("SELECT a, b, s FROM ks.t WHERE k = {k} AND c = 1"))
    }

    fn is_applied(&self, statement: &str) -> bool {
        let Response::Rows(rows) = self.run(statement) else { panic!("{statement}") };
        rows.values()[0][0].as_deref() == Some(&[1])
    }
}

fn numbers(rows: &Rows) -> Vec<Vec<Option<i32>>> {
    let number = |value: &Option<Bytes>| {
        value.as_ref().map(|it| i32::from_be_bytes(it[..].try_into().unwrap()))
    };
    rows.values().iter().map(|row| row.iter().map(number).collect()).collect()
}

#[test]
fn clients_time_replaces_the_clock() {
    let client = Client::in_memory();
    let run = |statement: &str, seconds: i64| {
        let now = Some(WallTime((BEGIN_SECONDS + seconds) * 1_000_000));
        let parameters = Parameters { now, ..Parameters::default() };
        block_on(client.executor.query(&client.session, statement, &parameters)).unwrap()
    };
    run("INSERT INTO ks.t (k, c, a) VALUES (1, 1, 1) USING TTL 20", 100);
    let left = |seconds| match run("SELECT TTL(a) FROM ks.t WHERE k = 1", seconds) {
        Response::Rows(Rows { rows, .. }) => rows.to_vec().first().map(|row| row[0].clone()),
        other => panic!("{other:?}"),
    };
    let seconds = |left: i32| Some(Some(Bytes::copy_from_slice(&left.to_be_bytes())));
    assert_eq!(left(110), seconds(10));
    assert_eq!(left(90), seconds(30));
    assert_eq!(left(120), None);

    let now = Some(WallTime((BEGIN_SECONDS + 200) * 1_000_000));
    let text = "INSERT INTO ks.t (k, c, a) VALUES (1, 1, 1) USING TTL 20".to_owned();
    let items = vec![BatchItem::Text { text, values: Values::default() }];
    let parameters = Parameters { now, ..Parameters::default() };
    block_on(client.executor.batch(&client.session, BatchKind::Logged, items, &parameters))
        .unwrap();
    assert_eq!(left(210), seconds(10));
}

/// The transaction reads at the moment of its first read.
#[test]
fn time_to_live_in_a_transaction_begins_with_its_statement() {
    let client = Client::on_disk(&SimDisk::new(1));
    client.run("START TRANSACTION");
    client.run("SELECT a FROM ks.t WHERE k = 1 AND c = 1");
    client.run("INSERT INTO ks.t (k, c, a) VALUES (1, 2, 2) USING TTL 100");
    client.run("SELECT TTL(a) FROM ks.t WHERE k = 1");
    client.clock.pass(4);
    client.run("INSERT INTO ks.t (k, c, a) VALUES (1, 1, 1) USING TTL 3");
    client.run("COMMIT");
    assert_eq!(client.numbers("SELECT TTL(a) FROM ks.t WHERE k = 1 AND c = 1"), [[Some(3)]]);
}

/// The machine's clock is set ahead, and corrected while the database is not open.
#[test]
fn time_to_live_never_goes_back_over_a_restart() {
    let disk = SimDisk::new(1);
    let client = Client::on_disk(&disk);
    client.run("INSERT INTO ks.t (k, c, a) VALUES (1, 1, 1) USING TTL 60");
    assert_eq!(client.numbers("SELECT TTL(a) FROM ks.t WHERE k = 1"), [[Some(60)]]);
    let clock = Arc::clone(&client.clock);
    clock.set_ahead(3_600);
    assert_eq!(client.numbers("SELECT a FROM ks.t WHERE k = 1"), [] as [[_; 1]; 0]);
    drop(client);
    clock.set_ahead(0);
    let client = Client::new(Some(&disk), &clock, Duration::from_secs(600));
    assert_eq!(client.numbers("SELECT a FROM ks.t WHERE k = 1"), [] as [[_; 1]; 0]);
    client.run("INSERT INTO ks.t (k, c, a) VALUES (1, 1, 2) USING TTL 60");
    clock.pass(60);
    let left = client.numbers("SELECT TTL(a) FROM ks.t WHERE k = 1");
    assert_eq!(left, [[Some(6)]], "until the machine's clock has caught up, time is slower");
}

#[test]
fn values_expire_at_their_second() {
    for client in [Client::in_memory(), Client::on_disk(&SimDisk::new(1))] {
        client.run("INSERT INTO ks.t (k, c, a, b) VALUES (1, 1, 1, 2) USING TTL 10");
        client.run("UPDATE ks.t USING TTL 20 SET b = 3 WHERE k = 1 AND c = 1");
        client.run("INSERT INTO ks.t (k, s) VALUES (1, 7) USING TTL 30");
        client.run("INSERT INTO ks.t (k, c, a) VALUES (2, 1, 1)");
        client.run("UPDATE ks.t USING TTL 10 SET a = 5 WHERE k = 2 AND c = 1");
        let ttl = "SELECT ttl(a), ttl(b), ttl(s) FROM ks.t WHERE k = 1 AND c = 1";
        assert_eq!(client.numbers(ttl), [[Some(10), Some(20), Some(30)]]);
        client.clock.pass(9);
        assert_eq!(client.row(1), [[Some(1), Some(3), Some(7)]]);
        assert_eq!(client.numbers(ttl), [[Some(1), Some(11), Some(21)]]);
        assert_eq!(client.row(2), [[Some(5), None, None]]);
        client.clock.pass(1);
        assert_eq!(client.row(1), [[None, Some(3), Some(7)]]);
        assert_eq!(client.numbers(ttl), [[None, Some(10), Some(20)]]);
        assert_eq!(client.row(2), [[None, None, None]], "the older value does not come back");
        client.clock.pass(10);
        assert!(client.row(1).is_empty(), "its marker and its columns have expired");
        let statics = "SELECT s FROM ks.t WHERE k = 1";
        assert_eq!(client.numbers(statics), [[Some(7)]]);
        client.clock.pass(10);
        assert!(client.numbers(statics).is_empty());
        assert_eq!(client.numbers("SELECT DISTINCT k FROM ks.t"), [[Some(2)]]);
        // A value that was written again does not expire.
        client.run("UPDATE ks.t USING TTL 10 SET a = 5 WHERE k = 3 AND c = 1");
        client.run("UPDATE ks.t SET a = 6 WHERE k = 3 AND c = 1");
        client.clock.pass(10);
        assert_eq!(client.row(3), [[Some(6), None, None]]);
    }
}

#[test]
fn tables_have_a_default() {
    let client = Client::in_memory();
    client.run("CREATE TABLE ks.d (k int PRIMARY KEY, a int) WITH default_time_to_live = 10");
    let ttl = |k: i32| client.numbers(&format!("SELECT ttl(a) FROM ks.d WHERE k = {k}"));
    client.run("INSERT INTO ks.d (k, a) VALUES (1, 1)");
    client.run("INSERT INTO ks.d (k, a) VALUES (2, 1) USING TTL 20");
    client.run("INSERT INTO ks.d (k, a) VALUES (3, 1) USING TTL 0");
    client.run("UPDATE ks.d SET a = 1 WHERE k = 4");
    let text = "INSERT INTO ks.d (k, a) VALUES (?, 1) USING TTL ?";
    let prepared = block_on(client.executor.prepare(&client.session, text, None)).unwrap();
    assert_eq!(prepared.markers[1].name, "[ttl]");
    let int = |number: i32| Bound::Bytes(Bytes::copy_from_slice(&number.to_be_bytes()));
    for (k, bound) in [(5, Bound::Null), (6, Bound::Unset), (7, int(30))] {
        let values = Values::Positional(vec![int(k), bound]);
        let parameters = Parameters { values, ..Parameters::default() };
        block_on(client.executor.execute(&client.session, &prepared, &parameters)).unwrap();
    }
    let expected = [Some(10), Some(20), None, Some(10), None, Some(10), Some(30)];
    assert_eq!((1..=7).map(|k| ttl(k)[0][0]).collect::<Vec<_>>(), expected);
    client.run("ALTER TABLE ks.d WITH default_time_to_live = 0");
    client.run("INSERT INTO ks.d (k, a) VALUES (1, 2)");
    client.clock.pass(100);
    assert_eq!(client.numbers("SELECT k FROM ks.d WHERE k IN (1, 2, 3, 4, 5)").len(), 3);
}

#[test]
fn wrong_times_to_live_are_refused() {
    let client = Client::in_memory();
    let insert = |ttl: &str| format!("INSERT INTO ks.t (k, c, a) VALUES (1, 1, 1) USING TTL {ttl}");
    let message = client.refused(&insert("-1"));
    assert_eq!(message, "A TTL must be greater or equal to 0, but was -1");
    let message = client.refused(&insert("630720001"));
    assert_eq!(message, "ttl is too large. requested (630720001) maximum (630720000)");
    client.run(&insert("630720000"));
    let message = client.refused("SELECT ttl(k) FROM ks.t");
    assert!(message.contains("PRIMARY KEY part k"), "{message}");
    let counters = "CREATE TABLE ks.n (k int PRIMARY KEY, n counter) WITH default_time_to_live = 1";
    assert!(client.refused(counters).contains("counters"));
}

/// A lock with a lease: `INSERT … IF NOT EXISTS USING TTL`.
#[test]
fn conditions_see_no_expired_values() {
    for client in [Client::in_memory(), Client::on_disk(&SimDisk::new(2))] {
        let lock = |owner: i32| {
            format!("INSERT INTO ks.t (k, c, a) VALUES (1, 1, {owner}) IF NOT EXISTS USING TTL 10")
        };
        assert!(client.is_applied(&lock(1)));
        client.clock.pass(9);
        assert!(!client.is_applied(&lock(2)));
        let renew = "UPDATE ks.t USING TTL 10 SET a = 1 WHERE k = 1 AND c = 1 IF a = 1";
        assert!(client.is_applied(renew));
        client.clock.pass(9);
        assert!(!client.is_applied(&lock(2)));
        client.clock.pass(1);
        assert!(!client.is_applied(renew));
        assert!(client.is_applied(&lock(2)));
        assert_eq!(client.row(1), [[Some(2), None, None]]);
    }
}

#[test]
fn pages_of_one_query_see_one_moment() {
    let client = Client::in_memory();
    for c in 0..4 {
        client.run(&format!("INSERT INTO ks.t (k, c, a) VALUES (1, {c}, {c}) USING TTL 10"));
    }
    client.clock.pass(9);
    let mut state = None;
    let mut found = Vec::new();
    loop {
        let parameters =
            Parameters { page_rows: Some(1), paging_state: state, ..Parameters::default() };
        let select = "SELECT a, ttl(a) FROM ks.t WHERE k = 1";
        let answer = block_on(client.executor.query(&client.session, select, &parameters)).unwrap();
        let Response::Rows(rows) = answer else { panic!("rows") };
        found.extend(numbers(&rows));
        state = rows.paging_state;
        client.clock.pass(100);
        if state.is_none() {
            break;
        }
    }
    assert_eq!(found, (0..4).map(|c| vec![Some(c), Some(1)]).collect::<Vec<_>>());
    assert!(client.numbers("SELECT a FROM ks.t WHERE k = 1").is_empty());
}

#[test]
fn reads_of_the_past_see_values_that_have_expired_since() {
    let client = Client::in_memory();
    client.clock.pass(5);
    client.run("INSERT INTO ks.t (k, c, a) VALUES (1, 1, 1) USING TTL 60");
    client.clock.pass(5);
    client.run("INSERT INTO ks.t (k, c, a) VALUES (2, 1, 1)");
    client.clock.pass(100);
    client.run("INSERT INTO ks.t (k, c, a) VALUES (3, 1, 1)");
    assert!(client.row(1).is_empty());
    let past = |seconds: i64| {
        let millis = (BEGIN_SECONDS + seconds) * 1_000;
        client
            .numbers(&format!("SELECT a, ttl(a) FROM ks.t WHERE k = 1 AND c = 1 AS OF '{millis}'"))
    };
    assert_eq!(past(55), [[Some(1), Some(10)]]);
    assert!(past(65).is_empty());
}
