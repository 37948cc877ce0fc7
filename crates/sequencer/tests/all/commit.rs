//! Commits whose answers are lost, and entries that live on one replica.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use carnet_base::commit_encoding::v2;
use carnet_base::{Clock, CommitEntry, Encoding, ErrorKind, Result, Timestamp, block_on};
use carnet_sequencer::message::{ClientId, LeaderRequest, Response, Token};
use carnet_sequencer::sweep::Marks;
use carnet_store::cluster::{
    Acknowledge, ClusterCells, CommitRow, CommitRows, CommitTable, Register, Registers, VersionName,
};
use carnet_store::{BeginKind, Begun, CommitLog, Context, Outcome};
use carnet_txn::{Isolation, reader};

use crate::support;
use crate::support::scripted::{Effect, Gate, Op};
use crate::support::{Database, Member, cell, put};

const ENCODINGS: [Encoding; 2] = [Encoding::V2, Encoding::V3];

type Committing<'a> = Pin<Box<dyn Future<Output = Result<Timestamp>> + 'a>>;

/// Begins a commit, and runs everything that can go on without time passing.
fn start_commit<'a>(
    database: &Database,
    member: &'a Member,
    context: &'a Context,
    request: carnet_store::CommitRequest,
) -> Committing<'a> {
    let mut commit: Committing<'a> = Box::pin(member.log.commit(context, request));
    assert!(poll(&mut commit).is_pending());
    database.world.settle();
    commit
}

fn poll<T>(future: &mut Pin<Box<dyn Future<Output = T> + '_>>) -> Poll<T> {
    future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()))
}

fn outcome(database: &Database, member: &Member, start: Timestamp) -> Outcome {
    database.run(member.log.outcome(&Context::unbounded(), start)).unwrap()
}

/// I8. The round was applied and its answer lost. The leader finds its own entry, which proves
/// nothing, makes it final, and acknowledges the first C.
#[test]
fn timed_out_applied_commit_is_committed_once() {
    for encoding in ENCODINGS {
        let database = Database::encoded(encoding);
        let leader = database.start("leader");
        let begun = database.writer(&leader);
        leader.cluster.script(Op::Put, 1, Effect::LoseAnswer);
        let commit = database.commit(&leader, begun, &cell("x"), "one").unwrap();
        assert_eq!((leader.cluster.calls(Op::Put), leader.cluster.calls(Op::Touch)), (2, 1));
        assert_eq!(outcome(&database, &leader, begun.start.unwrap()), Outcome::Committed(commit));
        assert_eq!(commit.get(), begun.start.unwrap().get() + 1, "no second C was drawn");
        let now = database.snapshot(&leader);
        assert!(now >= commit);
        assert_eq!(database.read(&leader, &cell("x"), now).as_deref(), Some(&b"one"[..]));
    }
}

/// An entry whose write was applied is final: its commit does not wait for the confirmation, which
/// follows, so that later readers need not make the entry final themselves.
#[test]
fn applied_entry_is_confirmed_in_the_background() {
    for (encoding, confirmations) in [(Encoding::V2, 0), (Encoding::V3, 1)] {
        let database = Database::encoded(encoding);
        let leader = database.start("leader");
        let begun = database.writer(&leader);
        database.commit(&leader, begun, &cell("x"), "one").unwrap();
        database.world.settle();
        assert_eq!(leader.cluster.calls(Op::Confirm), confirmations, "{encoding:?}");
    }
}

#[test]
fn timed_out_unapplied_commit_is_sent_again() {
    for encoding in ENCODINGS {
        let database = Database::encoded(encoding);
        let leader = database.start("leader");
        let begun = database.writer(&leader);
        leader.cluster.script(Op::Put, 3, Effect::LoseRequest);
        let commit = database.commit(&leader, begun, &cell("x"), "one").unwrap();
        assert_eq!(leader.cluster.calls(Op::Put), 4);
        assert_eq!(commit.get(), begun.start.unwrap().get() + 1, "no second C was drawn");
    }
}

