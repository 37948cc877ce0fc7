//! In-memory versions of cells, in cell order, for concurrent writers.
//!
//! A [`tree`] of [`node`]s holds the cells of all tables and partitions. Beside it are the [range
//! tombstones](ranges) and a list of start and commit timestamps. An insert copies a record's cells
//! once, into the tree's [arena], which also holds the nodes; a full memtable is freed in a few
//! hundred pieces. Memory of the tree and of the list of commits is counted; memory of range
//! tombstones is estimated.
//!
//! A memtable holds the records of a range of the log. When it is full it is *sealed* at the
//! position at which the log switches to a new segment. Writers that reserved earlier positions
//! keep a reference to the sealed memtable and still insert into it. It is flushed once all of its
//! records are published; only then are its segments removed.
//!
//! Versions of a cell may be inserted in any order, and the same version more than once.

mod arena;
mod cell;
mod chunks;
mod cursor;
mod line;
mod node;
mod pages;
mod ranges;
mod table;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use arena::MEMTABLE_BYTES_MAX;
pub(crate) use cell::{CellRef, Found, VersionRef};
pub(crate) use chunks::Chunks;
pub(crate) use cursor::MemtableCursor;
pub(crate) use ranges::Fragment;
pub(crate) use table::Memtable;
