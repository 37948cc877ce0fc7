//! Tests of single choices.

use std::collections::BTreeSet;

use carnet_base::{TableId, Timestamp};

use super::*;
use crate::compaction::merge::Mark;
use crate::manifest::{Contents, Edit, FlatRange, Levels, TableMeta};

pub(super) fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

pub(super) fn config() -> Config {
    Config { base_bytes: 400, table_bytes: 100, fanout: 10, ..Config::default() }
}

/// Makes a key of table (of the catalog) 1.
pub(super) fn key(text: &str) -> Vec<u8> {
    [&[0, 0, 0, 1], text.as_bytes()].concat()
}

pub(super) fn range(lower: &str, upper: &str) -> FlatRange {
    FlatRange::new(key(lower), key(upper))
}

/// Makes a table of ten cells with a commit of ten times its number.
pub(super) fn table(number: u64, level: u8, lower: &str, upper: &str, bytes: u64) -> TableMeta {
    let commit = at(10 * number);
    let contents =
        Contents { cells: 10, commit_min: commit, commit_max: commit, ..Contents::default() };
    TableMeta { number, level, bytes, range: range(lower, upper), contents }
}

pub(super) fn levels(tables: impl Into<Vec<TableMeta>>) -> Levels {
    let mut levels = Levels::default();
    levels.edit(&Edit { add: tables.into(), ..Edit::default() }).unwrap();
    levels
}

pub(super) fn state(oldest: u64) -> CompactionState {
    let mut state = CompactionState::default();
    state.oldest = at(oldest);
    state
}

pub(super) fn leveled(levels: &Levels, state: &CompactionState) -> Choice {
    Leveled.choose(levels, &config(), state)
}

pub(super) fn plan(choice: Choice) -> Plan {
    match choice {
        Choice::Compact(plan) => plan,
        choice => panic!("{choice:?}"),
    }
}

/// Returns the numbers of a plan's inputs and its output level.
pub(super) fn inputs(choice: Choice) -> (Vec<u64>, u8) {
    let plan = plan(choice);
    (plan.numbers().collect(), plan.output_level)
}

/// Tables that fill the last level, so that level 5 is the base and may hold 500 bytes.
pub(super) fn bottom() -> Vec<TableMeta> {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
    let table = |(number, pair): (u64, &[&str])| table(number, 6, pair[0], pair[1], 500);
    (1..).zip(names.windows(2)).map(table).collect()
}

#[test]
fn full_level0_is_compacted_into_the_base() {
    let mut tables = bottom();
    tables.push(table(20, 5, "b", "c", 100));
    tables.push(table(21, 5, "x", "z", 100));
    tables.extend([30, 31, 32].map(|number| table(number, 0, "a", "f", 100)));
    assert_eq!(leveled(&levels(tables.clone()), &state(0)), Choice::Nothing);
    tables.push(table(33, 0, "e", "g", 100));
    let plan = plan(leveled(&levels(tables), &state(0)));
    assert_eq!(plan.numbers().collect::<Vec<_>>(), [30, 31, 32, 33, 20]);
    assert_eq!((plan.output_level, plan.hull.clone()), (5, range("a", "g")));
    assert_eq!((plan.cut_bytes, plan.reason, plan.bytes()), (100, Reason::Level0, 500));
}

#[test]
fn levels_fill_from_the_last_one_up() {
    let mut tables: Vec<_> = (1..=4).map(|number| table(number, 0, "a", "f", 100)).collect();
    let first = Choice::Move { tables: vec![1], from: 0, to: 6 };
    assert_eq!(leveled(&levels(tables.clone()), &state(0)), first);
    tables[0].level = 6;
    tables.push(table(5, 0, "a", "f", 100));
    assert_eq!(inputs(leveled(&levels(tables), &state(0))), (vec![2, 3, 4, 5, 1], 6));
    // A nonempty level above the base is not skipped.
    let mut tables = vec![table(1, 2, "a", "b", 10), table(2, 6, "a", "b", 100)];
    tables.extend((3..=6).map(|number| table(number, 0, "a", "f", 100)));
    let levels = levels(tables);
    let choice = Leveled.choose(&levels, &config(), &state(0));
    assert_eq!(choice, Choice::Move { tables: vec![1], from: 2, to: 3 });
}