/// I8. The leader's resend meets its own entry on the single replica that has it. The entry is final
/// before it is acknowledged: readers see it whether or not they reach that replica.
#[test]
fn entry_on_one_replica_is_final_before_acknowledgement() {
    let database = Database::new();
    let leader = database.start("leader");
    database.replicas.meets_ghosts.store(true, Ordering::SeqCst);
    leader.cluster.script(Op::Put, 1, Effect::Ghost);
    let commit = database.put(&leader, &cell("x"), "one");
    assert_eq!(leader.cluster.calls(Op::Confirm), 1, "c is there before the answer");
    database.replicas.meets_ghosts.store(false, Ordering::SeqCst);
    let other = database.start("other");
    assert_eq!(database.read(&other, &cell("x"), commit).as_deref(), Some(&b"one"[..]));
}

/// A leader dies and leaves an entry on one replica. Whether the first reader of the next epoch
/// meets it decides its outcome, and all later readers agree.
#[test]
fn entry_left_by_a_dead_leader_has_one_outcome() {
    for encoding in ENCODINGS {
        for is_met in [true, false] {
            let database = Database::encoded(encoding);
            let dies = database.start("dies");
            let begun = database.writer(&dies);
            dies.cluster.script(Op::Put, usize::MAX, Effect::Ghost);
            let context = Context::unbounded();
            let request = put(begun, &cell("x"), "one");
            let commit = start_commit(&database, &dies, &context, request);
            dies.process.kill();
            database.network.cut(&dies.address);
            drop(commit);

            let next = database.start("next");
            database.let_lease_run_out();
            let read = database.snapshot(&next);
            database.replicas.meets_ghosts.store(is_met, Ordering::SeqCst);
            let first = database.read(&next, &cell("x"), read);
            assert_eq!(first.is_some(), is_met, "{encoding}");
            for meets in [true, false, true] {
                database.replicas.meets_ghosts.store(meets, Ordering::SeqCst);
                // A new process has no cached outcomes.
                let other = database.start(&format!("other {meets}"));
                database.snapshot(&other);
                assert_eq!(database.read(&other, &cell("x"), read), first, "{encoding} {meets}");
            }
            let outcome = outcome(&database, &next, begun.start.unwrap());
            assert_eq!(outcome != Outcome::Aborted, is_met, "{encoding}");
        }
    }
}

/// I3. P stops below a commit that is not resolved: a later commit waits for it, and no snapshot
/// includes either.
#[test]
fn a_commit_waits_for_all_before_it() {
    let database = Database::new();
    let leader = database.start("leader");
    let first = database.writer(&leader);
    let row = |begun: &Begun| v2::cell(begun.start.unwrap()).row;
    // A row gets its share of starts before the next one.
    let second = loop {
        let second = database.writer(&leader);
        if row(&second) != row(&first) {
            break second;
        }
        leader.log.end(second);
    };
    let before = database.snapshot(&leader);
    let gate = Arc::new(Gate::default());
    leader.cluster.script(Op::Put, 1, Effect::Hold(Arc::clone(&gate)));
    let context = Context::unbounded();
    let mut held = start_commit(&database, &leader, &context, put(first, &cell("x"), "one"));
    let mut later = start_commit(&database, &leader, &context, put(second, &cell("y"), "two"));
    assert_eq!((gate.arrived(), leader.cluster.calls(Op::Put)), (1, 2), "rows of their own");
    assert!(poll(&mut later).is_pending(), "it is final, and may not be acknowledged");
    assert_eq!(database.snapshot(&leader), before);
    assert_eq!(outcome(&database, &leader, second.start.unwrap()), Outcome::Pending);
    gate.open();
    let (first, second) = (database.run(&mut held).unwrap(), database.run(&mut later).unwrap());
    assert!(first < second);
    assert_eq!(database.snapshot(&leader), second);
}

/// Commits whose row is busy go together once it is free.
#[test]
fn commits_of_a_busy_row_gather() {
    let database = Database::new();
    let leader = database.start("leader");
    let gate = leader.cluster.hold(Op::Put);
    let context = Context::unbounded();
    let begun: Vec<_> = (0..64).map(|_| database.writer(&leader)).collect();
    let mut commits: Vec<_> = begun
        .iter()
        .enumerate()
        .map(|(n, begun)| {
            let request = put(*begun, &cell(&format!("{n}")), "x");
            start_commit(&database, &leader, &context, request)
        })
        .collect();
    assert_eq!(leader.cluster.calls(Op::Put), 1, "starts share a row");
    gate.open();
    for commit in &mut commits {
        database.run(commit).unwrap();
    }
    assert_eq!(leader.cluster.calls(Op::Put), 2, "all others waited for the first");
}

