//! Transactions that stay open, joined through other servers than the one that started them.

use std::collections::BTreeSet;
use std::future::{Future as _, pending};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use carnet::{Bytes, Uuid, Value, block_on};
use carnet_admission::{AdmissionRequest, Arrived, Class, Level, Permit, Workload};
use carnet_base::{Clock as _, SystemClock, lock};
use carnet_cql::ast::BatchKind;
use carnet_cql::forward::{Answer, Caller, Request, Statement, Task};
use carnet_cql::result::Response;
use carnet_cql::{
    BatchItem, Bound, CqlError, CqlErrorKind, Grant, Parameters, Session, Timeouts, Values,
};

use crate::support::servers::{Loss, Server, Servers, ints, rows, wait};

fn bound(value: &Value) -> Bound {
    Bound::Bytes(value.serialize())
}

fn values(values: Vec<Bound>) -> Parameters {
    Parameters { values: Values::Positional(values), ..Parameters::default() }
}

/// Runs a prepared statement whose values are an id after others.
fn execute(server: &Server, text: &str, given: Vec<Bound>) -> Result<Response, CqlError> {
    let session = Session::new();
    let prepared = block_on(server.executor.prepare(&session, text, Some("ks"))).unwrap();
    block_on(server.executor.execute(&session, &prepared, &values(given)))
}

fn kind(result: Result<Response, CqlError>) -> CqlErrorKind {
    result.unwrap_err().kind().clone()
}

fn message(result: Result<Response, CqlError>) -> String {
    result.unwrap_err().message().to_owned()
}

