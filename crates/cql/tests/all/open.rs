//! Transactions that stay open between statements: joined by id, ended by limits, time, connections
//! and conflicts.

use std::future::{Future, pending, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use carnet::{Bytes, Db, Uuid, Value, block_on};
use carnet_admission::{AdmissionLimits, AdmissionRequest, Arrived, Class, Level, Workload};
use carnet_base::{Moment, VirtualTimer};
use carnet_cql::ast::BatchKind;
use carnet_cql::result::{Response, Rows};
use carnet_cql::system::NodeInfo;
use carnet_cql::{
    BatchItem, Bound, CqlError, CqlErrorKind, Executor, Grant, OpenLimits, Parameters, Session,
    Timeouts, Values,
};

const HOST: Uuid = Uuid::from_u64_pair(1, 2);

/// Executor with a table `t` of the rows k = v = 1, 2.
fn executor_on(db: Db) -> Executor {
    let executor = Executor::new(db, NodeInfo::local(HOST));
    let session = Session::new();
    for text in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy'}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
        "INSERT INTO ks.t (k, v) VALUES (1, 1)",
        "INSERT INTO ks.t (k, v) VALUES (2, 2)",
    ] {
        query(&executor, &session, text).unwrap();
    }
    executor
}

fn executor() -> Executor {
    executor_on(Db::builder().in_memory())
}

fn query(executor: &Executor, session: &Session, text: &str) -> Result<Response, CqlError> {
    block_on(executor.query(session, text, &Parameters::default()))
}

fn rows(response: Result<Response, CqlError>) -> Rows {
    let Ok(Response::Rows(rows)) = response else { panic!("no rows: {response:?}") };
    rows
}

fn int(bytes: Option<&Bytes>) -> i32 {
    i32::from_be_bytes(bytes.unwrap()[..].try_into().unwrap())
}

fn ints(response: Result<Response, CqlError>) -> Vec<i32> {
    rows(response).values().iter().map(|row| int(row[0].as_ref())).collect()
}

fn text(bytes: Option<&Bytes>) -> String {
    String::from_utf8(bytes.unwrap().to_vec()).unwrap()
}

/// Starts a detached transaction.
fn start(executor: &Executor, session: &Session) -> Uuid {
    started(query(executor, session, "START DETACHED TRANSACTION"))
}

fn started(response: Result<Response, CqlError>) -> Uuid {
    let rows = rows(response);
    assert_eq!(rows.columns[0].name, "transaction");
    Uuid::from_slice(rows.values()[0][0].as_ref().unwrap()).unwrap()
}

fn message(response: Result<Response, CqlError>) -> String {
    response.unwrap_err().message().to_owned()
}

fn value(executor: &Executor, k: i32) -> Vec<i32> {
    ints(query(executor, &Session::new(), &format!("SELECT v FROM ks.t WHERE k = {k}")))
}

#[test]
fn statements_of_any_connection_join_by_id() {
    let executor = executor();
    let (one, two) = (Session::new(), Session::new());
    let id = start(&executor, &one);
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = 1");
    query(&executor, &two, &write).unwrap();
    let read = format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}");
    assert_eq!(ints(query(&executor, &one, &read)), [7]);
    assert_eq!(value(&executor, 1), [1], "before the commit");
    // A statement that does not name it is not part of it.
    query(&executor, &one, "UPDATE ks.t SET v = 8 WHERE k = 2").unwrap();
    let batch = format!(
        "BEGIN BATCH USING TRANSACTION {id} AND TIMEOUT 5s INSERT INTO ks.t (k, v) VALUES (3, 3); \
         DELETE FROM ks.t WHERE k = 1; APPLY BATCH"
    );
    query(&executor, &one, &batch).unwrap();
    query(&executor, &two, &format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!((value(&executor, 1), value(&executor, 3)), (vec![], vec![3]));
    // The answer to a commit may be lost, and a driver sends it again.
    query(&executor, &two, &format!("COMMIT TRANSACTION {id}")).unwrap();
    assert!(message(query(&executor, &two, &read)).contains("was committed at"));
}

