//! The tree: lookups and edits. No I/O.
//!
//! A node at depth *d* divides keys by the *d*-th 5 bits of their hash. A leaf above its limit
//! becomes an inner node with leaves; an inner node with only one leaf becomes that leaf again. So
//! the depth is about log₃₂ of the number of leaves for all keys, and a change rewrites one node
//! per level and shares all others with the old tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet_base::{Bytes, Error, Result, murmur3};

use crate::id::{Attempt, NodeId, TransactorId};
use crate::node::{Entry, FAN, Node, Pointer, Stored, Write};
use crate::root::{Below, Root};

const BITS: u32 = FAN.trailing_zeros();
/// At this depth, all bits of the hash are used, and any number of keys share a leaf.
const DEPTH_MAX: u32 = u64::BITS / BITS;

pub(crate) fn hash(key: &[u8]) -> u64 {
    murmur3::token(key).0.cast_unsigned()
}

fn slot(hash: u64, depth: u32) -> u8 {
    let bits = hash >> (u64::BITS - BITS * (depth + 1));
    u8::try_from(bits % u64::from(FAN)).expect("it is below the fan")
}

/// Nodes that a batch has read. `None` is a missing node that the options treat as empty.
#[derive(Default)]
pub(crate) struct Nodes(BTreeMap<NodeId, Option<Arc<Node>>>);

impl Nodes {
    pub(crate) fn insert(&mut self, id: NodeId, node: Option<Arc<Node>>) {
        self.0.insert(id, node);
    }
}

/// Result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Value(Option<Bytes>),
    /// This node has to be read first.
    Needs(NodeId),
}

/// Looks up a key.
///
/// # Errors
///
/// `Corrupted` if the nodes are not a tree.
pub(crate) fn find(root: &Root, nodes: &Nodes, key: &[u8]) -> Result<Found> {
    let buffered = root.buffer.iter().find(|write| write.key == key);
    let step = match buffered {
        Some(write) => Step::At(write.stored.clone()),
        None => look_below(root.below, nodes, key)?,
    };
    let stored = match step {
        Step::Needs(id) => return Ok(Found::Needs(id)),
        Step::At(stored) => stored,
    };
    let id = match stored {
        None => return Ok(Found::Value(None)),
        Some(Stored::Inline(value)) => return Ok(Found::Value(Some(value))),
        Some(Stored::Node(id)) => id,
    };
    match nodes.0.get(&id) {
        None => Ok(Found::Needs(id)),
        Some(None) => Ok(Found::Value(None)),
        Some(Some(node)) => match &**node {
            Node::Value(value) => Ok(Found::Value(Some(value.clone()))),
            _ => Err(Error::corrupted(format!("node {id} is not a value"))),
        },
    }
}

/// Returns the node that has to be read next before a key can be changed in the tree, if any.
pub(crate) fn needs(top: Option<Pointer>, nodes: &Nodes, key: &[u8]) -> Result<Option<NodeId>> {
    Ok(match descend(top, nodes, key)? {
        Step::Needs(id) => Some(id),
        Step::At(_) => None,
    })
}

enum Step {
    Needs(NodeId),
    At(Option<Stored>),
}

/// Returns the writes of the run; `None` if it has to be read first.
pub(crate) fn run(id: Option<NodeId>, nodes: &Nodes) -> Result<Option<&[Write]>> {
    match id.map(|id| nodes.0.get(&id).map(Option::as_deref)) {
        // No run, or a missing run that is treated as empty.
        None | Some(Some(None)) => Ok(Some(&[])),
        Some(None) => Ok(None),
        Some(Some(Some(Node::Run(writes)))) => Ok(Some(writes)),
        Some(Some(Some(_))) => Err(Error::corrupted("the node of the run is of another kind")),
    }
}

fn look_below(below: Below, nodes: &Nodes, key: &[u8]) -> Result<Step> {
    if let Some(id) = below.run {
        let Some(writes) = run(below.run, nodes)? else { return Ok(Step::Needs(id)) };
        if let Ok(place) = writes.binary_search_by(|write| write.key.as_ref().cmp(key)) {
            return Ok(Step::At(writes[place].stored.clone()));
        }
    }
    descend(below.top, nodes, key)
}

fn descend(top: Option<Pointer>, nodes: &Nodes, key: &[u8]) -> Result<Step> {
    let hash = hash(key);
    let mut at = top;
    for depth in 0..=DEPTH_MAX {
        let Some(pointer) = at else { return Ok(Step::At(None)) };
        let Some(node) = nodes.0.get(&pointer.id) else { return Ok(Step::Needs(pointer.id)) };
        match node.as_deref() {
            None => return Ok(Step::At(None)),
            Some(Node::Leaf(entries)) => {
                let place = entries.binary_search_by(|entry| entry.key.as_ref().cmp(key));
                return Ok(Step::At(place.ok().map(|place| entries[place].stored.clone())));
            }
            Some(Node::Inner(children)) if depth < DEPTH_MAX => {
                at = child(children, slot(hash, depth));
            }
            Some(_) => break,
        }
    }
    Err(not_a_tree())
}

fn not_a_tree() -> Error {
    Error::corrupted("the tree contains a node of another kind, or is too deep")
}

fn child(children: &[(u8, Pointer)], slot: u8) -> Option<Pointer> {
    let place = children.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
    Some(children[place].1)
}

/// New nodes to put.
pub(crate) type Made = Vec<(NodeId, Arc<Node>)>;