#[test]
fn every_statement_runs_through_every_server() {
    let servers = Servers::new();
    let [one, other, third] = servers.start::<3>();
    let id = other.start();
    let uuid = || bound(&Value::Uuid(id));
    one.query(&format!("INSERT INTO ks.t (k, v) VALUES (2, 2) USING TRANSACTION {id}")).unwrap();
    third.query(&format!("UPDATE ks.t USING TRANSACTION {id} SET v = 9 WHERE k = 1")).unwrap();
    let insert = "INSERT INTO t (k, v) VALUES (?, ?) USING TRANSACTION ?";
    let given = |k| vec![bound(&Value::Int(k)), Bound::Null, uuid()];
    execute(&one, insert, given(3)).unwrap();
    execute(&third, insert, given(4)).unwrap();
    one.query(&format!(
        "BEGIN BATCH USING TRANSACTION {id} INSERT INTO ks.t (k, v) VALUES (5, 5); \
         INSERT INTO ks.t (k, v) VALUES (6, 6); APPLY BATCH"
    ))
    .unwrap();
    let session = Session::new();
    let prepared = block_on(third.executor.prepare(&session, insert, Some("ks"))).unwrap();
    let text = format!("DELETE FROM ks.t USING TRANSACTION {id} WHERE k = 5");
    let items = vec![
        BatchItem::Prepared { prepared, values: values(given(7)).values },
        BatchItem::Text { text, values: Values::default() },
    ];
    let parameters = Parameters::default();
    let batch = third.executor.batch(&session, BatchKind::Logged, items, &parameters);
    block_on(batch).unwrap();
    let applied = rows(one.query(&format!(
        "INSERT INTO ks.t (k, v) VALUES (1, 1) IF NOT EXISTS USING TRANSACTION {id}"
    )));
    assert_eq!(applied.columns[0].name, "[applied]");
    assert_eq!(applied.values()[0][0].as_deref(), Some(&[0][..]));

    let inside = format!("SELECT k FROM ks.t USING TRANSACTION {id}");
    let sorted = |mut ints: Vec<i32>| {
        ints.sort_unstable();
        ints
    };
    let all = rows(one.query(&inside));
    assert_eq!((&*all.columns[0].table, &*all.columns[0].name), ("t", "k"));
    assert_eq!(sorted(ints(&all)), [1, 2, 3, 4, 6, 7]);
    assert_eq!(rows(third.query(&inside)), all);
    assert_eq!(rows(other.query(&inside)), all);
    assert_eq!(one.ints("SELECT k FROM ks.t"), [1], "nothing is committed");
    third.query(&format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!(sorted(one.ints("SELECT k FROM ks.t")), [1, 2, 3, 4, 6, 7]);
    assert_eq!(one.ints("SELECT v FROM ks.t WHERE k = 1"), [9]);
    assert_eq!(one.outcome(id), "committed");
    // A driver may send a commit again.
    one.query(&format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!(one.executor.forwarded_statements(), (7, 0));
    assert_eq!(other.executor.forwarded_statements(), (0, 12));
}

#[test]
fn rollback_and_kill_work_through_another_server() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    for (end, end_text) in
        [("ROLLBACK TRANSACTION", "was rolled back"), ("KILL TRANSACTION", "by KILL")]
    {
        let id = one.start();
        let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 2 WHERE k = 1");
        other.query(&write).unwrap();
        execute(&other, &format!("{end} ?"), vec![bound(&Value::Uuid(id))]).unwrap();
        for server in [&one, &other] {
            let refused = message(server.query(&write));
            assert!(refused.contains(end_text), "{refused}");
        }
        assert_eq!(other.outcome(id), "aborted");
    }
    assert_eq!(other.ints("SELECT v FROM ks.t WHERE k = 1"), [1]);
}

/// The server that holds a transaction checks the statements of a role, by the roles as it knows them.
#[test]
fn role_is_checked_by_the_holder_and_revocations_are_noticed() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    one.query("CREATE ROLE ann").unwrap();
    one.query("GRANT MODIFY ON ks.t TO ann").unwrap();
    block_on(other.executor.db().refresh_roles()).unwrap();
    let session = Session::with_name("ann@127.0.0.1:1").with_role("ann");
    let run = |server: &Server, text: &str| {
        block_on(server.executor.query(&session, text, &Parameters::default()))
    };
    let started = rows(run(&one, "START DETACHED TRANSACTION"));
    let id = Uuid::from_slice(started.values()[0][0].as_ref().unwrap()).unwrap();
    let write = format!("INSERT INTO ks.t (k, v) VALUES (2, 2) USING TRANSACTION {id}");
    run(&other, &write).unwrap();
    let read = format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}");
    assert!(message(run(&other, &read)).contains("role ann has no SELECT permission"));
    other.query("REVOKE ALL ON ks.t FROM ann").unwrap();
    assert_eq!(kind(run(&other, "INSERT INTO ks.t (k) VALUES (3)")), CqlErrorKind::Unauthorized);
    run(&other, &write).unwrap();
    // A server checks once a second.
    block_on(one.executor.db().refresh_roles()).unwrap();
    assert_eq!(kind(run(&other, &write)), CqlErrorKind::Unauthorized);
    assert_eq!(kind(run(&one, &write)), CqlErrorKind::Unauthorized);
}

#[test]
fn pages_of_a_transaction_come_through_any_server() {
    let servers = Servers::new();
    let [one, other, third] = servers.start::<3>();
    let id = one.start();
    for k in 2..=7 {
        one.query(&format!("INSERT INTO ks.t (k, v) VALUES ({k}, {k}) USING TRANSACTION {id}"))
            .unwrap();
    }
    let text = format!("SELECT k FROM ks.t USING TRANSACTION {id}");
    let (mut found, mut paging_state, mut pages) = (Vec::new(), None, 0);
    for server in [&other, &third, &one, &other] {
        let parameters = Parameters { page_rows: Some(2), paging_state, ..Parameters::default() };
        let page = rows(block_on(server.executor.query(&Session::new(), &text, &parameters)));
        assert!(page.rows.len() <= 2);
        found.extend(ints(&page));
        pages += 1;
        paging_state = page.paging_state;
        if paging_state.is_none() {
            break;
        }
    }
    found.sort_unstable();
    assert_eq!((found, pages), (vec![1, 2, 3, 4, 5, 6, 7], 4));
}

