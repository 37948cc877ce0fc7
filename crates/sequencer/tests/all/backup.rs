//! Backups: copies of a cluster's tables, each made at a different moment, that become a prefix of
//! the order of commits.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use carnet_base::{
    CellKey, Encoding, EncodingMap, Error, ErrorKind, PartitionKey, Result, Rng, SeededRng,
    TableId, Timestamp, block_on,
};
use carnet_sequencer::Options;
use carnet_sequencer::backup::{Backup, Label, RestoreProgress, Restored, restore};
use carnet_sequencer::sweep::{Hold, Marks};
use carnet_store::cluster::{
    CommitTable, MemoryCluster, Part, ReadMode, Register, Registers, SetAnswer,
};
use carnet_store::{BeginKind, CommitLog, CommitRequest, Context, ReadSet, Write};
use carnet_txn::reader;

use crate::support;
use crate::support::scripted::{Effect, Gate, Op, Scripted};
use crate::support::{Database, Member, TABLE, cell, put};

const TABLES: [TableId; 2] = [TABLE, TableId(1001)];
const PARTS: [Part; 5] = [
    Part::Cells(TABLES[0]),
    Part::Cells(TABLES[1]),
    Part::Commits(CommitTable::V2),
    Part::Commits(CommitTable::V3),
    Part::Registers,
];

fn begin(database: &Database, member: &Member, id: u64) -> Result<Backup<Scripted>> {
    database.run(member.log.begin_backup(id))
}

fn finish(database: &Database, backup: Backup<Scripted>) -> Result<Label> {
    database.run(backup.finish("a cluster in memory", "test"))
}

fn copy(database: &Database) -> MemoryCluster {
    let copy = MemoryCluster::new();
    PARTS.into_iter().for_each(|part| copy.copy_part(&database.replicas.memory, part));
    copy
}

/// Returns a cluster with a restored copy on which no process has started yet.
fn put_back(copy: &MemoryCluster) -> Database {
    let database = Database::new();
    PARTS.into_iter().for_each(|part| database.replicas.memory.copy_part(copy, part));
    database
}

/// Restores as a separate process, whose calls a script may break.
fn restoring<'a>(
    database: &'a Database,
    cluster: &'a Arc<Scripted>,
    label: &'a Label,
) -> Pin<Box<dyn Future<Output = Result<Restored>> + 'a>> {
    Box::pin(async move {
        let timer: Arc<dyn carnet_base::Timer> = Arc::new(database.world.time.clone());
        let mut rng = SeededRng::new(5);
        let tell = |progress: RestoreProgress| assert!(progress.rows <= progress.rows_total);
        restore(cluster, &timer, &database.options, label, &mut rng, tell).await
    })
}

fn restored(database: &Database, label: &Label) -> Result<Restored> {
    let cluster = Scripted::new(&database.replicas);
    database.run(restoring(database, &cluster, label))
}

fn marks(database: &Database) -> Marks {
    let read = database.replicas.memory.read_register(Register::SweepMark, ReadMode::Serial);
    block_on(read).unwrap().map(|bytes| Marks::decode(&bytes).unwrap()).unwrap_or_default()
}

fn read(database: &Database, member: &Member, key: &CellKey) -> Option<u64> {
    let now = database.begin(member, BeginKind::ReadOnly);
    let found = database.run(reader::read(&*member.log, &Context::unbounded(), key, now.read));
    member.log.end(now);
    let value = found.unwrap().and_then(|version| version.payload)?;
    Some(u64::from_be_bytes(value[..].try_into().unwrap()))
}

/// Polls a future until a call waits at the gate.
fn poll_until<T>(
    database: &Database,
    gate: &Gate,
    future: &mut Pin<Box<dyn Future<Output = T> + '_>>,
) -> bool {
    for _ in 0..10_000 {
        if gate.arrived() > 0 {
            return true;
        }
        if future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_ready() {
            return false;
        }
        database.world.settle();
    }
    panic!("it never comes to the gate")
}

/// A run of transactions with a record of everything that committed.
struct History<'a> {
    database: &'a Database,
    rng: SeededRng,
    values: u64,
    commits: BTreeMap<Timestamp, Vec<(CellKey, Option<u64>)>>,
}

