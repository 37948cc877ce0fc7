//! Compacts random databases: all reads return the same before and after, also if some merges of
//! deltas fail, and every unneeded version is dropped.

use std::collections::BTreeSet;

use bytes::Bytes;
use carnet_base::{Rng, SeededRng, TableId};

use super::memory::{Contents, Hook, Memory, Version, at, start};
use super::*;
use crate::compaction::merge::{Fragment, Mark, RangeVersion};
use crate::compaction::policy::{Plan, Reason};
use crate::compaction::{Part, Parts};
use crate::manifest::{FlatRange, table_of};

/// Seeds of the runs. A failure names its seed; replace the range by `(seed..=seed)` to replay it.
const SEEDS: std::ops::Range<u64> = 0..600;
/// Number of keys in each of the two tables.
const KEYS: u8 = 10;
/// Greatest commit: 1 to 30 are in level 6, up to 60 in level 5, then 15 in each table of level 0.
const COMMITS: u64 = 90;

fn key(table: u8, key: u8) -> Vec<u8> {
    vec![0, 0, 0, table, key]
}

fn keys() -> impl Iterator<Item = Vec<u8>> {
    (1..=2).flat_map(|table| (0..KEYS).map(move |number| key(table, number)))
}

fn below(rng: &mut SeededRng, bound: u8) -> u8 {
    u8::try_from(rng.below(bound.into())).unwrap()
}

/// Makes the contents of a few transactions, one commit each.
fn write(rng: &mut SeededRng, commits: std::ops::RangeInclusive<u64>) -> Contents {
    let mut contents = Contents::default();
    let mut ranges = Vec::new();
    for commit in commits {
        if rng.chance(300) {
            continue;
        }
        let table = 1 + below(rng, 2);
        let deletes_range = rng.chance(150);
        if deletes_range {
            let lower = below(rng, KEYS);
            let upper = lower + 1 + below(rng, KEYS);
            let versions = vec![RangeVersion { commit: at(commit), start: start(at(commit)) }];
            let (lower, upper) = (key(table, lower).into(), key(table, upper).into());
            ranges.push(Fragment { lower, upper, versions });
        }
        let mut written = BTreeSet::new();
        for _ in 0..rng.below(3) {
            let number = below(rng, KEYS);
            if written.insert(number) {
                let kind = if rng.chance(300) && !deletes_range { '+' } else { 'v' };
                let payload = (!rng.chance(250)).then(|| format!("{kind}{commit}").into_bytes());
                let deletes = kind == '+' && rng.chance(200);
                let payload = payload.map(|it| if deletes { b"+-".to_vec() } else { it });
                let expiry = rng.chance(250).then(|| 100 + rng.below(20));
                let expiry = expiry.filter(|_| payload.is_some() && kind == 'v');
                contents.cells.push(Version { key: key(table, number), commit, expiry, payload });
            }
        }
    }
    contents.cells.sort_by_key(|cell| (cell.key.clone(), std::cmp::Reverse(cell.commit)));
    contents.fragments = crate::compaction::merge::disjoint(ranges);
    contents
}

/// Splits contents before a key.
fn split(contents: Contents, at: &[u8]) -> [Contents; 2] {
    let mut parts = [Contents::default(), Contents::default()];
    for cell in contents.cells {
        parts[usize::from(cell.key[..] >= *at)].cells.push(cell);
    }
    for fragment in contents.fragments {
        let at = Bytes::copy_from_slice(at);
        if fragment.lower < at {
            let upper = fragment.upper.clone().min(at.clone());
            parts[0].fragments.push(Fragment { upper, ..fragment.clone() });
        }
        if fragment.upper > at {
            let lower = fragment.lower.clone().max(at);
            parts[1].fragments.push(Fragment { lower, ..fragment });
        }
    }
    parts
}