#[test]
fn errors_of_the_holder_come_back() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    let id = one.start();
    // An error before a change leaves it open; its kind is the holder's.
    let wrong = other.query(&format!("SELECT nothing FROM ks.t USING TRANSACTION {id}"));
    let local = one.query(&format!("SELECT nothing FROM ks.t USING TRANSACTION {id}"));
    assert_eq!(wrong, local);
    assert!(message(wrong).ends_with("the transaction is still open"));
    let truncate = other.query(&format!("SELECT v FROM ks.t AS OF 1 USING TRANSACTION {id}"));
    assert!(message(truncate).contains("still open"));
    // A conflict, which only the holder's commit finds.
    let read = format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}");
    assert_eq!(other.ints(&read), [1]);
    let write = format!("INSERT INTO ks.t (k, v) VALUES (2, 2) USING TRANSACTION {id}");
    other.query(&write).unwrap();
    other.query("UPDATE ks.t SET v = 5 WHERE k = 1").unwrap();
    let lost = other.query(&format!("COMMIT TRANSACTION {id}")).unwrap_err();
    assert_eq!(*lost.kind(), CqlErrorKind::Aborted);
    assert!(lost.message().starts_with("aborted, run the transaction again"), "{lost}");
    assert_eq!(kind(other.query(&write)), CqlErrorKind::Aborted);
    // Ids that no server has given out.
    let strange = "f81d4fae-7dec-41d0-a765-00a0c91e6bf6";
    for server in [&one, &other] {
        let refused = message(server.query(&format!("COMMIT TRANSACTION {strange}")));
        assert!(refused.contains("is no id that START TRANSACTION has returned"), "{refused}");
    }
}

#[test]
fn only_its_user_joins_a_transaction() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    let user = |name: &str| Session::with_name(format!("{name}@10.9.9.9:1")).with_user(name);
    let id = one.start_by(&user("ann"));
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 2 WHERE k = 1");
    for text in [&write, &format!("COMMIT TRANSACTION {id}"), &format!("ROLLBACK TRANSACTION {id}")]
    {
        assert_eq!(kind(other.query_by(&user("bob"), text)), CqlErrorKind::Unauthorized);
        assert_eq!(kind(other.query(text)), CqlErrorKind::Unauthorized);
    }
    other.query_by(&user("ann"), &write).unwrap();
    other.query_by(&user("ann"), &format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!(one.ints("SELECT v FROM ks.t"), [2]);
}

#[test]
fn statement_prepared_for_another_version_of_its_table_is_refused() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    let session = Session::new();
    let text = "SELECT * FROM ks.t WHERE k = 1 USING TRANSACTION ?";
    let prepared = block_on(other.executor.prepare(&session, text, None)).unwrap();
    let execute = |id| {
        let given = values(vec![bound(&Value::Uuid(id))]);
        block_on(other.executor.execute(&session, &prepared, &given))
    };
    let before = one.start();
    assert_eq!(rows(execute(before)).columns.len(), 2);
    one.query("ALTER TABLE ks.t ADD w int").unwrap();
    // The transaction has the table's definition of then, as the client does.
    assert_eq!(rows(execute(before)).columns.len(), 2);
    let after = one.start();
    assert_eq!(kind(execute(after)), CqlErrorKind::Unprepared { id: prepared.id });
    assert!(other.executor.prepared(&prepared.id).is_none(), "the client prepares it again");
}

#[test]
fn forwarded_statement_is_not_forwarded_again() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    let id = one.start();
    let statement = Statement {
        text: format!("COMMIT TRANSACTION {id}"),
        keyspace: None,
        values: Vec::new(),
        preparation: None,
    };
    let task = Task::Statement { statement, page_rows: None, paging_state: None, now: None };
    let request = Request { call: 1, transaction: id, caller: Caller::default(), left: None, task };
    let ask = |server: &Server, request: &Request| {
        let answer = server.executor.answer_forwarded(request.encode(), Grant::default());
        Answer::decode(block_on(answer)).unwrap()
    };
    assert_eq!(ask(&other, &request), Answer::NotHeld);
    assert_eq!(other.executor.forwarded_statements(), (0, 0));
    // Not even if the request names a transaction that it holds.
    let own = other.start();
    let Answer::Done { result, .. } = ask(&other, &Request { transaction: own, ..request.clone() })
    else {
        panic!("it is answered")
    };
    assert!(message(result).contains("is held by the server 10.0.0.1"));
    assert_eq!(other.executor.forwarded_statements().0, 0);
    assert_eq!(one.outcome(id), "open");
}

