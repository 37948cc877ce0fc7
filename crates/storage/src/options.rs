//! Settings of an engine.

use std::time::Duration;

/// What an acknowledged commit has survived already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Loss of power: the log is synced before the acknowledgement. Commits that arrive during a
    /// sync share the next one.
    Always,
    /// The end of the process at once, loss of power after this time: the log is written before
    /// the acknowledgement and synced once in every such interval.
    Interval(Duration),
    /// The end of the process: the log is written before the acknowledgement; the operating
    /// system decides when it reaches the device.
    None,
}

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// What an acknowledged commit has survived. Default: [`Durability::Always`].
    pub durability: Durability,
    /// A memtable of about this many bytes becomes an SSTable. More means fewer tables to read
    /// from, more memory and a longer recovery. Default: 64 MiB.
    pub flush_bytes: usize,
    /// This many full memtables may wait for their flush before writers are held back; memory
    /// for writes is at most about `flush_bytes × (memtables_waiting_max + 2)`. Default: 3.
    pub memtables_waiting_max: usize,
    /// An SSTable's block is closed at this many bytes before compression. Smaller blocks make a
    /// point read from disk cheaper, and the index, which is in memory, larger. Default: 16 KiB.
    pub block_bytes: usize,
    /// How often a table is read in vain for a partition that it does not hold, in (0, 1).
    /// Each factor of ten less costs 4.8 bits of memory a partition. Default: 0.01.
    pub bloom_fp_chance: f64,
    /// Memory for decoded blocks. Default: 64 MiB.
    pub cache_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Always,
            flush_bytes: 64 << 20,
            memtables_waiting_max: 3,
            block_bytes: 16 << 10,
            bloom_fp_chance: 0.01,
            cache_bytes: 64 << 20,
        }
    }
}
