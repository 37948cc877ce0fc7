//! Garbage collection beside open and ended transactors.

use std::sync::Arc;

use carnet_base::{Bytes, block_on};
use carnet_storage::disk::sim::SimDisk;
use carnet_storage::disk::{Backend, Disk, RealDisk};
use carnet_tree::{Attempt, NodeId, NodeStore, TransactorId};
use carnet_tree_local::{Collected, Directory};

use crate::support::{append, list, small, tree};

fn node(transactor: u64, attempt: u64) -> NodeId {
    NodeId::new(TransactorId(transactor), Attempt(attempt), 0).unwrap()
}

fn store(disk: &SimDisk, transactor: u64) -> Directory {
    Directory::create(Arc::new(disk.clone()), TransactorId(transactor)).unwrap()
}

fn exists(disk: &SimDisk, id: NodeId) -> bool {
    disk.exists(&id.to_string()).unwrap()
}

#[test]
fn nodes_of_open_transactors_stay() {
    let disk = SimDisk::new(1);
    let (open, ended, collector) = (store(&disk, 7), store(&disk, 8), store(&disk, 9));
    for (store, id) in [(&open, node(7, 1)), (&ended, node(8, 1))] {
        block_on(store.put(id, Bytes::from_static(b"x"))).unwrap();
    }
    drop(ended);
    let collected = block_on(collector.collect()).unwrap();
    let want = Collected { kept: 0, pending: 1, removed: 1, removed_bytes: 1 };
    assert_eq!(collected, want);
    assert!(exists(&disk, node(7, 1)) && !exists(&disk, node(8, 1)));
    drop(open);
    assert_eq!(block_on(collector.collect()).unwrap().removed, 1);
}

/// The root shows which of its attempts an open transactor has ended.
#[test]
fn replaced_nodes_of_an_open_transactor_are_removed() {
    let disk = SimDisk::new(1);
    let (tree, store) = tree(Arc::new(disk.clone()), 1, small());
    for number in 0..300 {
        append(&tree, number % 20, number).unwrap();
    }
    let before = disk.list().unwrap().len();
    let collected = block_on(store.collect()).unwrap();
    assert!(collected.removed > 100 && collected.pending < 10, "{collected:?}");
    assert!(disk.list().unwrap().len() < before / 4);
    append(&tree, 0, 300).unwrap();
    assert_eq!(list(&tree, 0).unwrap().len(), 16);
}

#[test]
fn file_of_a_killed_process_is_removed() {
    let disk = SimDisk::new(1);
    let killed = store(&disk, 7);
    block_on(killed.put(node(7, 1), Bytes::from_static(b"x"))).unwrap();
    let disk = disk.kill();
    let is_writer = |name: &String| name.starts_with("writer-");
    assert!(disk.list().unwrap().iter().any(is_writer));
    assert_eq!(block_on(store(&disk, 8).collect()).unwrap().removed, 1);
    assert!(!disk.list().unwrap().iter().any(is_writer));
}

/// Writers, readers and garbage collection at once, on files of the operating system.
#[test]
fn collection_beside_writers_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let open = |seed| {
        let spawn = Arc::new(carnet_base::ThreadSpawn);
        let disk = Arc::new(RealDisk::open_with(folder.path(), Backend::Inline, spawn).unwrap());
        tree(disk, seed, small())
    };
    std::thread::scope(|scope| {
        for writer in 0..3_u64 {
            scope.spawn(move || {
                let (tree, _) = open(writer);
                for number in 0..25 {
                    append(&tree, number % 10, writer * 1000 + number).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let (_, store) = open(100);
            for _ in 0..20 {
                block_on(store.collect()).unwrap();
            }
        });
    });
    let (tree, store) = open(200);
    let found: usize = (0..10).map(|key| list(&tree, key).unwrap().len()).sum();
    assert_eq!(found, 75);
    block_on(store.collect()).unwrap();
    let after = block_on(store.inspect()).unwrap();
    assert_eq!((after.keys, after.garbage, after.pending, after.generation), (10, 0, 0, 75));
}
