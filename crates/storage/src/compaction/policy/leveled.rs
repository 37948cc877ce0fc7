//! Leveled compaction: few runs and little garbage, at a write amplification of about ten.

use std::sync::Arc;

use super::garbage::{self, plan_into};
use super::{Choice, CompactionState, Config, Plan, Policy, Reason};
use crate::manifest::{FlatRange, LEVELS, Levels, TableMeta};

/// Number of the last level.
const LAST: usize = LEVELS - 1;

/// Leveled policy: each level holds up to ten times the size of the one before it, in tables of
/// disjoint ranges.
///
/// Target sizes are computed *from the last level up*, like RocksDB's dynamic level sizes. The last
/// level has its current size, each level before it a tenth of the next one. The first level that
/// can still hold a batch of level 0 is the *base*, into which level 0 is compacted. So the last
/// level always holds about nine tenths of the data, and garbage is at most about a ninth of it.
/// With targets computed from the top, a database that just outgrew a level could hold as much
/// garbage as data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leveled;

/// Target sizes of the levels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Targets {
    /// Level into which level 0 is compacted; the levels between are empty.
    base: usize,
    /// Target sizes; 0 for levels before the base.
    bytes: [u64; LEVELS],
}

impl Targets {
    fn new(levels: &Levels, config: &Config) -> Self {
        let fanout = config.fanout.max(2);
        let mut bytes = [0; LEVELS];
        let largest = (1..=LAST).map(|level| levels.bytes(level)).max().unwrap_or(0);
        let mut base = LAST;
        bytes[LAST] = largest.max(config.base_bytes);
        while base > 1 && bytes[base] > config.base_bytes.saturating_mul(fanout) {
            bytes[base - 1] = bytes[base] / fanout;
            base -= 1;
        }
        // Levels before the base hold data if the last level was larger before; they are compacted
        // first.
        let first = (1..=LAST).find(|level| !levels.level(*level).is_empty());
        Self { base: base.min(first.unwrap_or(LAST)), bytes }
    }

    /// Returns the size of a level in thousandths of its target; from 1000 on it is compacted.
    /// Tables that are being compacted do not count.
    fn score(&self, level: usize, levels: &Levels, state: &CompactionState) -> u64 {
        let tables = levels.level(level).iter().filter(|table| !state.is_busy(table));
        let bytes: u64 = tables.map(|table| table.bytes).sum();
        match (bytes, self.bytes[level]) {
            (0, _) => 0,
            (bytes, target) => bytes.saturating_mul(1000) / target.max(1),
        }
    }

    /// Like [`Targets::score`] for level 0: by tables or by bytes, whichever is more. Bytes count
    /// so that level 0 can be compacted whenever its size throttles writers.
    fn score_level0(&self, levels: &Levels, config: &Config, state: &CompactionState) -> u64 {
        let idle = levels.level(0).iter().filter(|table| !state.is_busy(table));
        let (tables, bytes) =
            idle.fold((0, 0), |(tables, bytes), table| (tables + 1, bytes + table.bytes));
        let tables = tables * 1000 / config.level0_tables.max(1) as u64;
        tables.max(bytes.saturating_mul(1000) / self.level0_long(levels, config))
    }

    /// Size of level 0 from which writers are throttled; at least 1.
    fn level0_long(&self, levels: &Levels, config: &Config) -> u64 {
        let base = levels.bytes(self.base).max(self.bytes[self.base]).max(config.base_bytes);
        let memtables = config.memtable_bytes.saturating_mul(config.slow_runs as u64);
        memtables.max(base / 2).max(1)
    }
}

impl Policy for Leveled {
    fn choose(&self, levels: &Levels, config: &Config, state: &CompactionState) -> Choice {
        if let Some(drop) = garbage::choose_drop(levels, state) {
            return drop;
        }
        let targets = Targets::new(levels, config);
        let level0 = targets.score_level0(levels, config, state);
        let mut scores: Vec<_> =
            (1..LAST).map(|level| (targets.score(level, levels, state), level)).collect();
        scores.push((level0, 0));
        scores.retain(|(score, _)| *score >= 1000);
        scores.sort_unstable_by(|left, right| right.cmp(left));
        let by_score = scores.into_iter().find_map(|(_, level)| match level {
            0 => from_level0(&targets, levels, config, state),
            _ => from_level(level, levels, config, state),
        });
        by_score
            .or_else(|| garbage::plan(levels, config, state).map(Choice::Compact))
            .unwrap_or(Choice::Nothing)
    }

    /// Limits level 0 to half of the base level: while a level 0 of the base level's size is
    /// compacted, the files take three times the base level's size.
    fn level0_permille(&self, levels: &Levels, config: &Config) -> u64 {
        let long = Targets::new(levels, config).level0_long(levels, config);
        levels.bytes(0).saturating_mul(1000) / long
    }

