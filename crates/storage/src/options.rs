//! Settings of an engine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::TableId;

use crate::compaction::policy::{Config, Leveled, Policy, Tiered};
use crate::io::{Config as IoConfig, Goal};
use crate::sstable::TableOptions;
use crate::wal::ZEROS_BYTES;

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

/// How writers get along with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WritePath {
    /// No writer waits for another one's insertion.
    #[default]
    Unordered,
    /// Writers form groups, and a group waits for the one before it to be published. For
    /// comparison only: it blocks the caller's thread.
    Grouped,
}

/// Says how the cells of a table are laid out in files that are written from now on.
#[derive(Clone)]
pub struct TableOptionsOf(pub Arc<dyn Fn(TableId) -> TableOptions + Send + Sync>);

impl TableOptionsOf {
    /// The same layout for all tables.
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

/// How tables are compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompactionStyle {
    /// Reads look into few tables, little space is taken by garbage, bytes are rewritten often.
    #[default]
    Leveled,
    /// Bytes are rewritten seldom, reads look into more tables.
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

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// What an acknowledged commit has survived. Default: [`Durability::Always`].
    pub durability: Durability,
    /// How writers get along with each other. Default: [`WritePath::Unordered`].
    pub write_path: WritePath,
    /// Whether there is a log. Without one a crash loses everything that was not flushed: it is
    /// for measuring what the log costs. Default: true.
    pub log: bool,
    /// Memory for memtables, cache, reads that wait for the disk, and buffers; of these, memtables
    /// get five eighths, the cache and the reads an eighth each. Default: 512 MiB.
    pub memory_bytes: usize,
    /// A memtable of about this many bytes becomes an SSTable. More means fewer tables to read
    /// from, more memory and a longer recovery. Default: 0, which is the memtables' part of
    /// `memory_bytes` divided by `memtables_waiting_max + 2`, 64 MiB of 512.
    pub flush_bytes: usize,
    /// A file of the log is left when it would grow beyond this many bytes. Default: 64 MiB.
    pub segment_bytes: u64,
    /// Where every commit waits for a sync, zeros are written so far ahead of the log's records: a
    /// sync that finds the file's length as it was has no metadata to write, and took 150 µs
    /// where one of a growing file took 265. Otherwise at most 32 KiB ahead, since small writes into
    /// pages that are there cost less. Default: 256 KiB; 0 writes none, but for the rest of a page in
    /// a file that is written again.
    pub log_ahead_bytes: usize,
    /// So many files of the log that are needed no more are kept and written again: their space is
    /// allocated and their blocks are written, so that a sync has no metadata to write, and their
    /// pages are mostly there. They take about `segment_bytes` of disk each, or as much as a single
    /// longer record took. Default: 4; 0 removes them.
    pub log_spares_max: usize,
    /// This many full memtables may wait for their flush before writers are held back; memory
    /// for writes is at most about `flush_bytes × (memtables_waiting_max + 2)`. Default: 3.
    pub memtables_waiting_max: usize,
    /// The layout of each table's cells in files. Default: [`TableOptions::default`] for all.
    pub table_options: TableOptionsOf,
    /// How tables are compacted. Default: leveled.
    pub compaction_style: CompactionStyle,
    /// When and how far.
    pub compaction: Config,
    /// So many threads compact while compaction falls behind; otherwise one does. At least 1.
    /// Default: 3, of which some wait for the disk: on two processors sustained writes were faster by
    /// two fifths than with 2.
    pub compaction_threads: usize,
    /// Memory for decoded blocks, index pages and filters. Default: 0, which is an eighth of
    /// `memory_bytes`.
    pub cache_bytes: usize,
    /// At most so many reads wait for the disk at a time; others wait for their turn. Default: 256.
    pub reads_max: usize,
    /// Whether the database is opened for reading only, as on a full disk or a read-only mount: it has
    /// to be there, nothing of it is changed, nothing is compacted, and writes are refused. What
    /// the opening itself would write takes memory, at most about twice the log. Default: false.
    pub read_only: bool,
    /// How background work shares the disk with reads.
    pub io: IoOptions,
}

/// How background work shares the disk, and the processors, with reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoOptions {
    /// Whether flush, compaction and maintenance take turns from the [I/O scheduler](crate::io).
    /// Default: true.
    pub scheduler: bool,
    /// The latency of reads that background work has to leave alone. Default: [`Goal::Measured`].
    pub goal: Goal,
    /// Shares of flush, compaction and maintenance. Default: 1000, 1000 and 200.
    pub shares: [u64; 3],
    /// The nice value of the threads that flush and compact. Default: 10; 0 leaves them as they are.
    pub nice: u8,
    /// Whether workers that have no threads of their own pause between their steps instead, as in a
    /// simulation whose disk takes time. Default: false.
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
            write_path: WritePath::Unordered,
            log: true,
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
    /// How far ahead of the log's records zeros are written.
    pub(crate) fn log_zeros_bytes(&self) -> usize {
        match self.durability {
            Durability::Always => self.log_ahead_bytes,
            _ => self.log_ahead_bytes.min(ZEROS_BYTES),
        }
    }
}