/// I7. A group that begins after the request for a strict snapshot and is applied proves
/// leadership: the lease is not read.
#[test]
fn next_group_proves_leadership_for_a_begin() {
    let database = Database::new();
    let leader = database.start("leader");
    let (context, begun) = (Context::unbounded(), [(); 2].map(|()| database.writer(&leader)));
    let lease_reads = leader.cluster.calls(Op::Read(Register::Lease));
    let gates = [(); 2].map(|()| Arc::new(Gate::default()));
    gates.iter().for_each(|gate| leader.cluster.script(Op::Put, 1, Effect::Hold(Arc::clone(gate))));
    let mut keys = ["x", "y"].iter();
    let [mut first, mut second] = begun.map(|begun| {
        let request = put(begun, &cell(keys.next().unwrap()), "one");
        start_commit(&database, &leader, &context, request)
    });
    let begin = leader.log.begin(&context, BeginKind::ReadOnly);
    let mut begin: Pin<Box<dyn Future<Output = _>>> = Box::pin(begin);
    assert!(poll(&mut begin).is_pending());
    gates[0].open();
    let committed = database.run(&mut first).unwrap();
    database.world.settle();
    assert!(poll(&mut begin).is_pending(), "that group began before the snapshot was asked for");
    gates[1].open();
    assert!(database.run(&mut begin).unwrap().read >= committed);
    assert!(database.run(&mut second).unwrap() > committed);
    assert_eq!(leader.cluster.calls(Op::Read(Register::Lease)), lease_reads);
}

/// A row of the commit table that cannot be written delays no reader for long.
#[test]
fn begin_does_not_wait_for_a_hung_group() {
    let database = Database::new();
    let leader = database.start("leader");
    let (context, begun) = (Context::unbounded(), [(); 2].map(|()| database.writer(&leader)));
    let _gate = leader.cluster.hold(Op::Put);
    let mut keys = ["x", "y"].iter();
    let _commits = begun.map(|begun| {
        let request = put(begun, &cell(keys.next().unwrap()), "one");
        start_commit(&database, &leader, &context, request)
    });
    let before = database.world.time.now();
    database.snapshot(&leader);
    assert!(database.world.time.now().since(before) < Duration::from_millis(100));
}

/// I7. A group that a later leader's fence refuses is no proof.
#[test]
fn refused_group_is_no_proof() {
    let database = Database::new();
    let stale = database.start("stale");
    let (context, begun) = (Context::unbounded(), [(); 2].map(|()| database.writer(&stale)));
    let gate = stale.cluster.hold(Op::Put);
    stale.cluster.hold(Op::Set(Register::Lease));
    let mut keys = ["x", "y"].iter();
    let _commits = begun.map(|begun| {
        let request = put(begun, &cell(keys.next().unwrap()), "old");
        start_commit(&database, &stale, &context, request)
    });
    let next = database.start("next");
    database.let_lease_run_out();
    let commit = database.put(&next, &cell("z"), "new");
    let begin = stale.log.begin(&context, BeginKind::ReadOnly);
    let mut begin: Pin<Box<dyn Future<Output = _>>> = Box::pin(begin);
    assert!(poll(&mut begin).is_pending());
    gate.open();
    assert!(database.run(&mut begin).unwrap().read >= commit);
}

/// I2. A commit is decided only after a majority has its cells.
#[test]
fn majority_has_the_cells_before_the_commit() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let gate = leader.cluster.hold(Op::Write);
    let context = Context::unbounded();
    let mut commit = start_commit(&database, &leader, &context, put(begun, &cell("x"), "one"));
    assert_eq!((gate.arrived(), leader.cluster.calls(Op::Put)), (1, 0));
    let other = database.writer(&leader);
    gate.open();
    let committed = database.run(&mut commit).unwrap();
    assert!(committed > other.start.unwrap(), "C came after the cells");
}

