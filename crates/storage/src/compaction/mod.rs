//! Compaction: rewrites tables so that reads search fewer of them, and so that versions that no
//! reader can see are dropped.
//!
//! ```text
//!   Levels, Config, CompactionState ──▶ Policy::choose ──▶ Nothing · Drop · Move · Compact(Plan)
//!                                                                          │
//!          Edit ◀── Job::step … Job::step ◀── Parts ◀──────────────────────┘
//!            │          │
//!        Manifest     Merge: tournament, collector, range tombstones
//! ```
//!
//! Modules: [`policy`] decides what to compact and how much writers are throttled; [`Parts`]
//! divides a compaction among threads; [`merge`] decides which versions survive; [`Cutter`] decides
//! where files end and [`Below`] where older data may exist; [`job`] combines them over any reader
//! and writer of tables. None of them uses a disk, a clock or a thread: the engine takes a choice,
//! steps its jobs at the pace that the disk permits, and applies the edit.
//!
//! Everything relies on one invariant, the *order of sources*: for two sources and any key, all
//! versions in the one are newer than all versions in the other. The sources are the memtables,
//! then the tables of level 0 from youngest to oldest, then the levels in order. So the first
//! source with a version of a key decides a read. Compaction keeps the order because it only merges
//! neighbors: the oldest tables of level 0 with the next nonempty level, all tables of two levels
//! that share keys, or consecutive runs.
//!
//! Compactions that do not overlap run concurrently, and a long one runs in parts.
//!
//! Not implemented on purpose: separate storage of large values; user-defined compaction filters,
//! because they would change data outside of transactions.

mod below;
mod cut;
pub mod job;
pub mod merge;
mod parts;
pub mod policy;

pub use below::Below;
pub use cut::Cutter;
pub use parts::{Part, Parts};
