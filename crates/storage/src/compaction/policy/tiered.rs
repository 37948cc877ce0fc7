//! Size-tiered compaction: low write amplification, at the cost of more runs and garbage.

use std::sync::Arc;

use super::garbage;
use super::{Choice, CompactionState, Config, Plan, Policy, Pressure, Reason};
use crate::manifest::{FlatRange, LEVELS, Levels, TableMeta};

/// Tiered policy: merges runs of similar size into one, which then waits for others of its size.
///
/// A *run* is a table of level 0, or all tables of a deeper level. Runs are ordered by age, and
/// only neighbors are merged, so that of two runs the younger one holds the newer versions of any
/// key. The output goes to the deepest free level: the first merge fills the last level, the next
/// one the level before it. If no level is free, the output is a single table in level 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tiered;

/// Sorted and disjoint tables.
struct Run {
    level: u8,
    tables: Vec<Arc<TableMeta>>,
    bytes: u64,
    busy: bool,
}

/// Returns all runs, youngest first.
fn runs(levels: &Levels, state: &CompactionState) -> Vec<Run> {
    let run = |level: u8, tables: Vec<Arc<TableMeta>>| Run {
        level,
        bytes: tables.iter().map(|table| table.bytes).sum(),
        busy: tables.iter().any(|table| state.is_busy(table)),
        tables,
    };
    let young = levels.level(0).iter().rev().map(|table| run(0, vec![Arc::clone(table)]));
    let old = (1_u8..)
        .zip((1..LEVELS).map(|level| levels.level(level)))
        .filter(|(_, tables)| !tables.is_empty())
        .map(|(level, tables)| run(level, tables.to_vec()));
    young.chain(old).collect()
}

impl Policy for Tiered {
    fn choose(&self, levels: &Levels, config: &Config, state: &CompactionState) -> Choice {
        if let Some(drop) = garbage::choose_drop(levels, state) {
            return drop;
        }
        let runs = runs(levels, state);
        if let Some(moved) = move_level0(&runs, state) {
            return moved;
        }
        let merge = |from: usize, to: usize, reason| merge(&runs, from..to, config, state, reason);
        similar(&runs, config)
            .and_then(|(from, to)| merge(from, to, Reason::Tier))
            .or_else(|| {
                let wasteful = is_wasteful(&runs, config);
                wasteful.then(|| merge(0, runs.len(), Reason::Space)).flatten()
            })
            .or_else(|| {
                // If run sizes differ too much for a tier, the youngest are merged before reads
                // suffer.
                let many = runs.len() >= config.slow_runs;
                many.then(|| merge(0, config.tier_runs.min(runs.len()), Reason::Tier)).flatten()
            })
            .or_else(|| garbage::plan(levels, config, state))
            .map_or(Choice::Nothing, Choice::Compact)
    }

    /// Many runs are normal here: help is needed only when writers are throttled.
    fn wants_help(&self, levels: &Levels, config: &Config) -> bool {
        self.pressure(levels, config) != Pressure::Fine
    }

    fn pending_bytes(&self, levels: &Levels, config: &Config) -> u64 {
        let runs = runs(levels, &CompactionState::default());
        let bytes = |runs: &[Run]| runs.iter().map(|run| run.bytes).sum();
        if is_wasteful(&runs, config) {
            return bytes(&runs);
        }
        similar(&runs, config).map_or(0, |(from, to)| bytes(&runs[from..to]))
    }
}

/// Moves tables of level 0 unread that overlap neither each other nor the next older run, so that
/// ascending keys are never rewritten. They join that run, which no younger run overlaps there.
fn move_level0(runs: &[Run], state: &CompactionState) -> Option<Choice> {
    let young = runs.iter().take_while(|run| run.level == 0).count();
    let to = runs.get(young).map_or(LEVELS - 1, |run| run.level.into());
    let to = u8::try_from(to).ok()?;
    let mut joined: Vec<&Arc<TableMeta>> =
        runs.get(young).map_or(Vec::new(), |run| run.tables.iter().collect());
    let mut tables = Vec::new();
    for run in runs[..young].iter().rev() {
        let [table] = &run.tables[..] else { break };
        let apart = joined.iter().all(|other| !other.range.overlaps(&table.range));
        if run.busy || !apart || state.is_blocked((0, to.into()), &table.range) {
            break;
        }
        joined.push(table);
        tables.push(table.number);
    }
    (!tables.is_empty()).then_some(Choice::Move { tables, from: 0, to })
}

/// Returns `true` if the younger runs are so large that the oldest one may be mostly garbage.
fn is_wasteful(runs: &[Run], config: &Config) -> bool {
    let Some((oldest, younger)) = runs.split_last() else { return false };
    let younger: u64 = younger.iter().map(|run| run.bytes).sum();
    u128::from(younger) * 100 > u128::from(oldest.bytes) * u128::from(config.space_percent)
        && runs.len() >= config.tier_runs.max(2)
}

/// Finds the youngest sequence of enough runs of similar size: each has between half and one and a
/// half times the mean size of those before it.
fn similar(runs: &[Run], config: &Config) -> Option<(usize, usize)> {
    let enough = config.tier_runs.max(2);
    (0..runs.len()).find_map(|from| {
        let mut bytes = 0_u64;
        let mut to = from;
        while let Some(run) = runs.get(to).filter(|run| !run.busy) {
            let count = (to - from) as u64;
            let alike = run.bytes.saturating_mul(2 * count) >= bytes
                && run.bytes.saturating_mul(2 * count) <= bytes.saturating_mul(3);
            if !alike {
                break;
            }
            bytes += run.bytes;
            to += 1;
        }
        (to - from >= enough).then_some((from, to))
    })
}

/// Plans to merge neighboring runs; `None` if one is busy or no level is free.
fn merge(
    runs: &[Run],
    which: std::ops::Range<usize>,
    config: &Config,
    state: &CompactionState,
    reason: Reason,
) -> Option<Plan> {
    let merged = runs.get(which.clone()).filter(|merged| merged.len() >= 2)?;
    if merged.iter().any(|run| run.busy) {
        return None;
    }
    // The output goes to the level before that of the next older run.
    let older = runs.get(which.end).map_or(LEVELS, |run| run.level.into());
    let output_level = u8::try_from(older.saturating_sub(1)).ok()?;
    let mut inputs: Vec<(u8, Vec<Arc<TableMeta>>)> = Vec::new();
    for run in merged.iter().rev() {
        match inputs.iter_mut().find(|(level, _)| *level == run.level) {
            Some((_, tables)) => tables.extend(run.tables.iter().cloned()),
            None => inputs.push((run.level, run.tables.clone())),
        }
    }
    inputs.sort_by_key(|(level, _)| *level);
    let hull = FlatRange::hull(inputs.iter().flat_map(|(_, tables)| tables).map(|t| &t.range))?;
    let single = output_level == 0;
    let plan = Plan {
        inputs,
        output_level,
        cut_bytes: if single { u64::MAX } else { config.table_bytes },
        grandparent_bytes: u64::MAX,
        hull,
        reason,
    };
    (!state.is_blocked(plan.levels(), &plan.hull)).then_some(plan)
}