#[test]
fn level0_stops_above_busy_older_data() {
    let mut tables = vec![table(1, 2, "a", "m", 10)];
    tables.extend([table(2, 3, "a", "b", 10), table(3, 4, "a", "b", 10)]);
    tables.extend((4..8).map(|number| table(number, 0, "k", "l", 100)));
    let levels = levels(tables);
    let mut state = state(0);
    let inputs_of = |level| (level, levels.level(usize::from(level)).to_vec());
    let mut running = everything(&levels, &config(), &state).unwrap();
    running.inputs = vec![inputs_of(3), inputs_of(4)];
    (running.output_level, running.hull) = (4, range("a", "b"));
    state.begin(&running);
    assert_eq!(inputs(leveled(&levels, &state)), (vec![4, 5, 6, 7, 1], 2));
}

#[test]
fn tables_without_overlap_are_moved() {
    let mut tables = bottom();
    let apart = [(30, "l", "m"), (31, "m", "n"), (32, "o", "p"), (33, "o", "q")];
    tables.extend(apart.map(|(number, lower, upper)| table(number, 0, lower, upper, 100)));
    let choice = leveled(&levels(tables), &state(0));
    assert_eq!(choice, Choice::Move { tables: vec![30, 31, 32], from: 0, to: 5 });
}

#[test]
fn level0_is_merged_while_base_is_busy() {
    let mut tables = bottom();
    tables.push(table(20, 5, "b", "c", 100));
    tables.extend((30..38).map(|number| table(number, 0, "a", "f", 100)));
    tables.push(table(38, 0, "a", "f", 1000));
    let levels = levels(tables);
    let mut state = state(0);
    let first =
        Plan { inputs: vec![(0, levels.level(0)[..3].to_vec())], ..plan(leveled(&levels, &state)) };
    state.begin(&first);
    let second = plan(leveled(&levels, &state));
    assert_eq!(second.numbers().collect::<Vec<_>>(), [33, 34, 35, 36, 37], "of similar size");
    assert_eq!((second.output_level, second.cut_bytes), (0, u64::MAX));
    state.begin(&second);
    assert_eq!(leveled(&levels, &state), Choice::Nothing);
    state.end(&first);
    // The oldest tables are compacted into the base while younger ones are merged.
    assert_eq!(inputs(leveled(&levels, &state)), (vec![30, 31, 32, 20], 5));
}

/// Tables that fill level 5 far beyond its target, over all of level 6.
pub(super) fn full() -> Vec<TableMeta> {
    let mut tables = bottom();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let more = (20..).zip(names.windows(2)).map(|(n, pair)| table(n, 5, pair[0], pair[1], 200));
    tables.extend(more);
    tables
}

#[test]
fn level_is_compacted_in_key_order() {
    let levels = levels(full());
    let mut state = state(0);
    let first = plan(leveled(&levels, &state));
    assert_eq!(first.numbers().collect::<Vec<_>>(), [20, 1]);
    state.begin(&first);
    let second = plan(leveled(&levels, &state));
    assert_eq!(second.numbers().collect::<Vec<_>>(), [21, 2], "beside the first");
    state.begin(&second);
    state.end(&first);
    state.end(&second);
    assert_eq!((inputs(leveled(&levels, &state)), state.running()), ((vec![22, 3], 6), 0));
}

#[test]
fn conflicting_compactions_wait() {
    let levels = levels(full());
    let mut state = state(0);
    state.begin(&plan(leveled(&levels, &state)));
    assert!(state.is_blocked((5, 6), &range("a", "aa")));
    assert!(
        state.is_blocked((0, 5), &range("a", "z")) && state.is_blocked((6, 6), &range("a", "z"))
    );
    assert!(!state.is_blocked((5, 6), &range("b", "z")), "other keys");
    assert!(!state.is_blocked((3, 4), &range("a", "z")), "other levels");
    assert!(!state.is_blocked((0, 0), &range("a", "z")), "level 0 within itself");
}

