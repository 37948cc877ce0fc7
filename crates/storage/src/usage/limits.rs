//! Limits of the counters of tables.

/// One of this number of operations of a thread's shard is timed.
pub const SAMPLE: u64 = 64;
/// Maximum number of tables with separate counters.
pub const TABLES_MAX: usize = 1000;
