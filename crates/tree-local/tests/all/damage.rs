//! Damaged, missing and foreign files: each is an error that names the file, and never a panic.

use std::sync::Arc;

use carnet_base::{ErrorKind, Rng, SeededRng, block_on};
use carnet_storage::disk::Disk;
use carnet_storage::disk::sim::SimDisk;
use carnet_tree::{NodeId, TransactorId};
use carnet_tree_local::{Directory, NODE_BYTES_MAX};

use crate::support::{append, list, small, tree};

fn filled() -> SimDisk {
    let disk = SimDisk::new(1);
    let (tree, store) = tree(Arc::new(disk.clone()), 1, small());
    for number in 0..100 {
        append(&tree, number % 40, number).unwrap();
    }
    block_on(store.collect()).unwrap();
    disk
}

/// Reads everything; returns the first error.
fn read(disk: &SimDisk) -> carnet_base::Result<()> {
    let (tree, store) = crate::support::try_tree(Arc::new(disk.clone()), 2, small())?;
    (0..40).try_for_each(|key| list(&tree, key).map(drop))?;
    block_on(store.inspect()).map(drop)
}

#[test]
fn every_damaged_byte_is_reported() {
    let whole = filled();
    read(&whole).unwrap();
    let mut rng = SeededRng::new(9);
    for name in whole.list().unwrap() {
        let Some(bytes) = whole.contents(&name).filter(|bytes| !bytes.is_empty()) else { continue };
        for _ in 0..3 {
            let disk = whole.kill();
            let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            disk.rot(&name, at);
            let error = read(&disk).unwrap_err();
            let is_format = name == "tree" && error.kind() == ErrorKind::Invalid;
            assert!(is_format || error.kind() == ErrorKind::Corrupted, "{name} at {at}: {error}");
            assert!(error.to_string().contains(&name), "{name} at {at}: {error}");
        }
    }
}

#[test]
fn missing_and_foreign_nodes_are_reported() {
    let whole = filled();
    let is_node = |name: &String| NodeId::parse(name).is_some();
    let nodes: Vec<String> = whole.list().unwrap().into_iter().filter(is_node).collect();
    assert!(nodes.len() > 5);
    for (name, other) in nodes.iter().zip(nodes.iter().skip(1)) {
        let disk = whole.kill();
        disk.remove(name).unwrap();
        let error = read(&disk).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupted);
        assert!(error.to_string().contains("missing"), "{error}");
        // Garbage collection must not make it worse.
        let store = Directory::open(Arc::new(disk.clone()), TransactorId(5)).unwrap();
        let files = disk.list().unwrap().len();
        let collected = block_on(store.collect());
        assert!(collected.is_err() || disk.list().unwrap().len() >= files, "{collected:?}");
        // Another node has other bytes.
        disk.plant(name, whole.contents(other).unwrap());
        assert_eq!(read(&disk).unwrap_err().kind(), ErrorKind::Corrupted);
    }
}

/// A lost root must not look like an empty tree, whose nodes would be garbage.
#[test]
fn lost_root_is_damage() {
    let disk = filled();
    let files = disk.list().unwrap().len();
    disk.remove("root").unwrap();
    let error = read(&disk).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupted);
    assert!(error.to_string().contains("root is missing"), "{error}");
    let (tree, store) = tree(Arc::new(disk.clone()), 3, small());
    assert!(append(&tree, 0, 1).is_err() && block_on(store.collect()).is_err());
    assert_eq!(disk.list().unwrap().len(), files - 1);
}

/// A transactor may have opened the tree while it was empty.
#[test]
fn root_that_another_moved_is_missed() {
    let disk = SimDisk::new(1);
    let (early, store) = tree(Arc::new(disk.clone()), 1, small());
    append(&tree(Arc::new(disk.clone()), 2, small()).0, 0, 1).unwrap();
    disk.remove("root").unwrap();
    let nodes = || disk.list().unwrap().iter().filter(|name| NodeId::parse(name).is_some()).count();
    let before = nodes();
    assert!(list(&early, 0).unwrap_err().to_string().contains("root is missing"));
    assert!(append(&early, 0, 2).is_err() && block_on(store.collect()).is_err());
    assert_eq!(nodes(), before);
}

#[test]
fn lengths_are_checked_before_memory_is_allocated() {
    let whole = filled();
    let is_node = |name: &String| NodeId::parse(name).is_some();
    let node = whole.list().unwrap().into_iter().find(is_node).unwrap();
    for (name, bytes) in [("root", 4097), ("tree", 1025), (&node, NODE_BYTES_MAX + 1)] {
        let disk = whole.kill();
        let file = disk.open(name).unwrap();
        file.truncate(bytes).unwrap();
        let error = read(&disk).unwrap_err().to_string();
        assert!(error.contains("above the limit") && error.contains(name), "{error}");
        for len in [0, 1, 5] {
            file.truncate(len).unwrap();
            assert!(read(&disk).is_err(), "{name} of {len} bytes");
        }
    }
}

#[test]
fn directory_of_another_program_is_refused() {
    let disk = SimDisk::new(1);
    disk.plant("MANIFEST", b"x".to_vec());
    let error = crate::support::try_tree(Arc::new(disk.clone()), 2, small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("MANIFEST"), "{error}");
    assert_eq!(disk.list().unwrap(), ["MANIFEST"]);
    let empty = SimDisk::new(1);
    let error = Directory::open(Arc::new(empty.clone()), TransactorId(1)).unwrap_err();
    assert!(error.to_string().contains("there is no tree"), "{error}");
    assert!(empty.list().unwrap().is_empty());
    empty.plant("tree", b"carnet tree 2\n".to_vec());
    let error = crate::support::try_tree(Arc::new(empty), 2, small()).unwrap_err().to_string();
    assert!(error.contains("carnet tree 2"), "{error}");
}