#[test]
fn table_with_most_garbage_is_rewritten_first() {
    let mut tables = full();
    let garbage = tables.iter_mut().find(|table| table.number == 25).unwrap();
    garbage.contents.bottom_garbage = 5;
    assert_eq!(inputs(leveled(&levels(tables.clone()), &state(249))), (vec![20, 1], 6));
    assert_eq!(inputs(leveled(&levels(tables.clone()), &state(250))), (vec![25, 6], 6));
    tables.retain(|table| table.number != 6);
    assert_eq!(inputs(leveled(&levels(tables.clone()), &state(250))), (vec![25], 6));
    tables.retain(|table| table.number != 1);
    let moved = Choice::Move { tables: vec![20], from: 5, to: 6 };
    assert_eq!(leveled(&levels(tables), &state(0)), moved, "without garbage");
}

#[test]
fn garbage_below_watermark_starts_compaction() {
    let mut tables = bottom();
    tables[2].contents.overwritten = 4;
    for policy in [&Leveled as &dyn Policy, &Tiered] {
        let choose = |oldest| policy.choose(&levels(tables.clone()), &config(), &state(oldest));
        assert_eq!(choose(29), Choice::Nothing);
        let plan = plan(choose(30));
        assert_eq!((plan.numbers().collect::<Vec<_>>(), plan.output_level), (vec![3], 6));
        assert_eq!(plan.reason, Reason::Garbage);
    }
    tables[2].contents.overwritten = 2;
    assert_eq!(leveled(&levels(tables), &state(30)), Choice::Nothing, "not enough of it");
}

#[test]
fn idle_level0_is_cleared_of_garbage() {
    let mut tables = bottom();
    for number in [20, 21] {
        let mut young = table(number, 0, "a", "z", 10);
        (young.contents.overwritten, young.contents.bottom_garbage) = (4, 6);
        tables.push(young);
    }
    for policy in [&Leveled as &dyn Policy, &Tiered] {
        let config = Config { tier_runs: 9, space_percent: 1000, ..config() };
        let choose = |oldest| policy.choose(&levels(tables.clone()), &config, &state(oldest));
        assert_eq!(choose(199), Choice::Nothing, "somebody may read it");
        assert_eq!(choose(200), Choice::Nothing, "two tenths of it are not enough");
        assert_eq!(inputs(choose(210)), (vec![20, 21], 0));
    }
    let mut busy = state(210);
    busy.begin(&plan(leveled(&levels(tables.clone()), &state(210))));
    assert_eq!(leveled(&levels(tables.clone()), &busy), Choice::Nothing);
    for table in &mut tables {
        table.contents.overwritten = 0;
    }
    assert_eq!(leveled(&levels(tables.clone()), &state(210)), Choice::Nothing, "tombstones stay");
    tables.retain(|table| table.level == 0);
    assert_eq!(inputs(leveled(&levels(tables.clone()), &state(210))), (vec![20, 21], 0));
    tables[0].contents.expiring = 1;
    assert_eq!(leveled(&levels(tables), &state(210)), Choice::Nothing, "deltas may stay");
}

/// A count of garbage that no merge drops must not have a database rewrite itself for ever.
#[test]
fn rewrite_that_dropped_nothing_is_not_repeated() {
    let mut tables = bottom();
    tables[2].contents.overwritten = 4;
    let levels = levels(tables);
    let mark = |oldest, wall| Mark { read: at(oldest), wall, ..Mark::default() };
    let mut state = state(0);
    state.observe(&mark(30, None));
    for again in [mark(31, None), mark(31, Some(5))] {
        let rewrite = plan(leveled(&levels, &state));
        assert_eq!(rewrite.numbers().collect::<Vec<_>>(), [3]);
        state.begin(&rewrite);
        let same: Vec<_> = rewrite.tables().map(|table| TableMeta::clone(table)).collect();
        state.wrote(&rewrite, &same);
        state.end(&rewrite);
        assert_eq!(leveled(&levels, &state), Choice::Nothing);
        state.observe(&again);
    }
    let late = plan(leveled(&levels, &state));
    state.begin(&late);
    state.observe(&mark(32, Some(5)));
    state.wrote(&late, &late.tables().map(|table| TableMeta::clone(table)).collect::<Vec<_>>());
    state.end(&late);
    assert_eq!(plan(leveled(&levels, &state)), late, "the watermark rose meanwhile");
}

