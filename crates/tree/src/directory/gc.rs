//! Garbage collection of nodes.
//!
//! A node is removed when no current or future root can reach it. The current root must not reach
//! it, and is made durable first, so that a loss of power cannot bring back an older root. A
//! descendant of the current root reaches the node only if a transactor links it again, and only
//! its maker can do this: another transactor that links the node has read it in an older root, and
//! its move of that root fails. The maker cannot link it either if
//!
//! * the root's history contains a later attempt of the maker, because a transactor makes one
//!   attempt at a time; or
//! * the maker's process has ended, because the lock that it acquired before its first node is
//!   free.
//!
//! A reader at an older root finds that a node is missing, reads the root again, and restarts
//! there.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry as MapEntry};
use std::sync::Mutex;

use carnet_base::{Error, Result};

use super::files::{Files, Lock};
use super::{GC_LOCK, NODE, ROOT, State, WRITER, during, sync, writer_lock};
use crate::id::{NodeId, TransactorId};
use crate::node::{Node, Stored};
use crate::root::Root;

/// Result of a garbage collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of nodes that the root reaches.
    pub reachable: usize,
    /// Number of removed nodes.
    pub removed: usize,
    /// Number of unreachable nodes that their makers may still link.
    pub spared: usize,
}

pub(super) fn collect(files: &dyn Files, state: &Mutex<State>) -> Result<Collected> {
    let lock = files.try_lock(GC_LOCK).map_err(during("lock the directory"))?;
    let _lock = lock.ok_or_else(|| {
        Error::unavailable("another process collects garbage or opens the tree: try again later")
    })?;
    // The order matters: nodes made after this listing are not in it, and a writer whose lock is
    // free has made its last move before the root is read.
    let names = files.list().map_err(during("list the directory"))?;
    let mut writers: BTreeMap<TransactorId, Option<Lock>> = BTreeMap::new();
    for transactor in names.iter().filter_map(|name| writer_of(name)) {
        let lock = files.try_lock(&writer_lock(transactor)).map_err(during("lock a writer"))?;
        writers.insert(transactor, lock);
    }
    let bytes = files.read(ROOT).map_err(during("read the root"))?;
    let root = bytes.as_ref().map_or_else(|| Ok(Root::default()), Root::decode)?;
    // A loss of power must not bring back an earlier root, because its nodes are removed now.
    sync(files, state)?;
    let reachable = mark(files, &root)?;
    let mut collected = Collected { reachable: reachable.len(), ..Collected::default() };
    for id in names.iter().filter_map(|name| NodeId::parse(name.strip_prefix(NODE)?)) {
        if reachable.contains(&id) {
            continue;
        }
        let is_alive = matches!(writers.get(&id.transactor), Some(None));
        if is_alive && root.last_attempt(id.transactor).is_none_or(|last| last < id.attempt()) {
            collected.spared += 1;
            continue;
        }
        files.remove(&format!("{NODE}{id}")).map_err(during("remove a node"))?;
        collected.removed += 1;
    }
    for (transactor, _lock) in writers.into_iter().filter(|(_, lock)| lock.is_some()) {
        files.remove(&writer_lock(transactor)).map_err(during("remove a writer's lock"))?;
    }
    Ok(collected)
}

fn writer_of(name: &str) -> Option<TransactorId> {
    let digits = name.strip_prefix(WRITER)?;
    let transactor = TransactorId(u64::from_str_radix(digits, 16).ok()?);
    (writer_lock(transactor) == name).then_some(transactor)
}

/// Returns all nodes that a root reaches.
fn mark(files: &dyn Files, root: &Root) -> Result<BTreeSet<NodeId>> {
    let mut reached: BTreeMap<NodeId, ()> = BTreeMap::new();
    let mut next: Vec<NodeId> = root.below.top.iter().map(|top| top.id).collect();
    next.extend(root.below.run);
    // Values have no children, so they are not read.
    let mut values = BTreeSet::new();
    let mut add_value = |stored: Option<&Stored>| match stored {
        Some(Stored::Node(id)) => drop(values.insert(*id)),
        Some(Stored::Inline(_)) | None => {}
    };
    root.buffer.iter().for_each(|write| add_value(write.stored.as_ref()));
    while let Some(id) = next.pop() {
        let MapEntry::Vacant(place) = reached.entry(id) else { continue };
        place.insert(());
        let bytes = files.read(&format!("{NODE}{id}")).map_err(during("read a node"))?;
        let bytes = bytes.ok_or_else(|| {
            Error::corrupted(format!("node {id} is missing: no garbage was collected"))
        })?;
        match Node::decode(id, &bytes)? {
            Node::Inner(children) => next.extend(children.iter().map(|(_, child)| child.id)),
            Node::Leaf(entries) => {
                entries.iter().for_each(|entry| add_value(Some(&entry.stored)));
            }
            Node::Run(writes) => {
                writes.iter().for_each(|write| add_value(write.stored.as_ref()));
            }
            Node::Value(_) => {}
        }
    }
    Ok(reached.into_keys().chain(values).collect())
}
