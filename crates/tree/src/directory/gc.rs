//! Which nodes of a directory may go, and their removal.
//!
//! A node goes when no root can come to reach it any more. The current root does not, and is made
//! durable first, so that no loss of power brings back an older one that does. So none that
//! descends from it does, unless somebody links the node anew, and only its maker could: whoever
//! else names it read it in a root that reaches it, and his move of that root is lost.
//! The maker cannot either when
//!
//! * a later attempt of his has moved the root, by the root's own history: he makes one attempt
//!   after the other; or
//! * his process has ended: nobody holds the lock that he held from before his first node on.
//!
//! A reader that is still at an older root finds a node missing, reads the root again, and begins
//! anew there.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry as MapEntry};
use std::sync::Mutex;

use carnet_base::{Error, Result};

use super::files::{Files, Lock};
use super::{GC_LOCK, NODE, ROOT, State, WRITER, during, sync, writer_lock};
use crate::id::{NodeId, TransactorId};
use crate::node::{Node, Stored};
use crate::root::Root;

/// What a garbage collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Nodes that the root reaches.
    pub reachable: usize,
    /// Nodes that were removed.
    pub removed: usize,
    /// Nodes that no root reaches, yet whose makers may still link them.
    pub spared: usize,
}

pub(super) fn collect(files: &dyn Files, state: &Mutex<State>) -> Result<Collected> {
    let lock = files.try_lock(GC_LOCK).map_err(during("lock the directory"))?;
    let _lock = lock.ok_or_else(|| {
        Error::unavailable("another process collects garbage or opens the tree: try again later")
    })?;
    // In this order: what is made from here on is not in the list, and whoever has ended by then
    // has moved the root that is read after it for the last time.
    let names = files.list().map_err(during("list the directory"))?;
    let mut writers: BTreeMap<TransactorId, Option<Lock>> = BTreeMap::new();
    for transactor in names.iter().filter_map(|name| writer_of(name)) {
        let lock = files.try_lock(&writer_lock(transactor)).map_err(during("lock a writer"))?;
        writers.insert(transactor, lock);
    }
    let bytes = files.read(ROOT).map_err(during("read the root"))?;
    let root = bytes.as_ref().map_or_else(|| Ok(Root::default()), Root::decode)?;
    // A loss of power must not bring back a root before this one, whose nodes go now.
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

/// Returns every node that a root reaches.
fn mark(files: &dyn Files, root: &Root) -> Result<BTreeSet<NodeId>> {
    let mut reached: BTreeMap<NodeId, ()> = BTreeMap::new();
    let mut next: Vec<NodeId> = root.below.top.iter().map(|top| top.id).collect();
    next.extend(root.below.run);
    // Values have nothing below them: they are not read.
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
            Error::corrupted(format!("node {id} is lost; no garbage was collected"))
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
