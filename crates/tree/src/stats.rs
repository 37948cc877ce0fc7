//! What a tree has done, as documented data.

/// Counts since the tree was opened. Each call of a store is one, its retries included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that were answered, errors included.
    pub transactions: u64,
    /// Batches that ended.
    pub batches: u64,
    /// Nodes that were asked for.
    pub node_gets: u64,
    /// Answers that a node is not there.
    pub nodes_missing: u64,
    /// Nodes that were found in the cache.
    pub cache_hits: u64,
    /// Nodes that were put.
    pub node_puts: u64,
    /// Bytes of nodes that were put.
    pub node_put_bytes: u64,
    /// Reads of the root.
    pub root_reads: u64,
    /// Compare-and-sets of the root.
    pub root_swaps: u64,
    /// Of those, the ones that moved the root.
    pub root_moves: u64,
    /// Compare-and-sets that ended with an error and had to be looked into.
    pub swaps_in_doubt: u64,
    /// Suggested roots that were newer than the cached one.
    pub roots_suggested: u64,
    /// The longest root that was written, in bytes.
    pub root_bytes_max: u64,
    /// Memory that cached nodes take now, in bytes.
    pub cache_bytes: u64,
}

impl Stats {
    /// Calls of the two stores together: each is one request and one answer.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.node_gets + self.node_puts + self.root_reads + self.root_swaps
    }
}
