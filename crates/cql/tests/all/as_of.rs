//! `AS OF`: reads of earlier states of a table.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet::{Db, Timestamp, Uuid, Value, WallTime, block_on};
use carnet_base::{Clock, Moment};
use carnet_cql::result::Response;
use carnet_cql::system::NodeInfo;
use carnet_cql::{Bound, CqlErrorKind, Executor, Parameters, Session, Values};

const MILLIS: i64 = 1_000;
/// The time 2026-11-21 17:00:00 UTC.
const BEGUN: i64 = 1_795_280_400_000 * MILLIS;

#[derive(Clone)]
struct Manual(Arc<Mutex<i64>>);

impl Clock for Manual {
    fn now(&self) -> Moment {
        Moment(Duration::from_micros((*self.0.lock().unwrap() - BEGUN).cast_unsigned()))
    }

    fn wall(&self) -> WallTime {
        WallTime(*self.0.lock().unwrap())
    }
}

struct Client {
    executor: Executor,
    session: Session,
    clock: Manual,
}

impl Client {
    /// Creates a table whose one row has the value 1 from 17:00:10 on, 2 from 17:00:20 on, and so
    /// forth.
    fn new() -> (Self, Vec<Timestamp>) {
        let clock = Manual(Arc::new(Mutex::new(BEGUN)));
        let db = Db::builder().clock(Arc::new(clock.clone())).in_memory();
        let executor = Executor::new(db, NodeInfo::local(Uuid::from_u64_pair(1, 2)));
        let client = Self { executor, session: Session::new(), clock };
        client.say("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}");
        client.say("USE ks");
        client.say("CREATE TABLE t (k int PRIMARY KEY, v int)");
        let commits = (1..=5).map(|value| {
            client.pass(10_000);
            client.say(&format!("INSERT INTO t (k, v) VALUES (1, {value})"));
            client.executor.db().published()
        });
        let commits = commits.collect();
        client.pass(10_000);
        (client, commits)
    }

    fn pass(&self, millis: i64) {
        *self.clock.0.lock().unwrap() += millis * MILLIS;
    }

