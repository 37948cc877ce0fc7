//! Manifest: the files that make up the database.
//!
//! ```text
//!  flush, compaction ──▶ Edit { add, remove, log, bound, swept, … }
//!                          │  checked against the current manifest
//!                          ▼
//!      Manifest { identity, bound, swept, log, notes, Levels } ──▶ MANIFEST.tmp, sync, rename, sync the directory
//! ```
//!
//! The manifest is the root of the database: a file that it does not name is not part of the
//! database. It holds each table's level, range, counts and commits, so compaction decides without
//! opening a file.
//!
//! Invariants:
//!
//! 1. An edit is atomic: the file is replaced as a whole.
//! 2. Every file that the manifest names is durable before the manifest is.
//! 3. From level 1 on, tables of a level have disjoint ranges. Tables of level 0 whose ranges
//!    overlap have disjoint ranges of commits. [`Levels::edit`] refuses edits that would break
//!    this, so that a bug in compaction is an error and not a wrong answer years later.
//! 4. The bound, the GC watermark, the last flushed commit, the log's position and the next file
//!    number never decrease.
//!
//! Not implemented on purpose: a log of edits. The manifest is small, and two syncs dominate the
//! cost of an edit; a log would save one of them. Flushes are seconds apart, and bounds are raised
//! in advance. `carnet-bench manifest` measures it.

mod adopted;
mod edit;
mod file;
mod format;
mod identity;
mod level;
mod levels;
mod line;
mod range;
mod root;
mod table;
mod tally;
#[cfg(test)]
mod tests;

pub use edit::Edit;
pub use identity::Identity;
pub use level::LEVELS;
pub use levels::Levels;
pub use line::{Line, Past};
pub use range::{FlatRange, after, table_of};
pub use root::{Manifest, NOTES_BYTES_MAX};
pub use table::{Contents, TableMeta};
pub use tally::{Tally, VersionKind};

pub(crate) use file::{FILE_NAME, MAGIC};
