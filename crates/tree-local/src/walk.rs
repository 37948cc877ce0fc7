//! Visits the nodes below a root.

use std::collections::HashSet;

use carnet_base::{Bytes, Error, Result};
use carnet_tree::{Node, NodeId, NodeStore, Root};

use crate::directory::Directory;

/// A visited node.
pub(crate) struct Visited {
    pub(crate) node: Node,
    pub(crate) bytes: u64,
    /// Number of nodes above it.
    pub(crate) depth: usize,
}

/// Reference to a node that was not visited yet.
struct Next {
    id: NodeId,
    depth: usize,
    kind: Kind,
}

/// Kind of node that a reference must lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Run,
    Inner,
    Leaf,
    Value,
}

impl Kind {
    const fn of(node: &Node) -> Self {
        match node {
            Node::Run(_) => Self::Run,
            Node::Inner(_) => Self::Inner,
            Node::Leaf(_) => Self::Leaf,
            Node::Value(_) => Self::Value,
        }
    }
}

/// Visits all nodes that a root reaches, values only if `reads_values` is `true`, and returns the
/// ids of all, values included. The run is visited first. The caller holds the lock of the garbage collection.
///
/// # Errors
///
/// `Corrupted` if a node is missing or damaged.
pub(crate) async fn walk(
    store: &Directory,
    root: &Root,
    reads_values: bool,
    mut visit: impl FnMut(&Visited),
) -> Result<HashSet<NodeId>> {
    let mut reached = HashSet::new();
    let mut next: Vec<Next> = Vec::new();
    let (run, top) = (root.below.run, root.below.top);
    next.extend(top.map(|top| Next { id: top.id, depth: 0, kind: kind(top.is_leaf) }));
    let values = root.buffer.iter().filter_map(carnet_tree::Write::node);
    next.extend(values.map(|id| Next { id, depth: 0, kind: Kind::Value }));
    // The last one is visited first.
    next.extend(run.map(|id| Next { id, depth: 0, kind: Kind::Run }));
    while let Some(Next { id, depth, kind }) = next.pop() {
        if !reached.insert(id) || kind == Kind::Value && !reads_values {
            continue;
        }
        let visited = visited(store, id, depth).await?;
        if Kind::of(&visited.node) != kind {
            let path = store.path(id);
            return Err(Error::corrupted(format!("{path} is a node of another kind")));
        }
        visit(&visited);
        next.extend(below(&visited.node, depth + 1));
    }
    Ok(reached)
}

const fn kind(is_leaf: bool) -> Kind {
    if is_leaf { Kind::Leaf } else { Kind::Inner }
}

async fn visited(store: &Directory, id: NodeId, depth: usize) -> Result<Visited> {
    let bytes: Option<Bytes> = store.get(id).await?;
    let bytes = bytes.ok_or_else(|| {
        Error::corrupted(format!("{} is missing, and the newest root needs it", store.path(id)))
    })?;
    let node = Node::decode(id, &bytes)
        .map_err(|error| Error::corrupted(store.path(id)).with_source(error))?;
    Ok(Visited { node, bytes: bytes.len() as u64, depth })
}

fn below(node: &Node, depth: usize) -> Vec<Next> {
    let inner = match node {
        Node::Inner(children) => &children[..],
        _ => &[],
    };
    let children = inner.iter().map(|(_, child)| (child.id, kind(child.is_leaf)));
    let values = match node {
        Node::Inner(_) => Vec::new(),
        other => other.nodes(),
    };
    let values = values.into_iter().map(|id| (id, Kind::Value));
    children.chain(values).map(|(id, kind)| Next { id, depth, kind }).collect()
}