#[test]
fn cells_that_no_majority_takes_are_not_committed() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    leader.cluster.script(Op::Write, 2, Effect::LoseAnswer);
    database.commit(&leader, begun, &cell("x"), "one").unwrap();
    let begun = database.writer(&leader);
    leader.cluster.script(Op::Write, usize::MAX, Effect::LoseAnswer);
    let failed = database.commit(&leader, begun, &cell("x"), "two").unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
    assert_eq!(outcome(&database, &leader, begun.start.unwrap()), Outcome::Aborted);
    let now = database.snapshot(&leader);
    assert_eq!(database.read(&leader, &cell("x"), now).as_deref(), Some(&b"one"[..]));
}

/// A row that the cluster will never take is not tried again, and is not called a failure of the
/// cluster.
#[test]
fn cells_that_are_refused_are_invalid() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    leader.cluster.script(Op::Write, usize::MAX, Effect::Refuse);
    let failed = database.commit(&leader, begun, &cell("x"), "one").unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Invalid, "{failed}");
    assert_eq!(leader.cluster.calls(Op::Write), 1);
}

/// A process was silent until its transaction was given up and aborted. When it continues, the
/// transaction does not become open again.
#[test]
fn aborted_transaction_of_a_paused_process_stays_aborted() {
    let database = Database::new();
    let leader = database.start("leader");
    let paused = database.start("paused");
    let start = database.writer(&paused).start.unwrap();
    assert_eq!(outcome(&database, &leader, start), Outcome::Pending);
    paused.process.pause();
    for _ in 0..40 {
        database.world.pass(Duration::from_secs(1));
    }
    assert_eq!(outcome(&database, &leader, start), Outcome::Aborted);
    paused.process.resume();
    for _ in 0..20 {
        database.world.pass(Duration::from_secs(1));
        assert_eq!(outcome(&database, &leader, start), Outcome::Aborted);
    }
}

/// I6. A repeated request, concurrent or later, gets the first answer.
#[test]
fn a_commit_asked_for_twice_is_decided_once() {
    let database = Database::new();
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "warm");
    let handler = leader.log.handler();
    let client = ClientId(99);
    let ask = |request: &LeaderRequest| database.run(Arc::clone(&handler).handle(request.clone()));
    let begin = |token| {
        let (kind, is_strict) = (BeginKind::ReadWrite, false);
        let begin = LeaderRequest::Begin { client, token, kind, is_strict, known: None };
        match ask(&begin) {
            Response::Released(released, _) => released,
            other => panic!("{other:?}"),
        }
    };
    let released = begin(Token(1));
    assert_eq!(begin(Token(1)), released, "a snapshot asked for twice is the same one");
    let begun = Begun {
        read: released.read,
        start: released.start,
        slot: carnet_store::Slot::default(),
        schema: released.schema,
    };
    let claim = put(begun, &cell("x"), "one").into_claim();
    let request = LeaderRequest::Commit { client, token: Token(1), claim };
    let gate = leader.cluster.hold(Op::Put);
    let mut twice: Vec<_> = (0..2).map(|_| Arc::clone(&handler).handle(request.clone())).collect();
    for answering in &mut twice {
        assert!(answering.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    }
    database.world.settle();
    gate.open();
    let committed = |response: &Response| match response {
        Response::Committed(commit) => *commit,
        other => panic!("{other:?}"),
    };
    let first = committed(&database.run(&mut twice[0]));
    assert_eq!(committed(&database.run(&mut twice[1])), first);
    assert_eq!(committed(&ask(&request)), first, "and later");
    assert!(matches!(ask(&LeaderRequest::End { client, token: Token(1) }), Response::Done));
    assert_eq!(committed(&ask(&request)), first, "and when it is over");
    assert_eq!(leader.cluster.calls(Op::Put), 2, "one of them the warm-up's");
}

