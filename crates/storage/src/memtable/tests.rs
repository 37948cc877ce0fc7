//! Compares the memtable with a map that holds every version.
#![expect(clippy::cast_possible_truncation, reason = "a test draws small numbers")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use carnet_base::{Rng, SeededRng, Timestamp};

use super::*;

/// Number of iterations: fewer under Miri, which is a thousand times slower.
const fn scaled(times: u64, under_miri: u64) -> u64 {
    if cfg!(miri) { under_miri } else { times }
}

fn time(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

#[derive(Default)]
struct Model {
    cells: BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>,
    ranges: Vec<(Vec<u8>, Vec<u8>, u64)>,
}

impl Model {
    fn deleted_at(&self, key: &[u8], read: u64) -> Option<u64> {
        let covers = |(lower, upper, commit): &&(Vec<u8>, Vec<u8>, u64)| {
            lower[..] <= *key && *key < upper[..] && *commit <= read
        };
        self.ranges.iter().filter(covers).map(|(.., commit)| *commit).max()
    }

    /// Returns the commit and payload that a read at `read` finds.
    fn get(&self, key: &[u8], read: u64) -> Option<(u64, Option<Vec<u8>>)> {
        let cell = self.cells.get(key).and_then(|versions| versions.range(..=read).next_back());
        let cell = cell.map(|(commit, payload)| (*commit, payload.clone()));
        match self.deleted_at(key, read) {
            Some(deleted) if cell.as_ref().is_none_or(|(commit, _)| *commit < deleted) => {
                Some((deleted, None))
            }
            _ => cell,
        }
    }
}

/// Random keys of few distinct bytes, so that keys share prefixes and are prefixes of each other.
fn key(rng: &mut SeededRng, spread: u64) -> Vec<u8> {
    match rng.below(4) {
        0 => rng.below(spread).to_be_bytes()[rng.below(8) as usize..].to_vec(),
        1 => [&b"a long prefix that keys share "[..], &rng.below(spread).to_be_bytes()].concat(),
        2 => (0..rng.below(12)).map(|_| [0, 1, 0xff][rng.below(3) as usize]).collect(),
        _ => rng.below(spread).to_be_bytes().to_vec(),
    }
}

fn found(found: Option<Found>) -> Option<(u64, Option<Vec<u8>>)> {
    found.map(|found| (found.commit.get(), found.payload.map(|payload| payload.to_vec())))
}

fn fill(memtable: &Memtable, model: &mut Model, rng: &mut SeededRng, records: u64, spread: u64) {
    let mut commits: Vec<u64> = (1..=records).map(|n| n * 2).collect();
    for at in (1..commits.len()).rev() {
        commits.swap(at, rng.below(at as u64 + 1) as usize);
    }
    for commit in commits {
        let cells: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..rng.below(9))
            .map(|_| {
                let payload = (!rng.chance(200)).then(|| vec![7; rng.below(40) as usize]);
                (key(rng, spread), payload)
            })
            .collect();
        if rng.chance(60) {
            let (mut lower, mut upper) = (key(rng, spread), key(rng, spread));
            if lower > upper {
                std::mem::swap(&mut lower, &mut upper);
            }
            memtable.delete_range(time(commit - 1), time(commit), &lower, &upper);
            model.ranges.push((lower, upper, commit));
        }
        let mut unique = BTreeMap::new();
        unique.extend(cells);
        for _ in 0..=u64::from(rng.chance(100)) {
            let refs = unique.iter().map(|(key, payload)| CellRef {
                key,
                payload: payload.as_deref(),
                expiry: payload.as_ref().and_then(|payload| payload.first().map(|_| commit)),
            });
            memtable.insert(time(commit - 1), time(commit), refs);
        }
        for (key, payload) in unique {
            model.cells.entry(key).or_default().insert(commit, payload);
        }
    }
}

fn compare_walk(memtable: &Arc<Memtable>, model: &Model, rng: &mut SeededRng, spread: u64) {
    let (lower, upper, read) = (key(rng, spread), key(rng, spread), 1 + rng.below(2000));
    let within = |key: &&Vec<u8>| lower <= **key && **key < upper;
    for reverse in [false, true] {
        let mut expected: Vec<&Vec<u8>> = model.cells.keys().filter(within).collect();
        if reverse {
            expected.reverse();
        }
        let bounds = (Bytes::from(lower.clone()), Bytes::from(upper.clone()));
        let mut cursor = MemtableCursor::new(Arc::clone(memtable), bounds, time(read), reverse);
        for key in expected {
            assert_eq!(cursor.peek_key(), Some(&key[..]));
            let version = cursor.version().map(|version| {
                assert_eq!(version.start.get() + 1, version.commit.get());
                let live = version.payload.is_some_and(|payload| !payload.is_empty());
                assert_eq!(version.expiry, live.then_some(version.commit.get()));
                (version.commit.get(), version.payload.map(<[u8]>::to_vec))
            });
            let newest = model.cells[key].range(..=read).next_back();
            assert_eq!(version, newest.map(|(commit, payload)| (*commit, payload.clone())));
            cursor.advance();
        }
        assert_eq!(cursor.peek_key(), None);
    }
}

