//! The sweep, beside transactions, readers, and leaders that do not know that they were deposed.

use std::pin::Pin;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use carnet_base::{Clock as _, ColumnId, ErrorKind, KeyRange, Timestamp, block_on};
use carnet_data::row::{Column, RowImage};
use carnet_sequencer::Options;
use carnet_sequencer::sweep::{Marks, SweepOptions, SweepReport, SweepStatus};
use carnet_store::cluster::{ClusterCells, ReadMode, Register, Registers};
use carnet_store::{BeginKind, CommitLog, Context, Outcome, PageLimit};
use carnet_txn::reader;

use crate::support;
use crate::support::scripted::{Effect, Op};
use crate::support::{Database, Member, TABLE, cell, put};

const MANY: PageLimit = PageLimit { cells: 1000, bytes: usize::MAX };

fn sweep(database: &Database, member: &Member) -> SweepReport {
    database.run(member.log.sweep()).unwrap()
}

/// Returns the versions of a cell in the cluster: their starts, and whether they are stamped.
fn versions(database: &Database, name: &str) -> Vec<(Timestamp, bool)> {
    let range = KeyRange::table(TABLE);
    let page = block_on(database.replicas.memory.scan_versions(&range, MANY)).unwrap();
    let found = page.cells.into_iter().find(|found| found.key == cell(name));
    let versions = found.map(|found| found.versions).unwrap_or_default();
    versions.into_iter().map(|version| (version.start, version.commit.is_some())).collect()
}

fn entries(database: &Database, member: &Member) -> usize {
    let (mut count, mut resume) = (0, None);
    loop {
        let table = member.log.commit_table();
        let scan = table.scan(Timestamp::ZERO, member.log.published(), resume, 100);
        let page = database.run(scan).unwrap();
        count += page.entries.len();
        resume = page.resume;
        if resume.is_none() {
            return count;
        }
    }
}

fn delete(database: &Database, member: &Member, name: &str) -> Timestamp {
    let begun = database.writer(member);
    let mut request = put(begun, &cell(name), "");
    request.writes.put_owned(cell(name), None);
    let committed = database.run(member.log.commit(&Context::unbounded(), request)).unwrap();
    member.log.end(begun);
    committed
}

fn marks(database: &Database) -> Marks {
    let read = database.replicas.memory.read_register(Register::SweepMark, ReadMode::Serial);
    block_on(read).unwrap().map(|bytes| Marks::decode(&bytes).unwrap()).unwrap_or_default()
}

#[test]
fn sweep_deletes_invisible_versions_and_stamped_entries() {
    let database = Database::new();
    let leader = database.start("leader");
    for _ in 0..20 {
        database.put(&leader, &cell("x"), "old");
    }
    database.put(&leader, &cell("x"), "new");
    database.put(&leader, &cell("gone"), "was here");
    let last = delete(&database, &leader, "gone");
    let report = sweep(&database, &leader);
    assert_eq!((report.mark, report.cells), (last, 2));
    let swept = leader.log.status().sweep.unwrap();
    let (mark, cells) = (report.mark, report.cells);
    assert_eq!(swept, SweepStatus { mark, cells, ..SweepStatus::default() });
    assert_eq!((report.stamped, report.cleared, report.tombstones), (2, 1, 1));
    assert_eq!(report.entries, 23);
    assert_eq!(
        versions(&database, "x").iter().map(|(_, stamped)| *stamped).collect::<Vec<_>>(),
        [true]
    );
    assert_eq!(versions(&database, "gone"), []);
    assert_eq!(entries(&database, &leader), 0);
    let now = database.begin(&leader, BeginKind::ReadOnly);
    assert_eq!(database.read(&leader, &cell("x"), now.read).as_deref(), Some(&b"new"[..]));
    assert_eq!(database.read(&leader, &cell("gone"), now.read), None);
    leader.log.end(now);
    assert_eq!(sweep(&database, &leader).cells, 0, "nothing was committed since");
    database.put(&leader, &cell("x"), "newer");
    let report = sweep(&database, &leader);
    assert_eq!((report.stamped, report.cleared, report.entries), (1, 1, 1));
    assert!(marks(&database).entries_from >= last, "the next round looks at newer entries only");
}

