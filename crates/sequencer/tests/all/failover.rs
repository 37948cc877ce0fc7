//! Changes of leader, and leaders that do not know that they were deposed.

use std::collections::BTreeSet;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use carnet_base::{Clock as _, Epoch, ErrorKind, Timestamp, block_on};
use carnet_sequencer::Options;
use carnet_sequencer::sweep::Marks;
use carnet_store::cluster::{Register, Registers as _, SetAnswer};
use carnet_store::{BeginKind, CommitLog, Context, Outcome};
use carnet_txn::Isolation;

use crate::support;
use crate::support::log::Log;
use crate::support::scripted::{Effect, Op};
use crate::support::{Database, cell, put};

const LEASE: Op = Op::Set(Register::Lease);

/// I5. A leader that was deposed without knowing it must not commit below a snapshot that the new
/// leader has released: a reader may have scanned before the cells existed.
#[test]
fn stale_leader_cannot_commit_below_a_released_snapshot() {
    // Terms longer than a quantum, so that the old term's rows are not the new one's. Each of the
    // sixteen rows is tried.
    for row in 0..16 {
        let database = Database::with_bound_step(30_000_000);
        let stale = database.start("stale");
        let begun = (0..=row).map(|_| database.writer(&stale)).last().unwrap();
        stale.cluster.hold(LEASE);
        let next = database.start("next");
        database.let_lease_run_out();
        assert!(next.log.is_leading() && stale.log.is_leading(), "the stale one does not know");

        let reader = database.transaction(&next, Isolation::StrictSerializable);
        assert!(reader.read_timestamp() > begun.start.unwrap());
        assert_eq!(database.scan(&reader), []);
        let refused = database.commit(&stale, begun, &cell("phantom"), "boo").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        assert_eq!(database.scan(&reader), [], "the phantom is not there");
        assert!(!stale.log.is_leading(), "the fence told it");
    }
}

/// I7. A strict snapshot includes every commit that another leader acknowledged before the request.
#[test]
fn a_deposed_leader_hands_out_no_strict_snapshot() {
    let database = Database::new();
    let stale = database.start("stale");
    database.put(&stale, &cell("x"), "old");
    stale.cluster.hold(LEASE);
    let next = database.start("next");
    database.let_lease_run_out();
    let commit = database.put(&next, &cell("x"), "new");

    let context = Context::unbounded().accepting_stale();
    let stale_read = database.run(stale.log.begin(&context, BeginKind::ReadOnly)).unwrap();
    assert!(stale_read.read < commit, "a leader that proves nothing would hand this out");
    assert_eq!(database.read(&stale, &cell("x"), stale_read.read).as_deref(), Some(&b"old"[..]));
    let strict = database.begin(&stale, BeginKind::ReadOnly);
    assert!(strict.read >= commit);
    assert_eq!(database.read(&stale, &cell("x"), strict.read).as_deref(), Some(&b"new"[..]));
}

/// A candidate tries again at once for as long as the cluster does not answer.
#[test]
fn unreadable_lease_is_logged_at_a_limited_rate() {
    let database = Database::new();
    let member = database.start("member");
    database.snapshot(&member);
    member.cluster.script(LEASE, usize::MAX, Effect::Overload);
    member.cluster.script(Op::Read(Register::Lease), usize::MAX, Effect::Overload);
    let log = Log::collect(|| database.world.pass(Duration::from_secs(60)));
    let attempts = member.cluster.calls(Op::Read(Register::Lease)) + member.cluster.calls(LEASE);
    let lines = log.lines("the lease cannot be");
    assert!(attempts > 30, "{attempts}");
    // Three at once, and one each ten seconds.
    assert!((4..=9).contains(&lines.len()), "{lines:#?}");
    assert!(lines.iter().any(|line| !line.contains("suppressed=0")), "{lines:#?}");
}

/// Callers do not wait for a leader that hangs once there is another one.
#[test]
fn callers_of_a_hung_leader_ask_the_next() {
    let options = Options { call_timeout: Duration::from_secs(3600), ..support::asking() };
    let database = Database::with(Options { leader_timeout: options.call_timeout, ..options });
    let hangs = database.start("hangs");
    let (next, follower) = (database.start("next"), database.start("follower"));
    database.snapshot(&follower);
    hangs.cluster.hold(LEASE);
    hangs.cluster.hold(Op::Read(Register::Lease));
    let before = database.world.time.now();
    let begun = database.snapshot(&follower);
    assert!(next.log.is_leading() || follower.log.is_leading());
    assert!(database.world.time.now().since(before) < Duration::from_secs(3));
    assert!(begun >= database.lease().wall.0);
}

