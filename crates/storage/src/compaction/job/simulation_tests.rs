//! Runs the policies with real merges over random histories: values that expire, deltas, tombstones,
//! commit-table entries and wall-clock points. A database at rest compacts nothing.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use carnet_base::{Rng, SeededRng, TableId};

use super::memory::{Contents, ENTRIES, Hook, Memory, POINTS, Version, at};
use super::*;
use crate::compaction::merge::Mark;
use crate::compaction::policy::{
    Choice, CompactionState, Config, Leveled, Plan, Policy, Reason, Tiered,
};
use crate::manifest::{LEVELS, TableMeta, Tally, VersionKind, table_of};

/// Seeds of the runs. A failure names its seed; replace the range by `(seed..=seed)` to replay it.
const SEEDS: std::ops::Range<u64> = 0..120;
const ROUNDS: u64 = 30;
const KEYS: u64 = 8;
const FIRST_SECOND: u64 = 1_000;

fn config() -> Config {
    Config {
        level0_tables: 3,
        base_bytes: 400,
        table_bytes: 150,
        fanout: 3,
        slow_runs: 8,
        ..Config::default()
    }
}

fn key(TableId(table): TableId, number: u64) -> Vec<u8> {
    [&table.to_be_bytes()[..], &u16::try_from(number).unwrap().to_be_bytes()].concat()
}

struct Simulation<'a> {
    seed: u64,
    rng: SeededRng,
    policy: &'a dyn Policy,
    memory: Memory,
    levels: Levels,
    state: CompactionState,
    hook: Hook,
    commit: u64,
    /// Number of rewrites for garbage in the same level.
    rewrites: u64,
    /// Tables that such a rewrite wrote at this GC watermark without dropping anything.
    fruitless: BTreeSet<u64>,
}

impl<'a> Simulation<'a> {
    fn new(seed: u64, policy: &'a dyn Policy) -> Self {
        let mut rng = SeededRng::new(seed);
        let mut hook = Hook::default();
        hook.mark.wall = Some(FIRST_SECOND);
        hook.failing = if rng.chance(500) { 700 } else { 0 };
        Self {
            seed,
            rng,
            policy,
            memory: Memory::default(),
            levels: Levels::default(),
            state: CompactionState::default(),
            hook,
            commit: 1,
            rewrites: 0,
            fruitless: BTreeSet::new(),
        }
    }

    /// Makes a version of a row.
    fn row(&mut self, kinds: u64) -> (Option<Vec<u8>>, Option<u64>) {
        let commit = self.commit;
        match self.rng.below(10) {
            kind if kind < kinds => (Some(format!("+{commit}").into_bytes()), None),
            0..6 => (Some(format!("v{commit}").into_bytes()), None),
            6..9 => {
                let wall = self.hook.mark.wall.unwrap();
                (Some(format!("v{commit}").into_bytes()), Some(wall + self.rng.below(40)))
            }
            _ => (None, None),
        }
    }

    /// Writes some commits, one row each, as a table of level 0.
    fn flush(&mut self) {
        let (mut contents, kinds) = (Contents::default(), self.rng.below(10));
        for _ in 0..=self.rng.below(12) {
            self.commit += 1 + self.rng.below(3);
            let (payload, expiry) = self.row(kinds);
            let commit = self.commit;
            let row = key(TableId(1), self.rng.below(KEYS));
            contents.cells.push(Version { key: row, commit, expiry, payload });
            let empty = Some(Vec::new());
            let cell = Version { key: key(ENTRIES, commit), commit, expiry: None, payload: empty };
            contents.cells.push(cell.clone());
            if self.rng.chance(300) {
                contents.cells.push(Version { key: key(POINTS, commit - 1), ..cell });
                self.hook.points.insert(u16::try_from(commit - 1).unwrap());
            }
        }
        contents.cells.sort_by_key(|cell| (cell.key.clone(), Reverse(cell.commit)));
        let mut tally = Tally::default();
        for Version { key, commit, expiry, payload } in &contents.cells {
            let kind = VersionKind::of(payload.as_deref(), self.hook.delta_mark(TableId(1)));
            tally.cell(key, at(*commit), *expiry, kind);
            if table_of(key) == Some(ENTRIES) {
                tally.will_pass(false);
            }
        }
        let table = self.memory.add(0, contents).pop().unwrap();
        let add = vec![tally.finish(table.number, 0, table.bytes).unwrap()];
        self.levels.edit(&Edit { add, ..Edit::default() }).unwrap();
    }