fn database(rng: &mut SeededRng, memory: &Memory) -> Levels {
    let mut add = Vec::new();
    for (level, commits) in [(6, 1..=30), (5, 31..=60)] {
        if rng.chance(300) {
            continue;
        }
        let at = key(1 + below(rng, 2), below(rng, KEYS));
        for part in split(write(rng, commits), &at) {
            add.extend(memory.add(level, part));
        }
    }
    for commits in [61..=75, 76..=90] {
        add.extend(memory.add(0, write(rng, commits)));
    }
    let mut levels = Levels::default();
    levels.edit(&Edit { add, ..Edit::default() }).unwrap();
    levels
}

/// Plans one of several compactions that keep the order of sources.
fn plan(rng: &mut SeededRng, levels: &Levels) -> Option<Plan> {
    let (from, output_level) = match rng.below(5) {
        0 => (vec![0, 5, 6], 6),
        1 => (vec![0, 5], 5),
        2 => (vec![5, 6], 6),
        3 => (vec![0], 0),
        _ => (vec![6], 6),
    };
    // In level 0 the older table is sometimes excluded.
    let skipped = if output_level == 0 { usize::from(rng.chance(500)) } else { 0 };
    let inputs: Vec<_> = from
        .into_iter()
        .map(|level: u8| {
            (level, levels.level(level.into()).iter().skip(skipped).cloned().collect())
        })
        .filter(|(_, tables): &(u8, Vec<_>)| !tables.is_empty())
        .collect();
    let hull = FlatRange::hull(inputs.iter().flat_map(|(_, tables)| tables).map(|t| &t.range))?;
    let cut_bytes = if output_level == 0 { u64::MAX } else { 1 + rng.below(200) };
    let grandparent_bytes = rng.below(100);
    let reason = Reason::Manual;
    Some(Plan { inputs, output_level, cut_bytes, grandparent_bytes, hull, reason })
}

fn hook(rng: &mut SeededRng) -> Hook {
    let read = rng.below(COMMITS + 10);
    let snapshots = (0..rng.below(4)).map(|_| at(rng.below(read + 1))).collect();
    let wall = rng.chance(500).then(|| 95 + rng.below(30));
    let dropped = rng.chance(200).then_some(TableId(2));
    let mark = Mark { read: at(read), snapshots, wall };
    let failing = if rng.chance(500) { 700 } else { 0 };
    Hook { mark, dropped: dropped.into_iter().collect(), failing, ..Hook::default() }
}

/// Returns the results of all reads of a key that the GC watermark permits.
fn reads(memory: &Memory, levels: &Levels, hook: &Hook, key: &[u8]) -> Vec<Option<Vec<u8>>> {
    if hook.is_dropped(table_of(key).unwrap()) {
        return Vec::new();
    }
    let mut reads: Vec<u64> = (hook.mark.read.get()..=COMMITS + 1).collect();
    reads.push(hook.mark.read.get());
    reads.extend(hook.mark.snapshots.iter().map(|snapshot| snapshot.get()));
    let mut answers = Vec::new();
    for read in &reads {
        let oldest = hook.mark.wall.unwrap_or(0);
        for wall in [oldest, 110, 1000] {
            answers.push(memory.read(levels, key, *read, wall.max(oldest)));
        }
    }
    answers
}

fn all_reads(memory: &Memory, levels: &Levels, hook: &Hook) -> Vec<Option<Vec<u8>>> {
    keys().flat_map(|key| reads(memory, levels, hook, &key)).collect()
}