/// I7. The proof is a read that began after the request: an earlier read may have been answered
/// before another leader's commit.
#[test]
fn begin_joins_no_proof_in_flight() {
    let database = Database::new();
    let leader = database.start("leader");
    database.snapshot(&leader);
    let before = leader.cluster.calls(Op::Read(Register::Lease));
    let gate = leader.cluster.hold(Op::Read(Register::Lease));
    let context = Context::unbounded();
    let begin = || leader.log.begin(&context, BeginKind::ReadOnly);
    let (mut first, mut second, mut third) =
        (Box::pin(begin()), Box::pin(begin()), Box::pin(begin()));
    let waker = Waker::noop();
    let mut poll = TaskContext::from_waker(waker);
    assert!(Future::poll(first.as_mut(), &mut poll).is_pending());
    database.world.settle();
    assert_eq!(gate.arrived(), 1);
    assert!(Future::poll(second.as_mut(), &mut poll).is_pending());
    assert!(Future::poll(third.as_mut(), &mut poll).is_pending());
    gate.open();
    database.run(first).unwrap();
    database.run(second).unwrap();
    database.run(third).unwrap();
    let reads = leader.cluster.calls(Op::Read(Register::Lease)) - before;
    assert_eq!(reads, 2, "one for the first begin, and one shared by the other two");
}

/// A statement with a short timeout is no reason to suspect the leader.
#[test]
fn begin_ends_at_its_deadline_as_a_timeout() {
    let database = Database::new();
    let leader = database.start("leader");
    let _held = leader.cluster.hold(Op::Read(Register::Lease));
    let deadline = database.world.time.now().after(Duration::from_millis(1));
    for (context, kind) in [
        (Context::until(deadline), ErrorKind::Timeout),
        (Context::unbounded(), ErrorKind::Unavailable),
    ] {
        let begun = database.run(leader.log.begin(&context, BeginKind::ReadOnly));
        assert_eq!(begun.unwrap_err().kind(), kind);
    }
}

/// I5. A commit is decided, but its entry may not be in the commit table yet. A later leader has to fence the row of
/// its start, so the lease may not pass it.
#[test]
fn fence_starts_at_the_oldest_commit_that_is_not_final() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let start = begun.start.unwrap();
    let gate = leader.cluster.hold(Op::Put);
    let context = Context::unbounded();
    let mut commit = Box::pin(leader.log.commit(&context, put(begun, &cell("x"), "one")));
    assert!(commit.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    database.world.settle();
    assert_eq!(gate.arrived(), 1, "it is decided");
    let renewed = database.lease().renewal + 3;
    while database.lease().renewal < renewed {
        database.world.pass(Duration::from_millis(50));
    }
    assert!(database.lease().fence_from <= start);
    gate.open();
    database.run(commit).unwrap();
    leader.log.end(begun);
    while database.lease().fence_from <= start {
        database.world.pass(Duration::from_millis(50));
    }
}

/// A leader that leaves during a renewal releases its lease nevertheless.
#[test]
fn leader_leaving_during_a_renewal_releases_the_lease() {
    let database = Database::new();
    let leader = database.start("leader");
    let gate = leader.cluster.hold(LEASE);
    while gate.arrived() == 0 {
        database.world.pass(Duration::from_millis(50));
    }
    let mut leaving = Box::pin(leader.log.leave());
    let polled = leaving.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "its renewal is under way");
    gate.open();
    database.run(leaving);
    assert!(database.lease().released);
}

/// A process that leaves waits for the release of its lease: the write is not dropped with the
/// leader.
#[test]
fn leaving_leader_waits_for_the_release() {
    let database = Database::new();
    let leader = database.start("leader");
    let gate = leader.cluster.hold(LEASE);
    let mut leaving = Box::pin(leader.log.leave());
    let mut poll = TaskContext::from_waker(Waker::noop());
    assert!(leaving.as_mut().poll(&mut poll).is_pending());
    database.world.settle();
    assert_eq!(gate.arrived(), 1, "the lease is being given up");
    gate.open();
    database.run(leaving);
    assert!(database.lease().released);
}

/// The release is repeated after a lost answer or a lost request.
#[test]
fn leaving_leader_retries_the_release() {
    for effect in [Effect::LoseRequest, Effect::LoseAnswer] {
        let database = Database::new();
        let leader = database.start("leader");
        leader.cluster.script(LEASE, 1, effect);
        database.run(leader.log.leave());
        assert!(database.lease().released);
    }
}