#[test]
fn holder_gets_the_caller_and_the_deadline() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    let id = one.start_by(&Session::new().with_user("ann"));
    let session = Session::with_name("ann@10.9.9.9:1").with_user("ann");
    let session = session.with_address([10, 9, 9, 9].into());
    let limit = Duration::from_secs(40);
    other.executor.set_timeouts(Timeouts { statement: limit, scan: limit, schema: limit });
    let grant = Grant { arrived: Some(other.executor.db().now()), ..Grant::default() };
    let parameters = Parameters { grant, ..Parameters::default() };
    let text = format!("SELECT v FROM ks.t WHERE k = 1 USING TRANSACTION {id}");
    block_on(other.executor.query(&session, &text, &parameters)).unwrap();
    let request = lock(&one.holder.seen).pop().unwrap();
    let Caller { name, user, is_role, address } = request.caller;
    assert_eq!((&*name, user.as_deref(), is_role), ("ann@10.9.9.9:1", Some("ann"), false));
    assert_eq!(address, Some([10, 9, 9, 9].into()));
    let left = request.left.unwrap();
    assert!(left <= limit && left > limit / 2, "{left:?}");
    // A deadline that has passed when the holder begins.
    let late =
        Request { left: Some(Duration::ZERO), call: 3, caller: Caller::default(), ..request };
    let late = Request { caller: Caller { user: Some("ann".into()), ..late.caller }, ..late };
    let answer = block_on(one.executor.answer_forwarded(late.encode(), Grant::default()));
    let Ok(Answer::Done { result, .. }) = Answer::decode(answer) else { panic!("an answer") };
    let error = result.unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Timeout, "{error}");
    assert!(error.message().contains("still open"), "{error}");
    let late = format!("SELECT v FROM ks.t USING TRANSACTION {id} AND TIMEOUT 0ms");
    assert_eq!(kind(other.query_by(&session, &late)), CqlErrorKind::Timeout);
}

#[test]
fn holder_knows_the_outcome_of_a_transaction_that_wrote_nothing() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    let id = one.start();
    assert_eq!(other.outcome(id), "open");
    other.query(&format!("SELECT v FROM ks.t USING TRANSACTION {id}")).unwrap();
    other.query(&format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!((one.outcome(id), other.outcome(id)), ("read only".into(), "read only".into()));
    let id = rows(one.query("START DETACHED TRANSACTION READ ONLY"));
    let id = Uuid::from_slice(id.values()[0][0].as_ref().unwrap()).unwrap();
    assert_eq!(other.outcome(id), "open");
    assert_eq!(other.ints(&format!("SELECT v FROM ks.t USING TRANSACTION {id}")), [1]);
    drop(one);
    assert_eq!(other.outcome(id), "read only");
    other.query(&format!("COMMIT TRANSACTION {id}")).unwrap();
}

