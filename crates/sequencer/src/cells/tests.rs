use std::collections::BTreeMap;

use carnet_base::{PartitionKey, Rng, SeededRng, TableId};

use super::*;

const CELLS: u64 = 6;

fn at(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn cell(number: u64) -> CellKey {
    CellKey::new(TableId(5), &PartitionKey::new(format!("p{number}")), &b"c"[..])
}

fn version(start: u64, commit: u64, payload: &'static [u8]) -> Version {
    Version {
        start: at(start),
        commit: Some(at(commit)),
        payload: Some(Bytes::from_static(payload)),
    }
}

fn changed(cells: &[(u64, u64)]) -> Changes {
    let changed = cells.iter().map(|(number, commit)| (cell(*number).hash(), at(*commit)));
    Changes::Cells(changed.collect())
}

fn cache() -> CellCache {
    CellCache::new(1 << 20)
}

/// Creates a cache that knows all changes up to `known`.
fn knowing(known: u64) -> CellCache {
    let cache = cache();
    cache.apply(&Changes::Unknown, at(known));
    cache
}

#[test]
fn read_cell_is_cached_until_it_changes() {
    let cache = knowing(40);
    let (d, seen) = (cell(1), version(28, 30, b"d"));
    cache.keep(&d, Some(&seen), at(30), at(40));
    assert_eq!(cache.get(&d, at(40), false), Some(Some(seen.clone())));
    cache.apply(&changed(&[(2, 41), (3, 44)]), at(45));
    assert_eq!(cache.get(&d, at(45), false), Some(Some(seen.clone())));
    assert_eq!(cache.get(&d, at(30), false), Some(Some(seen)), "all who see it");
    assert_eq!(cache.get(&d, at(29), false), None, "who may see an older one");
    cache.apply(&changed(&[(1, 47)]), at(48));
    assert_eq!(cache.get(&d, at(48), false), None);
}

#[test]
fn memory_of_cached_cells_is_counted() {
    let cache = knowing(40);
    assert_eq!(cache.bytes(), 0);
    cache.keep(&cell(1), Some(&version(28, 30, b"payload")), at(30), at(40));
    let one = cache.bytes();
    assert!((7..1_000).contains(&one), "{one} bytes");
    cache.keep(&cell(2), None, at(30), at(40));
    assert!(cache.bytes() > one);
    cache.apply(&Changes::Unknown, at(50));
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn absent_cell_is_cached_from_its_read() {
    let cache = knowing(40);
    cache.keep(&cell(1), None, at(40), at(40));
    cache.apply(&changed(&[]), at(50));
    assert_eq!(cache.get(&cell(1), at(50), false), Some(None));
    assert_eq!(cache.get(&cell(1), at(39), false), None);
}

#[test]
fn slow_read_of_a_changed_cell_is_not_cached() {
    let cache = knowing(40);
    cache.apply(&changed(&[(1, 45)]), at(50));
    cache.keep(&cell(1), Some(&version(28, 30, b"old")), at(30), at(40));
    assert_eq!(cache.get(&cell(1), at(40), false), None);
    cache.keep(&cell(1), Some(&version(44, 45, b"new")), at(45), at(46));
    assert!(cache.get(&cell(1), at(50), false).is_some());
    cache.keep(&cell(2), Some(&version(28, 30, b"same")), at(30), at(40));
    assert!(cache.get(&cell(2), at(50), false).is_some());
}

#[test]
fn own_commit_stays_cached_until_overwritten() {
    let cache = knowing(40);
    cache.keep(&cell(1), Some(&version(41, 44, b"mine")), at(44), at(44));
    cache.keep(&cell(2), Some(&version(41, 44, b"mine")), at(44), at(44));
    assert_eq!(cache.get(&cell(1), at(40), false), None, "a snapshot from before");
    cache.apply(&changed(&[(1, 44), (2, 44), (2, 46)]), at(46));
    assert!(cache.get(&cell(1), at(46), false).is_some());
    assert_eq!(cache.get(&cell(2), at(46), false), None, "another wrote it afterwards");
}

#[test]
fn unknown_changes_empty_the_cache() {
    let cache = knowing(40);
    cache.keep(&cell(1), Some(&version(28, 30, b"old")), at(30), at(40));
    cache.keep(&cell(2), Some(&version(41, 44, b"mine")), at(44), at(44));
    cache.apply(&Changes::Unknown, at(60));
    assert_eq!(cache.get(&cell(1), at(60), false), None);
    assert_eq!(cache.get(&cell(2), at(60), false), None);
    cache.keep(&cell(1), Some(&version(28, 30, b"old")), at(30), at(59));
    assert_eq!(cache.get(&cell(1), at(60), false), None, "of before the gap");
    cache.apply(&Changes::Unknown, at(50));
    cache.apply(&changed(&[(3, 49)]), at(50));
    assert_eq!(cache.known(), Some(at(60)), "late answers tell nothing new");
}

#[test]
fn cells_with_equal_hashes_are_distinct() {
    let cache = knowing(40);
    cache.keep(&cell(1), None, at(40), at(40));
    let mut kept = lock(&cache.kept);
    kept.cells.peek_mut(&cell(1).hash()).unwrap().key = cell(2);
    drop(kept);
    assert_eq!(cache.get(&cell(1), at(40), false), None);
}

#[test]
fn cache_and_single_cells_are_bounded() {
    let cache = CellCache::new(64 << 10);
    cache.apply(&Changes::Unknown, at(40));
    let large = Version { payload: Some(Bytes::from(vec![0; 4 << 10])), ..version(1, 2, b"") };
    cache.keep(&cell(0), Some(&large), at(2), at(40));
    assert_eq!(cache.get(&cell(0), at(40), false), None);
    for number in 0..10_000 {
        cache.keep(&cell(number), Some(&version(1, 2, b"payload")), at(2), at(40));
    }
    let kept = lock(&cache.kept);
    assert!(kept.cells.weight() <= 64 << 10 && kept.cells.len() > 100, "{}", kept.cells.len());
}

/// A database without a cache.
#[derive(Default)]
struct Model {
    versions: BTreeMap<(u64, u64), u64>,
}

impl Model {
    fn seen(&self, number: u64, read: u64) -> Option<Version> {
        let mut of = self.versions.range((number, 0)..=(number, read));
        let ((_, commit), start) = of.next_back()?;
        Some(Version { start: at(*start), commit: Some(at(*commit)), payload: None })
    }
}

/// Terms, own commits and those of other processes, late answers and late reads: for a snapshot
/// that was released to it, the cache always agrees with the database.
#[test]
fn cache_agrees_with_the_database_at_every_snapshot() {
    let mut hits = 0;
    for seed in 0..300 {
        let mut rng = SeededRng::new(seed);
        let cache = CellCache::new(if seed % 3 == 0 { 16 << 10 } else { 1 << 20 });
        let (mut model, mut log) = (Model::default(), ChangeLog::starting_at(at(1)));
        let mut now = 1;
        // Answers, reads and own commits in flight, and the released snapshots.
        let (mut answers, mut reads, mut own) = (Vec::new(), Vec::new(), Vec::new());
        let mut snapshots = Vec::new();
        for _ in 0..1_000 {
            let number = rng.below(CELLS);
            let pick = |rng: &mut SeededRng, len: usize| {
                usize::try_from(rng.below(len.max(1) as u64)).unwrap()
            };
            match rng.below(20) {
                0 => {
                    let start = now + 1;
                    now += 2;
                    let written = [number, rng.below(CELLS)];
                    log.wrote(at(now), written.iter().map(|number| cell(*number).hash()));
                    for number in written {
                        model.versions.insert((number, now), start);
                        own.push((number, now));
                    }
                }
                1 if rng.below(10) == 0 => {
                    now += 10;
                    log = ChangeLog::starting_at(at(now));
                }
                2 | 3 if answers.len() < 4 => {
                    answers.push((log.between(cache.known(), at(now)), now));
                }
                4 | 5 if !answers.is_empty() => {
                    let (changes, read) = answers.swap_remove(pick(&mut rng, answers.len()));
                    cache.apply(&changes, at(read));
                    snapshots.push(read);
                    if snapshots.len() > 8 {
                        snapshots.remove(0);
                    }
                }
                6..=9 if !snapshots.is_empty() => {
                    let read = snapshots[pick(&mut rng, snapshots.len())];
                    reads.push((number, read, model.seen(number, read)));
                }
                10..=12 if !reads.is_empty() => {
                    let (number, read, seen) = reads.swap_remove(pick(&mut rng, reads.len()));
                    let from = seen.as_ref().and_then(|seen| seen.commit).unwrap_or(at(read));
                    cache.keep(&cell(number), seen.as_ref(), from, at(read));
                }
                13 if !own.is_empty() => {
                    let (number, commit) = own.swap_remove(pick(&mut rng, own.len()));
                    let seen = model.seen(number, commit);
                    cache.keep(&cell(number), seen.as_ref(), at(commit), at(commit));
                }
                _ if !snapshots.is_empty() => {
                    let read = snapshots[pick(&mut rng, snapshots.len())];
                    if let Some(kept) = cache.get(&cell(number), at(read), false) {
                        hits += 1;
                        let seen = model.seen(number, read);
                        assert_eq!(kept, seen, "seed {seed}: cell {number} at {read}");
                    }
                }
                _ => {}
            }
        }
    }
    assert!(hits > 2_000, "{hits} reads were answered");
}
