//! Simulates policies without a disk, and counts every byte. The simulation of
//! [`job`](crate::compaction::job) has real merges, with deltas and versions that expire or pass.

use std::collections::BTreeMap;

use carnet_base::{Rng, SeededRng, Timestamp};

use super::*;
use crate::compaction::merge::Mark;
use crate::compaction::{Below, Cutter};
use crate::manifest::{Edit, LEVELS, Levels, TableMeta, Tally, VersionKind};

const CELL_BYTES: u64 = 100;
/// Number of cells in a memtable.
const MEMTABLE_CELLS: u64 = 500;
const MEMTABLE_BYTES: u64 = CELL_BYTES * MEMTABLE_CELLS;

/// Scaled defaults: a memtable is as large as a table, and four of them are a batch.
fn config() -> Config {
    Config {
        base_bytes: 4 * MEMTABLE_BYTES,
        table_bytes: MEMTABLE_BYTES,
        memtable_bytes: MEMTABLE_BYTES,
        slow_pending_bytes: 256 * MEMTABLE_BYTES,
        slowest_pending_bytes: 1024 * MEMTABLE_BYTES,
        ..Config::default()
    }
}

/// Newest version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Newest {
    commit: u64,
    tombstone: bool,
}

type Cells = BTreeMap<u64, Newest>;

/// A database without snapshots: a table holds only the newest version of each key.
struct Simulation<'a> {
    policy: &'a dyn Policy,
    config: Config,
    levels: Levels,
    state: CompactionState,
    tables: BTreeMap<u64, Cells>,
    /// Compactions that have read their inputs and are not applied yet.
    running: Vec<(Plan, Edit)>,
    truth: Cells,
    next_table: u64,
    commit: u64,
    flushed_bytes: u64,
    compacted_bytes: u64,
    runs_max: usize,
    level0_max: usize,
    running_max: usize,
    moves: u64,
}

impl<'a> Simulation<'a> {
    fn new(policy: &'a dyn Policy) -> Self {
        let mut state = CompactionState::default();
        state.observe(&Mark { read: Timestamp::MAX, ..Mark::default() });
        Self {
            policy,
            config: config(),
            levels: Levels::default(),
            state,
            tables: BTreeMap::new(),
            running: Vec::new(),
            truth: BTreeMap::new(),
            next_table: 1,
            commit: 0,
            flushed_bytes: 0,
            compacted_bytes: 0,
            runs_max: 0,
            level0_max: 0,
            running_max: 0,
            moves: 0,
        }
    }

    fn write(&mut self, level: u8, cells: Cells) -> Option<TableMeta> {
        let number = self.next_table;
        self.next_table += 1;
        let mut tally = Tally::default();
        for (key, newest) in &cells {
            let commit = Timestamp::new(newest.commit).unwrap();
            let kind = if newest.tombstone { VersionKind::Tombstone } else { VersionKind::Value };
            tally.cell(&key.to_be_bytes(), commit, None, kind);
        }
        let bytes = cells.len() as u64 * CELL_BYTES;
        self.tables.insert(number, cells);
        tally.finish(number, level, bytes)
    }

    /// Flushes a memtable of keys, some of them deleted.
    fn flush(&mut self, mut next: impl FnMut() -> (u64, bool)) {
        let mut cells = Cells::new();
        while (cells.len() as u64) < MEMTABLE_CELLS {
            self.commit += 1;
            let (key, tombstone) = next();
            cells.insert(key, Newest { commit: self.commit, tombstone });
        }
        self.truth.extend(cells.iter().map(|(key, newest)| (*key, *newest)));
        let table = self.write(0, cells).unwrap();
        self.flushed_bytes += table.bytes;
        self.levels.edit(&Edit { add: vec![table], ..Edit::default() }).unwrap();
        self.level0_max = self.level0_max.max(self.levels.level(0).len());
        self.runs_max = self.runs_max.max(self.policy.runs(&self.levels));
    }

    /// Starts the policy's next choice; returns `false` if it chose nothing.
    fn choose(&mut self) -> bool {
        match self.policy.choose(&self.levels, &self.config, &self.state) {
            Choice::Nothing => return false,
            Choice::Compact(plan) => {
                self.state.begin(&plan);
                let edit = self.compact(&plan);
                self.running.push((plan, edit));
                self.running_max = self.running_max.max(self.running.len());
            }
            choice => {
                self.moves += 1;
                let edit = choice.edit(&self.levels).unwrap();
                self.levels.edit(&edit).unwrap();
            }
        }
        true
    }