#[test]
fn tombstones_are_compacted_into_older_data() {
    let mut tables = bottom();
    tables.push(table(20, 4, "c", "d", 10));
    tables[10].contents.bottom_garbage = 9;
    let levels = levels(tables);
    let config = Config { base_bytes: 40, ..config() };
    assert_eq!(inputs(Leveled.choose(&levels, &config, &state(200))), (vec![20, 3], 6));
    assert_eq!(Leveled.choose(&levels, &config, &state(199)), Choice::Nothing);
    let rewritten = Edit { remove: vec![3], ..Edit::default() };
    let mut alone = levels;
    alone.edit(&rewritten).unwrap();
    assert_eq!(inputs(Leveled.choose(&alone, &config, &state(200))), (vec![20], 4), "in place");
}

#[test]
fn expired_table_is_dropped_unless_it_hides_older_data() {
    let mut tables = bottom();
    let contents = &mut tables[2].contents;
    (contents.expiring, contents.tombstones) = (9, 1);
    (contents.expiry_min, contents.expiry_max) = (50, 100);
    let expired = |tables: &[TableMeta], oldest, wall| {
        let mut state = state(oldest);
        state.wall = Some(wall);
        leveled(&levels(tables), &state) == Choice::Drop(vec![3])
    };
    assert!(expired(&tables, 30, 100));
    assert!(!expired(&tables, 29, 100), "a reader does not see it as it is");
    assert!(!expired(&tables, 30, 99), "the last one has not expired");
    let mut ranged = tables.clone();
    ranged[2].contents.range_tombstones = 1;
    assert!(!expired(&ranged, 30, 100), "a range tombstone is not known to be needless");
    tables[2].level = 5;
    assert!(expired(&tables, 30, 100));
    tables.push(table(12, 6, "cc", "cd", 10));
    assert!(!expired(&tables, 30, 100), "older data would come back");
    tables[2].contents.expiring = 8;
    tables.pop();
    assert!(!expired(&tables, 30, 100), "a cell stays for good");
}

#[test]
fn files_of_dropped_table_are_dropped() {
    let mut tables = full();
    let mut other = table(50, 5, "a", "b", 10);
    other.range = FlatRange::new(vec![0, 0, 0, 2], vec![0, 0, 0, 3]);
    tables.push(other);
    let mut both = table(51, 6, "a", "b", 10);
    both.range = FlatRange::new(key("z"), vec![0, 0, 0, 2, 9]);
    tables.push(both);
    let levels = levels(tables);
    let mut state = state(0);
    state.dropped = BTreeSet::from([TableId(2)]);
    for policy in [&Leveled as &dyn Policy, &Tiered] {
        let choice = policy.choose(&levels, &config(), &state);
        assert_eq!(choice, Choice::Drop(vec![50]));
        let edit = choice.edit(&levels).unwrap();
        assert_eq!((edit.remove, edit.add), (vec![50], vec![]));
    }
}

#[test]
fn move_edit_changes_only_the_level() {
    let mut levels = levels(bottom());
    let choice = Choice::Move { tables: vec![2], from: 6, to: 5 };
    levels.edit(&choice.edit(&levels).unwrap()).unwrap();
    let moved = levels.find(2).unwrap();
    assert_eq!((moved.level, moved.bytes, levels.len()), (5, 500, 10));
}

#[test]
fn tiered_merges_neighbours_of_similar_size() {
    let sizes = [1000, 100, 90, 20, 10, 10, 10];
    let tables = |sizes: &[u64]| -> Vec<TableMeta> {
        let young = (2..).zip(sizes).map(|(number, bytes)| table(number, 0, "a", "f", *bytes));
        young.chain([table(1, 5, "a", "f", 2000)]).collect()
    };
    let choose = |sizes: &[u64]| Tiered.choose(&levels(tables(sizes)), &config(), &state(0));
    assert_eq!(choose(&sizes), Choice::Nothing, "three of ten bytes, and one of twenty");
    let mut more = sizes.to_vec();
    more.push(11);
    // An older table of level 0 is not among them, so the output stays in level 0 as one table.
    let merged = plan(choose(&more));
    assert_eq!(merged.numbers().collect::<Vec<_>>(), [6, 7, 8, 9]);
    assert_eq!((merged.output_level, merged.cut_bytes), (0, u64::MAX));
    assert_eq!(inputs(choose(&[10, 10, 10, 10])), (vec![2, 3, 4, 5], 4), "before the next older");
}