#[test]
fn open_snapshot_blocks_the_sweep_and_is_reported() {
    let database = Database::new();
    let (leader, follower) = (database.start("leader"), database.start("follower"));
    database.put(&leader, &cell("x"), "old");
    let begun = database.begin(&follower, BeginKind::ReadOnly);
    database.put(&leader, &cell("x"), "new");
    database.world.pass(Duration::from_secs(2));
    let holder = leader.log.oldest_snapshot().unwrap();
    assert_eq!((holder.read, holder.start), (begun.read, None));
    assert!(holder.since >= Duration::from_secs(2), "{holder:?}");
    assert_eq!(follower.log.oldest_snapshot(), None, "only the leader knows it");

    assert_eq!(sweep(&database, &leader).mark, begun.read);
    let seen = database.read(&follower, &cell("x"), begun.read);
    assert_eq!(seen.as_deref(), Some(&b"old"[..]));
    follower.log.end(begun);
    database.world.settle();
    assert_eq!(leader.log.oldest_snapshot(), None);
    assert_eq!(sweep(&database, &leader).cleared, 1);
}

/// Snapshots of an earlier term are unknown to this one: the mark makes their readers fail.
#[test]
fn snapshot_of_an_earlier_term_is_refused() {
    let database = Database::new();
    let first = database.start("first");
    let reader = database.start("reader");
    database.put(&first, &cell("x"), "old");
    let begun = database.begin(&reader, BeginKind::ReadOnly);
    let before = (first.log.status(), reader.log.status());
    assert!(before.0.is_leading && !before.1.is_leading, "{before:?}");
    assert_eq!(before.0.term, before.1.term);
    assert_eq!(before.1.sweep, None, "only the leader sweeps");
    first.process.kill();
    database.network.cut(&first.address);
    database.let_lease_run_out();
    assert!(reader.log.is_leading());
    assert!(reader.log.status().term > before.0.term, "a new term");
    database.put(&reader, &cell("x"), "new");
    sweep(&database, &reader);
    let (context, key) = (Context::unbounded(), cell("x"));
    let read = database.run(reader::read(&*reader.log, &context, &key, begun.read));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::TooOld);
}

/// The mark is stored before the first delete: no reader silently misses data of its snapshot.
#[test]
fn the_mark_is_persisted_before_anything_is_deleted() {
    let database = Database::new();
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "old");
    let last = database.put(&leader, &cell("x"), "new");
    leader.cluster.script(Op::DeleteOlder, 1, Effect::LoseRequest);
    database.run(leader.log.sweep()).unwrap_err();
    let marks = marks(&database);
    assert_eq!((marks.versions, marks.entries), (last, Timestamp::ZERO));
    assert_eq!(entries(&database, &leader), 2, "entries go when everything was scanned");
    assert_eq!(sweep(&database, &leader).entries, 2, "the next round goes on");
}

/// A replica that is away still has the versions that a tombstone hides. All others are swept beside it.
#[test]
fn tombstone_stays_until_all_replicas_have_deleted() {
    let mut options = support::asking();
    options.sweep.every = Duration::ZERO;
    options.sweep.page_cells = 1;
    let database = Database::with(options);
    let leader = database.start("leader");
    for name in ["gone", "lost"] {
        database.put(&leader, &cell(name), "was here");
        delete(&database, &leader, name);
    }
    database.put(&leader, &cell("x"), "old");
    database.put(&leader, &cell("x"), "new");
    let deletes = || leader.cluster.calls(Op::DeleteOlder);
    leader.cluster.script(Op::DeleteOlder, 1, Effect::LoseAnswer);
    let report = sweep(&database, &leader);
    assert_eq!((report.left, report.tombstones, report.cleared), (2, 0, 1));
    assert_eq!((report.entries, entries(&database, &leader)), (6, 0));
    assert_eq!(deletes(), 4, "a round asks all replicas once, and then a majority");
    for name in ["gone", "lost"] {
        assert_eq!(versions(&database, name).len(), 1, "only the tombstone is left");
    }

    leader.cluster.script(Op::Delete, 1, Effect::LoseRequest);
    let round = || {
        for _ in 0..3 {
            database.world.pass(Duration::from_secs(1));
            let report = sweep(&database, &leader);
            if report.cells > 0 {
                return Some((report.left, report.tombstones));
            }
        }
        None
    };
    assert_eq!(round(), Some((2, 0)), "nothing was committed since");
    assert_eq!(round(), Some((0, 2)));
    assert_eq!((versions(&database, "gone"), versions(&database, "lost")), (vec![], vec![]));
    assert_eq!(round(), None, "all is done");
}