/// Its server has ended: only the commit table knows.
#[test]
fn transaction_of_an_ended_server_is_run_again() {
    let servers = Servers::new();
    let [one, other, third] = servers.start::<3>();
    let write = |id| format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = 1");
    let (committed, open) = (other.start(), other.start());
    third.query(&write(committed)).unwrap();
    third.query(&format!("COMMIT TRANSACTION {committed}")).unwrap();
    third.query(&write(open)).unwrap();
    drop(other);
    wait("the leader gives the snapshots of the ended server back", || one.outcome(open) != "open");
    let error = third.query(&write(open)).unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Aborted);
    assert!(error.message().starts_with("aborted, run the transaction again"), "{error}");
    assert!(error.message().contains("is gone"), "{error}");
    assert_eq!(kind(third.query(&format!("COMMIT TRANSACTION {open}"))), CqlErrorKind::Aborted);
    third.query(&format!("ROLLBACK TRANSACTION {open}")).unwrap();
    // A commit whose acknowledgement was lost with its server.
    third.query(&format!("COMMIT TRANSACTION {committed}")).unwrap();
    let late = message(third.query(&write(committed)));
    assert!(late.contains("was committed at"), "{late}");
    assert_eq!(third.ints("SELECT v FROM ks.t"), [7]);
}

#[test]
fn lost_acknowledgement_of_a_commit_is_found_out() {
    let servers = Servers::new();
    let [_leader, holder, other] = servers.start::<3>();
    let id = holder.start();
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = 1");
    other.query(&write).unwrap();
    holder.relay.lose(Loss::Answers);
    // The commit table has it already.
    other.query(&format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!(other.ints("SELECT v FROM ks.t"), [7]);
}

#[test]
fn transactions_of_all_servers_are_listed() {
    let servers = Servers::new();
    let [one, other, third] = servers.start::<3>();
    let ids = [one.start(), other.start_by(&Session::with_name("ann@10.0.0.1:7"))];
    one.query(&format!("INSERT INTO ks.t (k, v) VALUES (2, 2) USING TRANSACTION {}", ids[1]))
        .unwrap();
    for server in [&one, &other, &third] {
        assert_eq!(server.listed(), BTreeSet::from(ids));
    }
    let list =
        "SELECT number, id, client, statement, start_timestamp FROM system_views.transactions";
    let rows = rows(third.query(list)).values();
    let numbers: Vec<Option<Bytes>> =
        (1..=3).map(|number: i32| Some(number.to_be_bytes().to_vec().into())).collect();
    // The query itself has a snapshot.
    assert_eq!(rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), numbers);
    let is_written =
        |row: &&Vec<Option<Bytes>>| row[1].as_deref() == Some(&ids[1].into_bytes()[..]);
    let row = rows.iter().find(is_written).unwrap();
    assert_eq!(row[2].as_deref(), Some(&b"ann@10.0.0.1:7"[..]));
    assert!(row[3].as_ref().unwrap().starts_with(b"INSERT INTO ks.t"));
    assert!(row[4].is_some());
    third.query(&format!("KILL TRANSACTION {}", ids[0])).unwrap();
    assert_eq!(other.listed(), BTreeSet::from([ids[1]]));
}

/// A list lacks the transactions of servers that do not answer, are not reached, or are of an earlier
/// version.
#[test]
fn list_does_not_wait_for_silent_servers() {
    let servers = Servers::new();
    let [one, other, third] = servers.start::<3>();
    let ids = [one.start(), other.start(), third.start()];
    other.holder.is_silent.store(true, Ordering::SeqCst);
    let begun = SystemClock.now();
    assert_eq!(third.listed(), BTreeSet::from([ids[0], ids[2]]));
    assert!(SystemClock.now().since(begun) < Duration::from_secs(10));
    one.answer_with(&Answer::Refused("it has another kind".to_owned()));
    assert_eq!(third.listed(), BTreeSet::from([ids[2]]));
    other.holder.is_silent.store(false, Ordering::SeqCst);
    assert_eq!(third.listed(), BTreeSet::from([ids[1], ids[2]]));
    other.relay.lose(Loss::Everything);
    assert_eq!(third.listed(), BTreeSet::from([ids[2]]));
}