    fn query(&self, text: &str, values: Vec<Bound>) -> String {
        let parameters = Parameters { values: Values::Positional(values), ..Parameters::default() };
        match block_on(self.executor.query(&self.session, text, &parameters)) {
            Ok(Response::Rows(rows)) => {
                let value = |bytes: &Option<carnet::Bytes>| match (bytes, &rows.columns[0]) {
                    (Some(bytes), column) if column.data_type == Value::Int(0).data_type() => {
                        Value::Int(i32::from_be_bytes(bytes[..].try_into().unwrap())).to_string()
                    }
                    (bytes, _) => format!("{bytes:?}"),
                };
                rows.values().iter().map(|row| value(&row[0])).collect::<Vec<_>>().join(",")
            }
            Ok(_) => "ok".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    fn say(&self, text: &str) -> String {
        self.query(text, Vec::new())
    }
}

fn bound(value: &Value) -> Vec<Bound> {
    vec![Bound::Bytes(value.serialize())]
}

#[test]
fn table_is_read_as_of_a_time() {
    let (client, commits) = Client::new();
    for (expected, commit) in (1..).zip(&commits) {
        let expected = format!("{expected}");
        assert_eq!(client.say(&format!("SELECT v FROM t WHERE k = 1 AS OF {commit}")), expected);
        let marker = "SELECT v FROM t WHERE k = 1 AS OF (bigint) ?";
        let number = commit.get().cast_signed();
        assert_eq!(client.query(marker, bound(&Value::Bigint(number))), expected);
    }
    for (second, expected) in [(9, ""), (10, "1"), (19, "1"), (20, "2"), (55, "5")] {
        let text = format!("SELECT v FROM t WHERE k = 1 AS OF '2026-11-21 17:00:{second:02}+0000'");
        assert_eq!(client.say(&text), expected, "{second}");
        let millis = BEGUN / MILLIS + second * 1000;
        let marker = "SELECT v FROM t WHERE k = 1 AS OF ?";
        assert_eq!(client.query(marker, bound(&Value::Timestamp(millis))), expected);
    }
    assert_eq!(client.say("SELECT v FROM t AS OF currentTimestamp()"), "5");
    assert_eq!(
        client.say("SELECT v FROM t WHERE k = 1 LIMIT 1 BYPASS CACHE AS OF '2026-11-21 17:00:30Z'"),
        "3"
    );
}

#[test]
fn table_is_read_with_its_earlier_columns() {
    let (client, commits) = Client::new();
    client.say("ALTER TABLE t ADD w int");
    client.say("UPDATE t SET w = 7 WHERE k = 1");
    assert_eq!(client.say("SELECT w FROM t"), "7");
    let gone = client.say(&format!("SELECT w FROM t AS OF {}", commits[4]));
    assert!(gone.contains('w') && gone != "7", "{gone}");
    assert_eq!(client.say(&format!("SELECT v FROM t AS OF {}", commits[2])), "3");
    assert_eq!(client.say("SELECT w FROM t"), "7", "and with its own ones now");
    client.say("DROP TABLE t");
    assert_eq!(client.say(&format!("SELECT v FROM t AS OF {}", commits[2])), "3");
}

#[test]
fn dropped_columns_are_read_in_the_past() {
    let (client, commits) = Client::new();
    client.say("ALTER TABLE t DROP v");
    assert_eq!(client.say("SELECT * FROM t"), "1", "the row was inserted, and has its key");
    assert_eq!(client.say(&format!("SELECT v FROM t AS OF {}", commits[4])), "5");
    client.say("ALTER TABLE t ADD v int");
    assert_eq!(client.say("SELECT v FROM t"), "None");
    client.say("UPDATE t SET v = 9 WHERE k = 1");
    assert_eq!(client.say("SELECT v FROM t"), "9");
    assert_eq!(client.say(&format!("SELECT v FROM t AS OF {}", commits[2])), "3");
}

#[test]
fn prepared_pages_stay_at_their_time() {
    let (client, _) = Client::new();
    for key in 2..=4 {
        client.say(&format!("INSERT INTO t (k, v) VALUES ({key}, {key})"));
    }
    client.pass(10_000);
    let then = BEGUN / MILLIS + 65_000;
    let text = "SELECT k FROM t AS OF ?";
    let prepared = block_on(client.executor.prepare(&client.session, text, None)).unwrap();
    let [marker] = prepared.markers.as_slice() else { panic!("{:?}", prepared.markers) };
    assert_eq!(marker.data_type, carnet::DataType::Timestamp);
    assert_eq!(marker.name, "[as_of]");
    let values = Values::Positional(bound(&Value::Timestamp(then)));
    let mut parameters = Parameters { values, page_rows: Some(1), ..Parameters::default() };
    let mut rows = 0;
    loop {
        let page = client.executor.execute(&client.session, &prepared, &parameters);
        let Ok(Response::Rows(page)) = block_on(page) else { panic!("there are rows") };
        rows += page.rows.len();
        parameters.paging_state.clone_from(&page.paging_state);
        if parameters.paging_state.is_none() {
            break;
        }
        client.say("DELETE FROM t WHERE k = 4");
    }
    assert_eq!(rows, 4);
    client.say("ALTER TABLE t ADD w int");
    let prepared = block_on(client.executor.prepare(&client.session, text, None)).unwrap();
    parameters.paging_state = None;
    let changed = client.executor.execute(&client.session, &prepared, &parameters);
    let changed = block_on(changed).unwrap_err();
    assert_eq!(*changed.kind(), CqlErrorKind::Invalid, "{changed}");
}

#[test]
fn invalid_times_are_refused() {
    let (client, commits) = Client::new();
    let last = commits[4];
    for (text, said) in [
        (format!("SELECT v FROM t AS OF {}", last.get() + 1), "ahead of the last commit"),
        (
            "SELECT v FROM t AS OF '2026-11-21 18:00:00Z'".to_owned(),
            "ahead of the database's clock",
        ),
        ("SELECT v FROM t AS OF '2026-11-21 16:00:00Z'".to_owned(), "is not known"),
        ("SELECT v FROM t AS OF -1".to_owned(), "expected a timestamp in the past"),
        ("SELECT v FROM t AS OF null".to_owned(), "null"),
        ("SELECT v FROM t AS OF v".to_owned(), "v"),
        ("SELECT v FROM t AS OF 'yesterday'".to_owned(), "yesterday"),
        (
            "BEGIN TRANSACTION SELECT v FROM t WHERE k = 1 AS OF 1; COMMIT TRANSACTION".to_owned(),
            "AS OF inside a transaction",
        ),
        (
            "BEGIN TRANSACTION LET a = (SELECT v FROM t WHERE k = 1 AS OF 1); COMMIT TRANSACTION"
                .to_owned(),
            "AS OF inside a transaction",
        ),
        ("SELECT key FROM system.local AS OF 1".to_owned(), "it has no past"),
    ] {
        let answer = client.say(&text);
        assert!(answer.contains(said), "{text}: {answer}");
    }
}

/// A long read is visible to an operator who looks for the cause of delayed garbage collection.
#[test]
fn open_transactions_are_a_table() {
    let (client, commits) = Client::new();
    let label = carnet::Label::new("ada@127.0.0.1:80", "REPORT");
    let report =
        client.executor.db().transaction().label(label).snapshot_as_of(commits[1]).unwrap();
    let session = Session::with_name("bob@127.0.0.1:81");
    let text = "SELECT client, read_timestamp, statement FROM system_views.transactions";
    let parameters = Parameters::default();
    let answer = client.executor.query(&session, text, &parameters);
    let Ok(Response::Rows(rows)) = block_on(answer) else { panic!("there are rows") };
    let text = |bytes: &Option<carnet::Bytes>| {
        String::from_utf8(bytes.as_ref().unwrap().to_vec()).unwrap()
    };
    let values = rows.values();
    let [first, second] = values.as_slice() else { panic!("{:?}", rows.values()) };
    assert_eq!((text(&first[0]), text(&first[2])), ("ada@127.0.0.1:80".into(), "REPORT".into()));
    assert_eq!(first[1].as_deref(), Some(&commits[1].get().to_be_bytes()[..]));
    // The query itself has an open transaction, too.
    assert_eq!((text(&second[0]), text(&second[2])), ("bob@127.0.0.1:81".into(), "SELECT".into()));
    drop(report);
}