/// Cells of a transaction that never requested its commit are invisible, and are deleted.
#[test]
fn writes_of_a_dead_process_are_aborted() {
    let database = Database::new();
    let (leader, dies) = (database.start("leader"), database.start("dies"));
    let begun = database.writer(&dies);
    dies.cluster.script(Op::Write, 1, Effect::LoseAnswer);
    let context = Context::unbounded();
    let request = put(begun, &cell("x"), "never");
    let mut committing: Pin<Box<dyn Future<Output = _>>> =
        Box::pin(dies.log.commit(&context, request));
    let _ = committing.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
    drop(committing);
    assert_eq!(versions(&database, "x").len(), 1, "its cells are there");
    let start = begun.start.unwrap();

    database.put(&leader, &cell("y"), "other");
    sweep(&database, &leader);
    assert_eq!(versions(&database, "x").len(), 1, "it may still commit");
    dies.process.kill();
    database.network.cut(&dies.address);
    database.world.pass(Duration::from_secs(60));
    database.put(&leader, &cell("y"), "other");
    sweep(&database, &leader);
    assert_eq!(versions(&database, "x"), []);
    let outcome = database.run(leader.log.outcome(&context, start));
    assert!(
        matches!(&outcome, Ok(Outcome::Aborted))
            || matches!(&outcome, Err(error) if error.kind() == ErrorKind::Unknown { start }),
        "{outcome:?}"
    );
}

/// I9, with two processes that sweep: one finds no entry of a version that the other has stamped.
#[test]
fn slow_sweep_keeps_versions_stamped_by_another() {
    let database = Database::new();
    let first = database.start("first");
    database.put(&first, &cell("x"), "one");
    first.process.kill();
    database.network.cut(&first.address);
    let slow = database.start("slow");
    database.let_lease_run_out();
    assert!(slow.log.is_leading());
    database.put(&slow, &cell("y"), "two");
    let gate = slow.cluster.hold(Op::ReadEntries);
    let mut sweeping: Pin<Box<dyn Future<Output = _>>> = Box::pin(slow.log.sweep());
    while gate.arrived() == 0 {
        assert!(sweeping.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        database.world.settle();
    }
    slow.cluster.hold(Op::Set(Register::Lease));
    let next = database.start("next");
    database.let_lease_run_out();
    assert!(next.log.is_leading());
    database.put(&next, &cell("y"), "three");
    assert!(sweep(&database, &next).entries > 0);
    gate.open();
    // The result does not matter.
    let _ = database.run(sweeping);
    let now = database.snapshot(&next);
    assert_eq!(database.read(&next, &cell("x"), now).as_deref(), Some(&b"one"[..]));
}

/// A transaction is being committed while the sweep scans its cells.
#[test]
fn commit_in_flight_is_not_swept() {
    let database = Database::new();
    let leader = database.start("leader");
    let begun = database.writer(&leader);
    let start = begun.start.unwrap();
    let gate = leader.cluster.hold(Op::Put);
    let context = Context::unbounded();
    let mut committing: Pin<Box<dyn Future<Output = _>>> =
        Box::pin(leader.log.commit(&context, put(begun, &cell("x"), "one")));
    while gate.arrived() == 0 {
        let polled = committing.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        database.world.settle();
    }
    leader.log.end(begun);
    database.world.settle();
    let _ = database.run(leader.log.sweep());
    assert_eq!(versions(&database, "x"), [(start, false)]);
    gate.open();
    let commit = database.run(committing).unwrap();
    let outcome = database.run(leader.log.outcome(&context, start)).unwrap();
    assert_eq!(outcome, Outcome::Committed(commit));
    let now = database.snapshot(&leader);
    assert_eq!(database.read(&leader, &cell("x"), now).as_deref(), Some(&b"one"[..]));
}

#[test]
fn sweep_runs_periodically_up_to_the_retention() {
    let sweep = SweepOptions {
        every: Duration::from_secs(1),
        retention: Duration::from_secs(10),
        ..SweepOptions::default()
    };
    let database = Database::with(Options { sweep, ..Options::default() });
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "old");
    database.put(&leader, &cell("x"), "new");
    database.world.pass(Duration::from_secs(9));
    assert_eq!(versions(&database, "x").len(), 2);
    database.world.pass(Duration::from_secs(3));
    assert_eq!(versions(&database, "x").len(), 1);
}