#[test]
fn tiered_merges_all_runs_when_wasteful() {
    let mut tables = vec![table(1, 6, "a", "f", 100)];
    let sizes = [(2, 89), (3, 40), (4, 20)];
    tables.extend(sizes.map(|(number, bytes)| table(number, 0, "a", "f", bytes)));
    assert_eq!(Tiered.choose(&levels(tables.clone()), &config(), &state(0)), Choice::Nothing);
    tables.push(table(5, 0, "a", "f", 10));
    let choice = Tiered.choose(&levels(tables), &config(), &state(0));
    assert_eq!(inputs(choice), (vec![2, 3, 4, 5, 1], 6));
}

#[test]
fn tiered_leaves_busy_runs_alone() {
    let mut tables = vec![table(1, 6, "a", "f", 10)];
    tables.extend((2..8).map(|number| table(number, 0, "a", "f", 100)));
    let levels = levels(tables);
    let mut state = state(0);
    let merged = plan(Tiered.choose(&levels, &config(), &state));
    assert_eq!(merged.output_level, 5);
    let within =
        Plan { inputs: vec![(0, levels.level(0)[3..].to_vec())], output_level: 0, ..merged };
    state.begin(&within);
    let choice = Tiered.choose(&levels, &config(), &state);
    assert_eq!(choice, Choice::Nothing, "everything would be merged, but for the busy ones");
}

#[test]
fn manual_compaction_needs_no_running_one() {
    let levels = levels(full());
    let mut state = state(0);
    let plan = everything(&levels, &config(), &state).unwrap();
    assert_eq!((plan.numbers().count(), plan.output_level), (levels.len(), 6));
    state.begin(&plan);
    assert_eq!(everything(&levels, &config(), &state), None);
    assert_eq!(leveled(&levels, &state), Choice::Nothing, "all tables are busy");
    assert_eq!(everything(&Levels::default(), &config(), &CompactionState::default()), None);
}

#[test]
fn pending_bytes_grow_with_excess_size() {
    let calm = levels(bottom());
    assert_eq!(Leveled.pending_bytes(&calm, &config()), 0);
    let full = levels(full());
    // 1400 bytes where the target is 500; each byte is merged with three or four of level 6.
    assert_eq!(Leveled.pending_bytes(&full, &config()), 900 * (5000 / 1400 + 1));
    let mut behind = bottom();
    behind.extend((30..34).map(|number| table(number, 0, "a", "f", 200)));
    assert!(Leveled.pending_bytes(&levels(behind.clone()), &config()) >= 800);
    assert_eq!(Leveled.runs(&levels(behind.clone())), 5);
    behind.extend((34..70).map(|number| table(number, 0, "a", "f", 200)));
    assert_eq!(Leveled.pressure(&levels(behind), &config()), Pressure::Slow(1.0));
}

#[test]
fn large_level0_throttles_writers() {
    let config = Config { memtable_bytes: 50, base_bytes: 1000, ..config() };
    let with = |bytes| {
        let mut tables = bottom();
        tables.push(table(30, 0, "a", "f", bytes));
        levels(tables)
    };
    let base = with(0).bytes(6);
    let long = (base / 2).max(50 * config.slow_runs as u64);
    let pressure = |bytes| Leveled.pressure(&with(bytes), &config);
    assert_eq!([pressure(1), pressure(long)], [Pressure::Fine; 2]);
    assert_eq!(pressure(2 * long), Pressure::Slow(0.5));
    assert!(Leveled.wants_help(&with(long / 2), &config));
    let choose = |bytes| Leveled.choose(&with(bytes), &config, &CompactionState::default());
    assert_eq!(choose(long - 1), Choice::Nothing);
    assert!(matches!(choose(long), Choice::Compact(plan) if plan.output_level == 6));
    let larger = Config { memtable_bytes: long, ..config.clone() };
    assert_eq!(Leveled.pressure(&with(2 * long), &larger), Pressure::Fine);
    assert_eq!(Tiered.pressure(&with(2 * long), &config), Pressure::Fine);
}