    fn pending_bytes(&self, levels: &Levels, config: &Config) -> u64 {
        let targets = Targets::new(levels, config);
        let mut pending = 0_u64;
        let mut arriving = 0;
        if targets.score_level0(levels, config, &CompactionState::default()) >= 1000 {
            arriving = levels.bytes(0);
            pending = arriving.saturating_add(levels.bytes(targets.base));
        }
        // The excess of a level is rewritten with the tables that it overlaps in the next level.
        for level in targets.base..LAST {
            let bytes = levels.bytes(level).saturating_add(arriving);
            arriving = bytes.saturating_sub(targets.bytes[level]);
            let ratio = levels.bytes(level + 1) / bytes.max(1);
            pending = pending.saturating_add(arriving.saturating_mul(ratio.saturating_add(1)));
        }
        pending
    }
}

/// Compacts the oldest tables of level 0 into the base or, if the base is busy, merges tables
/// within level 0.
fn from_level0(
    targets: &Targets,
    levels: &Levels,
    config: &Config,
    state: &CompactionState,
) -> Option<Choice> {
    let idle: Vec<_> =
        levels.level(0).iter().take_while(|table| !state.is_busy(table)).cloned().collect();
    let base = u8::try_from(targets.base).ok()?;
    if let Some(moved) = move_level0(&idle, base, levels, state) {
        return Some(moved);
    }
    let to_base = plan_into(levels, config, state, idle, base, Reason::Level0);
    to_base.or_else(|| within_level0(levels, config, state)).map(Choice::Compact)
}

/// Moves the oldest tables unread while they overlap neither each other nor the base, so that
/// ascending keys are never rewritten.
fn move_level0(
    idle: &[Arc<TableMeta>],
    base: u8,
    levels: &Levels,
    state: &CompactionState,
) -> Option<Choice> {
    let mut moved: Vec<&Arc<TableMeta>> = Vec::new();
    for table in idle {
        let alone = levels.overlapping(base.into(), &table.range).next().is_none()
            && moved.iter().all(|other| !other.range.overlaps(&table.range))
            && !state.is_blocked((0, base.into()), &table.range);
        if !alone {
            break;
        }
        moved.push(table);
    }
    let tables: Vec<_> = moved.into_iter().map(|table| table.number).collect();
    (!tables.is_empty()).then_some(Choice::Move { tables, from: 0, to: base })
}

/// Merges neighbors in level 0, so that reads search fewer tables while the base is busy.
///
/// They are neighbors in commit order, so that the output has a position among the other tables.
/// The longest sequence of tables of similar size is chosen: merging a small table into a large one
/// repeatedly would be quadratic work. The compaction into the base waits for this merge.
fn within_level0(levels: &Levels, config: &Config, state: &CompactionState) -> Option<Plan> {
    let tables = levels.level(0);
    let mut best: &[Arc<TableMeta>] = &[];
    let mut from = 0;
    while from < tables.len() {
        let mut to = from;
        let mut bytes = 0;
        while let Some(table) = tables.get(to)
            && !state.is_busy(table)
            && (to == from || table.bytes.saturating_mul(2) >= bytes / (to - from) as u64)
            && (to == from || bytes / (to - from) as u64 * 2 >= table.bytes)
        {
            bytes += table.bytes;
            to += 1;
        }
        if to - from > best.len() {
            best = &tables[from..to];
        }
        from = to.max(from + 1);
    }
    if best.len() < config.level0_tables.max(2) {
        return None;
    }
    let hull = FlatRange::hull(best.iter().map(|table| &table.range))?;
    Some(Plan {
        inputs: vec![(0, best.to_vec())],
        output_level: 0,
        cut_bytes: u64::MAX,
        grandparent_bytes: u64::MAX,
        hull,
        reason: Reason::Level0,
    })
}

/// Compacts one table into the next level: the one with the most garbage, if it has enough;
/// otherwise the next one in key order, so that the whole key space gets its turn.
fn from_level(
    level: usize,
    levels: &Levels,
    config: &Config,
    state: &CompactionState,
) -> Option<Choice> {
    let tables = levels.level(level);
    let start = tables.partition_point(|table| table.range.lower < *state.cursor(level));
    let (before, behind) = tables.split_at(start);
    let mut order: Vec<_> = behind.iter().chain(before).collect();
    order.retain(|table| !state.is_busy(table));
    // Stable sort: the key order decides among tables without much garbage.
    order.sort_by_key(|table| match state.garbage_percent(table) {
        percent if percent >= config.garbage_percent => std::cmp::Reverse(percent),
        _ => std::cmp::Reverse(0),
    });
    let into = u8::try_from(level + 1).ok()?;
    order.into_iter().find_map(|table| {
        let plan = plan_into(levels, config, state, vec![Arc::clone(table)], into, Reason::Size)?;
        let garbage = state.garbage_percent(table) >= config.garbage_percent;
        let overlap: u64 =
            levels.overlapping((level + 2).min(LAST), &table.range).map(|table| table.bytes).sum();
        let heavy = overlap > config.grandparent_bytes();
        if plan.inputs.len() == 1 && !garbage && !heavy {
            let (from, tables) = (table.level, vec![table.number]);
            return Some(Choice::Move { tables, from, to: into });
        }
        Some(Choice::Compact(plan))
    })
}