/// The cluster serves its other clients for four fifths of the time.
#[test]
fn sweep_rests_four_times_as_long_as_a_page_took() {
    let mut options = support::asking();
    options.sweep.every = Duration::ZERO;
    let database = Database::with(options);
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "old");
    database.put(&leader, &cell("x"), "new");
    let gate = leader.cluster.hold(Op::DeleteOlder);
    let mut sweeping: Pin<Box<dyn Future<Output = _>>> = Box::pin(leader.log.sweep());
    while gate.arrived() == 0 {
        let polled = sweeping.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        database.world.settle();
    }
    database.world.pass(Duration::from_secs(1));
    gate.open();
    let answered = database.world.time.now();
    database.run(sweeping).unwrap();
    let rested = database.world.time.now().since(answered).as_millis();
    assert!((4_000..4_500).contains(&rested), "{rested} ms");
}

/// Old versions stay readable for the retention, even if a sweep is requested. The next page of a
/// read, for example, may use a snapshot that was not held in between.
#[test]
fn sweep_past_retention_keeps_readable_versions() {
    let retention = Duration::from_secs(600);
    let sweep = SweepOptions { every: Duration::ZERO, retention, ..SweepOptions::default() };
    let database = Database::with(Options { sweep, ..Options::default() });
    let leader = database.start("leader");
    let first = database.put(&leader, &cell("x"), "first");
    let second = database.put(&leader, &cell("x"), "second");
    let sweep = || database.run(leader.log.sweep_past_retention()).unwrap();
    assert_eq!(sweep().mark, Timestamp::ZERO);
    assert_eq!(database.read(&leader, &cell("x"), first).as_deref(), Some(&b"first"[..]));
    database.world.pass(retention);
    let third = database.put(&leader, &cell("x"), "third");
    assert_eq!(sweep().mark, second);
    assert_eq!(database.read(&leader, &cell("x"), second).as_deref(), Some(&b"second"[..]));
    assert_eq!(database.read(&leader, &cell("x"), third).as_deref(), Some(&b"third"[..]));
    let old = database.run(reader::read(&*leader.log, &Context::unbounded(), &cell("x"), first));
    assert_eq!(old.unwrap_err().kind(), ErrorKind::TooOld);
}

/// Writes a row with two columns, each with its expiry in seconds from now.
fn put_expiring(database: &Database, member: &Member, name: &str, seconds: [Option<i64>; 2]) {
    let now = database.world.time.wall().0 / 1_000_000;
    let mut row = RowImage::new(1);
    for (id, after) in (1..).zip(seconds) {
        row.set(ColumnId(id), Column::new("v").expiring(after.map(|after| now + after)));
    }
    let begun = database.writer(member);
    let mut request = put(begun, &cell(name), "");
    request.writes.put_owned(cell(name), Some(row.encode()));
    database.run(member.log.commit(&Context::unbounded(), request)).unwrap();
    member.log.end(begun);
}

