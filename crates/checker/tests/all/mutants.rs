//! A small database with one bug at a time: each bug is found, and no other is reported. Databases
//! without a bug keep their guarantees.

use std::collections::BTreeSet;
use std::mem;

use carnet_base::{Rng, SeededRng};
use carnet_checker::{Call, History, Model, Op, Options, Outcome, Recorder, check};

const SEEDS: u64 = 30;
const TRANSACTIONS: u64 = 80;
const KEYS: u64 = 4;
const CLIENTS: i64 = 5;

/// Behaviour of the database.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    /// Each operation has a separate snapshot.
    reads_newest: bool,
    /// A transaction aborts if a key that it writes was written since its snapshot.
    checks_writes: bool,
    /// A transaction aborts if a key that it read was written since its snapshot.
    checks_reads: bool,
    /// Snapshots may be some commits old.
    has_old_snapshots: bool,
    /// Reads see uncommitted writes of others.
    reads_uncommitted: bool,
    /// Writes of aborted transactions stay.
    keeps_aborted: bool,
    /// The writes of a commit become visible one by one.
    tears_commits: bool,
    /// The first of two writes of a key becomes visible before the commit.
    shows_intermediate: bool,
    /// A commit is acknowledged and lost.
    loses_commits: bool,
    /// A commit is applied twice.
    repeats_commits: bool,
    /// Reads do not see own writes.
    forgets_own: bool,
}

impl Rules {
    /// Returns `true` if a database of lists keeps the model like one of registers. A list read
    /// with own appends is a version. It ceases to exist if others append before the commit, or if
    /// the commit is lost.
    fn keeps_with_lists(self, model: Model) -> bool {
        let may_move = !self.checks_writes || self.loses_commits;
        model != Model::ReadCommitted || self.forgets_own || !may_move
    }
}

const STRICT: Rules = Rules {
    reads_newest: false,
    checks_writes: true,
    checks_reads: true,
    has_old_snapshots: false,
    reads_uncommitted: false,
    keeps_aborted: false,
    tears_commits: false,
    shows_intermediate: false,
    loses_commits: false,
    repeats_commits: false,
    forgets_own: false,
};
const SNAPSHOT: Rules = Rules { checks_reads: false, ..STRICT };

struct Running {
    process: i64,
    call: Call,
    asked: Vec<Op>,
    done: Vec<Op>,
    snapshot: usize,
    writes: Vec<(u64, i64)>,
    reads: BTreeSet<u64>,
}

struct Database {
    rng: SeededRng,
    rules: Rules,
    has_lists: bool,
    /// Commits in their order, each with its writes. A register is a list of which only the end is
    /// visible.
    log: Vec<Vec<(u64, i64)>>,
    /// Writes of torn commits that are not visible yet.
    late: Vec<(u64, i64)>,
    running: Vec<Running>,
    idle: Vec<i64>,
    recorder: Recorder,
    next_value: i64,
}

