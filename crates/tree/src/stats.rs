//! Counters of a tree.

/// Counts since the tree was opened. Retries of store calls are counted separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Answered transactions, including errors.
    pub transactions: u64,
    /// Number of completed batches.
    pub batches: u64,
    /// Number of node reads.
    pub node_gets: u64,
    /// Node reads that found no node.
    pub nodes_missing: u64,
    /// Nodes found in the cache.
    pub cache_hits: u64,
    /// Number of node writes.
    pub node_puts: u64,
    /// Total size of the put nodes, in bytes.
    pub node_put_bytes: u64,
    /// Number of root reads.
    pub root_reads: u64,
    /// Compare-and-sets of the root.
    pub root_swaps: u64,
    /// Compare-and-sets that moved the root.
    pub root_moves: u64,
    /// Compare-and-sets with an error or timeout, whose outcome had to be determined.
    pub swaps_in_doubt: u64,
    /// Suggested roots that were newer than the cached one.
    pub roots_suggested: u64,
    /// Size of the largest written root, in bytes.
    pub root_bytes_max: u64,
    /// Current memory of cached nodes, in bytes.
    pub cache_bytes: u64,
}

impl Stats {
    /// Returns the number of calls of both stores: each is one request and one answer.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.node_gets + self.node_puts + self.root_reads + self.root_swaps
    }
}