/// I5. A leader that dies while it fences leaves the rest of the rows to the next one.
#[test]
fn leader_dying_while_fencing_leaves_no_row_open() {
    let database = Database::with_bound_step(30_000_000);
    let stale = database.start("stale");
    let begun = database.writer(&stale);
    stale.cluster.hold(LEASE);

    let dies = database.start("dies");
    dies.cluster.hold(Op::Move);
    database.let_lease_run_out();
    assert_eq!(database.lease().epoch, Epoch(2), "it has taken the lease");
    assert!(!dies.log.is_leading(), "and fenced nothing");
    dies.process.kill();
    database.network.cut(&dies.address);

    let third = database.start("third");
    database.let_lease_run_out();
    assert!(third.log.is_leading());
    let reader = database.transaction(&third, Isolation::StrictSerializable);
    assert_eq!(database.scan(&reader), []);
    assert!(database.commit(&stale, begun, &cell("phantom"), "boo").is_err());
    assert_eq!(database.scan(&reader), []);
}

/// I6. A start of an older epoch was committed by its own leader, or is aborted for good.
#[test]
fn starts_of_older_epochs_are_settled_by_the_table() {
    let database = Database::new();
    let old = database.start("old");
    let client = database.start("client");
    let (committed, open) = (database.writer(&client), database.writer(&client));
    let context = Context::unbounded();
    let request = put(committed, &cell("x"), "one");
    let commit = database.run(client.log.commit(&context, request.clone())).unwrap();

    old.process.kill();
    database.network.cut(&old.address);
    database.let_lease_run_out();
    assert!(client.log.is_leading());
    let again = database.run(client.log.commit(&context, request)).unwrap();
    assert_eq!(again, commit, "the same answer, from the table");
    let refused = database.commit(&client, open, &cell("y"), "two").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    let outcome = |start| database.run(client.log.outcome(&context, start)).unwrap();
    assert_eq!(outcome(committed.start.unwrap()), Outcome::Committed(commit));
    assert_eq!(outcome(open.start.unwrap()), Outcome::Aborted);
    let now = database.snapshot(&client);
    assert_eq!(database.read(&client, &cell("y"), now), None);
}

/// I1. No leader hands out a timestamp at or above the stored bound, and the next leader starts at
/// it.
#[test]
fn timestamps_stay_below_the_stored_bound() {
    let database = Database::with_bound_step(20);
    let first = database.start("first");
    let mut starts = BTreeSet::new();
    for _ in 0..100 {
        let start = database.writer(&first).start.unwrap();
        assert!(start < database.lease().bound, "{start} is not covered by the lease");
        assert!(starts.insert(start));
    }
    // From now on it cannot raise its bound.
    first.cluster.hold(LEASE);
    let context = Context::unbounded().accepting_stale();
    let exhausted = loop {
        match database.run(first.log.begin(&context, BeginKind::ReadWrite)) {
            Ok(begun) => assert!(starts.insert(begun.start.unwrap())),
            Err(error) => break error,
        }
    };
    assert!(matches!(exhausted.kind(), ErrorKind::Overloaded { .. }), "{exhausted}");
    let bound = database.lease().bound;
    assert!(*starts.last().unwrap() < bound);
    let second = database.start("second");
    database.let_lease_run_out();
    let start = database.writer(&second).start.unwrap();
    assert!(start > bound, "the bound itself is consumed");
}

#[test]
fn exhausted_bound_recovers_with_the_cluster() {
    let database = Database::with_bound_step(20);
    let leader = database.start("leader");
    leader.cluster.script(LEASE, 3, Effect::LoseRequest);
    let mut last = Timestamp::ZERO;
    let mut overloads = 0;
    for _ in 0..200 {
        match database.run(leader.log.begin(&Context::unbounded(), BeginKind::ReadWrite)) {
            Ok(begun) => {
                assert!(begun.start.unwrap() > last);
                last = begun.start.unwrap();
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }), "{error}");
                overloads += 1;
                database.world.pass(Duration::from_millis(10));
            }
        }
    }
    assert!(last.get() > 100 && overloads < 100);
}

#[test]
fn another_process_takes_over_within_two_seconds() {
    let database = Database::new();
    let (leader, other) = (database.start("leader"), database.start("other"));
    let commit = database.put(&other, &cell("x"), "one");
    leader.process.kill();
    database.network.cut(&leader.address);
    let died = carnet_base::Clock::now(&database.world.time);
    let after = database.put(&other, &cell("x"), "two");
    let took = carnet_base::Clock::now(&database.world.time).since(died);
    assert!(after > commit);
    assert!(took <= Duration::from_secs(2), "{took:?}");
    let now = database.snapshot(&other);
    assert_eq!(database.read(&other, &cell("x"), now).as_deref(), Some(&b"two"[..]));
}