impl Database {
    fn run(seed: u64, rules: Rules, has_lists: bool) -> History {
        let mut database = Self {
            rng: SeededRng::new(seed),
            rules,
            has_lists,
            log: Vec::new(),
            late: Vec::new(),
            running: Vec::new(),
            idle: (0..CLIENTS).collect(),
            recorder: Recorder::default(),
            next_value: 0,
        };
        let mut begun = 0;
        while begun < TRANSACTIONS || !database.running.is_empty() {
            if database.chance(30)
                && let Some(write) = database.late.pop()
            {
                database.log.push(vec![write]);
            }
            if begun < TRANSACTIONS && !database.idle.is_empty() && database.chance(40) {
                begun += 1;
                database.begin();
            } else if !database.running.is_empty() {
                let number = database.below(database.running.len());
                database.step(number);
            }
        }
        database.read_all();
        database.recorder.finish().unwrap()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.rng.below(limit as u64)).unwrap()
    }

    fn asked_read(&self, key: u64) -> Op {
        let key = i64::try_from(key).unwrap().into();
        if self.has_lists {
            Op::ReadList { key, list: Vec::new() }
        } else {
            Op::ReadRegister { key, value: None }
        }
    }

    fn begin(&mut self) {
        let mut asked = Vec::new();
        let reads_percent = if self.chance(30) { 100 } else { 50 };
        for _ in 0..=self.rng.below(4) {
            let key = self.rng.below(KEYS);
            self.next_value += 1;
            let (name, value) = (i64::try_from(key).unwrap().into(), self.next_value);
            let reads = self.chance(reads_percent);
            // The version before a write to a register is known only from a read before the write.
            if !reads && self.chance(50) {
                asked.push(self.asked_read(key));
            }
            asked.push(match (reads, self.has_lists) {
                (true, _) => self.asked_read(key),
                (false, true) => Op::Append { key: name, element: value },
                (false, false) => Op::Write { key: name, value },
            });
        }
        let process = self.idle.pop().unwrap();
        self.start(process, asked);
    }

    fn start(&mut self, process: i64, mut asked: Vec<Op>) {
        let call = self.recorder.invoke(process, 0, asked.clone());
        asked.reverse();
        let age = if self.rules.has_old_snapshots { self.below(4) } else { 0 };
        let snapshot = self.log.len().saturating_sub(age);
        let (done, writes, reads) = (Vec::new(), Vec::new(), BTreeSet::new());
        self.running.push(Running { process, call, asked, done, snapshot, writes, reads });
    }

    /// Reads everything, after all other transactions.
    fn read_all(&mut self) {
        while let Some(write) = self.late.pop() {
            self.log.push(vec![write]);
        }
        let rules = mem::replace(&mut self.rules, STRICT);
        self.start(99, (0..KEYS).map(|key| self.asked_read(key)).collect());
        for _ in 0..KEYS {
            self.step(0);
        }
        let last = self.running.remove(0);
        self.recorder.complete(last.call, 0, Outcome::Committed, Some(last.done));
        self.rules = rules;
    }

    /// Executes an operation, or ends the transaction if there is none left.
    fn step(&mut self, number: usize) {
        let Some(mut op) = self.running[number].asked.pop() else {
            return self.end(number);
        };
        let key: u64 = op.key().to_string().parse().unwrap();
        match &mut op {
            Op::Append { element: value, .. } | Op::Write { value, .. } => {
                let earlier = self.running[number].writes.iter().position(|(of, _)| *of == key);
                if let Some(earlier) = earlier.filter(|_| self.rules.shows_intermediate) {
                    let write = self.running[number].writes.remove(earlier);
                    self.log.push(vec![write]);
                }
                self.running[number].writes.push((key, *value));
            }
            Op::ReadList { list, .. } => *list = self.visible(number, key),
            Op::ReadRegister { value, .. } => *value = self.visible(number, key).last().copied(),
        }
        let running = &mut self.running[number];
        if op.is_read() {
            running.reads.insert(key);
        }
        running.done.push(op);
    }

    fn visible(&self, number: usize, key: u64) -> Vec<i64> {
        let me = &self.running[number];
        let until = if self.rules.reads_newest { self.log.len() } else { me.snapshot };
        let mut writes: Vec<(u64, i64)> = self.log[..until].concat();
        if self.rules.reads_uncommitted {
            let others = self.running.iter().filter(|other| other.process != me.process);
            writes.extend(others.flat_map(|other| &other.writes));
        }
        if !self.rules.forgets_own {
            writes.extend(&me.writes);
        }
        writes.into_iter().filter(|(of, _)| *of == key).map(|(_, value)| value).collect()
    }

    fn end(&mut self, number: usize) {
        let Running { process, call, done, snapshot, writes, reads, .. } =
            self.running.swap_remove(number);
        let since = || self.log[snapshot..].iter().flatten().map(|(key, _)| *key);
        let is_write_conflict =
            self.rules.checks_writes && since().any(|key| writes.iter().any(|(of, _)| *of == key));
        let is_read_conflict = self.rules.checks_reads
            && !writes.is_empty()
            && since().any(|key| reads.contains(&key));
        let aborts = is_write_conflict || is_read_conflict || self.chance(4);
        let is_unknown = self.chance(5);
        let applies = if aborts {
            self.rules.keeps_aborted && !writes.is_empty()
        } else if is_unknown {
            self.chance(50)
        } else {
            !(self.rules.loses_commits && self.chance(10))
        };
        if applies {
            self.apply(writes);
        }
        let outcome = match (aborts, is_unknown) {
            (true, _) => Outcome::Aborted,
            (_, true) => Outcome::Unknown,
            _ => Outcome::Committed,
        };
        self.recorder.complete(call, 0, outcome, Some(done));
        // A client whose answer was lost is replaced by another, as in Jepsen.
        self.idle.insert(0, if outcome == Outcome::Unknown { process + CLIENTS } else { process });
    }

    fn apply(&mut self, mut writes: Vec<(u64, i64)>) {
        if self.rules.tears_commits && writes.len() > 1 {
            let rest = writes.split_off(1);
            self.late.extend(rest.into_iter().rev());
        }
        if self.rules.repeats_commits && self.chance(5) {
            self.log.push(writes.clone());
        }
        self.log.push(writes);
    }
}

