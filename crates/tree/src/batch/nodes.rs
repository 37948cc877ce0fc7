//! Reads of nodes, by the cache, and writes of new ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use carnet_base::concurrent::join;
use carnet_base::{Error, Moment, Result};

use super::core::{Core, Stop, Try};
use crate::id::NodeId;
use crate::node::Node;
use crate::shape::Nodes;
use crate::store::{NodeStore, RootPointer};

/// After this number of answers that a node is missing, the root is read again: garbage collection
/// may have removed nodes of an outdated root.
const MISSES_BEFORE_ROOT: u64 = 16;

impl<N: NodeStore, R: RootPointer> Core<N, R> {
    /// Reads nodes from the cache, and the others concurrently from the store.
    pub(super) async fn load(
        &self,
        ids: BTreeSet<NodeId>,
        this: &Try,
        nodes: &mut Nodes,
    ) -> Result<(), Stop> {
        let absent = self.look_into_cache(ids, nodes);
        let gets: Vec<_> = absent.iter().map(|id| self.fetch(*id, this)).collect();
        let found = join(gets, self.options.reads_in_flight).await?;
        for (id, node) in absent.into_iter().zip(found) {
            nodes.insert(id, node);
        }
        Ok(())
    }

    /// Takes cached nodes, and returns the ids of the others.
    fn look_into_cache(&self, ids: BTreeSet<NodeId>, nodes: &mut Nodes) -> Vec<NodeId> {
        let state = &mut *self.state();
        let mut absent = Vec::new();
        for id in ids {
            match state.cache.get(id) {
                Some(node) => {
                    state.stats.cache_hits += 1;
                    nodes.insert(id, Some(node));
                }
                None => absent.push(id),
            }
        }
        absent
    }

    /// Reads a node; if it is missing, waits for it.
    async fn fetch(&self, id: NodeId, this: &Try) -> Result<Option<Arc<Node>>, Stop> {
        let mut misses = 0;
        loop {
            let get = || {
                self.count(|stats| stats.node_gets += 1);
                self.nodes.get(id)
            };
            let found = self.ask(|state| &mut state.nodes_time, this.deadline, get).await?;
            if let Some(bytes) = found {
                let node = Arc::new(Node::decode(id, &bytes)?);
                self.state().cache.insert(id, &node);
                return Ok(Some(node));
            }
            self.count(|stats| stats.nodes_missing += 1);
            if self.options.ignore_missing {
                return Ok(None);
            }
            misses += 1;
            if self.options.exact_stores || misses % MISSES_BEFORE_ROOT == 0 {
                let newest = self.read_root(this.deadline).await?;
                if newest.bytes != this.base.bytes {
                    return Err(Stop::Moved(newest));
                }
            }
            if self.options.exact_stores {
                let message = format!("node {id}, which the newest root refers to, is missing");
                return Err(Error::corrupted(message).into());
            }
            let error = Error::unavailable(format!("node {id} is missing"));
            self.wait_or_fail(error, this.deadline).await?;
        }
    }

    pub(super) async fn put(&self, id: NodeId, node: &Arc<Node>, deadline: Moment) -> Result<()> {
        let bytes = node.encode(id);
        let put = || {
            self.count(|stats| {
                stats.node_puts += 1;
                stats.node_put_bytes += bytes.len() as u64;
            });
            self.nodes.put(id, bytes.clone())
        };
        self.ask(|state| &mut state.nodes_time, deadline, put).await?;
        // Only after the put is confirmed: cached nodes may be referenced by new roots.
        self.state().cache.insert(id, node);
        Ok(())
    }
}
