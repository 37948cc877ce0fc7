//! Leveled compaction: few runs to read, little garbage, each byte written some ten times.

use std::sync::Arc;

use super::garbage::{self, plan_into};
use super::{Choice, Config, Plan, Policy, Reason, State};
use crate::manifest::{FlatRange, LEVELS, Levels, TableMeta};

/// The last level.
const LAST: usize = LEVELS - 1;

/// Each level holds up to ten times what the one before it does, in tables of disjoint ranges.
///
/// Levels are filled *from the last one up*. Its size is what it is; each level before it may
/// hold a tenth of the one behind; and the first one that may still hold a batch of level 0 is
/// the *base*, where level 0 is compacted to. So nine tenths of the data are always in the last
/// level, however much there is, and garbage is about a ninth of it at most. (Counted from the
/// top, a database that just outgrew a level would keep as much garbage as data.)
#[derive(Clone, Copy, Debug, Default)]
pub struct Leveled;

/// How long each level may be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Targets {
    /// Where level 0 is compacted to; levels between are empty.
    base: usize,
    /// 0 for those before the base.
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
        // What stands before the base, since the last level was larger once, goes down first.
        let first = (1..=LAST).find(|level| !levels.level(*level).is_empty());
        Self { base: base.min(first.unwrap_or(LAST)), bytes }
    }

    /// How much too long a level is, in thousandths of what it may be; from 1000 on it is
    /// compacted. What is being compacted does not count.
    fn score(&self, level: usize, levels: &Levels, state: &State) -> u64 {
        let tables = levels.level(level).iter().filter(|table| !state.is_busy(table));
        let bytes: u64 = tables.map(|table| table.bytes).sum();
        match (bytes, self.bytes[level]) {
            (0, _) => 0,
            (bytes, target) => bytes.saturating_mul(1000) / target.max(1),
        }
    }

    /// The same of level 0, of its tables or its bytes, whichever is more: what writers are slowed for
    /// can be compacted, however few tables it is.
    fn score_level0(&self, levels: &Levels, config: &Config, state: &State) -> u64 {
        let idle = levels.level(0).iter().filter(|table| !state.is_busy(table));
        let (tables, bytes) =
            idle.fold((0, 0), |(tables, bytes), table| (tables + 1, bytes + table.bytes));
        let tables = tables * 1000 / config.level0_tables.max(1) as u64;
        tables.max(bytes.saturating_mul(1000) / self.level0_long(levels, config))
    }

    /// How long level 0 may be before writers are slowed; at least 1.
    fn level0_long(&self, levels: &Levels, config: &Config) -> u64 {
        let base = levels.bytes(self.base).max(self.bytes[self.base]).max(config.base_bytes);
        let memtables = config.memtable_bytes.saturating_mul(config.slow_runs as u64);
        memtables.max(base / 2).max(1)
    }
}

impl Policy for Leveled {
    fn choose(&self, levels: &Levels, config: &Config, state: &State) -> Choice {
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

    /// Once it holds as much as the level that it goes to, files take three times what that level
    /// does while it is compacted.
    fn level0_permille(&self, levels: &Levels, config: &Config) -> u64 {
        let long = Targets::new(levels, config).level0_long(levels, config);
        levels.bytes(0).saturating_mul(1000) / long
    }

    fn pending_bytes(&self, levels: &Levels, config: &Config) -> u64 {
        let targets = Targets::new(levels, config);
        let mut pending = 0_u64;
        let mut arriving = 0;
        if targets.score_level0(levels, config, &State::default()) >= 1000 {
            arriving = levels.bytes(0);
            pending = arriving.saturating_add(levels.bytes(targets.base));
        }
        // What is too much in a level is rewritten with what it overlaps in the one behind it.
        for level in targets.base..LAST {
            let bytes = levels.bytes(level).saturating_add(arriving);
            arriving = bytes.saturating_sub(targets.bytes[level]);
            let ratio = levels.bytes(level + 1) / bytes.max(1);
            pending = pending.saturating_add(arriving.saturating_mul(ratio.saturating_add(1)));
        }
        pending
    }
}

/// Takes the oldest tables of level 0 to the base, or, where that is being worked on, merges
/// level 0 within itself.
fn from_level0(
    targets: &Targets,
    levels: &Levels,
    config: &Config,
    state: &State,
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

/// Moves the oldest tables as they are, as long as they overlap neither each other nor the base:
/// so keys that are written in ascending order are never rewritten.
fn move_level0(
    idle: &[Arc<TableMeta>],
    base: u8,
    levels: &Levels,
    state: &State,
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

/// Merges neighbours in level 0, so that reads look into fewer tables while the base is busy.
///
/// They are neighbours in the order of commits, so that what comes out has its place between the
/// others. The longest row is taken, as far as its tables are of similar size: a small table
/// merged into a large one again and again would be quadratic work. The base, once it is free, waits for what
/// lies before it. (Merges of at most eight memtables, so that it waits less, wrote a quarter more and
/// were no faster in three minutes; longer was not tried.)
fn within_level0(levels: &Levels, config: &Config, state: &State) -> Option<Plan> {
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

/// Takes a table one level down: the one with most garbage, if it has enough, else the next in
/// the order of keys, so that all parts of the key space have their turn. (Taking neighbours along
/// that need no further table of the next level changed no figure, and is left out.)
fn from_level(level: usize, levels: &Levels, config: &Config, state: &State) -> Option<Choice> {
    let tables = levels.level(level);
    let start = tables.partition_point(|table| table.range.lower < *state.cursor(level));
    let (before, behind) = tables.split_at(start);
    let mut order: Vec<_> = behind.iter().chain(before).collect();
    order.retain(|table| !state.is_busy(table));
    // The sort is stable: among tables without much garbage the rotation decides.
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
        let heavy = level + 2 <= LAST && overlap > config.grandparent_bytes();
        if plan.inputs.len() == 1 && !garbage && !heavy {
            let (from, tables) = (table.level, vec![table.number]);
            return Some(Choice::Move { tables, from, to: into });
        }
        Some(Choice::Compact(plan))
    })
}
