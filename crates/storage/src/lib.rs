//! The log-structured engine: it keeps versions of cells and loses nothing that it acknowledged.
//!
//! It knows nothing of transactions. What it takes is a body of cells and a decision; what it
//! gives is the place of that body in one order, its durability, and reads at any point of it:
//!
//! ```text
//!  prepare ── cells are encoded and checksummed once, outside every lock
//!     │
//!  append ─── one short critical section: decide → C, reserve a place in the log
//!     ├────── the caller's thread inserts the cells, stamped C, into its memtable
//!     └────── the log's flusher writes (and syncs) everything pending at once
//!                    │
//!  publish ── the contiguous prefix of (inserted ∧ as durable as asked) grows
//!     │
//!  flush ──── a memtable whose records are all published becomes an SSTable of level 0
//!                    │
//!  compact ── tables become fewer and larger; what nobody can see goes
//! ```
//!
//! Rooms, from the ground up: [`disk`] is the only way to files; `wal` the log; `memtable` and
//! [`sstable`] keep versions in the order of cells, [`cache`] what was read of tables;
//! [`manifest`] says which files are the database; [`compaction`] decides what is rewritten and
//! what stays; [`engine`] joins them, and its essay states the invariants; [`backup`] copies and
//! brings back; [`inspect`] looks in from outside, and [`place`] says which paths lead in. Every byte on disk is described in `docs/data-format.md`.
//!
//! Absent, for now: an I/O scheduler, a limit on the memory of compaction's buffers.

pub mod backup;
mod batch;
pub mod cache;
mod codec;
pub mod compaction;
pub mod disk;
pub mod engine;
pub mod inspect;
pub mod io;
mod lock;
pub mod manifest;
mod memory;
mod memtable;
mod metrics;
mod options;
pub mod place;
pub mod sstable;
mod sync;
mod wal;

pub use batch::Mutation;
pub use engine::{
    AppendError, Appended, Engine, EntryCell, Merged, Page, PageLimit, Prepared, Publish,
    PutUnlessExists, Spill, SpilledCell,
};
pub use metrics::Metrics;
pub use options::{CompactionStyle, Durability, IoOptions, Options, TableOptionsOf, WritePath};
pub use sstable::{Compression, FilterKind, ReadOptions, TableOptions};