/// Only a later leader can have handed the start out, and only that leader knows its outcome; an
/// answer of this one would be taken as certain.
#[test]
fn leader_does_not_answer_for_later_starts() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let beyond = Timestamp::new(begun.start.unwrap().get() + 1_000_000).unwrap();
    let later = Begun { start: Some(beyond), ..begun };
    let claim = put(later, &cell("x"), "one").into_claim();
    let request = LeaderRequest::Commit { client: ClientId(99), token: Token(1), claim };
    let answer = database.run(leader.log.handler().handle(request));
    assert!(matches!(answer, Response::NotLeading), "{answer:?}");
}

/// A commit that arrives after its snapshot was given back aborts.
#[test]
fn late_commit_after_the_snapshots_end_aborts() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    leader.log.end(begun);
    let refused = database.commit(&leader, begun, &cell("x"), "late").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(outcome(&database, &leader, begun.start.unwrap()), Outcome::Aborted);
}

/// A leader that finds an abort marker in the place of its entry must abort the transaction.
#[test]
fn entry_settled_first_by_a_reader_is_aborted() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let start = begun.start.unwrap();
    let cell_of = Encoding::V3.cell(start);
    let row = CommitRow { table: CommitTable::V3, row: cell_of.row };
    let value = Encoding::V3.encode(start, CommitEntry::Aborted).unwrap();
    let marker = carnet_store::cluster::NewEntry { column: cell_of.column, value };
    block_on(database.replicas.memory.put_unless_exists(&row, None, &[marker])).unwrap();
    let refused = database.commit(&leader, begun, &cell("x"), "one").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    // P passes it, and later commits go on.
    let commit = database.put(&leader, &cell("y"), "two");
    assert_eq!(database.snapshot(&leader), commit);
}

/// The protocol allows no entry of this epoch that its leader did not write: the leader stops.
#[test]
fn impossible_entry_stops_the_leader() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let start = begun.start.unwrap();
    let cell_of = Encoding::V3.cell(start);
    let row = CommitRow { table: CommitTable::V3, row: cell_of.row };
    let strange = start.checked_add(1_000).unwrap();
    let value = Encoding::V3.encode(start, CommitEntry::Committed(strange)).unwrap();
    let entry = carnet_store::cluster::NewEntry { column: cell_of.column, value };
    block_on(database.replicas.memory.put_unless_exists(&row, None, &[entry])).unwrap();
    let unknown = database.commit(&leader, begun, &cell("x"), "one").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::Unknown { start });
    database.let_lease_run_out();
    let context = Context::unbounded();
    let stopped = database.run(leader.log.begin(&context, BeginKind::ReadOnly)).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Corrupted, "{stopped}");
}

/// I9. The sweep stamps a version and deletes its entry between a reader's two reads.
#[test]
fn reader_without_an_entry_rereads_the_version() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let (key, start) = (cell("x"), begun.start.unwrap());
    let commit = database.commit(&leader, begun, &key, "one").unwrap();
    let read = database.snapshot(&leader);

    let other = database.start("other");
    database.snapshot(&other);
    let gate = other.cluster.hold(Op::ReadEntries);
    let context = Context::unbounded();
    let mut reading: Pin<Box<dyn Future<Output = _>>> =
        Box::pin(reader::read(&*other.log, &context, &key, read));
    while gate.arrived() == 0 {
        assert!(poll(&mut reading).is_pending());
        database.world.settle();
    }
    let memory = &database.replicas.memory;
    let name = VersionName { key: key.clone(), start };
    block_on(memory.stamp_versions(&[(name, commit)])).unwrap();
    let cell_of = Encoding::V3.cell(start);
    let row = CommitRow { table: CommitTable::V3, row: cell_of.row };
    block_on(memory.delete_entries(&row, &[cell_of.column])).unwrap();
    gate.open();
    let found = database.run(reading).unwrap();
    assert_eq!(found.and_then(|version| version.payload).as_deref(), Some(&b"one"[..]));
}