#[test]
fn ending_leader_releases_its_lease() {
    let database = Database::new();
    let (leader, other) = (database.start("leader"), database.start("other"));
    database.put(&other, &cell("x"), "one");
    drop(leader.log);
    let before = carnet_base::Clock::now(&database.world.time);
    database.put(&other, &cell("x"), "two");
    let took = carnet_base::Clock::now(&database.world.time).since(before);
    assert!(took < Duration::from_secs(1), "the lease did not have to expire: {took:?}");
    assert_eq!(database.lease().epoch, Epoch(2));
}

/// A compare-and-set of the lease whose answer is lost is resolved.
#[test]
fn lease_set_without_an_answer_is_detected() {
    for effect in [Effect::LoseAnswer, Effect::LoseRequest] {
        let database = Database::new();
        let first = database.start("first");
        first.process.kill();
        database.network.cut(&first.address);
        let second = database.start("second");
        second.cluster.script(LEASE, 2, effect.clone());
        database.let_lease_run_out();
        assert!(second.log.is_leading());
        assert_eq!(database.lease().epoch, Epoch(2));
        database.put(&second, &cell("x"), "one");
    }
}

/// A row whose fence timed out is raised nevertheless.
#[test]
fn fences_are_raised_despite_lost_answers() {
    for effect in [Effect::LoseAnswer, Effect::LoseRequest] {
        let database = Database::with_bound_step(30_000_000);
        let stale = database.start("stale");
        let begun = database.writer(&stale);
        stale.cluster.hold(LEASE);
        let next = database.start("next");
        next.cluster.script(Op::Move, 30, effect.clone());
        database.let_lease_run_out();
        database.let_lease_run_out();
        assert!(next.log.is_leading());
        database.snapshot(&next);
        assert!(database.commit(&stale, begun, &cell("x"), "late").is_err());
    }
}

/// Snapshots of a dead process do not hold the sweep back for ever.
#[test]
fn snapshots_of_dead_processes_are_given_up() {
    let database = Database::new();
    let leader = database.start("leader");
    let dies = database.start("dies");
    let held = database.writer(&dies).start.unwrap();
    database.put(&leader, &cell("x"), "one");
    database.world.pass(Duration::from_secs(5));
    assert_eq!(database.lease().fence_from, held);
    dies.process.kill();
    database.network.cut(&dies.address);
    database.world.pass(Duration::from_secs(60));
    database.put(&leader, &cell("x"), "two");
    database.world.pass(Duration::from_secs(5));
    assert!(database.lease().fence_from > held);
}

/// A cancelled begin leaves no open snapshot, although its process lives on.
#[test]
fn cancelled_begin_gives_its_snapshot_back() {
    let database = Database::new();
    let leader = database.start("leader");
    let follower = database.start("follower");
    database.snapshot(&follower);
    {
        let context = Context::unbounded();
        let mut begin = Box::pin(follower.log.begin(&context, BeginKind::ReadWrite));
        let mut poll = TaskContext::from_waker(Waker::noop());
        assert!(Future::poll(begin.as_mut(), &mut poll).is_pending());
        database.world.settle();
    }
    let commit = database.put(&leader, &cell("x"), "one");
    database.world.pass(Duration::from_secs(5));
    assert!(database.lease().fence_from >= commit);
}

/// A page read from a leader that died is followed by the next page of the same moment.
#[test]
fn snapshots_of_an_earlier_term_are_taken_up_again() {
    let database = Database::new();
    let old = database.start("old");
    database.put(&old, &cell("x"), "one");
    let page = database.snapshot(&old);
    let other = database.start("other");
    database.put(&old, &cell("x"), "two");
    old.process.kill();
    database.let_lease_run_out();
    database.put(&other, &cell("x"), "three");
    let begun = database.begin(&other, BeginKind::ReadOnlyAt(page));
    assert_eq!(begun.read, page);
    assert_eq!(database.read(&other, &cell("x"), page).as_deref(), Some(&b"one"[..]));
    let third = database.start("third");
    database.begin(&third, BeginKind::ReadOnlyAt(page));
    assert_eq!(database.read(&third, &cell("x"), page).as_deref(), Some(&b"one"[..]));
    // What the sweep has passed stays out of reach of the next leader, too.
    let mark = Marks { versions: page.checked_add(1).unwrap(), ..Marks::default() };
    let (memory, mark) = (&database.replicas.memory, mark.encode());
    let set = memory.compare_and_set(Register::SweepMark, None, &mark);
    assert!(matches!(block_on(set), Ok(SetAnswer::Applied)));
    other.process.kill();
    database.let_lease_run_out();
    let context = Context::unbounded();
    let late = third.log.begin(&context, BeginKind::ReadOnlyAt(page));
    assert_eq!(database.run(late).unwrap_err().kind(), ErrorKind::TooOld);
}
