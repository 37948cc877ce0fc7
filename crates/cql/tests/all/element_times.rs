//! Elements of collections that expire alone, beside a model, and the times that a `SELECT` returns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use carnet::{Db, Durability, Uuid, block_on};
use carnet_base::{Clock, Moment, Rng, SeededRng, WallTime};
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{Executor, Parameters, Session};
use carnet_storage::disk::sim::SimDisk;

/// Wall time at which a clock begins.
const BEGIN_SECONDS: i64 = 1_700_000_000;

const CREATE: &str = "CREATE TABLE ks.t (k int, c int, m map<int, text>, l list<int>, s set<int>, \
                      v int, f frozen<set<int>>, u point, t set<int> STATIC, PRIMARY KEY (k, c))";

/// Clock that stands still until it is moved, in seconds.
#[derive(Default)]
struct Manual(AtomicI64);

impl Manual {
    fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn seconds(&self) -> i64 {
        BEGIN_SECONDS + self.0.load(Ordering::SeqCst)
    }
}

impl Clock for Manual {
    fn now(&self) -> Moment {
        Moment(Duration::from_secs(self.0.load(Ordering::SeqCst).unsigned_abs()))
    }

    fn wall(&self) -> WallTime {
        WallTime(self.seconds() * 1_000_000)
    }
}

struct Client {
    executor: Executor,
    session: Session,
    clock: Arc<Manual>,
}

impl Client {
    fn new(disk: Option<&SimDisk>, clock: &Arc<Manual>) -> Self {
        let builder = Db::builder().durability(Durability::Always);
        let builder = builder.retention(Duration::from_secs(600));
        let builder = builder.clock(Arc::clone(clock) as Arc<dyn Clock>);
        let db = match disk {
            Some(disk) => builder.open_on(Arc::new(disk.clone())).unwrap(),
            None => builder.in_memory(),
        };
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        Self { executor, session: Session::new(), clock: Arc::clone(clock) }
    }

    fn with_table(disk: Option<&SimDisk>) -> Self {
        let client = Self::new(disk, &Arc::default());
        client.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        client.run("CREATE TYPE ks.point (x int, y int)");
        client.run(CREATE);
        client
    }

    /// A client in memory and one on disk.
    fn both() -> [Self; 2] {
        [Self::with_table(None), Self::with_table(Some(&SimDisk::new(1)))]
    }