/// Makes the nodes of one attempt, and assigns their ids.
pub(crate) struct Maker {
    transactor: TransactorId,
    attempt: Attempt,
    made: Made,
}

impl Maker {
    pub(crate) const fn new(transactor: TransactorId, attempt: Attempt) -> Self {
        Self { transactor, attempt, made: Vec::new() }
    }

    /// Adds a node.
    ///
    /// # Errors
    ///
    /// `Invalid` if the attempt makes too many nodes.
    pub(crate) fn make(&mut self, node: Node) -> Result<NodeId> {
        let index = u32::try_from(self.made.len()).ok();
        let id = index.and_then(|index| NodeId::new(self.transactor, self.attempt, index));
        let id = id.ok_or_else(|| {
            Error::invalid("a transaction changes too many keys: split it into smaller ones")
        })?;
        self.made.push((id, Arc::new(node)));
        Ok(id)
    }

    pub(crate) fn finish(self) -> Made {
        self.made
    }
}

/// A change of one key.
struct Change {
    hash: u64,
    key: Bytes,
    stored: Option<Stored>,
}

/// Applies changes to a tree: makes the new nodes, and returns the new top.
pub(crate) struct Editor<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) maker: &'a mut Maker,
    /// Larger leaves are split if the hashes of their keys differ.
    pub(crate) leaf_bytes_max: usize,
}

impl Editor<'_> {
    /// Applies writes of different keys. The nodes on their paths must have been read.
    pub(crate) fn apply(
        &mut self,
        top: Option<Pointer>,
        writes: Vec<Write>,
    ) -> Result<Option<Pointer>> {
        let change =
            |write: Write| Change { hash: hash(&write.key), key: write.key, stored: write.stored };
        let mut changes: Vec<Change> = writes.into_iter().map(change).collect();
        changes.sort_unstable_by(|a, b| (a.hash, &a.key).cmp(&(b.hash, &b.key)));
        self.edit(top, 0, &changes)
    }

    fn edit(
        &mut self,
        at: Option<Pointer>,
        depth: u32,
        changes: &[Change],
    ) -> Result<Option<Pointer>> {
        let node = at.and_then(|pointer| {
            self.nodes.0.get(&pointer.id).expect("the path of every change was read").clone()
        });
        match node.as_deref() {
            None => self.edit_leaf(None, &[], depth, changes),
            Some(Node::Leaf(entries)) => self.edit_leaf(at, entries, depth, changes),
            Some(Node::Inner(children)) => self.edit_inner(at, children, depth, changes),
            Some(Node::Value(_) | Node::Run(_)) => Err(not_a_tree()),
        }
    }

    fn edit_leaf(
        &mut self,
        at: Option<Pointer>,
        entries: &[Entry],
        depth: u32,
        changes: &[Change],
    ) -> Result<Option<Pointer>> {
        let mut merged: BTreeMap<Bytes, Stored> =
            entries.iter().map(|entry| (entry.key.clone(), entry.stored.clone())).collect();
        let mut differs = false;
        for change in changes {
            let before = match &change.stored {
                Some(stored) => merged.insert(change.key.clone(), stored.clone()),
                None => merged.remove(&change.key),
            };
            differs |= before != change.stored;
        }
        if !differs {
            return Ok(at);
        }
        let entries = merged.into_iter().map(|(key, stored)| Entry { key, stored }).collect();
        self.build(entries, depth)
    }

    fn edit_inner(
        &mut self,
        at: Option<Pointer>,
        children: &[(u8, Pointer)],
        depth: u32,
        changes: &[Change],
    ) -> Result<Option<Pointer>> {
        let mut edited: BTreeMap<u8, Pointer> = children.iter().copied().collect();
        let mut differs = false;
        for group in changes.chunk_by(|a, b| slot(a.hash, depth) == slot(b.hash, depth)) {
            let slot = slot(group[0].hash, depth);
            let before = edited.remove(&slot);
            let after = self.edit(before, depth + 1, group)?;
            differs |= before != after;
            edited.extend(after.map(|after| (slot, after)));
        }
        if differs { self.inner(edited) } else { Ok(at) }
    }

    /// Makes a leaf of entries in key order, or a tree if they are too large for one leaf.
    fn build(&mut self, entries: Vec<Entry>, depth: u32) -> Result<Option<Pointer>> {
        let bytes: usize = entries.iter().map(Entry::encoded_len).sum();
        if entries.is_empty() {
            return Ok(None);
        }
        if bytes <= self.leaf_bytes_max || depth == DEPTH_MAX || entries.len() == 1 {
            let id = self.maker.make(Node::Leaf(entries))?;
            return Ok(Some(Pointer { id, is_leaf: true }));
        }
        let mut groups: BTreeMap<u8, Vec<Entry>> = BTreeMap::new();
        for entry in entries {
            groups.entry(slot(hash(&entry.key), depth)).or_default().push(entry);
        }
        let mut children = BTreeMap::new();
        for (slot, group) in groups {
            children.extend(self.build(group, depth + 1)?.map(|child| (slot, child)));
        }
        self.inner(children)
    }

    fn inner(&mut self, children: BTreeMap<u8, Pointer>) -> Result<Option<Pointer>> {
        match children.first_key_value() {
            None => Ok(None),
            Some((_, only)) if children.len() == 1 && only.is_leaf => Ok(Some(*only)),
            Some(_) => {
                let id = self.maker.make(Node::Inner(children.into_iter().collect()))?;
                Ok(Some(Pointer { id, is_leaf: false }))
            }
        }
    }
}