#[test]
fn prepared_statements_join_by_a_marker() {
    let executor = executor();
    let session = Session::new();
    let prepare = |text: &str| block_on(executor.prepare(&session, text, None)).unwrap();
    let start = prepare("START DETACHED TRANSACTION");
    assert_eq!(start.result[0].name, "transaction");
    let id = started(block_on(executor.execute(&session, &start, &Parameters::default())));
    let uuid = || Bound::Bytes(Value::Uuid(id).serialize());
    let with = |values: Vec<Bound>| Parameters {
        values: Values::Positional(values),
        ..Parameters::default()
    };
    let bound = |n: i32| Bound::Bytes(Value::Int(n).serialize());
    let insert = prepare("INSERT INTO ks.t (k, v) VALUES (?, ?) USING TTL ? AND TRANSACTION ?");
    let names: Vec<&str> = insert.markers.iter().map(|marker| marker.name.as_str()).collect();
    assert_eq!(names, ["k", "v", "[ttl]", "[transaction]"]);
    let values = with(vec![bound(5), bound(50), bound(100), uuid()]);
    block_on(executor.execute(&session, &insert, &values)).unwrap();
    let select = prepare("SELECT v FROM ks.t WHERE k = ? USING TRANSACTION ? AND TIMEOUT 5s");
    let found = block_on(executor.execute(&session, &select, &with(vec![bound(5), uuid()])));
    assert_eq!(ints(found), [50]);
    for missing in [Bound::Null, Bound::Unset] {
        let result = block_on(executor.execute(&session, &select, &with(vec![bound(5), missing])));
        assert!(message(result).contains("names no transaction"));
    }
    let item =
        |prepared, values| BatchItem::Prepared { prepared, values: Values::Positional(values) };
    let plain = prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)");
    let joined = |k| item(Arc::clone(&insert), vec![bound(k), bound(k), bound(100), uuid()]);
    let alone = item(plain, vec![bound(8), bound(8)]);
    let batch = |items| {
        let parameters = Parameters::default();
        block_on(executor.batch(&session, BatchKind::Logged, items, &parameters))
    };
    batch(vec![joined(6), joined(7)]).unwrap();
    assert!(message(batch(vec![joined(6), alone])).contains("the same transaction, or none"));
    let commit = prepare("COMMIT TRANSACTION ?");
    assert_eq!(value(&executor, 7), vec![0; 0]);
    block_on(executor.execute(&session, &commit, &with(vec![uuid()]))).unwrap();
    assert_eq!((value(&executor, 5), value(&executor, 7)), (vec![50], vec![7]));
}

#[test]
fn conflict_says_to_run_the_transaction_again() {
    let executor = executor();
    let session = Session::new();
    let id = start(&executor, &session);
    let read = format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}");
    assert_eq!(ints(query(&executor, &session, &read)), [1]);
    query(&executor, &session, "UPDATE ks.t SET v = 9 WHERE k = 1").unwrap();
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 2 WHERE k = 2");
    query(&executor, &session, &write).unwrap();
    let commit = format!("COMMIT TRANSACTION {id}");
    for _ in 0..2 {
        let error = query(&executor, &session, &commit).unwrap_err();
        assert_eq!(*error.kind(), CqlErrorKind::Aborted, "{error}");
        assert!(error.message().starts_with("aborted, run the transaction again: "), "{error}");
    }
    let outcome = rows(query(&executor, &session, &format!("SELECT outcome({id})")));
    assert_eq!(text(outcome.values()[0][0].as_ref()), "aborted");
    assert_eq!(value(&executor, 2), [2]);
    assert_eq!(executor.open_transactions().1.aborted, 1);
}

