//! Options of an engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::TableId;

use crate::compaction::policy::{Config, Leveled, Policy, Tiered};
use crate::io::{Config as IoConfig, Goal};
use crate::merge_operator::MergeOperator;
use crate::sstable::TableOptions;
use crate::wal::ZEROS_BYTES;

/// Failures that an acknowledged commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power failure: the log is synced before the acknowledgement. Commits that arrive
    /// during a sync share the next one.
    Always,
    /// Survives a crash of the process immediately, and a power failure after this interval: the
    /// log is written before the acknowledgement, and synced once per interval.
    Interval(Duration),
    /// Survives a crash of the process: the log is written before the acknowledgement; the
    /// operating system decides when it is written to the device.
    None,
    /// Survives a clean close only, because there is no log. A crash of the process keeps the flushed
    /// commits: all commits up to a certain one, and none after it.
    Memory,
}

impl Durability {
    /// Returns `true` if commits are written to a log, and so survive a crash of the process.
    #[must_use]
    pub const fn has_log(self) -> bool {
        !matches!(self, Self::Memory)
    }
}

/// Function that returns the layout options of a table for new files.
#[derive(Clone)]
pub struct TableOptionsOf(pub Arc<dyn Fn(TableId) -> TableOptions + Send + Sync>);

impl TableOptionsOf {
    /// Returns the same options for all tables.
    #[must_use]
    pub fn all(options: TableOptions) -> Self {
        Self(Arc::new(move |_| options))
    }
}

impl fmt::Debug for TableOptionsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableOptionsOf")
    }
}

/// How tables are picked for compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionStyle {
    /// Leveled: reads search few tables and garbage takes little space, but bytes are rewritten
    /// often.
    #[default]
    Leveled,
    /// Size-tiered: bytes are rewritten less often, but reads search more tables.
    Tiered,
}

impl CompactionStyle {
    pub(crate) fn policy(self) -> &'static dyn Policy {
        match self {
            Self::Leveled => &Leveled,
            Self::Tiered => &Tiered,
        }
    }
}

/// Makes a merge operator of the given one.
pub type ReplaceMerges = fn(Arc<dyn MergeOperator>) -> Arc<dyn MergeOperator>;

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Failures that an acknowledged commit survives. Default: [`Durability::Always`].
    pub durability: Durability,
    /// Replaces the merge operator, so that tests can break it. Default: `None`.
    pub replace_merges: Option<ReplaceMerges>,
    /// Memory for memtables, cache, reads that wait for the disk, and buffers. Memtables get five
    /// eighths, the cache and the reads an eighth each. Default: 512 MiB.
    pub memory_bytes: usize,
    /// Approximate size at which a memtable is flushed. A larger value means fewer tables to
    /// search, more memory and a longer recovery. Default: 0, which is the memtables' part of
    /// `memory_bytes` divided by `memtables_waiting_max + 2`, 64 MiB of 512.
    pub flush_bytes: usize,
    /// Size at which the log switches to a new file. Default: 64 MiB.
    pub segment_bytes: u64,
    /// Number of zeros written ahead of the log's records, if every commit waits for a sync: a sync
    /// that does not change the file's length has no metadata to write and is faster. With other
    /// durabilities at most 32 KiB, because small writes to existing pages are cheaper. Default:
    /// 256 KiB; 0 writes none, except for the rest of a page in a recycled file.
    pub log_ahead_bytes: usize,
    /// Maximum number of log files kept for recycling: their space is allocated and their blocks
    /// are written, so a sync has no metadata to write. Each takes about `segment_bytes` of disk,
    /// or the size of a single larger record. Default: 4; 0 removes them.
    pub log_spares_max: usize,
    /// Number of full memtables that may wait for their flush before writers have to wait. Memory
    /// for writes is at most about `flush_bytes × (memtables_waiting_max + 2)`. Default: 3.
    pub memtables_waiting_max: usize,
    /// Layout of each table's cells in files. Default: [`TableOptions::default`] for all.
    pub table_options: TableOptionsOf,
    /// Compaction policy. Default: leveled.
    pub compaction_style: CompactionStyle,
    /// Options of the compaction policy.
    pub compaction: Config,
    /// Number of threads that compact while compaction is behind; otherwise one does. At least 1.
    /// Default: 3, because some of them wait for the disk.
    pub compaction_threads: usize,
    /// Memory for decoded blocks, index pages and filters. Default: 0, which is an eighth of
    /// `memory_bytes`.
    pub cache_bytes: usize,
    /// Maximum number of concurrent reads that wait for the disk; others are queued. Default: 256.
    pub reads_max: usize,
    /// Whether the database is opened read-only, for example on a full disk or a read-only mount:
    /// it must exist, is not changed or compacted, and writes are refused. Writes of the opening
    /// itself are kept in memory, at most about twice the log's size. Default: false.
    pub read_only: bool,
    /// Sharing of the disk between background work and reads.
    pub io: IoOptions,
}

/// Sharing of the disk and the processors between background work, reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoOptions {
    /// Whether the [I/O scheduler](crate::io) controls flush, compaction and maintenance. Default:
    /// true.
    pub scheduler: bool,
    /// Read latency that background work must preserve. Default: [`Goal::Measured`].
    pub goal: Goal,
    /// Shares of flush, compaction and maintenance. Default: 1000, 1000 and 200.
    pub shares: [u64; 3],
    /// Nice value of the flush and compaction threads. Default: 10; 0 leaves it unchanged.
    pub nice: u8,
    /// Whether workers without threads pause between their steps instead, for simulations whose
    /// disk takes time. Default: false.
    pub pauses: bool,
}

impl Default for IoOptions {
    fn default() -> Self {
        let IoConfig { goal, shares, .. } = IoConfig::default();
        Self { scheduler: true, goal, shares, nice: 10, pauses: false }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Always,
            replace_merges: None,
            memory_bytes: 512 << 20,
            flush_bytes: 0,
            segment_bytes: 64 << 20,
            log_ahead_bytes: 256 << 10,
            log_spares_max: 4,
            memtables_waiting_max: 3,
            table_options: TableOptionsOf::all(TableOptions::default()),
            compaction_style: CompactionStyle::Leveled,
            compaction: Config::default(),
            compaction_threads: 3,
            cache_bytes: 0,
            reads_max: 256,
            read_only: false,
            io: IoOptions::default(),
        }
    }
}

impl Options {
    /// Returns the number of zeros written ahead of the log's records.
    pub(crate) fn log_zeros_bytes(&self) -> usize {
        match self.durability {
            Durability::Always => self.log_ahead_bytes,
            _ => self.log_ahead_bytes.min(ZEROS_BYTES),
        }
    }
}