/// I9. Below the sweep mark an absent entry does not prove an abort.
#[test]
fn an_outcome_below_the_sweep_mark_is_unknown() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let start = begun.start.unwrap();
    let commit = database.commit(&leader, begun, &cell("x"), "one").unwrap();
    let memory = &database.replicas.memory;
    let name = VersionName { key: cell("x"), start };
    block_on(memory.stamp_versions(&[(name, commit)])).unwrap();
    let mark = Marks { versions: commit, entries: commit, ..Marks::default() }.encode();
    block_on(memory.compare_and_set(Register::SweepMark, None, &mark)).unwrap();
    let cell_of = Encoding::V3.cell(start);
    let row = CommitRow { table: CommitTable::V3, row: cell_of.row };
    block_on(memory.delete_entries(&row, &[cell_of.column])).unwrap();

    leader.process.kill();
    database.network.cut(&leader.address);
    let next = database.start("next");
    database.let_lease_run_out();
    let context = Context::unbounded();
    for _ in 0..2 {
        let unknown = database.run(next.log.outcome(&context, start)).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Unknown { start });
    }
    let now = database.snapshot(&next);
    assert_eq!(database.read(&next, &cell("x"), now).as_deref(), Some(&b"one"[..]));
    let old = database.run(reader::read(&*next.log, &context, &cell("x"), start)).unwrap_err();
    assert_eq!(old.kind(), ErrorKind::TooOld, "the sweep has passed that snapshot");
}

/// A version that the sweep deleted stays deleted, even if a slow read completes later.
#[test]
fn a_swept_version_is_gone_for_good() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let name = VersionName { key: cell("x"), start: begun.start.unwrap() };
    database.commit(&leader, begun, &cell("x"), "one").unwrap();
    block_on(database.replicas.memory.delete_versions(&[name], Acknowledge::All)).unwrap();
    let now = database.snapshot(&leader);
    assert_eq!(database.read(&leader, &cell("x"), now), None);
}

/// I10. Migrations there and back, while transactions run.
#[test]
fn a_migration_loses_nothing_and_copies_nothing() {
    let lease = carnet_sequencer::LeaseOptions { bound_step: 40, ..Default::default() };
    let options = carnet_sequencer::Options {
        encoding: Encoding::V2,
        coordination_step: 30,
        lease,
        ..support::asking()
    };
    let database = Database::with(options);
    let leader = database.start("leader");
    let mut written = Vec::new();
    let mut put = |database: &Database, leader: &Member, name: String| {
        let begun = database.writer(leader);
        let commit = database.commit(leader, begun, &cell(&name), "x").unwrap();
        written.push((name, begun.start.unwrap(), commit));
    };
    put(&database, &leader, "v2".to_owned());
    for (round, to) in [Encoding::V3, Encoding::V2, Encoding::V3].into_iter().enumerate() {
        let first = database.run(leader.log.migrate(to)).unwrap().unwrap();
        assert_eq!(database.run(leader.log.migrate(to)).unwrap(), None, "{to} from {first} on");
        put(&database, &leader, format!("before {round}"));
        // The starts of the previous encoding are used up.
        for _ in 0..3 {
            raise_bound(&database, &leader);
        }
        put(&database, &leader, format!("after {round}"));
    }
    let now = database.snapshot(&leader);
    for (name, start, commit) in &written {
        assert!(database.read(&leader, &cell(name), now).is_some(), "{name}");
        assert_eq!(outcome(&database, &leader, *start), Outcome::Committed(*commit));
    }
    let map = database
        .replicas
        .memory
        .read_register(Register::Coordination, carnet_store::cluster::ReadMode::Serial);
    let map = block_on(map).unwrap().unwrap();
    let map = carnet_sequencer::coordination::EncodingMap::decode(&map).unwrap();
    let encodings: Vec<_> =
        written.iter().map(|(_, start, _)| map.encoding_of(*start).unwrap().version()).collect();
    assert_eq!(encodings, [2, 2, 3, 3, 2, 2, 3], "each in force once the rest was used up");
    assert!(database.run(leader.log.migrate(Encoding::V1)).is_err(), "a cluster has no v1");
}

/// Uses up half of the timestamps below the bound, so that it is raised.
fn raise_bound(database: &Database, leader: &Member) {
    let bound = database.lease().bound;
    while database.lease().bound == bound {
        database.put(leader, &cell("filler"), "x");
    }
}