#[test]
fn memtable_matches_map_of_versions() {
    for seed in 0..scaled(60, 3) {
        let mut rng = SeededRng::new(seed);
        let memtable = Arc::new(Memtable::new(3, Chunks::new(0)));
        let (mut model, spread) = (Model::default(), [5, 300, 100_000][rng.below(3) as usize]);
        fill(&memtable, &mut model, &mut rng, scaled(300, 40), spread);
        for _ in 0..scaled(300, 30) {
            let (key, read) = (key(&mut rng, spread), 1 + rng.below(700));
            assert_eq!(found(memtable.get(&key, time(read))), model.get(&key, read), "{seed}");
        }
        for _ in 0..10 {
            compare_walk(&memtable, &model, &mut rng, spread);
        }
        let mut all = Vec::new();
        let _ = memtable.try_for_each(|key, version| {
            all.push((key.to_vec(), version.commit.get()));
            Ok::<_, ()>(())
        });
        let expected = model
            .cells
            .iter()
            .flat_map(|(key, versions)| versions.keys().rev().map(|commit| (key.clone(), *commit)));
        assert_eq!(all, expected.collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn fragments_are_in_order_and_do_not_overlap() {
    for seed in 0..scaled(40, 2) {
        let mut rng = SeededRng::new(seed);
        let memtable = Memtable::new(1, Chunks::new(0));
        let mut model = Model::default();
        fill(&memtable, &mut model, &mut rng, scaled(400, 40), 50);
        let fragments = memtable.range_tombstones();
        assert!(fragments.iter().all(|fragment| fragment.lower < fragment.upper));
        assert!(fragments.is_sorted_by(|one, next| one.upper <= next.lower));
        for fragment in fragments {
            let commits: Vec<_> = fragment.versions.iter().map(|(commit, _)| *commit).collect();
            assert!(commits.is_sorted_by(|newer, older| newer > older));
            for (commit, _) in fragment.versions {
                assert_eq!(
                    model.deleted_at(&fragment.lower, commit.get()),
                    Some(commit.get()),
                    "seed {seed}"
                );
            }
        }
    }
}

/// Otherwise such deletions would fill the memory before a flush starts.
#[test]
fn nested_range_deletions_are_counted() {
    let memtable = Memtable::new(1, Chunks::new(0));
    let (count, end) = (scaled(500, 20), u64::MAX.to_be_bytes());
    for n in 1..=count {
        memtable.delete_range(time(n), time(n), &n.to_be_bytes(), &end);
        memtable.insert(time(n), time(n), std::iter::empty());
    }
    let versions: usize =
        memtable.range_tombstones().iter().map(|fragment| fragment.versions.capacity()).sum();
    assert!(versions as u64 >= count * count / 2);
    assert!(memtable.memory_bytes() >= versions * size_of::<(Timestamp, Timestamp)>());
}

#[test]
fn commits_are_found_by_their_starts() {
    let memtable = Memtable::new(1, Chunks::new(0));
    assert!(memtable.is_empty());
    for start in [5, 900, 64, 128] {
        memtable.insert(time(start), time(start + 1), std::iter::empty());
    }
    assert_eq!(memtable.commit_of(time(128)), Some(time(129)));
    assert_eq!(memtable.commit_of(time(129)), None);
    let mut entries = memtable.entries();
    entries.sort_unstable();
    assert_eq!(entries.len(), 4);
    assert!(!memtable.is_empty());
}

/// Concurrent writers and readers over many nodes: readers find each record that was inserted
/// before they looked, and cells come in order.
#[test]
fn inserted_cells_are_found_while_nodes_split() {
    let memtable = Arc::new(Memtable::new(1, Chunks::new(0)));
    let done: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    let key = |writer: u64, n: u64| {
        let mut rng = SeededRng::new(n);
        [&(rng.next_u64() >> 50).to_be_bytes()[..], &[writer as u8], &n.to_be_bytes()].concat()
    };
    let limit = scaled(3000, 40);
    thread::scope(|scope| {
        for writer in 0..3 {
            let (memtable, done) = (Arc::clone(&memtable), &done);
            scope.spawn(move || {
                for n in 1..=limit {
                    let keys: Vec<_> = (0..3).map(|part| key(writer, n * 3 + part)).collect();
                    let cells = keys.iter().map(|key| CellRef {
                        key,
                        payload: Some(&b"payload"[..]),
                        expiry: None,
                    });
                    memtable.insert(time(n), time(n + 1), cells);
                    done[writer as usize].store(n, Ordering::Release);
                }
            });
        }
        for seed in 0..2 {
            let (memtable, done) = (Arc::clone(&memtable), &done);
            scope.spawn(move || {
                let mut rng = SeededRng::new(seed);
                while done.iter().any(|done| done.load(Ordering::Acquire) < limit) {
                    let writer = rng.below(3);
                    let upto = done[writer as usize].load(Ordering::Acquire);
                    let n = (1 + rng.below(upto.max(1))) * 3 + rng.below(3);
                    if upto > 0 {
                        assert!(memtable.get(&key(writer, n), time(limit + 1)).is_some());
                    }
                    let bounds = (Bytes::new(), Bytes::from_static(&[0xff; 20]));
                    let reverse = rng.chance(500);
                    let mut cursor =
                        MemtableCursor::new(Arc::clone(&memtable), bounds, time(limit), reverse);
                    let mut last: Option<Vec<u8>> = None;
                    for _ in 0..300 {
                        let Some(key) = cursor.peek_key() else { break };
                        if let Some(last) = &last {
                            assert_eq!(key > &last[..], !reverse);
                        }
                        last = Some(key.to_vec());
                        cursor.advance();
                    }
                }
            });
        }
    });
    let mut count = 0;
    let _ = memtable.try_for_each(|_, _| {
        count += 1;
        Ok::<_, ()>(())
    });
    assert_eq!(count, 3 * 3 * limit);
}

#[test]
#[cfg_attr(miri, ignore = "megabytes are too many")]
fn chunks_of_dropped_memtable_are_reused() {
    let chunks = Chunks::new(9 << 20);
    let fill = |megabytes: u64| {
        let memtable = Memtable::new(1, chunks.clone());
        for commit in 1..=megabytes {
            let key = commit.to_be_bytes();
            let cell = CellRef { key: &key, expiry: None, payload: Some(&[7; 1 << 20]) };
            memtable.insert(time(commit), time(commit), std::iter::once(cell));
        }
        memtable
    };
    let first = fill(40);
    assert_eq!(chunks.bytes(), 0);
    drop(first);
    let kept = chunks.bytes();
    assert!((4 << 20..=9 << 20).contains(&kept), "{kept}: no more than is allowed");
    let third = fill(40);
    assert!(chunks.bytes() < kept);
    let mut seen = 0;
    let visit = |key: &[u8], version: VersionRef<'_>| -> Result<(), ()> {
        seen += 1;
        assert_eq!((key, version.start), (&u64::to_be_bytes(seen)[..], time(seen)));
        assert!(version.payload.is_some_and(|payload| payload == [7; 1 << 20]));
        Ok(())
    };
    third.try_for_each(visit).unwrap();
    assert_eq!(seen, 40);
}

/// Records of the size of a chunk or larger have chunks of arbitrary size.
#[test]
#[cfg_attr(miri, ignore = "megabytes are too many")]
fn pooled_chunks_that_do_not_fit_are_freed() {
    let chunks = Chunks::new(16 << 20);
    let fill = |payload: &[u8]| {
        let memtable = Memtable::new(1, chunks.clone());
        for commit in 1..=4_u64 {
            let key = commit.to_be_bytes();
            let cell = CellRef { key: &key, expiry: None, payload: Some(payload) };
            memtable.insert(time(commit), time(commit), std::iter::once(cell));
        }
        memtable
    };
    drop(fill(&vec![7; 4 << 20]));
    let kept = chunks.bytes();
    assert!(kept > 8 << 20, "{kept}");
    let next = fill(&vec![7; 3 << 20]);
    let (taken, kept_now) = (next.memory_bytes(), chunks.bytes());
    assert!(kept_now + taken <= kept.max(taken), "{taken} taken beside {kept_now} of {kept} kept");
}

/// Run with `cargo test --release -p carnet-storage --lib time_of_a_walk -- --ignored --nocapture`.
#[test]
#[ignore = "it measures"]
fn time_of_a_walk() {
    use carnet_base::{Clock, SystemClock};
    let mut rng = SeededRng::new(1);
    let memtable = Memtable::new(0, Chunks::new(0));
    let mut cells = 0_u64;
    for commit in 1..=50_000 {
        let keys: Vec<Vec<u8>> = (0..8)
            .map(|_| [rng.next_u64(), rng.next_u64(), 0].map(u64::to_be_bytes).concat())
            .collect();
        let payload = [7; 100];
        let changes = keys.iter().map(|key| CellRef { key, expiry: None, payload: Some(&payload) });
        memtable.insert(time(commit), time(commit), changes);
        cells += 8;
    }
    for _ in 0..5 {
        let mut bytes = 0;
        let began = SystemClock.now();
        let visit = |key: &[u8], version: VersionRef<'_>| -> Result<(), ()> {
            bytes += key.len() + version.payload.map_or(0, |payload| usize::from(payload[99]));
            Ok(())
        };
        memtable.try_for_each(visit).unwrap();
        let nanos = SystemClock.now().since(began).as_nanos();
        println!("{cells} cells: {} ns each ({bytes})", nanos / u128::from(cells));
    }
}