impl History<'_> {
    const CELLS: u64 = 5;

    fn key(number: u64) -> CellKey {
        let table = TABLES[usize::try_from(number % 2).unwrap()];
        CellKey::new(table, &PartitionKey::new("p"), vec![u8::try_from(number).unwrap()])
    }

    /// Writes two or three cells of both tables; some are deletions.
    fn request(&mut self, member: &Member) -> CommitRequest {
        let begun = self.database.writer(member);
        let (first, mut writes) = (self.rng.below(Self::CELLS), Vec::new());
        for at in 0..2 + self.rng.below(2) {
            self.values += 1;
            let payload =
                (!self.rng.chance(200)).then(|| self.values.to_be_bytes().to_vec().into());
            writes.push(Write { key: Self::key((first + at) % Self::CELLS), payload });
        }
        CommitRequest::new(begun, begun.start.unwrap(), ReadSet::default(), writes)
    }

    fn committed(&mut self, commit: Timestamp, writes: &[Write]) {
        let value = |write: &Write| {
            let payload = write.payload.as_ref()?;
            Some(u64::from_be_bytes(payload[..].try_into().unwrap()))
        };
        let writes = writes.iter().map(|write| (write.key.clone(), value(write))).collect();
        self.commits.insert(commit, writes);
    }

    fn transaction(&mut self, member: &Member) {
        let request = self.request(member);
        let writes = request.writes.clone().into_vec();
        let commit = self.database.run(member.log.commit(&Context::unbounded(), request));
        self.committed(commit.unwrap(), &writes);
    }

    fn at(&self, through: Timestamp) -> BTreeMap<CellKey, u64> {
        let mut cells = BTreeMap::new();
        for (key, value) in self.commits.range(..=through).flat_map(|(_, writes)| writes) {
            match value {
                Some(value) => cells.insert(key.clone(), *value),
                None => cells.remove(key),
            };
        }
        cells
    }

    fn check(&self, database: &Database, member: &Member, through: Timestamp, what: &str) {
        let expected = self.at(through);
        for number in 0..Self::CELLS {
            let key = Self::key(number);
            let found = read(database, member, &key);
            assert_eq!(found, expected.get(&key).copied(), "cell {number} as of {through}: {what}");
        }
    }
}

/// Every part is copied at another moment, in any order, between and within transactions, beside a
/// sweep that began earlier.
#[test]
fn copy_in_any_order_becomes_a_prefix() {
    for seed in 0..100 {
        let what = format!("seed {seed}");
        let mut rng = SeededRng::new(seed);
        let encoding = if seed % 3 == 0 { Encoding::V2 } else { Encoding::V3 };
        let mut options = Options { encoding, ..support::asking() };
        options.lease.bound_step = 200;
        let database = Database::with(options);
        let leader = database.start("leader");
        let follower = database.start("follower");
        let (values, commits) = (0, BTreeMap::new());
        let mut history =
            History { database: &database, rng: SeededRng::new(seed), values, commits };
        for _ in 0..rng.below(12) {
            history.transaction(&leader);
        }
        if rng.chance(500) {
            database.run(leader.log.sweep()).unwrap();
            history.transaction(&follower);
        }

        // A round that goes on during the copy.
        let ops = [Op::Stamp, Op::DeleteOlder, Op::Set(Register::SweepMark)];
        let gate = leader.cluster.hold(ops[usize::try_from(rng.below(3)).unwrap()]);
        let mut sweeping: Pin<Box<dyn Future<Output = _>>> = Box::pin(leader.log.sweep());
        let is_sweeping = poll_until(&database, &gate, &mut sweeping);
        let backup = begin(&database, &follower, seed + 1).unwrap();
        let through = backup.commit();
        assert!(history.commits.keys().all(|commit| *commit <= through), "{what}");

        let (copy, mut left) = (MemoryCluster::new(), PARTS.to_vec());
        let mut sweeping = is_sweeping.then_some(sweeping);
        while !left.is_empty() {
            match rng.below(5) {
                0 | 1 => {
                    let part =
                        left.swap_remove(usize::try_from(rng.below(left.len() as u64)).unwrap());
                    copy.copy_part(&database.replicas.memory, part);
                }
                2 => history.transaction(&follower),
                // Its cells are in the copy, and its entry is written later.
                3 => {
                    let request = history.request(&follower);
                    let writes = request.writes.clone().into_vec();
                    let put = Arc::new(Gate::default());
                    leader.cluster.script(Op::Put, 1, Effect::Hold(Arc::clone(&put)));
                    let context = Context::unbounded();
                    let mut committing: Pin<Box<dyn Future<Output = _>>> =
                        Box::pin(follower.log.commit(&context, request));
                    poll_until(&database, &put, &mut committing);
                    let part =
                        left.swap_remove(usize::try_from(rng.below(left.len() as u64)).unwrap());
                    copy.copy_part(&database.replicas.memory, part);
                    put.open();
                    history.committed(database.run(committing).unwrap(), &writes);
                }
                _ => {
                    gate.open();
                    if let Some(sweeping) = sweeping.take() {
                        let _ = database.run(sweeping);
                    }
                    let refused = database.run(leader.log.sweep());
                    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable, "{what}");
                }
            }
        }
        database.run(backup.renew()).unwrap();
        let label = finish(&database, backup).unwrap();
        assert_eq!(Label::decode(label.encode().as_bytes()).unwrap(), label);
        assert!(history.commits.keys().all(|commit| *commit < label.bound), "{what}");

        let other = put_back(&copy);
        let done = restored(&other, &label).unwrap();
        assert_eq!(done.commit, through);
        let process = other.start("process");
        assert!(process.log.is_leading(), "{what}");
        history.check(&other, &process, through, &what);

        // The restored database goes on, and sees nothing of the commits after B.
        let (values, mut commits) = (history.values, history.commits.clone());
        commits.retain(|commit, _| *commit <= through);
        let rng = SeededRng::new(!seed);
        let mut life = History { database: &other, rng, values, commits };
        for _ in 0..4 {
            life.transaction(&process);
        }
        assert!(life.commits.keys().all(|commit| *commit <= through || *commit > done.first));
        life.check(&other, &process, Timestamp::MAX, &what);
        other.run(process.log.sweep()).unwrap();
        life.check(&other, &process, Timestamp::MAX, &what);
        // The original database goes on as well.
        gate.open();
        if let Some(sweeping) = sweeping {
            database.run(sweeping).unwrap();
        }
        database.run(leader.log.sweep()).unwrap();
        history.check(&database, &follower, Timestamp::MAX, &what);
    }
}