    fn compact(&mut self, plan: &Plan) -> Edit {
        let inputs: Vec<u64> = plan.numbers().collect();
        let mut merged = Cells::new();
        for table in &inputs {
            for (key, newest) in &self.tables[table] {
                let known = merged.entry(*key).or_insert(*newest);
                if known.commit < newest.commit {
                    *known = *newest;
                }
            }
        }
        let mut below = Below::output(&self.levels, plan.output_level, &inputs, &plan.hull);
        merged.retain(|key, newest| !newest.tombstone || below.may_hold(&key.to_be_bytes()));
        let mut cutter = Cutter::new(plan, &plan.hull, &self.levels);
        let mut add = Vec::new();
        let mut cells = Cells::new();
        for (key, newest) in merged {
            if cutter.ends_before(&key.to_be_bytes(), cells.len() as u64 * CELL_BYTES) {
                add.extend(self.write(plan.output_level, std::mem::take(&mut cells)));
                cutter.begin_file();
            }
            cells.insert(key, newest);
        }
        add.extend(self.write(plan.output_level, cells));
        self.compacted_bytes += add.iter().map(|table| table.bytes).sum::<u64>();
        Edit { add, remove: inputs, ..Edit::default() }
    }

    /// Applies a running compaction.
    fn install(&mut self, which: usize) {
        let (plan, edit) = self.running.swap_remove(which);
        self.levels.edit(&edit).unwrap();
        self.state.end(&plan);
        for table in &edit.remove {
            self.tables.remove(table);
        }
    }

    /// Runs the policy's choices one by one until it chooses nothing.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.choose() {
                return;
            }
            while !self.running.is_empty() {
                self.install(0);
            }
        }
        panic!("the policy does not terminate");
    }

    /// Compares every key with the expected state: the youngest run that has it decides.
    fn check(&self, what: &str) {
        let mut found = Cells::new();
        let young = self.levels.level(0).iter().rev();
        for table in young.chain((1..LEVELS).flat_map(|level| self.levels.level(level))) {
            for (key, newest) in &self.tables[&table.number] {
                found.entry(*key).or_insert(*newest);
            }
        }
        found.retain(|_, newest| !newest.tombstone);
        let live = self.truth.iter().filter(|(_, newest)| !newest.tombstone);
        assert!(live.eq(found.iter()), "{what}: some key reads wrong");
    }

    fn write_amplification(&self) -> f64 {
        ratio(self.flushed_bytes + self.compacted_bytes, self.flushed_bytes)
    }

    /// Returns the versions on disk per live key.
    fn space_amplification(&self) -> f64 {
        let live = self.truth.values().filter(|newest| !newest.tombstone).count();
        ratio(self.levels.iter().map(|table| table.contents.cells).sum(), live as u64)
    }
}

#[expect(clippy::cast_precision_loss, reason = "the figures are small")]
fn ratio(all: u64, of: u64) -> f64 {
    all as f64 / of as f64
}

#[derive(Clone, Copy, Debug)]
enum Load {
    /// Random keys, almost all distinct.
    New,
    /// Random keys out of as many as twenty memtables hold.
    Overwrite,
    /// Like `Overwrite`, and a fourth of the writes are deletions.
    Delete,
    /// Each key is greater than all before.
    Ascending,
}

struct Figures {
    write: f64,
    /// Maximum of the second half.
    space: f64,
    runs: usize,
    level0: usize,
    moves: u64,
    levels: Vec<u64>,
}