/// Neither end of a transaction is lost silently: the first says that it has ended already.
#[test]
fn commit_or_rollback_leaves_a_transaction_that_was_killed() {
    let executor = executor();
    for (first, is_refused) in [("COMMIT", true), ("ROLLBACK", false)] {
        let session = Session::new();
        let id = started(query(&executor, &session, "START TRANSACTION"));
        query(&executor, &Session::new(), &format!("KILL TRANSACTION {id}")).unwrap();
        for _ in 0..2 {
            let refused = message(query(&executor, &session, "SELECT v FROM ks.t WHERE k = 1"));
            assert!(refused.contains("send ROLLBACK before other statements"), "{refused}");
        }
        let ended = query(&executor, &session, first);
        assert_eq!(ended.is_err(), is_refused, "{first}: {ended:?}");
        assert_eq!(ints(query(&executor, &session, "SELECT v FROM ks.t WHERE k = 1")), [1]);
        assert!(query(&executor, &session, "ROLLBACK").is_err(), "none is open any more");
    }
}

#[test]
fn conflict_names_the_lost_row() {
    let executor = executor();
    let session = Session::new();
    let id = start(&executor, &session);
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = v + 1 WHERE k = 2");
    query(&executor, &session, &write).unwrap();
    query(&executor, &session, "UPDATE ks.t SET v = 9 WHERE k = 2").unwrap();
    let error = query(&executor, &session, &format!("COMMIT TRANSACTION {id}")).unwrap_err();
    let row = error.lost_row().unwrap();
    assert_eq!((&row.table[..], &row.key[..]), ("ks.t", "k = 2"));
    assert!(error.message().ends_with("lost row: ks.t k = 2"), "{error}");
}

#[test]
fn snapshot_isolation_does_not_check_reads() {
    let executor = executor();
    let session = Session::new();
    for (level, conflicts) in [("SNAPSHOT", false), ("SERIALIZABLE", true)] {
        let begin = format!("START DETACHED TRANSACTION ISOLATION LEVEL {level}");
        let id = started(query(&executor, &session, &begin));
        query(
            &executor,
            &session,
            &format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}"),
        )
        .unwrap();
        query(&executor, &session, "UPDATE ks.t SET v = 9 WHERE k = 1").unwrap();
        let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 2 WHERE k = 2");
        query(&executor, &session, &write).unwrap();
        let committed = query(&executor, &session, &format!("COMMIT TRANSACTION {id}"));
        assert_eq!(committed.is_err(), conflicts, "{level}: {committed:?}");
    }
}

#[test]
fn connection_ends_its_transaction() {
    let executor = executor();
    let session = Session::new();
    let id = started(query(&executor, &session, "START TRANSACTION"));
    assert!(session.is_in_transaction());
    query(&executor, &session, "UPDATE ks.t SET v = 7 WHERE k = 1").unwrap();
    assert_eq!(executor.open_transactions().0, 1);
    drop(session);
    assert_eq!(executor.open_transactions().0, 0);
    assert_eq!(executor.db().holders(), [], "the snapshot is released at once");
    let ended = message(query(&executor, &Session::new(), &format!("COMMIT TRANSACTION {id}")));
    assert!(ended.contains("was rolled back with its connection"), "{ended}");
}

#[test]
fn detached_transaction_outlives_its_connection() {
    let executor = executor();
    let session = Session::new();
    let id = start(&executor, &session);
    assert!(!session.is_in_transaction());
    drop(session);
    query(&executor, &Session::new(), &format!("ROLLBACK TRANSACTION {id}")).unwrap();
    // A rollback has no more effect.
    query(&executor, &Session::new(), &format!("ROLLBACK TRANSACTION {id}")).unwrap();
}

/// A statement of a connection never runs outside because its transaction is gone.
#[test]
fn connection_says_rollback_after_its_transaction_has_ended() {
    let executor = executor();
    let session = Session::new();
    let id = started(query(&executor, &session, "START TRANSACTION"));
    query(&executor, &Session::new(), &format!("KILL TRANSACTION {id}")).unwrap();
    let write = "UPDATE ks.t SET v = 7 WHERE k = 1";
    let refused = query(&executor, &session, write).unwrap_err();
    assert_eq!(*refused.kind(), CqlErrorKind::Aborted, "{refused}");
    let refused = refused.message().to_owned();
    assert!(refused.starts_with("aborted, run the transaction again: "), "{refused}");
    assert!(refused.contains("was rolled back by KILL TRANSACTION; send ROLLBACK"), "{refused}");
    assert_eq!(value(&executor, 1), [1]);
    assert!(!session.is_in_transaction());
    query(&executor, &session, "ROLLBACK").unwrap();
    query(&executor, &session, write).unwrap();
    assert_eq!(value(&executor, 1), [7]);
}

