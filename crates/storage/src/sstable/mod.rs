//! Sorted tables: immutable files of versions, in the order of cells, newest version first.
//!
//! ```text
//!  ┌───────┬───────┬──…──┬───────┬───────┬────────┬────────────┬────────┐
//!  │ block │ block │     │ block │ index │ filter │ statistics │ footer │
//!  └───────┴───────┴──…──┴───────┴───────┴────────┴────────────┴────────┘
//! ```
//!
//! * A [`block`] is a run of cells, compressed by LZ4.
//! * The [`index`] names each block's first version; it is in memory while the table is open.
//! * The filter is a [`bloom`] filter over partitions.
//! * The [`footer`] has a fixed length and says where the others lie.
//!
//! Each of them carries a CRC32C that covers its place in the file too, checked whenever it is
//! read from disk; so a flipped bit or a block that was written elsewhere is an error that names
//! the file and the place, and never an answer.
//!
//! A table is built under a temporary name by [`Builder`], synced, and renamed; it belongs to the
//! database from the manifest edit on that names it. A file that no manifest names is removed
//! when the database is opened.
//!
//! A point read costs one block: the index is searched for the newest version at the snapshot,
//! not merely for the cell, so that the versions of a much-written cell are not walked.
//!
//! Absent on purpose, for now: a clustering index finer than blocks, paged indexes, compaction.

pub(crate) mod block;
pub(crate) mod bloom;
mod builder;
mod cursor;
pub(crate) mod footer;
pub(crate) mod index;
mod section;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use builder::{Builder, Built};
pub(crate) use cursor::TableCursor;
pub(crate) use table::{Cache, Table, new_cache};

/// Names a table's file.
pub(crate) fn file_name(number: u64) -> String {
    format!("sst-{number:08}.sst")
}

/// Returns the number in a table's file name, or `None` for the name of anything else.
pub(crate) fn number_in(name: &str) -> Option<u64> {
    let number = name.strip_prefix("sst-")?.strip_suffix(".sst")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}