/// Serializable transactions over the cluster: no write skew.
#[test]
fn write_skew_is_refused() {
    let database = Database::new();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    let one = database.transaction(&leader, Isolation::StrictSerializable);
    let two = database.transaction(&follower, Isolation::StrictSerializable);
    assert_eq!(database.run(one.get(&cell("x"))).unwrap(), None);
    assert_eq!(database.run(two.get(&cell("y"))).unwrap(), None);
    one.put(cell("y"), "1".into()).unwrap();
    two.put(cell("x"), "1".into()).unwrap();
    database.run(one.commit()).unwrap();
    let refused = database.run(two.commit()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
}

/// A scan returns all entries of a range of starts, from all rows.
#[test]
fn a_scan_of_starts_finds_every_entry() {
    let database = Database::new();
    let leader = database.start("leader");
    let mut written = Vec::new();
    for n in 0..40 {
        let begun = database.writer(&leader);
        let commit = database.commit(&leader, begun, &cell(&format!("{n}")), "x").unwrap();
        written.push((begun.start.unwrap(), CommitEntry::Committed(commit)));
    }
    let table = leader.log.commit_table();
    let (from, to) = (written[5].0, written[35].0);
    let (mut found, mut resume) = (Vec::new(), None);
    loop {
        let page = database.run(table.scan(from, to, resume, 2)).unwrap();
        assert!(page.entries.len() <= 2);
        found.extend(page.entries);
        resume = page.resume;
        if resume.is_none() {
            break;
        }
    }
    found.sort_unstable_by_key(|(start, _)| *start);
    assert_eq!(found, written[5..35]);
}

/// The cells of a transaction that would be refused are not written: readers would have to look up
/// its outcome until the sweep.
#[test]
fn leader_refuses_a_conflict_before_writing_cells() {
    let database = Database::new();
    let leader = database.start("leader");
    let late = database.writer(&leader);
    database.put(&leader, &cell("x"), "first");
    let before = leader.cluster.calls(Op::Write);
    let refused = database.commit(&leader, late, &cell("x"), "late").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(leader.cluster.calls(Op::Write), before);
    // A repeated commit is not refused because of its own writes.
    let begun = database.writer(&leader);
    let (context, request) = (Context::unbounded(), put(begun, &cell("y"), "once"));
    let commit = || database.run(leader.log.commit(&context, request.clone())).unwrap();
    assert_eq!(commit(), commit());
    assert_eq!(outcome(&database, &leader, late.start.unwrap()), Outcome::Aborted);
}

/// Any process may abort a transaction of another one that is still open: its later commit finds the
/// abort marker. A commit that was decided is not undone.
#[test]
fn open_start_of_another_process_can_be_aborted() {
    for encoding in ENCODINGS {
        let database = Database::encoded(encoding);
        let leader = database.start("leader");
        let follower = database.start("follower");
        let abort = |member: &Member, start| {
            database.run(member.log.abort(&Context::unbounded(), start)).unwrap()
        };
        for (owner, other) in [(&leader, &follower), (&follower, &leader)] {
            let begun = database.writer(owner);
            let start = begun.start.unwrap();
            assert_eq!(outcome(&database, other, start), Outcome::Pending);
            assert_eq!(abort(other, start), Outcome::Aborted);
            assert_eq!(outcome(&database, owner, start), Outcome::Aborted);
            let refused = database.commit(owner, begun, &cell("x"), "never").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
            assert_eq!(abort(other, start), Outcome::Aborted, "again");
            let entries = database.run(async {
                let mut entries = Vec::new();
                let all = (Timestamp::ZERO, Timestamp::MAX);
                let mut visit = |_, start, entry| {
                    entries.push((start, entry));
                    Ok(())
                };
                owner.log.commit_table().list(all, &mut visit).await.map(|_| entries)
            });
            assert!(entries.unwrap().contains(&(start, CommitEntry::Aborted)), "the marker is put");
        }
        let begun = database.writer(&follower);
        let start = begun.start.unwrap();
        let commit = database.commit(&follower, begun, &cell("x"), "one").unwrap();
        assert_eq!(abort(&leader, start), Outcome::Committed(commit));
        let now = database.snapshot(&leader);
        assert_eq!(database.read(&leader, &cell("x"), now).as_deref(), Some(&b"one"[..]));
    }
}