/// Runs a database with many seeds. The model `keeps` must hold in all of them, and a violation of
/// `breaks` must be found in at least the given number.
fn judge(name: &str, rules: Rules, keeps: Option<Model>, breaks: Option<(Model, usize)>) {
    for has_lists in [true, false] {
        if rules.repeats_commits && !has_lists {
            continue; // A register set twice shows nothing.
        }
        let mut caught = 0;
        for seed in 0..SEEDS {
            let history = Database::run(seed, rules, has_lists);
            let report = check(&history, &Options::default()).unwrap();
            if let Some(model) = keeps.filter(|model| !has_lists || rules.keeps_with_lists(*model))
            {
                let accused = report.counterexample(model);
                assert!(accused.is_none(), "{name}, seed {seed}: {}", report.explain(&history));
            }
            caught += usize::from(breaks.is_some_and(|(model, _)| !report.allows(model)));
        }
        let kind = if has_lists { "lists" } else { "registers" };
        println!("{name}, {kind}: caught in {caught} of {SEEDS} runs");
        if let Some((model, lists_min)) = breaks {
            // The order of registers is known less.
            let caught_min = if has_lists { lists_min } else { lists_min / 2 };
            assert!(caught >= caught_min, "{name}, {kind}: {model} broken in {caught} runs only");
        }
    }
}

#[test]
fn databases_without_a_mistake_keep_their_promise() {
    use Model::{ReadCommitted, Serializable, SnapshotIsolation, StrictSerializable};
    judge("strict", STRICT, Some(StrictSerializable), None);
    judge("snapshot", SNAPSHOT, Some(Model::StrongSnapshotIsolation), Some((Serializable, 10)));
    let newest = Rules { reads_newest: true, checks_writes: false, checks_reads: false, ..STRICT };
    judge("newest", newest, Some(ReadCommitted), Some((SnapshotIsolation, 25)));
    let newest = Rules { forgets_own: true, ..newest };
    judge("newest, own writes unseen", newest, Some(ReadCommitted), Some((SnapshotIsolation, 25)));
    let old = Rules { has_old_snapshots: true, ..STRICT };
    judge("old snapshots", old, Some(Serializable), Some((StrictSerializable, 25)));
    let old = Rules { has_old_snapshots: true, ..SNAPSHOT };
    let breaks = (Model::StrongSnapshotIsolation, 25);
    judge("old snapshots, unchecked", old, Some(SnapshotIsolation), Some(breaks));
    judge("sessions", old, None, Some((Model::StrongSessionSnapshotIsolation, 25)));
}

#[test]
fn every_mistake_is_caught() {
    use Model::{ReadCommitted, SnapshotIsolation, StrictSerializable};
    let unchecked = Rules { checks_writes: false, ..SNAPSHOT };
    judge("no write check", unchecked, Some(ReadCommitted), Some((SnapshotIsolation, 25)));
    let loses = Rules { loses_commits: true, ..STRICT };
    judge("lost commits", loses, Some(ReadCommitted), Some((StrictSerializable, 15)));
    let forgets = Rules { forgets_own: true, ..STRICT };
    judge("own writes", forgets, Some(ReadCommitted), Some((SnapshotIsolation, 25)));
    let torn = Rules { tears_commits: true, ..STRICT };
    judge("torn commits", torn, None, Some((SnapshotIsolation, 10)));
    for (name, rules) in [
        ("dirty reads", Rules { reads_uncommitted: true, ..STRICT }),
        ("kept aborts", Rules { keeps_aborted: true, ..STRICT }),
        ("intermediate reads", Rules { shows_intermediate: true, ..STRICT }),
        ("repeated commits", Rules { repeats_commits: true, ..STRICT }),
    ] {
        judge(name, rules, None, Some((ReadCommitted, 15)));
    }
}
