//! Tests of the tree alone, with small nodes, so that few cells make many levels.
#![expect(clippy::cast_possible_truncation, reason = "a test draws small numbers")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use carnet_base::{Rng, SeededRng};

use super::*;

type Small = Tree<4>;

/// Number of iterations: fewer under Miri, which is a thousand times slower.
const fn scaled(times: u64, under_miri: u64) -> u64 {
    if cfg!(miri) { under_miri } else { times }
}

fn time(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

fn put(tree: &Small, commit: u64, keys: &[Vec<u8>]) {
    let cells = keys.iter().map(|key| CellRef { key, payload: Some(key), expiry: None });
    tree.insert(time(commit), time(commit), cells);
}

fn forward(tree: &Small, from: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    assert!(tree.walk(from, |key, _| {
        keys.push(key.to_vec());
        true
    }));
    keys
}

fn backward(tree: &Small, to: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    assert!(tree.walk_back(to, |key, _| {
        keys.push(key.to_vec());
        true
    }));
    keys
}

/// Keys in random, rising or falling order; with a prefix shared by all keys, by some, or that
/// grows.
fn key(rng: &mut SeededRng, shape: u64, n: u64) -> Vec<u8> {
    match shape {
        0 => rng.next_u64().to_be_bytes()[..1 + rng.below(8) as usize].to_vec(),
        1 => [&b"all of them share this"[..], &n.to_be_bytes()].concat(),
        2 => [&b"falling"[..], &(u64::MAX - n).to_be_bytes()].concat(),
        3 => vec![[0, 255][rng.below(2) as usize]; rng.below(40) as usize],
        4 => [&vec![7; n as usize / 10][..], &rng.next_u64().to_be_bytes()].concat(),
        _ => [&(n / 16).to_be_bytes()[..], b"row", &rng.below(50).to_be_bytes()].concat(),
    }
}

#[test]
fn cells_come_in_order_for_all_key_shapes() {
    for seed in 0..scaled(120, 6) {
        let mut rng = SeededRng::new(seed);
        let (tree, mut model) = (Small::new(Chunks::new(0)), BTreeMap::new());
        let shape = seed % 6;
        for n in 0..scaled(200, 12) {
            let mut keys: Vec<_> = (0..rng.below(20)).map(|_| key(&mut rng, shape, n)).collect();
            keys.dedup();
            put(&tree, n + 1, &keys);
            model.extend(keys.into_iter().map(|key| (key, n + 1)));
        }
        let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
        assert_eq!(forward(&tree, None), keys, "seed {seed}");
        assert!(backward(&tree, None).iter().rev().eq(&keys), "seed {seed}");
        for n in 0..scaled(60, 12) {
            let other = rng.below(6);
            let bound = key(&mut rng, other, n);
            let at = keys.partition_point(|key| *key < bound);
            assert_eq!(forward(&tree, Some(&bound)), keys[at..], "seed {seed}");
            assert!(backward(&tree, Some(&bound)).iter().rev().eq(&keys[..at]), "seed {seed}");
            let found = tree.get(&bound, Timestamp::MAX, |version| version.commit.get());
            assert_eq!(found, model.get(&bound).copied(), "seed {seed}");
        }
    }
}

/// Every kind of search finds each key that was inserted before the search, while nodes split.
#[test]
fn readers_miss_nothing_while_nodes_split() {
    const LIMIT: u64 = scaled(4000, 40);
    for shape in [0, 1, 2] {
        let tree = Small::new(Chunks::new(0));
        let done = AtomicU64::new(0);
        let key = |n: u64| match shape {
            0 => [&b"x"[..], &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat(),
            1 => [&b"rising"[..], &n.to_be_bytes()].concat(),
            _ => [&b"falling"[..], &(u64::MAX - n).to_be_bytes()].concat(),
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..LIMIT {
                    put(&tree, n + 1, &[key(n)]);
                    done.store(n + 1, Ordering::Release);
                }
            });
            // Keys of another writer, between the keys that the readers look for.
            scope.spawn(|| {
                for n in 0..LIMIT {
                    put(&tree, n + 1, &[[&key(n)[..], b"+"].concat()]);
                }
            });
            for reverse in [false, true] {
                let (tree, done) = (&tree, &done);
                scope.spawn(move || {
                    loop {
                        let upto = done.load(Ordering::Acquire);
                        for n in (0..upto).rev().take(20) {
                            let found = tree.get(&key(n), Timestamp::MAX, |found| found.commit);
                            assert_eq!(found, Some(time(n + 1)));
                        }
                        let keys = if reverse { backward(tree, None) } else { forward(tree, None) };
                        assert!(keys.is_sorted_by(|one, next| (one < next) != reverse));
                        let plain = keys.iter().filter(|found| found.len() == key(0).len());
                        assert!(plain.count() as u64 >= upto);
                        if upto == LIMIT {
                            break;
                        }
                    }
                });
            }
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "twenty million bytes are too many")]
fn large_cells_cross_spans() {
    let tree = Small::new(Chunks::new(0));
    let sizes = [1 << 20, 3 << 20, (4 << 20) - 100, 4 << 20, (9 << 20) + 1, 5, 2 << 20];
    for (n, size) in (1..).zip(sizes) {
        let payload: Vec<u8> = (0..size).map(|at: usize| (at / 4096 + n) as u8).collect();
        let cell = CellRef { key: &[n as u8], payload: Some(&payload), expiry: Some(n as u64) };
        let tombstone = CellRef { key: &[n as u8, 0], payload: None, expiry: None };
        tree.insert(time(n as u64), time(n as u64), [cell, tombstone].into_iter());
    }
    for (n, size) in (1..).zip(sizes) {
        let whole = tree.get(&[n as u8], Timestamp::MAX, |version| {
            let payload = version.payload.unwrap();
            payload.len() == size
                && payload.iter().enumerate().all(|(at, byte)| *byte == (at / 4096 + n) as u8)
                && version.expiry == Some(n as u64)
        });
        assert_eq!(whole, Some(true));
        let gone = tree.get(&[n as u8, 0], Timestamp::MAX, |version| version.payload.is_none());
        assert_eq!(gone, Some(true));
    }
}

/// Many trees that grow from their root while readers search for the newest cells.
#[test]
fn newest_cells_are_found_while_root_splits() {
    const LIMIT: u64 = scaled(300, 24);
    let key = |tree: u64, n: u64| {
        let n = if tree.is_multiple_of(2) { n } else { n.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
        [&b"new"[..], &n.to_be_bytes()].concat()
    };
    let trees: Vec<(Small, AtomicU64)> =
        (0..scaled(200, 4)).map(|_| (Small::new(Chunks::new(0)), AtomicU64::new(0))).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for (number, (tree, done)) in (0..).zip(&trees) {
                for n in 0..LIMIT {
                    put(tree, n + 1, &[key(number, n)]);
                    done.store(n + 1, Ordering::Release);
                }
            }
        });
        for reader in 0..3 {
            let trees = &trees;
            scope.spawn(move || {
                for (number, (tree, done)) in (0..).zip(trees) {
                    loop {
                        let upto = done.load(Ordering::Acquire);
                        for n in (0..upto).rev().take(4) {
                            let key = key(number, n);
                            let mut found = None;
                            let mut take = |cell: &[u8], _: Versions<'_>| {
                                found = Some(cell.to_vec());
                                false
                            };
                            match reader {
                                0 => drop(tree.walk(Some(&key), &mut take)),
                                1 => {
                                    let behind = [&key[..], &[0]].concat();
                                    tree.walk_back(Some(&behind), &mut take);
                                }
                                _ => found = tree.get(&key, Timestamp::MAX, |_| key.clone()),
                            }
                            assert_eq!(found, Some(key), "cell {n} of {upto}");
                        }
                        if upto == LIMIT {
                            break;
                        }
                    }
                }
            });
        }
    });
}