    /// Raises the GC watermark; sometimes a snapshot stays behind it.
    fn advance(&mut self) {
        let mark = &mut self.hook.mark;
        let oldest = mark.oldest().get();
        let above = |rng: &mut SeededRng, least: u64| least + rng.below(self.commit + 1 - least);
        let read = above(&mut self.rng, mark.read.get());
        mark.snapshots.clear();
        if self.rng.chance(300) {
            mark.snapshots.push(at(oldest + self.rng.below(read - oldest + 1)));
        }
        mark.read = at(read);
        mark.wall = mark.wall.map(|wall| wall + self.rng.below(15));
    }

    /// Compacts until the policy chooses nothing.
    fn settle(&mut self) {
        self.state.observe(&self.hook.mark);
        self.fruitless.clear();
        for _ in 0..200 {
            match self.policy.choose(&self.levels, &config(), &self.state) {
                Choice::Nothing => return,
                Choice::Compact(plan) => self.compact(&plan),
                choice => {
                    let edit = choice.edit(&self.levels).unwrap();
                    self.levels.edit(&edit).unwrap();
                }
            }
        }
        panic!("seed {}: the policy does not rest", self.seed);
    }

    fn compact(&mut self, plan: &Plan) {
        let (tables, output) = (Arc::new(self.memory.clone()), self.memory.clone());
        self.state.begin(plan);
        let mut job = Job::new(plan, &self.levels, &tables, output, self.hook.clone()).unwrap();
        let Progress::Done(edit) = job.step(u64::MAX).unwrap() else { panic!("it is done") };
        self.check(plan, &edit.add);
        self.levels.edit(&edit).unwrap();
        self.state.wrote(plan, &edit.add);
        self.state.end(plan);
    }

    /// Checks that a rewrite in the same level drops versions, and is not repeated if it does not.
    fn check(&mut self, plan: &Plan, add: &[TableMeta]) {
        let (first, last) = plan.levels();
        if plan.reason != Reason::Garbage || first != last {
            return;
        }
        self.rewrites += 1;
        let is_repeated = plan.numbers().all(|number| self.fruitless.contains(&number));
        assert!(!is_repeated, "seed {}: the same rewrite again: {plan:?}", self.seed);
        let count = |table: &TableMeta| table.contents.cells + table.contents.expiring;
        let read: u64 = plan.tables().map(|table| count(table)).sum();
        let written: u64 = add.iter().map(count).sum();
        if read == written {
            let seed = self.seed;
            assert!(self.hook.failing > 0, "seed {seed}: a rewrite that drops nothing: {plan:?}");
            self.fruitless.extend(add.iter().map(|table| table.number));
        }
    }

    /// Returns the results of reads of all rows that the GC watermark permits.
    fn reads(&self) -> Vec<Option<Vec<u8>>> {
        let Mark { read, snapshots, wall } = &self.hook.mark;
        let (read, now) = (read.get(), wall.unwrap());
        let between = read.midpoint(self.commit);
        let reads = snapshots.iter().map(|snapshot| snapshot.get());
        let reads: Vec<u64> = reads.chain([read, between, self.commit]).collect();
        let mut results = Vec::new();
        for row in 0..KEYS {
            for read in &reads {
                let row = key(TableId(1), row);
                let walls = [now, now + 20].map(|wall| (*read, wall));
                let of = |(read, wall)| self.memory.read(&self.levels, &row, read, wall);
                results.extend(walls.map(of));
            }
        }
        results
    }

    fn garbage(&self) -> u64 {
        let tables = (1..LEVELS).flat_map(|level| self.levels.level(level));
        tables.map(|table| table.garbage(self.state.oldest, self.state.wall)).sum()
    }
}

#[test]
fn database_at_rest_compacts_nothing() {
    let (mut rewrites, mut garbage) = (0, 0);
    for seed in SEEDS {
        let policy: &dyn Policy = if seed % 3 == 0 { &Tiered } else { &Leveled };
        let mut simulation = Simulation::new(seed, policy);
        for round in 0..ROUNDS {
            if simulation.rng.chance(600) {
                simulation.flush();
            }
            if simulation.rng.chance(500) {
                simulation.advance();
            }
            let before = simulation.reads();
            simulation.settle();
            assert!(simulation.reads() == before, "seed {seed}, round {round}");
        }
        // Everything has passed and expired.
        let mark = Mark { read: at(simulation.commit), wall: Some(10_000), ..Mark::default() };
        simulation.hook.mark = mark;
        simulation.settle();
        rewrites += simulation.rewrites;
        garbage += if simulation.hook.failing == 0 { simulation.garbage() } else { 0 };
    }
    assert!(rewrites > 300, "{rewrites} rewrites");
    assert!(garbage < SEEDS.end * 3, "{garbage} versions of garbage are left");
}
