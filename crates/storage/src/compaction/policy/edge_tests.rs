//! Tests of choices at the limits of their conditions.

use super::tests::{at, bottom, config, full, inputs, leveled, levels, plan, state, table};
use super::*;
use crate::compaction::merge::Mark;
use crate::manifest::{Levels, TableMeta};

/// Makes tables of level 0 above a base that a running compaction with the first one blocks.
fn young_above_a_busy_base(sizes: &[u64]) -> (Levels, CompactionState) {
    let mut tables = bottom();
    tables.push(table(20, 5, "b", "c", 100));
    tables.push(table(30, 0, "a", "f", 100));
    tables.extend((31..).zip(sizes).map(|(number, bytes)| table(number, 0, "a", "f", *bytes)));
    let levels = levels(tables);
    let mut state = state(0);
    let first = plan(leveled(&levels, &state));
    state.begin(&Plan { inputs: vec![(0, levels.level(0)[..1].to_vec())], ..first });
    (levels, state)
}

#[test]
fn neighbours_in_level0_are_of_similar_size() {
    let merged = |sizes: &[u64]| {
        let (levels, state) = young_above_a_busy_base(sizes);
        match leveled(&levels, &state) {
            Choice::Compact(plan) => plan.numbers().collect(),
            _ => Vec::new(),
        }
    };
    // Each has between half of the mean size of those before it and twice that size.
    assert_eq!(merged(&[100, 100, 100, 50]), [31, 32, 33, 34]);
    assert!(merged(&[100, 100, 100, 49]).is_empty());
    assert_eq!(merged(&[100, 100, 100, 200]), [31, 32, 33, 34]);
    assert!(merged(&[100, 100, 100, 201]).is_empty());
    assert_eq!(merged(&[10_000, 100, 100, 100, 200]), [32, 33, 34, 35]);
    assert!(merged(&[10_000, 100, 100, 100, 49]).is_empty());
    let twice = [100, 100, 100, 100, 9000, 100, 100, 100, 100];
    assert_eq!(merged(&twice), [31, 32, 33, 34], "the older of two equally long sequences");
}

#[test]
fn base_is_the_last_level_while_it_is_small() {
    let output = |bytes| {
        let mut tables = vec![table(1, 6, "a", "z", bytes)];
        tables.extend((2..6).map(|number| table(number, 0, "a", "z", 100)));
        match leveled(&levels(tables), &state(0)) {
            Choice::Compact(plan) => plan.output_level,
            Choice::Move { to, .. } => to,
            choice => panic!("{choice:?}"),
        }
    };
    assert_eq!(output(4000), 6, "as large as the fanout allows");
    assert_eq!(output(4001), 5);
    assert_eq!(output(400 * 10_u64.pow(9)), 1, "above level 1 there is only level 0");
}

#[test]
fn tables_with_enough_garbage_come_before_the_key_order() {
    let mut tables = full();
    let second = tables.iter_mut().find(|table| table.number == 22).unwrap();
    second.contents.bottom_garbage = 2;
    assert_eq!(inputs(leveled(&levels(tables.clone()), &state(1000))).0[0], 20, "two of ten");
    let second = tables.iter_mut().find(|table| table.number == 22).unwrap();
    second.contents.bottom_garbage = 3;
    assert_eq!(inputs(leveled(&levels(tables.clone()), &state(1000))).0[0], 22, "three of ten");
    // A table that overlaps nothing is rewritten rather than moved.
    tables.retain(|table| table.number != 3 && table.number != 4);
    let plan = plan(leveled(&levels(tables), &state(1000)));
    assert_eq!((plan.numbers().collect::<Vec<_>>(), plan.output_level), (vec![22], 6));
}

#[test]
fn table_above_heavy_grandparents_is_cut_rather_than_moved() {
    for level in [3, 4] {
        let choose = |bytes| {
            // Level 5 may hold 500 bytes; the levels before it hold none.
            let tables = [
                table(1, level + 2, "a", "b", bytes),
                table(2, 6, "c", "d", 5000),
                table(3, level, "a", "b", 100),
            ];
            leveled(&levels(tables), &state(0))
        };
        let moved = Choice::Move { tables: vec![3], from: level, to: level + 1 };
        assert_eq!(choose(1000), moved, "ten tables below it");
        assert_eq!(inputs(choose(1001)), (vec![3], level + 1));
    }
}

