//! LRU cache of nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::id::NodeId;
use crate::node::Node;

/// A bounded cache. Evictions depend only on the calls, so that a seed replays a run.
pub(crate) struct Cache {
    bytes_max: usize,
    bytes: usize,
    uses: u64,
    nodes: HashMap<NodeId, Cached>,
    by_use: BTreeMap<u64, NodeId>,
}

struct Cached {
    node: Arc<Node>,
    bytes: usize,
    last_use: u64,
}

/// Memory of an entry, without its node.
const OVERHEAD_BYTES: usize = 128;

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, uses: 0, nodes: HashMap::new(), by_use: BTreeMap::new() }
    }

    pub(crate) fn get(&mut self, id: NodeId) -> Option<Arc<Node>> {
        let cached = self.nodes.get_mut(&id)?;
        self.uses += 1;
        self.by_use.remove(&cached.last_use);
        self.by_use.insert(self.uses, id);
        cached.last_use = self.uses;
        Some(Arc::clone(&cached.node))
    }

    pub(crate) fn insert(&mut self, id: NodeId, node: &Arc<Node>) {
        let bytes = node.memory_bytes() + OVERHEAD_BYTES;
        // Nodes that would evict most of the cache are not cached.
        if bytes > self.bytes_max / 2 || self.get(id).is_some() {
            return;
        }
        self.uses += 1;
        self.bytes += bytes;
        self.by_use.insert(self.uses, id);
        let cached = Cached { node: Arc::clone(node), bytes, last_use: self.uses };
        self.nodes.insert(id, cached);
        while self.bytes > self.bytes_max {
            let (_, oldest) = self.by_use.pop_first().expect("each cached node is in the list");
            let dropped = self.nodes.remove(&oldest).expect("each use names a node");
            self.bytes -= dropped.bytes;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::Bytes;

    use super::*;
    use crate::id::{Attempt, TransactorId};

    #[test]
    fn least_recently_used_nodes_are_evicted() {
        let node = Arc::new(Node::Value(Bytes::from(vec![0; 1000])));
        let id = |n| NodeId::new(TransactorId(1), Attempt(1), n).unwrap();
        let mut cache = Cache::new(4 * (node.memory_bytes() + OVERHEAD_BYTES));
        for n in 0..4 {
            cache.insert(id(n), &node);
        }
        assert!(cache.get(id(0)).is_some());
        cache.insert(id(4), &node);
        assert!(cache.get(id(0)).is_some() && cache.get(id(1)).is_none());
        assert!(cache.bytes() <= cache.bytes_max);
        cache.insert(id(5), &Arc::new(Node::Value(Bytes::from(vec![0; 10_000]))));
        assert!(cache.get(id(5)).is_none() && cache.get(id(4)).is_some());
        let mut none = Cache::new(0);
        none.insert(id(0), &node);
        assert!(none.get(id(0)).is_none());
    }
}
