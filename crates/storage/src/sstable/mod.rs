//! Sorted string tables (SSTables): immutable files of versions, by key, newest version first.
//!
//! ```text
//!  ┌───────┬──…──┬───────┬────────────┬──…──┬────────────┬────────────┬───────┬────────────┬────────┐
//!  │ block │     │ block │ index page │     │ index page │ range      │ top   │ statistics │ footer │
//!  │       │     │       │ + filter   │     │ + filter   │ tombstones │ index │            │        │
//!  └───────┴──…──┴───────┴────────────┴──…──┴────────────┴────────────┴───────┴────────────┴────────┘
//!   read through the cache                                read when the table is opened, and kept
//! ```
//!
//! **Compact on disk, searchable in memory.** On disk a block is a *run* of entries, stored in
//! columns and compressed. It is decoded once, when it is read, into a block with whole keys that
//! is searched without further decoding.
//!
//! **Three levels of index**, all with blocks of the same kind (`page`): the top index in memory
//! refers to index pages of about 4 KiB, which refer to blocks of about 4 KiB. Each index page
//! contains the Bloom filter (`bloom`) of its blocks, so one read brings both. A point read costs
//! two disk reads if nothing is cached, one if only the block is not, and none if the filter
//! excludes the key. The top index of 10 GB of 1 KiB rows takes under 1 MiB.
//!
//! **Separators** describe the boundary between two blocks exactly, in keys and commit timestamps.
//! So exactly one block can contain the newest version of a key at a snapshot, however many blocks
//! the versions of the key fill.
//!
//! **Readers.** [`Table::get`] and its fast path through the cache, [`Table::get_cached`], read a
//! key. [`TableCursor`] iterates over keys in either direction. [`RawCursor`] iterates over
//! versions, bypassing the cache, for compaction. [`verify()`] checks every byte; [`describe()`]
//! returns the layout for inspection.
//!
//! **Range tombstones** ([`RangeTombstones`]) are applied by [`Table::get`] and by the merge of
//! cursors, because they hide versions of older tables too.
//!
//! **Damage.** Every section has a CRC32C that also covers the file's number and the section's
//! offset. It is verified at each read from disk. A flipped bit or a misplaced block is an error
//! that names file and offset, never a result. Decoders do not rely on checksums: they check order
//! and bounds, and limit memory.
//!
//! [`Builder`] writes a table under a temporary name, syncs and renames it; it is part of the
//! database from the manifest edit on that adds it. `docs/data-format.md` describes every byte.
//!
//! Not implemented on purpose: a hash index in blocks (interpolation over the heads is as fast, and
//! ordered); restart points (a block is small enough to be decoded whole).

mod block;
mod bloom;
mod builder;
pub mod cache;
mod compress;
mod cursor;
mod damage;
mod describe;
mod entry_ref;
mod file_name;
mod flat_key;
mod footer;
mod fuzzing;
mod links;
mod memory_limits;
mod options;
mod page;
mod position;
mod prefetch;
mod raw;
pub(crate) mod read_ahead;
mod run;
mod section;
mod source;
mod statistics;
mod table;
#[cfg(test)]
mod tests;
mod tombstones;
mod var;
mod verify;
mod walk;

pub use builder::{Builder, Built, make_durable};
pub use cursor::TableCursor;
pub use describe::{BlockDescription, Description, PageDescription, describe};
pub use entry_ref::EntryRef;
pub use file_name::{file_name, number_in};
pub use flat_key::KEY_BYTES_MAX;
#[doc(hidden)]
pub use fuzzing::decode_anything;
pub use options::{Compression, FilterKind, ReadOptions, TableOptions};
pub use raw::RawCursor;
pub use section::Place;
pub use statistics::Statistics;
pub use table::{Found, Missing, Table};
pub use tombstones::{RangeTombstone, RangeTombstones};
pub use verify::{Verified, verify};
pub use walk::Walk;

pub(crate) use block::{Block, SharedBlock};