/// A driver's connection is shared: prepared statements of others do not become part of it.
#[test]
fn connection_takes_statements_as_text_only() {
    let executor = executor();
    let session = Session::new();
    let insert = "INSERT INTO ks.t (k, v) VALUES (9, 9)";
    let prepared = block_on(executor.prepare(&session, insert, None)).unwrap();
    query(&executor, &session, "START TRANSACTION").unwrap();
    let parameters = Parameters::default();
    let refused = block_on(executor.execute(&session, &prepared, &parameters));
    assert!(message(refused).contains("START DETACHED TRANSACTION"));
    let items = vec![BatchItem::Text { text: insert.into(), values: Values::default() }];
    let refused = block_on(executor.batch(&session, BatchKind::Logged, items, &parameters));
    assert!(message(refused).contains("START DETACHED TRANSACTION"));
    query(&executor, &session, "ROLLBACK").unwrap();
    block_on(executor.execute(&session, &prepared, &parameters)).unwrap();
}

#[test]
fn only_its_user_joins_a_transaction() {
    let executor = executor();
    let (ann, bob) = (Session::new().with_user("ann"), Session::new().with_user("bob"));
    let id = start(&executor, &ann);
    for text in [
        format!("SELECT v FROM ks.t USING TRANSACTION {id}"),
        format!("COMMIT TRANSACTION {id}"),
        format!("ROLLBACK TRANSACTION {id}"),
        format!("SELECT outcome({id})"),
    ] {
        for other in [&bob, &Session::new()] {
            let error = query(&executor, other, &text).unwrap_err();
            assert_eq!(*error.kind(), CqlErrorKind::Unauthorized, "{text}: {error}");
        }
    }
    query(&executor, &ann, &format!("COMMIT TRANSACTION {id}")).unwrap();
}

#[test]
fn numbers_are_limited_for_all_and_for_a_client() {
    let executor = executor();
    let limits = OpenLimits { transactions_max: 3, ..OpenLimits::default() };
    executor.set_open_limits(limits);
    let address = |last| Session::new().with_address(IpAddr::from([10, 0, 0, last]));
    let (one, same, other) = (address(1), address(1), address(2));
    start(&executor, &one);
    let id = start(&executor, &same);
    let refused = query(&executor, &one, "START TRANSACTION").unwrap_err();
    assert!(matches!(refused.kind(), CqlErrorKind::Overloaded { .. }), "{refused}");
    assert!(refused.message().contains("2 transactions of this client"), "{refused}");
    start(&executor, &other);
    let refused = message(query(&executor, &other, "START TRANSACTION"));
    assert!(refused.contains("3 transactions are open"), "{refused}");
    query(&executor, &one, &format!("ROLLBACK TRANSACTION {id}")).unwrap();
    start(&executor, &other);
}

#[test]
fn small_sets_are_charged_to_the_memory_of_transactions() {
    let db = Db::builder().transaction_memory_bytes(1 << 20).in_memory();
    let executor = executor_on(db);
    let session = Session::new();
    let used = || executor.db().transaction_memory_bytes();
    assert_eq!(used(), 0);
    let id = start(&executor, &session);
    let write = |k: i32| {
        let text = format!("INSERT INTO ks.t (k, v) VALUES ({k}, 0) USING TRANSACTION {id}");
        query(&executor, &session, &text)
    };
    write(0).unwrap();
    let small = used();
    assert!(small > 0 && small < 16 << 10, "{small}");
    let refused = (1..20_000).find_map(|k| write(k).err()).unwrap();
    assert!(
        matches!(refused.kind(), CqlErrorKind::Invalid | CqlErrorKind::Overloaded { .. }),
        "{refused}"
    );
    assert!(refused.message().ends_with("the transaction is still open"), "{refused}");
    query(&executor, &session, &format!("ROLLBACK TRANSACTION {id}")).unwrap();
    assert_eq!(used(), 0);
}

