//! Looks at a whole directory.

use std::collections::BTreeMap;

use carnet_base::{Bytes, Result};
use carnet_tree::{Move, Node, Root, Write};

use crate::collect::{Names, Writer, may_be_needed};
use crate::directory::{Directory, GC_LOCK};
use crate::walk::{Visited, walk};

/// Contents of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    /// Number of moves of the root.
    pub generation: u64,
    /// Length of the root, in bytes.
    pub root_bytes: u64,
    /// Number of writes in the root.
    pub buffered: u64,
    /// Number of writes in the run.
    pub in_run: u64,
    /// Last moves of the last transactors, ascending by generation.
    pub history: Vec<Move>,
    /// Number of keys.
    pub keys: u64,
    /// Number of inner nodes.
    pub inner: u64,
    /// Number of leaves.
    pub leaves: u64,
    /// Number of nodes with one value each.
    pub values: u64,
    /// Maximum number of nodes on the path to a key.
    pub depth: u64,
    /// Total size of the inner nodes, leaves, run and values, in bytes.
    pub bytes: u64,
    /// Number of nodes that garbage collection would remove.
    pub garbage: u64,
    /// Number of unreachable nodes of open transactors.
    pub pending: u64,
    /// Number of open transactors that have put nodes.
    pub writers: u64,
}

impl Directory {
    /// Reads the newest root and all nodes below it, checks them, and counts the others. Garbage
    /// collection waits meanwhile; transactors do not. Its memory grows by some 100 bytes for each
    /// node.
    ///
    /// # Errors
    ///
    /// `Corrupted` if a node below the root is missing or damaged; `Unavailable`.
    pub async fn inspect(&self) -> Result<Inspected> {
        let _lock = self.wait_for(GC_LOCK)?;
        let names = Names::read(self)?;
        let writers = self.writers(&names)?;
        let (bytes, root) = self.newest()?;
        let mut found = Inspected::of_root(bytes.as_ref(), &root);
        let mut keys = Keys::default();
        keys.overlay(&root.buffer);
        let reached = walk(self, &root, true, |visited| {
            found.count(visited);
            keys.visit(&visited.node);
        });
        let reached = reached.await?;
        found.keys = keys.finish();
        for id in names.nodes.iter().filter(|id| !reached.contains(id)) {
            if may_be_needed(*id, &root, &writers) {
                found.pending += 1;
            } else {
                found.garbage += 1;
            }
        }
        let is_open = |writer: &&Writer| matches!(writer, Writer::Open);
        found.writers = writers.values().filter(is_open).count() as u64;
        Ok(found)
    }
}

impl Inspected {
    fn of_root(bytes: Option<&Bytes>, root: &Root) -> Self {
        Self {
            generation: root.generation(),
            root_bytes: bytes.map_or(0, |bytes| bytes.len() as u64),
            buffered: root.buffer.len() as u64,
            history: root.history.clone(),
            ..Self::default()
        }
    }

    fn count(&mut self, visited: &Visited) {
        self.bytes += visited.bytes;
        match &visited.node {
            Node::Inner(_) => self.inner += 1,
            Node::Leaf(_) => {
                self.leaves += 1;
                self.depth = self.depth.max(visited.depth as u64 + 1);
            }
            Node::Value(_) => self.values += 1,
            Node::Run(writes) => self.in_run = writes.len() as u64,
        }
    }
}

/// Counts keys. The newest write of a key may be in the root, in the run or in a leaf. The run is
/// visited before the leaves.
#[derive(Default)]
struct Keys {
    /// `true` for keys whose newest write, outside of the leaves, is not a deletion.
    newer: BTreeMap<Bytes, bool>,
    older: u64,
}

impl Keys {
    /// Adds writes that are older than the ones that were added before.
    fn overlay(&mut self, writes: &[Write]) {
        for write in writes {
            self.newer.entry(write.key.clone()).or_insert(write.stored.is_some());
        }
    }

    fn visit(&mut self, node: &Node) {
        match node {
            Node::Run(writes) => self.overlay(writes),
            Node::Leaf(entries) => {
                let is_newest = |key: &Bytes| !self.newer.contains_key(key);
                self.older += entries.iter().filter(|entry| is_newest(&entry.key)).count() as u64;
            }
            Node::Inner(_) | Node::Value(_) => {}
        }
    }

    fn finish(self) -> u64 {
        self.older + self.newer.values().filter(|is_set| **is_set).count() as u64
    }
}