/// A round that began before the hold stamps a version after it was copied. If it also deleted the
/// entry before the entry is copied, the commit would be lost.
#[test]
fn round_in_flight_deletes_no_entry() {
    let database = Database::new();
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "value");
    let gate = leader.cluster.hold(Op::Stamp);
    let mut sweeping: Pin<Box<dyn Future<Output = _>>> = Box::pin(leader.log.sweep());
    assert!(poll_until(&database, &gate, &mut sweeping));
    let backup = begin(&database, &leader, 1).unwrap();
    let copy = MemoryCluster::new();
    copy.copy_part(&database.replicas.memory, Part::Cells(TABLE));
    gate.open();
    let ended = database.run(sweeping).unwrap_err();
    assert!(ended.to_string().contains("backup"), "{ended}");
    let others = PARTS.into_iter().filter(|part| *part != Part::Cells(TABLE));
    others.for_each(|part| copy.copy_part(&database.replicas.memory, part));
    let label = finish(&database, backup).unwrap();
    let other = put_back(&copy);
    restored(&other, &label).unwrap();
    let process = other.start("process");
    assert_eq!(see(&other, &process).as_deref(), Some(&b"value"[..]));
}

/// Stamps of a round that began before the hold have commits below B.
#[test]
fn backup_timestamp_is_drawn_under_the_hold() {
    let database = Database::new();
    let (leader, other) = (database.start("leader"), database.start("other"));
    let gate = Arc::new(Gate::default());
    let set = Op::Set(Register::SweepMark);
    other.cluster.script(set, 1, Effect::Hold(Arc::clone(&gate)));
    let mut begun: Pin<Box<dyn Future<Output = _>>> = Box::pin(other.log.begin_backup(1));
    assert!(poll_until(&database, &gate, &mut begun));
    database.put(&leader, &cell("x"), "value");
    let swept = database.run(leader.log.sweep()).unwrap();
    assert_eq!((swept.stamped, swept.entries), (1, 1));
    gate.open();
    let backup = database.run(begun).unwrap();
    assert!(backup.commit() >= swept.mark);
    database.run(backup.give_up());
}

