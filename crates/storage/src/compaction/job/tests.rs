//! Jobs, one by one: where files end, how far a step goes, and what is left of one given up.

use carnet_base::ErrorKind;

use super::memory::{Contents, Hook, Memory, Version, at, start};
use super::*;
use crate::compaction::merge::Mark;
use crate::compaction::policy::Reason;
use crate::manifest::{FlatRange, TableMeta};

fn key(number: u8) -> Vec<u8> {
    vec![0, 0, 0, 1, number]
}

fn cell(number: u8, commit: u64) -> Version {
    Version { key: key(number), commit, expiry: None, payload: Some(vec![7; 5]) }
}

fn fragment(lower: u8, upper: u8, commit: u64) -> Fragment {
    let version = RangeVersion { commit: at(commit), start: start(at(commit)) };
    Fragment { lower: key(lower).into(), upper: key(upper).into(), versions: vec![version] }
}

/// Puts tables into levels.
fn levels(memory: &Memory, tables: impl IntoIterator<Item = (u8, Contents)>) -> Levels {
    let add = tables.into_iter().flat_map(|(level, contents)| memory.add(level, contents));
    let mut levels = Levels::default();
    levels.edit(&Edit { add: add.collect(), ..Edit::default() }).unwrap();
    levels
}

/// Takes all tables of some levels to the last of those.
fn plan(levels: &Levels, from: &[u8], cut_bytes: u64) -> Plan {
    let inputs: Vec<_> =
        from.iter().map(|level| (*level, levels.level((*level).into()).to_vec())).collect();
    let tables = inputs.iter().flat_map(|(_, tables)| tables);
    Plan {
        hull: FlatRange::hull(tables.map(|table| &table.range)).unwrap(),
        output_level: *from.last().unwrap(),
        inputs,
        cut_bytes,
        grandparent_bytes: u64::MAX,
        reason: Reason::Manual,
    }
}

fn job(plan: &Plan, levels: &Levels, memory: &Memory) -> Job<Memory, Memory, Hook> {
    Job::new(plan, levels, &Arc::new(memory.clone()), memory.clone(), Hook::default()).unwrap()
}

fn finish(plan: &Plan, levels: &Levels, memory: &Memory) -> Vec<TableMeta> {
    match job(plan, levels, memory).step(u64::MAX).unwrap() {
        Progress::Done(edit) => {
            assert!(edit.remove.iter().copied().eq(plan.numbers()));
            edit.add
        }
        Progress::More => panic!("it has read everything"),
    }
}

/// The bounds of tables, by the last bytes of their keys.
fn bounds(tables: &[TableMeta]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let range =
        |table: &TableMeta| (table.range.lower[4..].to_vec(), table.range.upper[4..].to_vec());
    tables.iter().map(range).collect()
}

#[test]
fn files_end_between_keys_when_they_are_long_enough() {
    let memory = Memory::default();
    // A cell has ten bytes. Key 2 has five versions, more than a file should hold.
    let mut cells = vec![cell(1, 1)];
    cells.extend((1..6).rev().map(|commit| cell(2, commit)));
    cells.extend((3..8).map(|number| cell(number, 1)));
    let levels = levels(&memory, [(5, Contents { cells, fragments: Vec::new() })]);
    let tables = finish(&plan(&levels, &[5], 20), &levels, &memory);
    let expected = [(1, 2), (3, 4), (5, 6), (7, 7)];
    assert_eq!(bounds(&tables), expected.map(|(first, last)| (vec![first], vec![last, 0])));
    let cells: Vec<u64> = tables.iter().map(|table| table.contents.cells).collect();
    assert_eq!((cells, tables[0].contents.overwritten), (vec![6, 2, 2, 1], 4));
}

#[test]
fn files_end_where_grandparents_do() {
    let memory = Memory::default();
    let input = (1..=8).map(|number| cell(number, 9)).collect();
    let mut tables = vec![(5, Contents { cells: input, fragments: Vec::new() })];
    for (lower, upper) in [(1, 3), (4, 4), (6, 8)] {
        let cells = (lower..=upper).map(|number| cell(number, 1)).collect();
        tables.push((6, Contents { cells, fragments: Vec::new() }));
    }
    let levels = levels(&memory, tables);
    let mut plan = plan(&levels, &[5], 50);
    let last = |tables: &[TableMeta]| -> Vec<u8> {
        bounds(tables).iter().map(|(_, upper)| upper[0]).collect()
    };
    // At least half as long as it may be: 1 to 3, and 4 to 8 is as long as it may be.
    assert_eq!(last(&finish(&plan, &levels, &memory)), [3, 8]);
    // 40 bytes of the level behind are too much: the first file ends behind two of its tables.
    (plan.cut_bytes, plan.grandparent_bytes) = (1000, 39);
    assert_eq!(last(&finish(&plan, &levels, &memory)), [4, 8]);
}