/// Returns the number of columns of a cell's newest version in the cluster.
fn columns(database: &Database, name: &str) -> Option<usize> {
    let range = KeyRange::table(TABLE);
    let page = block_on(database.replicas.memory.scan_versions(&range, MANY)).unwrap();
    let found = page.cells.into_iter().find(|found| found.key == cell(name))?;
    let row = found.versions[0].payload.clone()?;
    Some(RowImage::decode(&row).unwrap().columns().len())
}

fn start_with_rows(database: &Database, name: &str) -> Member {
    let member = database.start(name);
    member.log.row_tables().set_raw([]);
    member
}

#[test]
fn expired_rows_and_columns_are_removed_from_an_idle_database() {
    let mut options = support::asking();
    options.sweep.every = Duration::ZERO;
    let database = Database::with(options);
    let leader = start_with_rows(&database, "leader");
    put_expiring(&database, &leader, "all", [Some(5), Some(30)]);
    put_expiring(&database, &leader, "one", [Some(5), None]);
    put_expiring(&database, &leader, "none", [Some(1_000_000), None]);
    let all = || ["all", "one", "none"].map(|name| columns(&database, name));
    database.world.settle();
    assert_eq!(sweep(&database, &leader).cells, 3);
    database.world.pass(Duration::from_secs(64));
    assert_eq!(sweep(&database, &leader).cells, 0, "another server's clock may be a minute behind");
    database.world.pass(Duration::from_secs(2));
    assert_eq!(sweep(&database, &leader).expired, 2);
    assert_eq!(all(), [Some(1), Some(1), Some(2)]);
    database.world.pass(Duration::from_secs(100));
    let report = sweep(&database, &leader);
    assert_eq!((report.expired, report.tombstones), (1, 1));
    assert_eq!(all(), [None, Some(1), Some(2)]);
    assert_eq!(entries(&database, &leader), 0);
    database.world.pass(Duration::from_secs(1000));
    for _ in 0..3 {
        assert_eq!(sweep(&database, &leader).cells, 0, "nothing more expires soon");
    }
}

/// A transaction has one moment for all its reads, which is as old as its snapshot.
#[test]
fn row_that_an_open_snapshot_needs_is_kept() {
    let database = Database::new();
    let (leader, follower) =
        (start_with_rows(&database, "leader"), start_with_rows(&database, "follower"));
    put_expiring(&database, &leader, "x", [Some(5), Some(5)]);
    let begun = database.begin(&follower, BeginKind::ReadOnly);
    for _ in 0..5 {
        database.world.pass(Duration::from_secs(100));
        sweep(&database, &leader);
        assert_eq!(columns(&database, "x"), Some(2));
    }
    follower.log.end(begun);
    database.world.settle();
    sweep(&database, &leader);
    assert_eq!(columns(&database, "x"), None);
}

/// A page of a result is read at the snapshot and the moment of the first page, without an open
/// snapshot in between.
#[test]
fn rows_of_pages_are_kept_for_the_retention() {
    let mut options = support::asking();
    options.sweep.every = Duration::ZERO;
    let database = Database::with(options);
    let leader = start_with_rows(&database, "leader");
    put_expiring(&database, &leader, "x", [Some(5), Some(5)]);
    let begun = database.begin(&leader, BeginKind::ReadOnly);
    let page = begun.read;
    leader.log.end(begun);
    let round = || {
        database.world.pass(Duration::from_secs(60));
        database.run(leader.log.sweep_past_retention()).unwrap();
        columns(&database, "x")
    };
    let mut rounds = 0;
    while rounds < 50 && round().is_some() {
        let again = database.begin(&leader, BeginKind::ReadOnlyAt(page));
        leader.log.end(again);
        rounds += 1;
    }
    assert_eq!(rounds, 12, "the time to live, the clocks' error, the retention, and a round");
    let context = Context::unbounded();
    let again = leader.log.begin(&context, BeginKind::ReadOnlyAt(page));
    assert_eq!(database.run(again).unwrap_err().kind(), ErrorKind::TooOld);
}
