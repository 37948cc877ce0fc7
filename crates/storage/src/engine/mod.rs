//! The engine: combines log, memtables and tables into one ordered store of versions.
//!
//! # A write
//!
//! ```text
//!  caller ── prepare ──┐ order lock ┌── insert (own thread) ──┐
//!                      │ decide → C │                         ├─ published when both are done
//!                      │ reserve    │                         │  for it and all before it
//!  flusher ────────────┴────────────┴── write, sync together ─┘
//! ```
//!
//! One short critical section under the *order* lock runs the caller's decision, reserves the
//! record's position in the log, opens its slot in the commit pipeline (`publication`), and gets
//! the active memtable. The rest happens without a shared lock: the caller writes the record's
//! header, passes the record to the log, inserts its cells into the memtable, and completes its
//! slot. With [`Durability::Always`](crate::Durability::Always) a separate thread writes and syncs
//! the log. Otherwise any caller that finds the log writer unlocked writes all pending records,
//! including those of other callers, and no caller waits for it.
//!
//! # A read
//!
//! ```text
//!  view ── active memtable ─ sealed memtables ─ level 0, newest first ─ level 1 ─ … ─ level 6
//!          └ the first with a version of the cell at the snapshot decides
//! ```
//!
//! # Invariants
//!
//! 1. LSNs, slots and commit timestamps have the same order: that of the order lock.
//! 2. For any cell, all versions in one source of a view are newer than those in the sources after
//!    it: memtables are sealed at one position of that order, and compaction merges only neighbors.
//!    So the first source with a version of a cell, or with a range tombstone over it, has its
//!    newest version.
//! 3. Every commit ≤ [`Engine::published`] is inserted, and visible in any view that a reader gets
//!    after it has read `published`: views are replaced atomically. A reader at R ≤ `published`
//!    sees each commit ≤ R and no other.
//! 4. Memtables are flushed oldest first, and only when all their records are published. Log
//!    segments are removed only when the manifest with the flushed table is durable, and tables
//!    only when the durable manifest does not contain them.
//! 5. Each reservation is inserted, or the store stops: a drop guard ensures this. Another guard
//!    does the same for the workers.
//! 6. When a write or a sync fails, the store stops: no later commit is acknowledged, no later
//!    record is written, and reads continue. The next recovery determines what the disk holds. Only
//!    errors that pass are retried: no space, descriptors or memory, and interruptions (see
//!    `shortages`).
//! 7. A failed read stops nothing. Compaction no longer uses a table that it could not read (see
//!    `quarantine`).
//! 8. Closing publishes every decided commit, or stops the store: no waiter is left behind.
//!
//! # Order of locks
//!
//! syncing → writer → rotations; order → sealed, rotations; order → slot → observer;
//! flushing → manifest → view; compactions.state → manifest; compactions.state → divided → parts. No thread holds
//! one of them while it waits for the work of another thread. A manual compaction holds
//! *compactions.state* for long, but waits only for its own work.

mod append;
mod bound;
pub(crate) mod checkpoint;
mod close;
mod compact;
mod compactions;
mod compactor;
mod core;
mod deltas;
mod divided;
mod flush;
mod flushes;
mod get;
mod health;
mod io;
mod log;
#[cfg(test)]
#[cfg(shuttle)]
mod models;
mod open;
mod open_log;
mod publication;
mod quarantine;
mod range;
mod removals;
mod report;
mod retry;
mod sealed;
mod shortages;
mod space;
mod spill;
mod stop_on_panic;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
mod throttle;
mod view;
mod watermark;

pub use self::core::{Engine, EntryCell};
pub use append::{AppendError, Appended, Prepared};
pub use publication::Publish;
pub use space::TableSpace;
pub use spill::{Merged, Spill, SpilledCell};