#[test]
fn a_range_tombstone_is_cut_where_a_file_ends_and_both_parts_stay() {
    let memory = Memory::default();
    let cells = (1..=6).map(|number| cell(number, 9)).collect();
    let fragments = vec![fragment(0, 2, 3), fragment(2, 9, 4), fragment(20, 30, 3)];
    let levels = levels(&memory, [(5, Contents { cells, fragments })]);
    let tables = finish(&plan(&levels, &[5], 30), &levels, &memory);
    let expected = [(0, 3), (3, 6), (6, 30)];
    assert_eq!(bounds(&tables), expected.map(|(lower, upper)| (vec![lower], vec![upper])));
    let fragments = |table: &TableMeta| -> Vec<(u8, u8)> {
        let contents = memory.tables()[&table.number].clone();
        contents.fragments.iter().map(|next| (next.lower[4], next.upper[4])).collect()
    };
    let parts: Vec<_> = tables.iter().map(fragments).collect();
    assert_eq!(parts, [vec![(0, 2), (2, 3)], vec![(3, 6)], vec![(6, 9), (20, 30)]]);
}

#[test]
fn range_tombstones_without_cells_make_files_too() {
    let memory = Memory::default();
    let fragments = (0..9).map(|place| fragment(2 * place, 2 * place + 1, 4)).collect();
    let contents = Contents { cells: Vec::new(), fragments };
    let levels = levels(&memory, [(5, contents)]);
    let tables = finish(&plan(&levels, &[5], 40), &levels, &memory);
    let expected = [(0, 7), (8, 15), (16, 17)];
    assert_eq!(bounds(&tables), expected.map(|(lower, upper)| (vec![lower], vec![upper])));
}

#[test]
fn a_compaction_of_which_nothing_stays_makes_no_files() {
    let memory = Memory::default();
    let deleted = Version { payload: None, ..cell(1, 5) };
    let tables = [
        (0, Contents { cells: vec![deleted], fragments: vec![fragment(2, 9, 6)] }),
        (6, Contents { cells: vec![cell(1, 4), cell(2, 4), cell(8, 4)], fragments: Vec::new() }),
    ];
    let levels = levels(&memory, tables);
    let hook = Hook { mark: Mark { read: at(6), ..Mark::default() }, ..Hook::default() };
    let (plan, tables) = (plan(&levels, &[0, 6], 100), Arc::new(memory.clone()));
    let mut job = Job::new(&plan, &levels, &tables, memory.clone(), hook).unwrap();
    let edit = Edit { remove: vec![1, 2], ..Edit::default() };
    assert_eq!(job.step(u64::MAX).unwrap(), Progress::Done(edit));
    assert_eq!(memory.tables().len(), 2);
}

#[test]
fn within_level0_a_tombstone_stays_while_an_older_table_may_hold_what_it_deletes() {
    let memory = Memory::default();
    let deleted = Version { payload: None, ..cell(1, 5) };
    let tables = [vec![cell(1, 4)], vec![deleted], vec![cell(9, 6)]];
    let tables = tables.map(|cells| (0, Contents { cells, fragments: Vec::new() }));
    let levels = levels(&memory, tables);
    let hook = Hook { mark: Mark { read: at(6), ..Mark::default() }, ..Hook::default() };
    let all = plan(&levels, &[0], u64::MAX);
    for (skipped, cells) in [(1, 2), (0, 1)] {
        let inputs = vec![(0, levels.level(0)[skipped..].to_vec())];
        let plan = Plan { inputs, ..all.clone() };
        let tables = Arc::new(memory.clone());
        let mut job = Job::new(&plan, &levels, &tables, memory.clone(), hook.clone()).unwrap();
        let Progress::Done(edit) = job.step(u64::MAX).unwrap() else { panic!("it is done") };
        assert_eq!(edit.add[0].contents.cells, cells, "{skipped} left out");
    }
}

#[test]
fn a_step_goes_about_as_far_as_it_is_told() {
    let memory = Memory::default();
    // One key that was written a hundred times: bounded too.
    let cells = (1..=100).rev().map(|commit| cell(1, commit)).collect();
    let levels = levels(&memory, [(5, Contents { cells, fragments: Vec::new() })]);
    let plan = plan(&levels, &[5], 100);
    let mut job = job(&plan, &levels, &memory);
    for step in 1..=20 {
        assert_eq!(job.step(50).unwrap(), Progress::More);
        assert_eq!(job.read_bytes(), 50 * step);
    }
    assert!(matches!(job.step(50).unwrap(), Progress::Done(_)));
    assert_eq!(job.read_bytes(), 1000);
}

#[test]
fn a_job_that_is_given_up_names_the_files_that_it_leaves_behind() {
    let mut memory = Memory::default();
    let cells = (1..=9).map(|number| cell(number, 9)).collect();
    let levels = levels(&memory, [(5, Contents { cells, fragments: Vec::new() })]);
    memory.broken = Some(4);
    let mut job = job(&plan(&levels, &[5], 20), &levels, &memory);
    let error = job.step(u64::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(job.abandon(), [2, 3]);
}
