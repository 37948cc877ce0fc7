//! Compactions and drops that free space, shared by all policies.

use std::sync::Arc;

use super::{Choice, CompactionState, Config, Plan, Reason};
use crate::manifest::{FlatRange, LEVELS, Levels, TableMeta};

/// Finds tables that can be dropped without reading them.
///
/// Either all their keys belong to dropped tables, which no reader reads again; or all their
/// versions have expired for every reader and hide no older versions.
pub(super) fn droppable(levels: &Levels, state: &CompactionState) -> Vec<u64> {
    let tables = levels.iter().filter(|table| !state.is_read(table));
    let needless = tables.filter(|table| {
        state.is_dropped(&table.range) || (has_expired(table, state) && !hides_older(levels, table))
    });
    needless.map(|table| table.number).collect()
}

fn has_expired(table: &TableMeta, state: &CompactionState) -> bool {
    let contents = &table.contents;
    let gone = contents.expiring + contents.tombstones;
    contents.range_tombstones == 0
        && contents.expiring > 0
        && gone >= contents.cells
        && state.wall.is_some_and(|wall| contents.expiry_max <= wall)
        && contents.commit_max <= state.oldest
}

/// Returns `true` if an older table overlaps a table.
fn hides_older(levels: &Levels, table: &TableMeta) -> bool {
    older(levels, table).next().is_some()
}

/// Returns all older tables that overlap a table: those of deeper levels and, in level 0, those
/// before it.
fn older<'a>(levels: &'a Levels, table: &'a TableMeta) -> impl Iterator<Item = &'a Arc<TableMeta>> {
    let level = usize::from(table.level);
    let before = levels.level(0).iter().take_while(|other| other.number != table.number);
    let before = before.filter(move |other| level == 0 && other.range.overlaps(&table.range));
    let behind = (level + 1..LEVELS).flat_map(|level| levels.overlapping(level, &table.range));
    before.chain(behind)
}

/// Plans the compaction of the table with the most garbage, if it has enough; level 0 is considered
/// last, as a whole.
///
/// A table without older data in deeper levels is rewritten in its level and has no garbage
/// afterwards, because the estimate counts only what this merge drops. Otherwise it is merged into
/// the next level that it overlaps, so that its tombstones and deltas take effect. In both cases it is
/// not chosen again for the same garbage, and neither is a table whose rewrite
/// [dropped nothing](CompactionState::is_settled).
pub(super) fn plan(levels: &Levels, config: &Config, state: &CompactionState) -> Option<Plan> {
    let mut candidates: Vec<_> = (1..LEVELS)
        .flat_map(|level| levels.level(level))
        .filter(|table| !state.is_busy(table) && !state.is_settled(table))
        .map(|table| (state.garbage_percent(table), table))
        .filter(|(percent, _)| *percent >= config.garbage_percent.max(1))
        .collect();
    candidates.sort_by_key(|(percent, table)| (std::cmp::Reverse(*percent), table.number));
    let deeper = candidates.into_iter().find_map(|(_, table)| {
        let into = match older(levels, table).map(|older| older.level).min() {
            None => table.level,
            Some(level) => level,
        };
        plan_into(levels, config, state, vec![Arc::clone(table)], into, Reason::Garbage)
    });
    deeper.or_else(|| within_level0(levels, config, state))
}

/// Plans to merge all tables of level 0 into one for the garbage in them. Without this, they would
/// keep their garbage when no more tables are flushed. Tombstones and deltas that stay above older
/// data count only if no deeper level has such data. They do not count either if values expire: such
/// a value, in another table of level 0, may be the one below the deltas.
fn within_level0(levels: &Levels, config: &Config, state: &CompactionState) -> Option<Plan> {
    let tables = levels.level(0);
    let cells: u64 = tables.iter().map(|table| table.contents.cells).sum();
    let hull = FlatRange::hull(tables.iter().map(|table| &table.range))?;
    let is_last = (1..LEVELS).all(|level| levels.overlapping(level, &hull).next().is_none());
    let counts_bottom = is_last && tables.iter().all(|table| table.contents.expiring == 0);
    let count = if counts_bottom { TableMeta::garbage } else { TableMeta::garbage_anywhere };
    let garbage: u64 = tables.iter().map(|table| count(table, state.oldest, state.wall)).sum();
    let enough =
        u128::from(garbage) * 100 >= u128::from(cells) * u128::from(config.garbage_percent.max(1));
    let is_free = |table: &Arc<TableMeta>| !state.is_busy(table) && !state.is_settled(table);
    if garbage == 0 || !enough || !tables.iter().all(is_free) {
        return None;
    }
    Some(Plan {
        inputs: vec![(0, tables.to_vec())],
        output_level: 0,
        cut_bytes: u64::MAX,
        grandparent_bytes: u64::MAX,
        hull,
        reason: Reason::Garbage,
    })
}

/// Plans to compact neighboring tables of one level, from 1 on, into the same or a deeper level,
/// with the tables that they overlap there. No level between the two may overlap them. `None` if a
/// running compaction conflicts.
pub(super) fn plan_into(
    levels: &Levels,
    config: &Config,
    state: &CompactionState,
    tables: Vec<Arc<TableMeta>>,
    output_level: u8,
    reason: Reason,
) -> Option<Plan> {
    let level = tables.first()?.level;
    let upper = FlatRange::hull(tables.iter().map(|table| &table.range))?;
    let mut inputs = vec![(level, tables)];
    if output_level > level {
        let lower: Vec<_> = levels.overlapping(output_level.into(), &upper).cloned().collect();
        if !lower.is_empty() {
            inputs.push((output_level, lower));
        }
    }
    let hull = FlatRange::hull(inputs.iter().flat_map(|(_, tables)| tables).map(|t| &t.range))?;
    let plan = Plan {
        inputs,
        output_level,
        cut_bytes: config.table_bytes,
        grandparent_bytes: config.grandparent_bytes(),
        hull,
        reason,
    };
    let free = plan.tables().all(|table| !state.is_busy(table))
        && !state.is_blocked(plan.levels(), &plan.hull);
    free.then_some(plan)
}

/// Plans to compact all tables into the last level; `None` if there are no tables or a compaction
/// is running.
#[must_use]
pub fn everything(levels: &Levels, config: &Config, state: &CompactionState) -> Option<Plan> {
    let inputs: Vec<_> = (0_u8..)
        .zip((0..LEVELS).map(|level| levels.level(level).to_vec()))
        .filter(|(_, tables)| !tables.is_empty())
        .collect();
    let hull = FlatRange::hull(levels.iter().map(|table| &table.range))?;
    let plan = Plan {
        inputs,
        output_level: u8::try_from(LEVELS - 1).ok()?,
        cut_bytes: config.table_bytes,
        grandparent_bytes: config.grandparent_bytes(),
        hull,
        reason: Reason::Manual,
    };
    (state.running() == 0).then_some(plan)
}

/// Returns the tables that can be dropped, if any.
pub(super) fn choose_drop(levels: &Levels, state: &CompactionState) -> Option<Choice> {
    let droppable = droppable(levels, state);
    (!droppable.is_empty()).then_some(Choice::Drop(droppable))
}