#[test]
fn garbage_of_exactly_the_limit_is_enough() {
    for policy in [&Leveled as &dyn Policy, &Tiered] {
        let config = Config { tier_runs: 9, space_percent: 1000, ..config() };
        for (garbage, is_enough) in [(2, false), (3, true)] {
            for level in [0, 6] {
                let mut tables = bottom();
                let mut with = table(20, level, "m", "n", 10);
                with.contents.overwritten = garbage;
                tables.push(with);
                // Level 0 alone overlaps older data: it could be moved otherwise.
                tables[9].range = table(0, 0, "j", "z", 0).range;
                if level == 6 {
                    tables.remove(9);
                }
                let choice = policy.choose(&levels(tables), &config, &state(1000));
                assert_eq!(matches!(choice, Choice::Compact(_)), is_enough, "level {level}");
            }
        }
    }
}

#[test]
fn expired_table_hides_what_is_older_in_its_level() {
    let drops = |level, other: TableMeta| {
        let mut expired = table(5, level, "c", "e", 10);
        let contents = &mut expired.contents;
        (contents.expiring, contents.expiry_min, contents.expiry_max) = (10, 50, 100);
        let mut state = state(1000);
        state.wall = Some(100);
        leveled(&levels([expired, other]), &state) == Choice::Drop(vec![5])
    };
    assert!(!drops(0, table(4, 0, "d", "f", 10)), "an older table of level 0");
    assert!(drops(0, table(4, 0, "f", "g", 10)), "which does not overlap it");
    assert!(drops(0, table(6, 0, "d", "f", 10)), "a younger one");
    assert!(drops(5, table(4, 0, "d", "f", 10)), "level 0 is younger than every other level");
    assert!(!drops(5, table(4, 6, "d", "f", 10)));
}

/// Readers of a dropped file see nothing in its place, and may need one of its tombstones.
#[test]
fn only_tables_with_expired_values_are_dropped_unread() {
    let mut tables = [table(5, 6, "c", "e", 10)];
    tables[0].contents.tombstones = 10;
    let mut state = state(1000);
    state.wall = Some(100);
    assert_eq!(leveled(&levels(tables), &state), Choice::Nothing);
}

#[test]
fn tables_set_aside_are_left_alone() {
    let mut tables = full();
    tables.iter_mut().find(|table| table.number == 25).unwrap().contents.bottom_garbage = 5;
    let levels = levels(tables);
    let mut state = state(1000);
    assert_eq!(inputs(leveled(&levels, &state)), (vec![25, 6], 6));
    state.set_aside([6]);
    assert_eq!(
        inputs(leveled(&levels, &state)).0[0],
        20,
        "its only overlapping table is set aside"
    );
    state.set_aside([25, 1]);
    assert_eq!(inputs(leveled(&levels, &state)).0[0], 21);
}

#[test]
fn share_of_level0_in_the_work_of_compaction() {
    let with = |bytes| {
        let mut tables = bottom();
        tables.push(table(20, 5, "b", "c", 300));
        tables.extend((30..34).map(|number| table(number, 0, "a", "f", bytes)));
        levels(tables)
    };
    let mut state = state(0);
    assert_eq!(state.taken_permille(), 10, "the minimum");
    let into_base = plan(leveled(&with(25), &state));
    state.begin(&into_base);
    state.end(&into_base);
    assert_eq!(state.taken_permille(), 250);
    let deeper = Plan { inputs: into_base.inputs[1..].to_vec(), ..into_base.clone() };
    state.begin(&deeper);
    state.end(&deeper);
    assert_eq!(state.taken_permille(), 100 * 1000 / 700);
    let within = Plan { inputs: into_base.inputs[..1].to_vec(), output_level: 0, ..into_base };
    state.begin(&within);
    state.end(&within);
    assert_eq!(state.taken_permille(), 100 * 1000 / 800, "level 0 is as large as before");
}

#[test]
fn older_work_counts_half_after_four_gibibytes() {
    let half = 2_u64 << 30;
    let work = |state: &mut CompactionState, level, bytes| {
        let inputs = vec![(level, vec![std::sync::Arc::new(table(1, level, "a", "b", bytes))])];
        let plan = Plan { inputs, ..everything(&levels(bottom()), &config(), state).unwrap() };
        state.begin(&plan);
        state.end(&plan);
    };
    let mut state = state(0);
    work(&mut state, 0, half);
    work(&mut state, 5, half);
    assert_eq!(state.taken_permille(), 500);
    work(&mut state, 5, half);
    assert_eq!(state.taken_permille(), 333, "exactly four are not halved");
    work(&mut state, 0, half);
    // One and three of those before, and two.
    assert_eq!(state.taken_permille(), 3 * 1000 / 5);
}