#[test]
fn commit_that_does_not_arrive_has_an_unknown_outcome() {
    let servers = Servers::new();
    let [_leader, holder, other] = servers.start::<3>();
    let id = holder.start();
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = 1");
    other.query(&write).unwrap();
    holder.relay.lose(Loss::Everything);
    let error = other.query(&format!("COMMIT TRANSACTION {id}")).unwrap_err();
    assert!(matches!(error.kind(), CqlErrorKind::Unknown { .. }), "{error}");
    assert!(error.message().contains(&format!("SELECT outcome({id})")), "{error}");
    assert_eq!(other.outcome(id), "open");
    // From then on there is no connection, so that nothing is sent.
    for statement in [write, format!("COMMIT TRANSACTION {id}")] {
        let error = other.query(&statement).unwrap_err();
        assert_eq!(*error.kind(), CqlErrorKind::Unavailable, "{error}");
        assert!(error.message().contains("nothing was done"), "{error}");
    }
    holder.relay.lose(Loss::Nothing);
    wait("the servers are connected again", || {
        other.query(&format!("COMMIT TRANSACTION {id}")).is_ok()
    });
    assert_eq!(other.outcome(id), "committed");
}

#[test]
fn statement_of_a_lost_client_is_cancelled() {
    /// Number of yields before the one at which the statement stays: it has changed rows by then.
    static YIELDS: AtomicUsize = AtomicUsize::new(0);
    async fn yield_or_stay() {
        let left = YIELDS.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if left.is_err() {
            pending::<()>().await;
        }
    }
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    let id = one.start();
    *lock(&one.holder.grant) =
        Grant { yield_now: Some(|| Box::pin(yield_or_stay())), ..Grant::default() };
    // Statements that depend on a row are made one by one, each after the changes before it.
    let writes: String =
        (0..5_000).map(|k| format!("UPDATE ks.t SET v = v + 1 WHERE k = {};", k % 2 + 1)).collect();
    YIELDS.store(40, Relaxed);
    let batch = format!("BEGIN BATCH USING TRANSACTION {id} {writes} APPLY BATCH");
    let parameters = Parameters::default();
    let commit = format!("COMMIT TRANSACTION {id}");
    {
        let session = Session::new();
        let mut statement = pin!(other.executor.query(&session, &batch, &parameters));
        let mut context = Context::from_waker(Waker::noop());
        wait("the statement runs at the holder", || {
            assert!(statement.as_mut().poll(&mut context).is_pending());
            message(
                one.query(&format!("SELECT k FROM ks.t USING TRANSACTION {id} AND TIMEOUT 0ms")),
            )
            .contains("is running")
        });
    }
    wait("it is cancelled", || !message(one.query(&commit)).contains("is running"));
    let refused = one.query(&commit).unwrap_err();
    assert_eq!(*refused.kind(), CqlErrorKind::Aborted);
    assert!(refused.message().contains("cut off"), "{refused}");
    assert_eq!(one.ints("SELECT k FROM ks.t"), [1]);
}