#[test]
fn the_hold_outlives_the_leader() {
    let database = Database::new();
    let leader = database.start("leader");
    let next = database.start("next");
    let other = database.start("other");
    database.put(&leader, &cell("x"), "old");
    let backup = begin(&database, &other, 1).unwrap();
    leader.process.kill();
    database.network.cut(&leader.address);
    database.let_lease_run_out();
    let next = if next.log.is_leading() { &next } else { &other };
    assert!(next.log.is_leading());
    database.put(next, &cell("x"), "new");
    for _ in 0..10 {
        database.world.pass(Duration::from_secs(20));
        database.run(backup.renew()).unwrap();
        let held = database.run(next.log.sweep()).unwrap_err();
        assert!(held.to_string().contains("backup"), "{held}");
    }
    finish(&database, backup).unwrap();
    assert_eq!(database.run(next.log.sweep()).unwrap().cleared, 1);
}

#[test]
fn a_backup_that_was_silent_too_long_has_failed() {
    let database = Database::new();
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "old");
    let backup = begin(&database, &leader, 1).unwrap();
    database.put(&leader, &cell("x"), "new");
    database.run(leader.log.sweep()).unwrap_err();
    database.world.pass(Duration::from_secs(59));
    database.run(leader.log.sweep()).unwrap_err();
    database.world.pass(Duration::from_secs(1));
    assert_eq!(database.run(leader.log.sweep()).unwrap().cleared, 1);
    assert_eq!(database.run(backup.renew()).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(finish(&database, backup).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(marks(&database).hold, None);
}

/// The write that placed the hold may be applied again after the hold was taken away.
#[test]
fn reapplied_hold_does_not_count() {
    let database = Database::new();
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "old");
    let backup = begin(&database, &leader, 1).unwrap();
    database.put(&leader, &cell("x"), "new");
    database.run(leader.log.sweep()).unwrap_err();
    database.world.pass(Duration::from_secs(60));
    assert_eq!(database.run(leader.log.sweep()).unwrap().cleared, 1);
    let swept = marks(&database);
    let back = Marks { hold: Some(Hold { id: 1, renewal: 0 }), ..swept };
    let memory = &database.replicas.memory;
    let (swept, back) = (swept.encode(), back.encode());
    let set = memory.compare_and_set(Register::SweepMark, Some(&swept), &back);
    assert_eq!(block_on(set).unwrap(), SetAnswer::Applied);
    assert_eq!(database.run(backup.renew()).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(finish(&database, backup).unwrap_err().kind(), ErrorKind::Conflict);
}

/// A backup that begins after the check draws its timestamp above all that the round stamps.
#[test]
fn round_stamps_only_commits_before_its_check() {
    let database = Database::new();
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "value");
    let gate = leader.cluster.hold(Op::Read(Register::SweepMark));
    let mut sweeping: Pin<Box<dyn Future<Output = _>>> = Box::pin(leader.log.sweep());
    assert!(poll_until(&database, &gate, &mut sweeping));
    database.put(&leader, &cell("y"), "later");
    gate.open();
    let swept = database.run(sweeping).unwrap();
    assert_eq!(swept.stamped, 1, "{swept:?}");
}

/// Not even if the marks need not move.
#[test]
fn no_round_begins_under_a_hold() {
    let database = Database::new();
    let (leader, other) = (database.start("leader"), database.start("other"));
    database.put(&leader, &cell("x"), "value");
    leader.cluster.script(Op::Stamp, 1, Effect::Overload);
    database.run(leader.log.sweep()).unwrap_err();
    let stamps = leader.cluster.calls(Op::Stamp);
    // The first read has seen no hold.
    let free = Arc::new(Gate::default());
    free.open();
    leader.cluster.script(Op::Read(Register::SweepMark), 1, Effect::Hold(free));
    let gate = leader.cluster.hold(Op::Read(Register::SweepMark));
    let mut sweeping: Pin<Box<dyn Future<Output = _>>> = Box::pin(leader.log.sweep());
    assert!(poll_until(&database, &gate, &mut sweeping));
    let backup = begin(&database, &other, 1).unwrap();
    gate.open();
    let error = database.run(sweeping).unwrap_err();
    assert!(error.to_string().contains("backup"), "{error}");
    assert_eq!(leader.cluster.calls(Op::Stamp), stamps);
    database.run(backup.give_up());
}

