//! Compaction: tables are rewritten so that reads look into few of them, and so that what nobody
//! can see any more gives its space back.
//!
//! ```text
//!   Levels, Config, State ──▶ Policy::choose ──▶ Nothing · Drop · Move · Compact(Plan)
//!                                                                          │
//!          Edit ◀── Job::step … Job::step ◀── Parts ◀──────────────────────┘
//!            │          │
//!        Manifest     Merge: tournament, collector, range tombstones
//! ```
//!
//! Rooms: [`policy`] decides what to compact and when writers must slow down; [`Parts`] divides it
//! among threads; [`merge`] decides what stays; [`Cutter`] decides where files end and [`Below`] where
//! older data may lie; [`job`] brings them together over anything that reads and writes tables. None
//! of them knows a disk, a clock or a thread: the engine takes a choice, steps its jobs at the pace
//! that the disk allows, and installs the edit.
//!
//! What everything rests on is one invariant, the *order of sources*: whatever two tables know
//! of a key, all that the one knows is newer than all that the other knows; and memtables come
//! before level 0, in level 0 younger tables before older ones, and each level before those
//! behind it. So the first source that knows anything of a key decides a read. Compaction keeps
//! the order since it only ever takes neighbours: the oldest tables of level 0 into the next
//! level that is not empty, all tables of two levels that share keys, a row of runs without a gap.
//!
//! Compactions that do not meet run at once, and a long one in parts.
//!
//! Deliberately absent: keeping large values apart from keys; a filter by the user, for a
//! transaction would not see what it does.

mod below;
mod cut;
pub mod job;
pub mod merge;
mod parts;
pub mod policy;

pub use below::Below;
pub use cut::Cutter;
pub use parts::{Part, Parts};