/// Its client may ask for it again, and then learns that it was done.
#[test]
fn commit_of_a_lost_client_goes_on() {
    let servers = Servers::new();
    let [one, other] = servers.start::<2>();
    let id = one.start();
    other.query(&format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = 1")).unwrap();
    let (session, commit) = (Session::new(), format!("COMMIT TRANSACTION {id}"));
    let parameters = Parameters::default();
    {
        let mut statement = pin!(other.executor.query(&session, &commit, &parameters));
        let mut context = Context::from_waker(Waker::noop());
        // Sends it. On a busy machine the answer may be here already.
        let _ = statement.as_mut().poll(&mut context);
    }
    wait("it is committed", || other.ints("SELECT v FROM ks.t") == [7]);
    other.query(&commit).unwrap();
    let seen = lock(&one.holder.seen);
    assert!(seen.iter().all(|request| request.task != Task::Cancel));
}

/// Takes permits of the class of writes, until the next one would wait.
fn take_permits(server: &Server) -> Vec<Permit> {
    let admission = server.executor.db().admission().unwrap();
    let (level, class, workload) = (&Level::default(), Class::Write, Workload::Interactive);
    let request = AdmissionRequest::new(level, class, workload, 1);
    let mut permits = Vec::new();
    while let Ok(Arrived::Admitted(permit)) = admission.arrive(request) {
        permits.push(permit);
    }
    permits
}

#[test]
fn busy_holder_times_out_without_ending_the_transaction() {
    let servers = Servers::new();
    let list = [servers.limited(0), servers.limited(1)];
    servers.prepare(&list);
    let [one, other] = list;
    let id = one.start();
    let permits = take_permits(&one);
    let late =
        format!("UPDATE ks.t USING TRANSACTION {id} AND TIMEOUT 200ms SET v = 7 WHERE k = 1");
    let error = other.query(&late).unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Timeout, "{error}");
    assert!(error.message().contains("the transaction is still open"), "{error}");
    drop(permits);
    other.query(&format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = 1")).unwrap();
    other.query(&format!("COMMIT TRANSACTION {id}")).unwrap();
    assert_eq!(other.ints("SELECT v FROM ks.t"), [7]);
    assert_eq!(take_permits(&one).len(), take_permits(&other).len(), "all were given back");
}

/// Each server has a permit for each of its statements, and they wait for each other's.
#[test]
fn forwarded_statements_do_not_hold_the_permits_of_others() {
    let servers = Servers::new();
    let list = [servers.limited(0), servers.limited(1)];
    servers.prepare(&list);
    let [one, other] = list;
    let forward = |permits: Vec<Permit>, from: &Server, to: &Server| {
        let statements = permits.into_iter().map(|permit| {
            let write =
                format!("UPDATE ks.t USING TRANSACTION {} SET v = 7 WHERE k = 1", to.start());
            let grant = Grant { permit: Some(Arc::new(permit)), ..Grant::default() };
            let parameters = Parameters { grant, ..Parameters::default() };
            let (executor, session) = (from.executor.clone(), Session::new());
            servers
                .runtime
                .spawn(async move { executor.query(&session, &write, &parameters).await })
        });
        statements.collect::<Vec<_>>()
    };
    let (of_one, of_other) = (take_permits(&one), take_permits(&other));
    let (there, back) = (forward(of_one, &one, &other), forward(of_other, &other, &one));
    for task in there.into_iter().chain(back) {
        servers.runtime.block_on(task).unwrap().unwrap();
    }
}

#[test]
fn answers_that_are_no_answers_are_told_apart() {
    let servers = Servers::new();
    let [one, other, third] = servers.start::<3>();
    let id = one.start();
    let write = format!("UPDATE ks.t USING TRANSACTION {id} SET v = 7 WHERE k = 1");
    let refusal = "it has version 2".to_owned();
    one.answer_with(&Answer::Refused(refusal));
    let error = other.query(&write).unwrap_err();
    assert_eq!(*error.kind(), CqlErrorKind::Unsupported);
    assert_eq!(other.outcome(id), "open");
    assert!(error.message().contains("10.0.0.1:9042") && error.message().contains("version 2"));
    // The holder has forgotten it, or ends: the transaction is open in the commit table.
    one.answer_with(&Answer::NotHeld);
    assert_eq!(kind(other.query(&write)), CqlErrorKind::Unavailable);
    *lock(&one.holder.canned) = Some(Bytes::from_static(b"?"));
    assert_eq!(kind(other.query(&write)), CqlErrorKind::Aborted);
    let warnings = vec!["careful".to_owned()];
    one.answer_with(&Answer::Done { result: Ok(Response::Void), warnings });
    let memory = carnet_cql::AnswerMemory::new(&carnet_base::MemoryBudget::new(1 << 20), 1 << 19);
    let grant = Grant { memory: Some(Arc::new(memory)), ..Grant::default() };
    let parameters = Parameters { grant: grant.clone(), ..Parameters::default() };
    block_on(third.executor.query(&Session::new(), &write, &parameters)).unwrap();
    assert_eq!(grant.memory.unwrap().take_warnings(), ["careful"]);
    // A process that serves none.
    one.executor.db().serve_forwarded(&one.executor.forward_handler());
    assert_eq!(other.outcome(id), "open");
    assert_eq!(kind(other.query(&write)), CqlErrorKind::Unavailable);
}
