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
//!  flush ──── a memtable whose records are all published becomes an SSTable
//! ```
//!
//! Rooms, from the ground up: [`disk`] is the only way to files; `wal` the log; `memtable` and
//! `sstable` keep versions in the order of cells; `manifest` says which files are the database;
//! [`engine`] joins them, and its essay states the invariants. Every byte on disk is described in
//! `docs/data-format.md`.
//!
//! This edition never loses data but keeps its insides simple: it reads files on the caller's
//! thread, keeps the block index of every table in memory, and does not compact.

mod codec;
pub mod disk;
pub mod engine;
mod lock;
mod manifest;
mod memtable;
mod metrics;
mod options;
mod sstable;
mod wal;

pub use engine::{AppendError, Appended, Engine, EntryCell, Page, PageLimit, Prepared, Publish};
pub use metrics::Metrics;
pub use options::{Durability, Options};