    fn run(&self, statement: &str) -> Response {
        block_on(self.executor.query(&self.session, statement, &Parameters::default()))
            .unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    fn rows(&self, statement: &str) -> Rows {
        let Response::Rows(rows) = self.run(statement) else { panic!("{statement}") };
        rows
    }

    /// Returns a row's columns as text.
    fn row(&self, select: &str) -> Vec<String> {
        let rows = self.rows(select);
        let Some(row) = rows.values().into_iter().next() else { return Vec::new() };
        let shown = rows.columns.iter().zip(&row).map(|(column, bytes)| {
            bytes.as_ref().map_or_else(
                || "null".to_owned(),
                |bytes| column.data_type.deserialize_result(bytes).unwrap().to_literal(),
            )
        });
        shown.collect()
    }
}

#[test]
fn elements_expire_alone() {
    for client in Client::both() {
        client.run("INSERT INTO ks.t (k, c, m, l) VALUES (1, 1, {1: 'a', 2: 'b'}, [1])");
        client.run("UPDATE ks.t USING TTL 10 SET m[2] = 'new', m[3] = 'c', l = l + [2] WHERE k = 1 AND c = 1");
        client.run(
            "UPDATE ks.t USING TTL 20 SET m = m + {-4: 'd'}, s = {5, -5} WHERE k = 1 AND c = 1",
        );
        client.run("UPDATE ks.t USING TTL 30 SET l = [0] + l, t = t + {1} WHERE k = 1 AND c = 1");
        client.run("UPDATE ks.t USING TTL 10 SET u.x = 1, u.y = 2 WHERE k = 1 AND c = 1");
        client.run("UPDATE ks.t SET u.y = 3 WHERE k = 1 AND c = 1");
        let select = "SELECT m, l, s, t, u FROM ks.t WHERE k = 1 AND c = 1";
        let ttl = "SELECT ttl(m), ttl(l), ttl(s), ttl(u), ttl(m[2]), ttl(m[9]), ttl(u.x), ttl(f) \
                   FROM ks.t WHERE k = 1 AND c = 1";
        let times = [
            "[20, null, 10, 10]",
            "[30, null, 10]",
            "[20, 20]",
            "[10, null]",
            "10",
            "null",
            "10",
            "null",
        ];
        assert_eq!(client.row(ttl), times);
        client.clock.pass(9);
        let all = ["{-4: 'd', 1: 'a', 2: 'new', 3: 'c'}", "[0, 1, 2]", "{-5, 5}", "{1}"];
        assert_eq!(client.row(select), [&all[..], &["{x: 1, y: 3}"]].concat());
        client.clock.pass(1);
        let left = ["{-4: 'd', 1: 'a'}", "[0, 1]", "{-5, 5}", "{1}", "{x: null, y: 3}"];
        assert_eq!(client.row(select), left, "the older value of a key does not come back");
        // Every read path sees the same elements.
        for select in [
            "SELECT m, l, s, t, u FROM ks.t WHERE k = 1",
            "SELECT m, l, s, t, u FROM ks.t WHERE k = 1 ORDER BY c DESC",
            "SELECT m, l, s, t, u FROM ks.t WHERE k IN (1, 7) AND c IN (1, 2)",
            "SELECT m, l, s, t, u FROM ks.t",
            "SELECT m, l, s, t, u FROM ks.t WHERE m CONTAINS 'a' ALLOW FILTERING",
        ] {
            assert_eq!(client.row(select), left, "{select}");
        }
        for absent in ["m CONTAINS 'new'", "m CONTAINS KEY 2", "l CONTAINS 2", "m[3] = 'c'"] {
            let select = format!("SELECT k FROM ks.t WHERE {absent} ALLOW FILTERING");
            assert!(client.rows(&select).rows.is_empty(), "{absent}");
        }
        let condition =
            "UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1 IF m[3] = null AND m[-4] = 'd'";
        assert_eq!(client.rows(condition).values()[0][0].as_deref(), Some(&[1][..]));
        // An index counts the elements that are left, which keep their expiry.
        client.run("UPDATE ks.t SET l[1] = 7 WHERE k = 1 AND c = 1");
        assert_eq!(client.row("SELECT ttl(l) FROM ks.t WHERE k = 1 AND c = 1"), ["[20, null]"]);
        client.clock.pass(20);
        let last = ["{1: 'a'}", "[7]", "null", "null", "{x: null, y: 3}"];
        assert_eq!(client.row(select), last);
        // A row of expiring elements only ceases to exist with the last of them.
        client.run("UPDATE ks.t USING TTL 10 SET m[1] = 'x' WHERE k = 2 AND c = 1");
        client.run("UPDATE ks.t USING TTL 5 SET s = s + {1} WHERE k = 2 AND c = 1");
        client.clock.pass(9);
        assert_eq!(client.rows("SELECT k FROM ks.t WHERE k = 2").rows.len(), 1);
        client.clock.pass(1);
        assert!(client.rows("SELECT k FROM ks.t WHERE k = 2").rows.is_empty());
    }
}

#[test]
fn default_of_a_table_applies_to_elements() {
    let client = Client::with_table(Some(&SimDisk::new(1)));
    client.run("CREATE TABLE ks.d (k int PRIMARY KEY, s set<int>) WITH default_time_to_live = 10");
    client.run("UPDATE ks.d SET s = s + {1} WHERE k = 1");
    client.run("UPDATE ks.d USING TTL 0 SET s = s + {2} WHERE k = 1");
    assert_eq!(client.row("SELECT ttl(s) FROM ks.d WHERE k = 1"), ["[10, null]"]);
    client.clock.pass(10);
    assert_eq!(client.row("SELECT s FROM ks.d WHERE k = 1"), ["{2}"]);
}

#[test]
fn reads_of_the_past_see_elements_that_have_expired_since() {
    let client = Client::with_table(None);
    client.clock.pass(5);
    client.run("UPDATE ks.t USING TTL 60 SET m[1] = 'a' WHERE k = 1 AND c = 1");
    client.run("UPDATE ks.t USING TTL 50 SET m[2] = 'b' WHERE k = 1 AND c = 1");
    for c in 2..4 {
        client.clock.pass(100);
        client.run(&format!("INSERT INTO ks.t (k, c) VALUES (2, {c})"));
    }
    let past = |seconds: i64| {
        let millis = (BEGIN_SECONDS + seconds) * 1_000;
        client.row(&format!("SELECT m, ttl(m) FROM ks.t WHERE k = 1 AND c = 1 AS OF '{millis}'"))
    };
    assert_eq!(past(50), ["{1: 'a', 2: 'b'}", "[15, 5]"]);
    assert_eq!(past(60), ["{1: 'a'}", "[5]"]);
    assert!(past(65).is_empty());
}

#[test]
fn write_times_are_those_of_the_last_write() {
    for client in Client::both() {
        let time = |seconds: i64| ((BEGIN_SECONDS + seconds) * 1_000_000).to_string();
        let row =
            |select: &str| client.row(&format!("SELECT {select} FROM ks.t WHERE k = 1 AND c = 1"));
        client.run("INSERT INTO ks.t (k, c, v, f, m) VALUES (1, 1, 1, {1}, {1: 'a'})");
        client.clock.pass(1);
        client.run("UPDATE ks.t SET m[-2] = 'b', u.y = 1, t = {3} WHERE k = 1 AND c = 1");
        client.clock.pass(1);
        client.run("UPDATE ks.t SET m[3] = 'c', l = [1, 2] WHERE k = 1 AND c = 1");
        client.clock.pass(1);
        // A statement that reads the row keeps the write times of all other columns and elements.
        client.run("UPDATE ks.t SET l[1] = 9 WHERE k = 1 AND c = 1");
        client.run("UPDATE ks.t SET f = {2} WHERE k = 1 AND c = 1 IF v = 1");
        let check = || {
            let both = |a: i64, b: i64| format!("[{}, {}]", time(a), time(b));
            assert_eq!(
                row("writetime(v), writetime(f), maxwritetime(f)"),
                [time(0), time(3), time(3)]
            );
            assert_eq!(row("writetime(m)"), [format!("[{}, {}, {}]", time(1), time(0), time(2))]);
            assert_eq!(row("maxwritetime(m), writetime(m[1])"), [time(2), time(0)]);
            assert_eq!(row("writetime(l)"), [both(2, 3)]);
            assert_eq!(
                row("writetime(u), writetime(u.y)"),
                [format!("[null, {}]", time(1)), time(1)]
            );
            assert_eq!(
                row("writetime(t), writetime(m[9])"),
                [format!("[{}]", time(1)), "null".into()]
            );
        };
        check();
        if client.executor.db().metrics().is_some() {
            for _ in 0..2 {
                client.clock.pass(20);
                client.run("INSERT INTO ks.t (k, c) VALUES (2, 1)");
                client.executor.db().flush().unwrap();
                client.executor.db().compact().unwrap();
                check();
            }
        }
    }
}

/// Elements with the second at which they expire.
type Model<T> = BTreeMap<i32, (T, i64)>;

const NEVER: i64 = i64::MAX;

/// Random changes of a map, a set and a list with times to live, across flushes, compactions and
/// crashes, beside a model.
#[test]
fn random_changes_agree_with_a_model() {
    for seed in 0..10 {
        let (mut disk, clock) = (SimDisk::new(seed), Arc::new(Manual::default()));
        drop(Client::with_table(Some(&disk)));
        let mut client = Client::new(Some(&disk), &clock);
        let mut rng = SeededRng::new(seed);
        let mut map: Model<String> = Model::new();
        let mut set: Model<()> = Model::new();
        let mut list: Vec<(i32, i64)> = Vec::new();
        for step in 0..200 {
            clock.pass(i64::try_from(rng.below(3)).unwrap());
            let now = clock.seconds();
            map.retain(|_, (_, expiry)| *expiry > now);
            set.retain(|_, (_, expiry)| *expiry > now);
            list.retain(|(_, expiry)| *expiry > now);
            let number = |rng: &mut SeededRng| i32::try_from(rng.below(8)).unwrap() - 4;
            let (a, b) = (number(&mut rng), number(&mut rng));
            let seconds = i64::try_from(rng.below(4) * rng.below(8)).unwrap();
            let expiry = if seconds == 0 { NEVER } else { now + seconds };
            let set_to = |what: String| {
                format!("UPDATE ks.t USING TTL {seconds} SET {what} WHERE k = 1 AND c = 1")
            };
            let statement = match rng.below(11) {
                0 => {
                    map.insert(a, (step.to_string(), expiry));
                    set_to(format!("m[{a}] = '{step}'"))
                }
                1 => {
                    map.insert(a, (step.to_string(), expiry));
                    map.insert(b, (String::new(), expiry));
                    if a == b {
                        set_to(format!("m = m + {{{a}: ''}}"))
                    } else {
                        set_to(format!("m = m + {{{a}: '{step}', {b}: ''}}"))
                    }
                }
                2 => {
                    map.retain(|key, _| *key != a && *key != b);
                    set_to(format!("m = m - {{{a}, {b}}}"))
                }
                3 => {
                    map = Model::from([(a, ("x".to_owned(), expiry))]);
                    set_to(format!("m = {{{a}: 'x'}}"))
                }
                4 => {
                    set.extend([(a, ((), expiry)), (b, ((), expiry))]);
                    set_to(format!("s += {{{a}, {b}}}"))
                }
                5 => {
                    set.remove(&a);
                    format!("DELETE s[{a}] FROM ks.t WHERE k = 1 AND c = 1")
                }
                6 => {
                    list.extend([(a, expiry), (b, expiry)]);
                    set_to(format!("l += [{a}, {b}]"))
                }
                7 => {
                    list.insert(0, (a, expiry));
                    set_to(format!("l = [{a}] + l"))
                }
                8 if !list.is_empty() => {
                    let index = usize::try_from(rng.below(list.len() as u64)).unwrap();
                    list[index] = (a, expiry);
                    set_to(format!("l[{index}] = {a}"))
                }
                9 => {
                    list.retain(|(value, _)| *value != a);
                    set_to(format!("l = l - [{a}]"))
                }
                _ if step % 5 == 0 => {
                    (map, set, list) = (Model::new(), Model::new(), Vec::new());
                    "DELETE FROM ks.t WHERE k = 1 AND c = 1".to_owned()
                }
                _ => {
                    (map, set) = (Model::new(), Model::new());
                    "DELETE m, s FROM ks.t WHERE k = 1 AND c = 1".to_owned()
                }
            };
            client.run(&statement);
            match rng.below(20) {
                0 | 1 => client.executor.db().flush().unwrap(),
                2 => client.executor.db().compact().unwrap(),
                3 => {
                    let crashed = disk.crash(&mut rng);
                    drop(std::mem::replace(&mut client, Client::new(Some(&crashed), &clock)));
                    disk = crashed;
                }
                _ => {}
            }
            let joined = |open: char, parts: Vec<String>, close: char| match parts.is_empty() {
                true => "null".to_owned(),
                false => format!("{open}{}{close}", parts.join(", ")),
            };
            let pair = |(key, (text, _)): (&i32, &(String, i64))| format!("{key}: '{text}'");
            let expected = [
                joined('{', map.iter().map(pair).collect(), '}'),
                joined('{', set.keys().map(i32::to_string).collect(), '}'),
                joined('[', list.iter().map(|(value, _)| value.to_string()).collect(), ']'),
            ];
            let select = "SELECT m, s, l FROM ks.t WHERE k = 1 AND c = 1";
            let found = client.row(select);
            let is_gone = found.is_empty() && expected.iter().all(|it| it == "null");
            assert!(
                is_gone || found == expected,
                "seed {seed}, step {step}: {statement}\n{found:?}\n{expected:?}"
            );
        }
    }
}
