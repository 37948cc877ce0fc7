//! Tests of jobs: where files end, how far a step goes, and abandoned jobs.

use carnet_base::ErrorKind;

use super::memory::{Contents, Hook, Memory, Version, at, start};
use super::*;
use crate::compaction::merge::{Fragment, Mark, RangeVersion};
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

/// Makes levels of these tables.
fn levels(memory: &Memory, tables: impl IntoIterator<Item = (u8, Contents)>) -> Levels {
    let add = tables.into_iter().flat_map(|(level, contents)| memory.add(level, contents));
    let mut levels = Levels::default();
    levels.edit(&Edit { add: add.collect(), ..Edit::default() }).unwrap();
    levels
}

/// Plans to compact all tables of some levels into the last of them.
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

/// Returns the bounds of tables, by the last bytes of their keys.
fn bounds(tables: &[TableMeta]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let range =
        |table: &TableMeta| (table.range.lower[4..].to_vec(), table.range.upper[4..].to_vec());
    tables.iter().map(range).collect()
}

#[test]
fn files_end_between_keys_at_target_size() {
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
fn files_end_with_grandparents() {
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
    // Files of at least half the target size end with a grandparent: 1 to 3; 4 to 8 has the target
    // size.
    assert_eq!(last(&finish(&plan, &levels, &memory)), [3, 8]);
    // 40 bytes of grandparents are too much: the first file ends after two grandparents.
    (plan.cut_bytes, plan.grandparent_bytes) = (1000, 39);
    assert_eq!(last(&finish(&plan, &levels, &memory)), [4, 8]);
}

#[test]
fn range_tombstone_is_split_between_files() {
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
fn range_tombstones_alone_make_files() {
    let memory = Memory::default();
    let fragments = (0..9).map(|place| fragment(2 * place, 2 * place + 1, 4)).collect();
    let contents = Contents { cells: Vec::new(), fragments };
    let levels = levels(&memory, [(5, contents)]);
    let tables = finish(&plan(&levels, &[5], 40), &levels, &memory);
    let expected = [(0, 7), (8, 15), (16, 17)];
    assert_eq!(bounds(&tables), expected.map(|(lower, upper)| (vec![lower], vec![upper])));
}

#[test]
fn empty_output_makes_no_files() {
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
fn level0_merge_keeps_tombstone_over_older_table() {
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
fn step_reads_about_the_given_bytes() {
    let memory = Memory::default();
    // One key with a hundred versions: steps are bounded within it.
    let cells = (1..=100).rev().map(|commit| cell(1, commit)).collect();
    let levels = levels(&memory, [(5, Contents { cells, fragments: Vec::new() })]);
    let plan = plan(&levels, &[5], 100);
    let mut job = job(&plan, &levels, &memory);
    for step in 1..=20 {
        assert_eq!(job.step(50).unwrap(), Progress::More);
        assert_eq!((job.read_bytes(), job.read_cells()), (50 * step, 5 * step));
    }
    assert!(matches!(job.step(50).unwrap(), Progress::Done(_)));
    assert_eq!(job.read_bytes(), 1000);
}

#[test]
fn abandoned_job_names_its_files() {
    let mut memory = Memory::default();
    let cells = (1..=9).map(|number| cell(number, 9)).collect();
    let levels = levels(&memory, [(5, Contents { cells, fragments: Vec::new() })]);
    memory.broken = Some(4);
    let mut job = job(&plan(&levels, &[5], 20), &levels, &memory);
    let error = job.step(u64::MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(job.abandon(), [2, 3]);
}