#[test]
fn idle_transaction_expires() {
    let timer = VirtualTimer::default();
    let db = Db::builder().clock(Arc::new(timer.clone())).in_memory();
    let executor = executor_on(db);
    executor.set_open_limits(OpenLimits {
        idle_timeout: Duration::from_secs(60),
        ..OpenLimits::default()
    });
    let session = Session::new();
    let (used, idle) = (start(&executor, &session), start(&executor, &session));
    let read = |id| {
        let text = format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}");
        query(&executor, &session, &text)
    };
    let at = |seconds| timer.advance_to(Moment(Duration::from_secs(seconds)));
    at(40);
    read(used).unwrap();
    at(70);
    executor.expire_transactions();
    assert_eq!(executor.open_transactions().0, 1);
    assert_eq!(executor.db().holders().len(), 1, "the snapshot of the other is released");
    read(used).unwrap();
    let error = read(idle).unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Aborted);
    assert!(error.message().contains("no statement came for 60s"), "{error}");
    // Without a server that looks for them, the next statement finds out.
    at(130);
    assert!(message(read(used)).contains("no statement came for 60s"));
}

#[test]
fn open_transactions_are_listed() {
    let executor = executor();
    let session = Session::with_name("ann@10.0.0.1:7").with_user("ann");
    let id = start(&executor, &session);
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 77 WHERE k = 1");
    query(&executor, &session, &write).unwrap();
    let list = "SELECT id, client, statement, isolation, start_timestamp, idle_seconds FROM \
                system_views.transactions";
    let listed = rows(query(&executor, &session, list)).values();
    // The query's own snapshot is the other.
    let row = listed.iter().find(|row| row[0].is_some()).unwrap();
    assert_eq!(row[0].as_deref(), Some(&id.into_bytes()[..]));
    let texts: Vec<String> = row[1..4].iter().map(|cell| text(cell.as_ref())).collect();
    assert_eq!(texts[0], "ann@10.0.0.1:7");
    assert_eq!(
        texts[1],
        "UPDATE t USING TRANSACTION ? SET v = ? WHERE k = ?".replace(" t ", " ks.t ")
    );
    assert_eq!(texts[2], "strict serializable");
    assert!(row[4].is_some() && row[5].is_some());
    assert_eq!(listed.len(), 2);
    query(&executor, &session, &format!("ROLLBACK TRANSACTION {id}")).unwrap();
    assert!(rows(query(&executor, &session, list)).rows.iter().all(|row| row[0].is_none()));
}