#[test]
fn rewrites_that_dropped_something_are_not_settled() {
    let rewritten = |reason, from, (cells, expiring), (cells_after, expiring_after)| {
        let mut tables = bottom();
        let contents = &mut tables[2].contents;
        (contents.overwritten, contents.cells, contents.expiring) = (4, cells, expiring);
        let levels = levels(tables);
        let mut state = state(0);
        state.observe(&Mark { read: at(30), ..Mark::default() });
        let mut chosen = plan(leveled(&levels, &state));
        (chosen.reason, chosen.inputs[0].0) = (reason, from);
        state.begin(&chosen);
        let mut written = TableMeta::clone(chosen.tables().next().unwrap());
        (written.contents.cells, written.contents.expiring) = (cells_after, expiring_after);
        state.wrote(&chosen, &[written.clone()]);
        state.is_settled(&written)
    };
    assert!(rewritten(Reason::Garbage, 6, (10, 4), (10, 4)), "nothing was dropped");
    assert!(!rewritten(Reason::Garbage, 6, (10, 4), (9, 4)), "a cell was");
    assert!(!rewritten(Reason::Garbage, 6, (10, 0), (9, 0)), "a cell was");
    assert!(!rewritten(Reason::Garbage, 6, (10, 4), (10, 3)), "a tombstone replaced a value");
    assert!(!rewritten(Reason::Garbage, 5, (10, 4), (10, 4)), "another level holds it now");
    assert!(!rewritten(Reason::Level0, 6, (10, 4), (10, 4)), "its garbage was not the reason");
}

#[test]
fn help_is_wanted_when_writers_wait() {
    let config = Config { slow_runs: 4, slowest_runs: 8, ..config() };
    let with = |count| {
        let young = (1..=count).map(|number| table(number, 0, "a", "f", 10 + 1000 * number));
        levels(young.collect::<Vec<_>>())
    };
    assert!(!Tiered.wants_help(&with(4), &config));
    assert!(Tiered.wants_help(&with(5), &config));
    assert!(!Leveled.wants_help(&with(1), &Config::default()));
}

#[test]
fn most_throttling_where_both_limits_are_one() {
    let config = Config { slow_runs: 4, slowest_runs: 4, ..config() };
    let of = |runs| Pressure::of(Backlog { runs, pending_bytes: 0, level0_permille: 0 }, &config);
    assert_eq!([of(3), of(4)], [Pressure::Fine, Pressure::Slow(1.0)]);
}

/// Returns what tiered compaction would merge of runs in level 0, oldest first, above a large run.
fn tiered(sizes: &[u64], config: &Config) -> Vec<u64> {
    let young = (2..).zip(sizes).map(|(number, bytes)| table(number, 0, "a", "f", *bytes));
    let levels = levels(young.chain([table(1, 6, "a", "f", 1 << 40)]).collect::<Vec<_>>());
    match Tiered.choose(&levels, config, &state(0)) {
        Choice::Compact(plan) => plan.numbers().collect(),
        _ => Vec::new(),
    }
}

#[test]
fn runs_of_a_tier_are_of_similar_size() {
    let merged = |oldest| tiered(&[oldest, 100, 100, 100], &config());
    assert!(merged(49).is_empty());
    assert_eq!([merged(50).len(), merged(150).len()], [4, 4]);
    assert!(merged(151).is_empty());
    assert_eq!(tiered(&[100, 100, 100, 100, 1], &config()).len(), 4, "the youngest waits");
}

#[test]
fn two_runs_are_merged_where_two_are_a_tier() {
    let config = Config { tier_runs: 2, ..config() };
    assert_eq!(tiered(&[100, 100], &config), [2, 3]);
}

#[test]
fn youngest_runs_are_merged_before_reads_suffer() {
    let config = Config { slow_runs: 6, ..config() };
    // With the large one below them these are five and six runs.
    let sizes: Vec<u64> = (1..=5_u32).rev().map(|power| 10_u64.pow(power)).collect();
    assert!(tiered(&sizes[1..], &config).is_empty());
    assert_eq!(tiered(&sizes, &config), [3, 4, 5, 6]);
}

#[test]
fn space_of_garbage_is_bounded() {
    let with = |younger: [u64; 3]| {
        let young = (2..).zip(younger).map(|(number, bytes)| table(number, 0, "a", "f", bytes));
        levels(young.chain([table(1, 6, "a", "f", 1000)]).collect::<Vec<_>>())
    };
    let choose = |younger| Tiered.choose(&with(younger), &config(), &state(0));
    // One and a half times the oldest run, in four runs.
    assert_eq!(choose([1400, 90, 10]), Choice::Nothing);
    assert_eq!(inputs(choose([1400, 90, 11])), (vec![2, 3, 4, 1], 6));
    let pending = |younger| Tiered.pending_bytes(&with(younger), &config());
    assert_eq!(pending([1400, 90, 10]), 0);
    assert_eq!(pending([1400, 90, 11]), 2501);
}