/// Writes memtables, settles after each, and checks every key at the end.
fn run(policy: &dyn Policy, load: Load, memtables: u64) -> Figures {
    let mut simulation = Simulation::new(policy);
    let mut rng = SeededRng::new(1);
    let mut ascending = 0;
    let mut space = 0_f64;
    for memtable in 0..memtables {
        simulation.flush(|| match load {
            Load::New => (rng.next_u64(), false),
            Load::Overwrite => (rng.below(20 * MEMTABLE_CELLS), false),
            Load::Delete => (rng.below(20 * MEMTABLE_CELLS), rng.chance(250)),
            Load::Ascending => {
                ascending += 1;
                (ascending, false)
            }
        });
        simulation.settle();
        if memtable >= memtables / 2 {
            space = space.max(simulation.space_amplification());
        }
    }
    simulation.check(&format!("{load:?}"));
    Figures {
        write: simulation.write_amplification(),
        space,
        runs: simulation.runs_max,
        level0: simulation.level0_max,
        moves: simulation.moves,
        levels: (0..LEVELS).map(|level| simulation.levels.bytes(level) / MEMTABLE_BYTES).collect(),
    }
}

#[test]
#[ignore = "prints the table of the module documentation: run it in release, with --nocapture"]
fn table_of_amplification() {
    println!("policy   load      memtables  written  space  runs  level 0  moves  levels");
    for (name, policy) in [("leveled", &Leveled as &dyn Policy), ("tiered", &Tiered)] {
        for load in [Load::New, Load::Overwrite, Load::Delete, Load::Ascending] {
            for memtables in [25, 100, 400] {
                let Figures { write, space, runs, level0, moves, levels } =
                    run(policy, load, memtables);
                let load = format!("{load:?}");
                println!(
                    "{name:8} {load:10} {memtables:8} {write:8.1} {space:6.2} {runs:5} {level0:8} \
                     {moves:6}  {levels:?}",
                );
            }
        }
    }
}

#[test]
fn leveled_keeps_garbage_and_runs_few() {
    let figures = run(&Leveled, Load::New, 100);
    assert!(figures.write < 9.0 && figures.space < 1.01, "{} {}", figures.write, figures.space);
    let figures = run(&Leveled, Load::Overwrite, 100);
    assert!(figures.write < 7.0 && figures.space < 1.2, "{} {}", figures.write, figures.space);
    assert!(figures.runs <= 7 && figures.level0 <= 4, "{} {}", figures.runs, figures.level0);
    let figures = run(&Leveled, Load::Delete, 100);
    assert!(figures.write < 7.0 && figures.space < 1.4, "{} {}", figures.write, figures.space);
}

#[test]
fn tiered_writes_less() {
    let figures = run(&Tiered, Load::New, 100);
    assert!(figures.write < 5.0 && figures.runs <= 12, "{} {}", figures.write, figures.runs);
    let figures = run(&Tiered, Load::Overwrite, 100);
    assert!(figures.write < 4.0 && figures.space < 2.6, "{} {}", figures.write, figures.space);
    let figures = run(&Tiered, Load::Delete, 100);
    assert!(figures.write < 4.5 && figures.space < 3.5, "{} {}", figures.write, figures.space);
}

#[test]
fn ascending_keys_are_written_once() {
    for policy in [&Leveled as &dyn Policy, &Tiered] {
        let figures = run(policy, Load::Ascending, 100);
        assert!(figures.write < 1.01, "{}", figures.write);
    }
}

#[test]
fn concurrent_compactions_keep_every_key() {
    let mut running_max = 0;
    for seed in 0..24 {
        let policy: &dyn Policy = if seed % 3 == 0 { &Tiered } else { &Leveled };
        let mut rng = SeededRng::new(seed);
        let mut simulation = Simulation::new(policy);
        let keys = 1 + rng.below(30 * MEMTABLE_CELLS) + 2 * MEMTABLE_CELLS;
        for _ in 0..40 {
            simulation.flush(|| (rng.below(keys), rng.chance(300)));
            for _ in 0..rng.below(6) {
                if rng.chance(600) && simulation.running.len() < 4 {
                    simulation.choose();
                } else if !simulation.running.is_empty() {
                    let which = rng.below(simulation.running.len() as u64);
                    simulation.install(usize::try_from(which).unwrap());
                }
            }
            simulation.check(&format!("seed {seed}"));
        }
        running_max = running_max.max(simulation.running_max);
        while !simulation.running.is_empty() {
            simulation.install(0);
        }
        simulation.settle();
        simulation.check(&format!("seed {seed}, at rest"));
        let rest = policy.pressure(&simulation.levels, &simulation.config);
        assert_eq!(rest, Pressure::Fine, "seed {seed}, at rest");
    }
    assert!(running_max >= 3, "{running_max} at once");
}