#[test]
fn second_backup_replaces_only_a_dead_one() {
    let database = Database::new();
    let (leader, other) = (database.start("leader"), database.start("other"));
    let first = begin(&database, &leader, 1).unwrap();
    let mut second: Pin<Box<dyn Future<Output = _>>> = Box::pin(other.log.begin_backup(2));
    for _ in 0..3 {
        assert!(second.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        database.world.pass(Duration::from_secs(15));
        database.run(first.renew()).unwrap();
    }
    let refused = database.run(second).err().unwrap();
    assert!(refused.to_string().contains("another backup"), "{refused}");
    drop(first);
    let second = begin(&database, &other, 3).unwrap();
    assert_eq!(marks(&database).hold.unwrap().id, 3);
    database.run(second.give_up());
    assert_eq!(marks(&database).hold, None);
}

#[test]
fn a_migration_meanwhile_makes_the_backup_fail() {
    let database = Database::encoded(Encoding::V2);
    let leader = database.start("leader");
    let backup = begin(&database, &leader, 1).unwrap();
    database.run(leader.log.migrate(Encoding::V3)).unwrap();
    let error = finish(&database, backup).unwrap_err();
    assert!(error.to_string().contains("migrated"), "{error}");
    assert_eq!(marks(&database).hold, None, "the sweep goes on");
    let backup = begin(&database, &leader, 2).unwrap();
    finish(&database, backup).unwrap();
}

#[test]
fn backup_holds_despite_lost_answers() {
    let database = Database::new();
    let leader = database.start("leader");
    for op in [Op::Set(Register::SweepMark), Op::Read(Register::SweepMark)] {
        for effect in [Effect::LoseAnswer, Effect::LoseRequest] {
            leader.cluster.script(op, 2, effect);
        }
    }
    let backup = begin(&database, &leader, 1).unwrap();
    database.run(leader.log.sweep()).unwrap_err();
    leader.cluster.script(Op::Set(Register::SweepMark), 1, Effect::LoseAnswer);
    database.run(backup.renew()).unwrap();
    leader.cluster.script(Op::Set(Register::SweepMark), 1, Effect::LoseAnswer);
    finish(&database, backup).unwrap();
    assert_eq!(marks(&database).hold, None);
}

/// Returns a database with commits before and after B, all of which are in the copy.
fn copied(commits_after: usize) -> (Database, Member, MemoryCluster, Label) {
    let database = Database::new();
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "before");
    let backup = begin(&database, &leader, 7).unwrap();
    for _ in 0..commits_after {
        database.put(&leader, &cell("x"), "after");
    }
    let copy = copy(&database);
    let label = finish(&database, backup).unwrap();
    (database, leader, copy, label)
}

fn see(database: &Database, member: &Member) -> Option<carnet_base::Bytes> {
    let now = database.begin(member, BeginKind::ReadOnly);
    let found = database.read(member, &cell("x"), now.read);
    member.log.end(now);
    found
}

/// At whatever call it ends, no process leads until the restore is run again, and then the data is
/// right.
#[test]
fn interrupted_restore_can_be_run_again() {
    let ops = [
        Op::Set(Register::Lease),
        Op::Set(Register::SweepMark),
        Op::Move,
        Op::Overwrite,
        Op::Read(Register::Lease),
    ];
    let (_, _, copy, label) = copied(250);
    for op in ops {
        for nth in 0..4 {
            let database = put_back(&copy);
            let cluster = Scripted::new(&database.replicas);
            // The first calls of a kind pass.
            let free = Arc::new(Gate::default());
            free.open();
            cluster.script(op, nth, Effect::Hold(free));
            let gate = cluster.hold(op);
            let mut restoring = restoring(&database, &cluster, &label);
            let mut is_cut = false;
            for _ in 0..200 {
                if gate.arrived() > 0 {
                    is_cut = true;
                    break;
                }
                let polled = restoring.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
                if polled.is_ready() {
                    break;
                }
                database.world.pass(Duration::from_millis(100));
            }
            drop(restoring);
            if !is_cut {
                continue;
            }
            if database.lease().is_restoring {
                let early = database.start("early");
                database.let_lease_run_out();
                assert!(!early.log.is_leading(), "{op:?} {nth}: it is half restored");
                early.process.kill();
            }
            let done = restored(&database, &label);
            assert!(done.is_ok(), "{op:?} {nth}: {done:?}");
            let process = database.start("process");
            assert!(process.log.is_leading());
            assert_eq!(see(&database, &process).as_deref(), Some(&b"before"[..]), "{op:?} {nth}");
        }
    }
}