#[test]
fn outcome_tells_what_became_of_a_transaction() {
    let executor = executor();
    let session = Session::new();
    let outcome = |executor: &Executor, id: &str| {
        let rows = rows(query(executor, &session, &format!("SELECT outcome({id})")));
        (text(rows.values()[0][0].as_ref()), rows.values()[0][1].clone())
    };
    let (left, committed) = (start(&executor, &session), start(&executor, &session));
    let write = format!("UPDATE ks.t USING TRANSACTION {committed} SET v = 7 WHERE k = 1");
    query(&executor, &session, &write).unwrap();
    assert_eq!(outcome(&executor, &committed.to_string()), ("open".to_owned(), None));
    query(&executor, &session, &format!("COMMIT TRANSACTION {committed}")).unwrap();
    let (told, at) = outcome(&executor, &committed.to_string());
    assert_eq!(told, "committed");
    // Another server of the database, which does not remember it, finds the same.
    let other = Executor::new(executor.db().clone(), NodeInfo::local(Uuid::from_u64_pair(3, 4)));
    assert_eq!(outcome(&other, &committed.to_string()), ("committed".to_owned(), at.clone()));
    assert_eq!(outcome(&other, &left.to_string()).0, "open");
    // Several at once, by ids or starts, in the order of the statement.
    let list = format!("SELECT outcome({left}, {committed}, {left})");
    let several = rows(query(&other, &session, &list));
    let names: Vec<&str> = several.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["transaction", "outcome", "committed_at"]);
    let told = |row: &Vec<Option<Bytes>>| [0, 1].map(|at| text(row[at].as_ref()));
    let (left_name, committed_name) = (left.to_string(), committed.to_string());
    assert_eq!(
        several.values().iter().map(told).collect::<Vec<_>>(),
        [[&left_name, "open"], [&committed_name, "committed"], [&left_name, "open"]]
    );
    assert_eq!(several.values()[1][2], at);
    let none = message(query(&other, &session, &format!("SELECT outcome({left}, 1000000)")));
    assert!(none.contains("not handed out"), "{none}");
    let refused = message(query(&other, &session, &format!("COMMIT TRANSACTION {left}")));
    assert!(refused.contains("held by another server"), "{refused}");
    assert_eq!(executor.end_transactions(), 1);
    assert_eq!(outcome(&executor, &left.to_string()).0, "aborted");
    assert_eq!(outcome(&other, &left.to_string()).0, "aborted");
    assert!(message(query(&other, &session, "SELECT outcome(1000000)")).contains("not handed out"));
}

/// A server that was restarted remembers no transaction; the commit table tells what became of them.
#[test]
fn transaction_of_an_earlier_process_is_run_again() {
    let executor = executor();
    let session = Session::new();
    let [open, committed] = [(); 2].map(|()| start(&executor, &session));
    for (k, id) in [(1, open), (2, committed)] {
        let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = {k}");
        query(&executor, &session, &write).unwrap();
    }
    query(&executor, &session, &format!("COMMIT TRANSACTION {committed}")).unwrap();
    executor.end_transactions();
    let executor = Executor::new(executor.db().clone(), NodeInfo::local(HOST));
    let commit = |id| query(&executor, &session, &format!("COMMIT TRANSACTION {id}"));
    let inside =
        |id| query(&executor, &session, &format!("SELECT v FROM ks.t USING TRANSACTION {id}"));
    for error in [inside(open).unwrap_err(), commit(open).unwrap_err()] {
        assert_eq!(*error.kind(), CqlErrorKind::Aborted, "{error}");
        assert!(error.message().starts_with("aborted, run the transaction again: "), "{error}");
    }
    commit(committed).unwrap();
    assert!(message(inside(committed)).contains("was committed at"));
    query(&executor, &session, &format!("ROLLBACK TRANSACTION {open}")).unwrap();
}

#[test]
fn outcome_of_a_transaction_that_only_read_is_read_only() {
    let executor = executor();
    let session = Session::new();
    let outcome = |id: Uuid| {
        let rows = rows(query(&executor, &session, &format!("SELECT outcome({id})")));
        text(rows.values()[0][0].as_ref())
    };
    let writer = start(&executor, &session);
    query(&executor, &session, &format!("SELECT v FROM ks.t USING TRANSACTION {writer}")).unwrap();
    let reader = started(query(&executor, &session, "START DETACHED TRANSACTION READ ONLY"));
    for id in [writer, reader] {
        assert_eq!(outcome(id), "open");
        for _ in 0..2 {
            query(&executor, &session, &format!("COMMIT TRANSACTION {id}")).unwrap();
        }
        assert_eq!(outcome(id), "read only");
    }
}

