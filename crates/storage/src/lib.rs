//! Log-structured storage engine: stores versions of cells, and preserves all acknowledged commits.
//!
//! The engine is independent of transactions. It accepts a set of cells and a decision, assigns it
//! a position in commit order, makes it durable, and serves reads at any position:
//!
//! ```text
//!  prepare ── cells are encoded and checksummed once, outside every lock
//!     │
//!  append ─── one short critical section: decide → C, reserve a position in the log
//!     ├────── the caller's thread inserts the cells with commit C into its memtable
//!     └────── the log flusher writes (and syncs) all pending records at once
//!                    │
//!  publish ── the contiguous prefix of inserted and sufficiently durable commits grows
//!     │
//!  flush ──── a memtable whose records are all published becomes an SSTable of level 0
//!                    │
//!  compact ── tables become fewer and larger; invisible versions are dropped
//! ```
//!
//! Modules, from the bottom up: [`disk`] is the only access to files; `wal` is the write-ahead log;
//! `memtable` and [`sstable`] store versions in cell order, the latter with the [block cache](sstable::cache);
//! [`manifest`] lists the files of the database; [`compaction`] decides which tables are
//! rewritten and which versions survive; [`engine`] combines them and states the invariants; [`backup`] takes and restores
//! backups; [`inspect`] verifies and describes the files of a closed database, and [`place`] finds
//! the database that a path is in. `docs/data-format.md` describes every byte on disk.
//!
//! Not implemented yet: a limit on the memory of compaction's buffers.

pub mod backup;
mod batch;
pub mod clock_file;
mod codec;
pub mod compaction;
pub mod disk;
pub mod engine;
pub mod inspect;
pub mod io;
mod lock;
pub mod manifest;
mod marks;
mod memory;
mod memtable;
mod merge_operator;
mod metrics;
mod options;
pub mod place;
pub mod sstable;
mod sync;
pub mod usage;
mod wal;

pub use batch::Mutation;
pub use carnet_base::PageLimit;
pub use engine::{
    AppendError, Appended, Engine, EntryCell, Merged, Prepared, Publish, Spill, SpilledCell,
    TableSpace,
};
pub use merge_operator::MergeOperator;
pub use metrics::{LevelTotals, Metrics};
pub use options::{CompactionStyle, Durability, IoOptions, Options, ReplaceMerges, TableOptionsOf};
pub use sstable::{Compression, FilterKind, ReadOptions, TableOptions};
