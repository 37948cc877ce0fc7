//! Power failures at any operation: acknowledged appends survive, and garbage can be removed.

use std::env;
use std::sync::Arc;

use carnet_base::{Error, ErrorKind, Rng, SeededRng, block_on};
use carnet_storage::disk::sim::{Kind, SimDisk};

use crate::support::{append, list, small, tree, try_tree};

const KEYS: u64 = 40;

/// Appends numbers until an error, and returns the acknowledged ones with the last, which may have
/// taken effect.
fn appends(disk: &SimDisk, seed: u64, count: u64) -> (Vec<u64>, Option<(u64, Error)>) {
    let mut acknowledged = Vec::new();
    let tree = match try_tree(Arc::new(disk.clone()), seed, quick()) {
        Ok((tree, _)) => tree,
        Err(error) => return (acknowledged, Some((0, error))),
    };
    for number in 1..=count {
        match append(&tree, number % KEYS, number) {
            Ok(()) => acknowledged.push(number),
            Err(error) => return (acknowledged, Some((number, error))),
        }
    }
    (acknowledged, None)
}

/// Options that give up at the first error.
fn quick() -> carnet_tree_local::Options {
    carnet_tree_local::Options { retry_timeout: std::time::Duration::ZERO, ..small() }
}

/// Checks that the lists contain the acknowledged numbers, and perhaps the last one.
fn check(disk: &SimDisk, acknowledged: &[u64], last: Option<u64>, case: &str) {
    let (tree, store) = tree(Arc::new(disk.clone()), 1 << 40, small());
    let whole = |case: &str| {
        for key in 0..KEYS {
            let mut found = list(&tree, key).unwrap_or_else(|error| panic!("{case}: {error}"));
            found.retain(|number| Some(*number) != last);
            let want = acknowledged.iter().copied().filter(|number| number % KEYS == key);
            assert_eq!(found, want.collect::<Vec<_>>(), "{case}, key {key}");
        }
    };
    whole(case);
    block_on(store.collect()).unwrap();
    let after = block_on(store.inspect()).unwrap();
    assert_eq!((after.garbage, after.pending), (0, 0), "{case}");
    // Only garbage was removed: a tree without a cache finds all keys.
    let (fresh, _) = crate::support::tree(Arc::new(disk.clone()), 1 << 41, small());
    append(&fresh, KEYS, 1).unwrap();
    whole(case);
}

fn seeds() -> std::ops::Range<u64> {
    let only = env::var("CARNET_SEED").ok().and_then(|seed| seed.parse().ok());
    only.map_or(0..60, |seed: u64| seed..seed + 1)
}

#[test]
fn acknowledged_appends_survive_a_power_failure() {
    const COUNT: u64 = 60;
    let whole = SimDisk::new(0);
    assert!(appends(&whole, 1, COUNT).1.is_none());
    let operations = whole.operations();
    assert!(whole.count(Kind::Rename) > COUNT / 2 && whole.count(Kind::Create) > COUNT);
    for seed in seeds() {
        let mut rng = SeededRng::new(seed);
        let disk = SimDisk::new(seed);
        let at = 1 + rng.below(operations);
        disk.halt_at(at);
        let (acknowledged, last) = appends(&disk, 1, COUNT);
        let crashed = disk.crash(&mut rng);
        let last = last.map(|(number, _)| number);
        check(&crashed, &acknowledged, last, &format!("CARNET_SEED={seed}, operation {at}"));
    }
}

/// A process dies between the rename of the root and the sync, and the power fails later: another
/// process must not have returned the move.
#[test]
fn read_root_survives_a_power_failure() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let (acknowledged, _) = appends(&disk, 1, 5);
        let syncs = disk.count(Kind::SyncDirectory);
        let renames = disk.count(Kind::Rename);
        // The sync after the next rename does not happen.
        let mut next = syncs + 1;
        loop {
            let copy = disk.kill();
            copy.fail_nth(Kind::SyncDirectory, next, std::io::ErrorKind::Other);
            drop(appends(&copy, 2, 1));
            if copy.count(Kind::Rename) > renames {
                let killed = copy.kill();
                let (reader, _) = tree(Arc::new(killed.clone()), 3, small());
                let seen = list(&reader, 1).unwrap();
                let crashed = killed.crash(&mut SeededRng::new(seed));
                let (after, _) = tree(Arc::new(crashed.clone()), 4, small());
                assert_eq!(list(&after, 1).unwrap(), seen, "seed {seed}");
                assert!(seen.len() > usize::from(acknowledged.contains(&1)), "{seen:?}");
                break;
            }
            next += 1;
        }
    }
}

/// After a failed sync, a later one that succeeds proves nothing.
#[test]
fn failed_sync_ends_the_handle() {
    for kind in [Kind::Sync, Kind::SyncDirectory] {
        let disk = SimDisk::new(3);
        let (tree, _) = tree(Arc::new(disk.clone()), 1, quick());
        append(&tree, 0, 1).unwrap();
        disk.fail_all(Some((kind, std::io::ErrorKind::Other.into())));
        let mut failed = append(&tree, 0, 2);
        assert!(failed.is_err());
        disk.fail_all(None);
        if kind == Kind::SyncDirectory {
            failed = append(&tree, 0, 3);
            let error = failed.unwrap_err().to_string();
            assert!(
                error.contains("open it again") || error.contains("open the directory again"),
                "{error}"
            );
        }
        let crashed = disk.crash(&mut SeededRng::new(5));
        let (after, _) = crate::support::tree(Arc::new(crashed.clone()), 2, small());
        assert!(list(&after, 0).unwrap().contains(&1));
    }
}

#[test]
fn full_disk_is_a_definite_failure() {
    let disk = SimDisk::new(3);
    let (tree, _) = tree(Arc::new(disk.clone()), 1, quick());
    append(&tree, 0, 1).unwrap();
    disk.full_from(disk.operations());
    let error = append(&tree, 0, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("nothing was written"), "{error}");
    disk.free_space();
    append(&tree, 0, 3).unwrap();
    assert_eq!(list(&tree, 0).unwrap(), [1, 3]);
}