/// Polls a statement once, and drops it as the end of its connection does.
fn cut_off(executor: &Executor, session: &Session, text: &str) {
    let parameters = Parameters::default();
    let mut statement = pin!(executor.query(session, text, &parameters));
    let _ = statement.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn statement_that_reads_may_be_cut_off() {
    let executor = executor();
    let session = Session::new();
    let id = start(&executor, &session);
    cut_off(&executor, &session, &format!("SELECT v FROM ks.t USING TRANSACTION {id}"));
    query(&executor, &session, &format!("COMMIT TRANSACTION {id}")).unwrap();
}

#[test]
fn pages_belong_to_their_transaction() {
    let executor = executor();
    let session = Session::new();
    let id = start(&executor, &session);
    for k in 3..9 {
        let text = format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k}) USING TRANSACTION {id}");
        query(&executor, &session, &text).unwrap();
    }
    let page = |text: &str, state: Option<Bytes>| {
        let parameters =
            Parameters { page_rows: Some(3), paging_state: state, ..Parameters::default() };
        block_on(executor.query(&session, text, &parameters))
    };
    let inside = format!("SELECT v FROM ks.t USING TRANSACTION {id}");
    let (mut found, mut state) = (Vec::new(), None);
    loop {
        let rows = rows(page(&inside, state));
        found.extend(rows.values().iter().map(|row| int(row[0].as_ref())));
        state = rows.paging_state;
        if state.is_none() {
            break;
        }
    }
    found.sort_unstable();
    assert_eq!(found, (1..9).collect::<Vec<_>>());
    // Outside, a page would not have the transaction's own rows.
    let state = rows(page(&inside, None)).paging_state;
    let refused = page("SELECT v FROM ks.t", state.clone()).unwrap_err();
    assert_eq!(*refused.kind(), CqlErrorKind::Protocol);
    let other = start(&executor, &session);
    let refused = page(&format!("SELECT v FROM ks.t USING TRANSACTION {other}"), state);
    assert!(message(refused).contains("another transaction"));
}

#[test]
fn changed_table_asks_for_a_new_transaction() {
    let executor = executor();
    let session = Session::new();
    let id = start(&executor, &session);
    query(&executor, &session, "ALTER TABLE ks.t ADD w int").unwrap();
    let text = format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}");
    let prepared = block_on(executor.prepare(&session, &text, None)).unwrap();
    let result = block_on(executor.execute(&session, &prepared, &Parameters::default()));
    let error = result.unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Aborted, "{error}");
    assert!(error.message().contains("has changed since the transaction began"), "{error}");
}

/// Returns a batch that takes several time slices.
fn long_batch(id: Uuid) -> String {
    let writes: String =
        (0..5_000).map(|k| format!("INSERT INTO ks.t (k, v) VALUES ({k}, 9);")).collect();
    format!("BEGIN BATCH USING TRANSACTION {id} {writes} APPLY BATCH")
}

/// A statement that made some of its changes and was cut off is not committed in part.
#[test]
fn statement_that_writes_ends_its_transaction_when_cut_off() {
    /// Number of yields before the one at which the statement is cut off.
    static YIELDS: AtomicUsize = AtomicUsize::new(0);
    async fn yield_or_stay() {
        let left = YIELDS.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if left.is_err() {
            pending::<()>().await;
        }
    }
    let executor = executor();
    let session = Session::new();
    // The first yields come before the first change, of a statement that is then without effect.
    for yields in (0..).step_by(16) {
        let id = start(&executor, &session);
        let batch = long_batch(id);
        YIELDS.store(yields, Relaxed);
        let grant = Grant { yield_now: Some(|| Box::pin(yield_or_stay())), ..Grant::default() };
        let parameters = Parameters { grant, ..Parameters::default() };
        {
            let mut statement = pin!(executor.query(&session, &batch, &parameters));
            let mut context = Context::from_waker(Waker::noop());
            assert!(statement.as_mut().poll(&mut context).is_pending(), "it ends its time slice");
            let busy = message(query(&executor, &session, &format!("COMMIT TRANSACTION {id}")));
            assert!(busy.contains("a statement of transaction"), "{busy}");
        }
        let committed = query(&executor, &session, &format!("COMMIT TRANSACTION {id}"));
        assert_eq!(value(&executor, 1), [1]);
        if let Err(refused) = committed {
            assert_eq!(*refused.kind(), CqlErrorKind::Aborted);
            assert!(refused.message().contains("was cut off before its end"), "{refused}");
            return;
        }
    }
}