/// Runs a compaction in one to three parts, whose steps are interleaved.
fn finish(plan: &Plan, levels: &Levels, memory: &Memory, hook: &Hook, rng: &mut SeededRng) -> Edit {
    let mut bounds: Vec<Bytes> = (0..rng.below(3))
        .map(|_| key(1 + below(rng, 2), below(rng, KEYS)).into())
        .filter(|bound| plan.hull.lower < bound && *bound < plan.hull.upper)
        .collect();
    bounds.sort();
    bounds.dedup();
    // An output in level 0 is never divided.
    bounds.retain(|_| plan.output_level > 0);
    let mut parts = Parts::between(plan.clone(), levels.clone(), bounds);
    let mut jobs = Vec::new();
    loop {
        if jobs.is_empty() || rng.chance(300) {
            jobs.extend(parts.begin().map(|Part { plan, levels, range }| {
                let tables = Arc::new(memory.clone());
                Job::of_part(&plan, &range, &levels, &tables, memory.clone(), hook.clone()).unwrap()
            }));
        }
        let at = usize::try_from(rng.below(jobs.len() as u64)).unwrap();
        if let Progress::Done(edit) = jobs[at].step(rng.below(50)).unwrap() {
            jobs.swap_remove(at);
            if let Some(edit) = parts.end(edit) {
                return edit;
            }
        }
    }
}

#[test]
fn reads_return_the_same_before_and_after() {
    let mut cuts = 0;
    for seed in SEEDS {
        let mut rng = SeededRng::new(seed);
        let memory = Memory::default();
        let mut levels = database(&mut rng, &memory);
        let hook = hook(&mut rng);
        let Some(plan) = plan(&mut rng, &levels) else { continue };
        let before = all_reads(&memory, &levels, &hook);
        let edit = finish(&plan, &levels, &memory, &hook, &mut rng);
        cuts += edit.add.len().saturating_sub(1);
        levels.edit(&edit).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let after = all_reads(&memory, &levels, &hook);
        assert!(after == before, "seed {seed}: {hook:?} {plan:?}");
        for table in &edit.add {
            let contents = memory.tables()[&table.number].clone();
            if hook.failing == 0 {
                assert_eq!(Some(table), contents.describe(table.number, table.level).as_ref());
            }
        }
        if plan.output_level == 6 && plan.inputs.len() == 3 && hook.failing == 0 {
            nothing_is_left_over(seed, &memory, &levels, &hook);
        }
    }
    assert!(cuts > 300, "{cuts} cuts");
}

/// In a fully compacted database, each cell at or below the GC watermark is needed: without it some
/// read returns a different result.
fn nothing_is_left_over(seed: u64, memory: &Memory, levels: &Levels, hook: &Hook) {
    let numbers: Vec<u64> = memory.tables().keys().copied().collect();
    for number in numbers.into_iter().filter(|number| levels.find(*number).is_some()) {
        let contents = memory.tables()[&number].clone();
        for fragment in &contents.fragments {
            let needed = |version: &RangeVersion| version.commit > hook.mark.oldest();
            assert!(fragment.versions.iter().all(needed), "seed {seed}: {fragment:?}");
            let table = table_of(&fragment.lower).unwrap();
            assert!(!hook.is_dropped(table), "seed {seed}: {fragment:?}");
        }
        for (place, cell) in contents.cells.iter().enumerate() {
            assert!(!hook.is_dropped(table_of(&cell.key).unwrap()), "seed {seed}: {cell:?}");
            // A surviving range tombstone may have the same effect as a tombstone of the cell.
            let covers = |next: &Fragment| next.lower <= cell.key[..] && next.upper > cell.key[..];
            // A delta that deletes is not merged with a version of an older stripe or one that will
            // expire, and neither may be visible.
            let is_delete = |other: &Version| other.payload.as_deref() == Some(b"+-");
            let mut of_key = contents.cells.iter().filter(|other| other.key == cell.key);
            let deletes = of_key.any(is_delete);
            let spared =
                deletes || (cell.payload.is_none() && contents.fragments.iter().any(covers));
            if at(cell.commit) > hook.mark.read || spared {
                continue;
            }
            let complete = reads(memory, levels, hook, &cell.key);
            let mut without = contents.clone();
            without.cells.remove(place);
            memory.tables().insert(number, without);
            let differs = reads(memory, levels, hook, &cell.key) != complete;
            assert!(differs, "seed {seed}: needless {cell:?}");
            memory.tables().insert(number, contents.clone());
        }
    }
}