/// A run that hung undoes nothing of the database that another run has restored.
#[test]
fn hung_restore_detects_a_later_one() {
    let (_, _, copy, label) = copied(3);
    let database = put_back(&copy);
    let cluster = Scripted::new(&database.replicas);
    let gate = cluster.hold(Op::Set(Register::Coordination));
    let mut hung = restoring(&database, &cluster, &label);
    for _ in 0..200 {
        assert!(hung.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        database.world.pass(Duration::from_millis(100));
        if gate.arrived() > 0 {
            break;
        }
    }
    assert_eq!(gate.arrived(), 1);
    restored(&database, &label).unwrap();
    let process = database.start("process");
    let map = || {
        let read = database.replicas.memory.read_register(Register::Coordination, ReadMode::Serial);
        EncodingMap::decode(&block_on(read).unwrap().unwrap()).unwrap()
    };
    let before = map();
    gate.open();
    let superseded = database.run(hung).unwrap_err();
    assert_eq!(superseded.kind(), ErrorKind::Unavailable, "{superseded}");
    assert_eq!(map(), before);
    database.put(&process, &cell("x"), "new life");
}

#[test]
fn restore_succeeds_despite_lost_answers() {
    let (_, _, copy, label) = copied(250);
    for effect in [Effect::LoseAnswer, Effect::LoseRequest, Effect::Overload] {
        let database = put_back(&copy);
        let cluster = Scripted::new(&database.replicas);
        let lease = Op::Set(Register::Lease);
        for op in [lease, Op::Set(Register::SweepMark), Op::Move, Op::Overwrite] {
            cluster.script(op, 2, effect.clone());
        }
        let done = database.run(restoring(&database, &cluster, &label)).unwrap();
        assert!(done.aborted > 0 && done.entries == 251, "{done:?}");
        let process = database.start("process");
        assert_eq!(see(&database, &process).as_deref(), Some(&b"before"[..]));
    }
}

#[test]
fn tables_that_differ_from_the_copy_are_refused() {
    let (database, _leader, copy, label) = copied(3);
    let refused = |database: &Database, label: &Label, why: &str| {
        let before = database.lease();
        let error: Error = restored(database, label).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        let leader_goes_on = error.kind() == ErrorKind::Unavailable;
        assert!(leader_goes_on || database.lease() == before, "nothing was changed");
    };
    // A leader is alive.
    refused(&database, &label, "leads the database");
    let empty = Database::new();
    let error = restored(&empty, &label).unwrap_err();
    assert!(error.to_string().contains("no lease"), "{error}");
    // The database was started without a restore.
    let started = put_back(&copy);
    let hasty = started.start("hasty");
    started.let_lease_run_out();
    assert!(hasty.log.is_leading());
    hasty.process.kill();
    refused(&started, &label, "in use after");
    // A part is missing, then there is one too many.
    let missing = put_back(&copy);
    missing.replicas.memory.copy_part(&MemoryCluster::new(), Part::Cells(TABLE));
    refused(&missing, &label, "were not put back");
    let unknown = put_back(&copy);
    let life = Database::new();
    let writer = life.start("writer");
    let late = TableId(2000);
    life.put(&writer, &CellKey::new(late, &PartitionKey::new("p"), "c"), "later");
    unknown.replicas.memory.copy_part(&life.replicas.memory, Part::Cells(late));
    refused(&unknown, &label, "table 2000");
    // The database has been restored already.
    let other = put_back(&copy);
    restored(&other, &label).unwrap();
    refused(&other, &label, "already");
}

/// A process that slept through the restore writes no entry to the restored database, although its
/// epoch was in the copy.
#[test]
fn process_from_before_a_restore_is_fenced() {
    let database = Database::new();
    let leader = database.start("leader");
    database.put(&leader, &cell("x"), "before");
    let begun = database.writer(&leader);
    let backup = begin(&database, &leader, 7).unwrap();
    let gate = leader.cluster.hold(Op::Put);
    let context = Context::unbounded();
    let mut committing: Pin<Box<dyn Future<Output = _>>> =
        Box::pin(leader.log.commit(&context, put(begun, &cell("x"), "slept")));
    assert!(poll_until(&database, &gate, &mut committing));
    let copy = copy(&database);
    let label = finish(&database, backup).unwrap();
    leader.process.pause();
    // The copy replaces the original database.
    PARTS.into_iter().for_each(|part| database.replicas.memory.copy_part(&copy, part));
    restored(&database, &label).unwrap();
    let process = database.start("process");
    assert!(process.log.is_leading());
    leader.process.resume();
    gate.open();
    database.world.pass(Duration::from_secs(5));
    let outcome = database.run(committing);
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(see(&database, &process).as_deref(), Some(&b"before"[..]));
}

/// It has cached the outcome of a commit that the restore has aborted.
#[test]
fn process_from_before_a_restore_drops_its_cache() {
    let (database, leader, copy, label) = copied(1);
    let follower = database.start("follower");
    for member in [&leader, &follower] {
        assert_eq!(see(&database, member).as_deref(), Some(&b"after"[..]));
        member.process.pause();
    }
    PARTS.into_iter().for_each(|part| database.replicas.memory.copy_part(&copy, part));
    restored(&database, &label).unwrap();
    let process = database.start("process");
    assert!(process.log.is_leading());
    let before = Some(&b"before"[..]);

    // It still believes that it leads.
    leader.process.resume();
    assert!(leader.log.is_leading());
    let swept = database.run(leader.log.sweep());
    assert_eq!(swept.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(see(&database, &process).as_deref(), before, "swept from its cache");
    follower.process.resume();
    database.world.pass(Duration::from_secs(5));
    for member in [&leader, &follower] {
        assert_eq!(see(&database, member).as_deref(), before, "read from its cache");
    }

    // Then one of them does lead.
    process.process.kill();
    database.network.cut(&process.address);
    follower.process.kill();
    database.network.cut(&follower.address);
    database.let_lease_run_out();
    assert!(leader.log.is_leading());
    database.run(leader.log.sweep()).unwrap();
    let fresh = database.start("fresh");
    assert_eq!(see(&database, &fresh).as_deref(), before, "stamped from its cache");
}

/// A QUORUM read could miss an entry that is in one replica's copy, and a later read would find it.
#[test]
fn entry_on_one_replica_is_aborted() {
    let database = Database::new();
    let (leader, other) = (database.start("leader"), database.start("other"));
    database.put(&leader, &cell("x"), "before");
    let backup = begin(&database, &other, 7).unwrap();
    let begun = database.writer(&leader);
    leader.cluster.script(Op::Put, usize::MAX, Effect::Ghost);
    let context = Context::unbounded();
    let mut committing: Pin<Box<dyn Future<Output = _>>> =
        Box::pin(leader.log.commit(&context, put(begun, &cell("x"), "after")));
    while leader.cluster.calls(Op::Put) < 2 {
        assert!(committing.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        database.world.settle();
    }
    leader.process.kill();
    let label = finish(&database, backup).unwrap();
    other.process.kill();
    let done = restored(&database, &label).unwrap();
    assert_eq!(done.aborted, 1);
    let process = database.start("process");
    database.replicas.meets_ghosts.store(true, Ordering::SeqCst);
    assert_eq!(see(&database, &process).as_deref(), Some(&b"before"[..]));
}

#[test]
fn snapshots_from_before_a_restore_are_refused() {
    let (_, _, copy, label) = copied(1);
    let old = put_back(&copy);
    let done = restored(&old, &label).unwrap();
    let process = old.start("process");
    let (context, key) = (Context::unbounded(), cell("x"));
    let late = old.run(reader::read(&*process.log, &context, &key, label.bound));
    assert_eq!(late.unwrap_err().kind(), ErrorKind::TooOld);
    assert!(old.put(&process, &key, "new") > done.first && done.first > label.bound);
}

/// The options are the database's own: a restore must know how long its leases last.
#[test]
fn restore_watches_the_lease_for_its_timeout() {
    let mut options = support::asking();
    options.lease.timeout = Duration::from_secs(20);
    options.lease.renew_every = Duration::from_secs(5);
    let database = Database::with(options);
    let leader = database.start("leader");
    let backup = begin(&database, &leader, 7).unwrap();
    let label = finish(&database, backup).unwrap();
    let error = restored(&database, &label).unwrap_err();
    assert!(error.to_string().contains("leader leads the database"), "{error}");
}