/// A database in memory cannot spill the writes of a transaction, so they fill the memory.
#[test]
fn large_transaction_waits_for_memory_before_it_is_refused() {
    let executor = executor_on(Db::builder().transaction_memory_bytes(1 << 20).in_memory());
    let session = Session::new();
    query(&executor, &session, "CREATE TABLE ks.n (k int PRIMARY KEY, note text)").unwrap();
    let [large, other] = [(); 2].map(|()| start(&executor, &session));
    let long = "x".repeat(16 << 10);
    let insert = |k: i32, id: Uuid| {
        let text = format!("INSERT INTO ks.n (k, note) VALUES ({k}, '{long}')");
        query(&executor, &session, &format!("{text} USING TRANSACTION {id} AND TIMEOUT 200ms"))
    };
    (0..5).for_each(|k| drop(insert(k, other).unwrap()));
    let refused = (0..100).find_map(|k| insert(k, large).err());
    let refused = refused.expect("the memory holds less").message().to_owned();
    assert!(refused.contains("all transactions hold"), "{refused}");
    let text = format!("SELECT v FROM ks.t USING TRANSACTION {other}");
    let parameters = Parameters::default();
    let mut statement = pin!(executor.query(&session, &text, &parameters));
    let mut context = Context::from_waker(Waker::noop());
    assert!(statement.as_mut().poll(&mut context).is_pending(), "it waits for memory");
    query(&executor, &session, &format!("ROLLBACK TRANSACTION {large}")).unwrap();
    block_on(statement).unwrap();
}

/// The client need not wait for a statement that it gives up.
#[test]
fn rollback_ends_a_running_statement() {
    let executor = executor();
    let session = Session::new();
    let id = start(&executor, &session);
    let batch = long_batch(id);
    let grant = Grant { yield_now: Some(|| Box::pin(yield_once())), ..Grant::default() };
    let parameters = Parameters { grant, ..Parameters::default() };
    let mut statement = pin!(executor.query(&session, &batch, &parameters));
    let mut context = Context::from_waker(Waker::noop());
    assert!(statement.as_mut().poll(&mut context).is_pending(), "it ends its time slice");
    query(&executor, &session, &format!("ROLLBACK TRANSACTION {id}")).unwrap();
    let error = block_on(statement).unwrap_err();
    assert!(error.message().contains("was rolled back"), "{error}");
    assert_eq!(value(&executor, 1), [1]);
}

async fn yield_once() {
    let mut is_second = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A client that thinks holds no permit, and the deadline of its last statement does not end it.
#[test]
fn permit_and_deadline_end_with_their_statement() {
    let timer = VirtualTimer::default();
    let builder = Db::builder().clock(Arc::new(timer.clone()));
    let executor = executor_on(builder.admission(AdmissionLimits::of_server(1)).in_memory());
    let second = Duration::from_secs(1);
    executor.set_timeouts(Timeouts { statement: second, scan: second, schema: second });
    let admission = executor.db().admission().unwrap();
    let session = Session::new();
    let run = |text: &str| {
        let (level, class) = (&Level::default(), Class::Write);
        let workload = Workload::Interactive;
        let request = AdmissionRequest::new(level, class, workload, 1);
        let Ok(Arrived::Admitted(permit)) = admission.arrive(request) else {
            panic!("nothing else runs")
        };
        let arrived = Some(executor.db().now());
        let grant = Grant { arrived, permit: Some(Arc::new(permit)), ..Grant::default() };
        let parameters = Parameters { grant, ..Parameters::default() };
        block_on(executor.query(&session, text, &parameters))
    };
    let running = || {
        let figures = admission.figures_of_levels(Class::Write);
        figures.iter().map(|(_, figures)| figures.running).sum::<usize>()
    };
    let id = started(run("START DETACHED TRANSACTION"));
    assert_eq!(running(), 0);
    for seconds in [10, 20] {
        timer.advance_to(Moment(Duration::from_secs(seconds)));
        run(&format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = 1")).unwrap();
        assert_eq!(running(), 0);
    }
    timer.advance_to(Moment(Duration::from_secs(30)));
    run(&format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!(value(&executor, 1), [7]);
}
