//! Sorted tables: immutable files of versions, by key, newest version first.
//!
//! ```text
//!  ┌───────┬──…──┬───────┬────────────┬──…──┬────────────┬────────────┬───────┬────────────┬────────┐
//!  │ block │     │ block │ index page │     │ index page │ range      │ top   │ statistics │ footer │
//!  │       │     │       │ + filter   │     │ + filter   │ tombstones │ index │            │        │
//!  └───────┴──…──┴───────┴────────────┴──…──┴────────────┴────────────┴───────┴────────────┴────────┘
//!   read through the cache                                read when the table is opened, and kept
//! ```
//!
//! **Compact on disk, searchable in memory.** On disk a block is a *run* of entries stored column
//! by column and compressed. It is decoded once, when it is read, into a block whose keys are
//! whole and whose entries are found without decoding anything again.
//!
//! **Three levels of index**, all blocks of the same kind (`page`): the top index in memory names
//! index pages of about 4 KiB, which name blocks of about 4 KiB. Each index page carries the
//! filter (`bloom`) of what lies in its blocks, so that one read brings both. So a point read
//! costs two reads where everything is cold, one where only the block is, and none where a filter
//! says no; the top index of 10 GB of 1 KiB rows takes under 1 MiB.
//!
//! **Separators** name the place between two blocks exactly, in keys and in commit timestamps:
//! exactly one block can hold the newest version of a key at a snapshot, however many blocks the
//! versions of that key fill.
//!
//! **Readers.** [`Table::get`] and its short way through the cache, [`Table::get_cached`];
//! [`TableCursor`] walks keys either way; [`RawCursor`] walks versions past the cache, for
//! compaction; [`verify()`] reads every byte, [`describe()`] what an inspector shows.
//!
//! **Range tombstones** ([`RangeTombstones`]) are applied by [`Table::get`] and by whoever merges
//! cursors, because they hide versions of older tables too.
//!
//! **Damage.** Every section carries a CRC32C that covers the file's number and the section's place
//! in it, checked whenever it is read from disk; a flipped bit, or a block that belongs elsewhere,
//! is an error that names the file and the place, and never an answer. Decoders trust nothing
//! even so: they check order and bounds, and take no more memory than was allowed.
//!
//! A table is written under a temporary name by [`Builder`], synced, and renamed; it belongs to the
//! database from the manifest edit on that names it. Everything is described byte by byte in
//! `docs/data-format.md`.
//!
//! Absent on purpose: a hash index inside blocks (interpolation over the heads is as fast, and
//! ordered); restart points (a block is small enough to be decoded whole).

pub(crate) mod ahead;
mod block;
mod bloom;
mod builder;
mod compress;
mod cursor;
mod describe;
mod footer;
mod links;
mod options;
mod page;
mod prefetch;
mod raw;
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

use carnet_base::Token;

pub use builder::{Builder, Built};
pub use cursor::{TableCursor, Walk};
pub use describe::{BlockDescription, Description, PageDescription, describe};
pub use options::{Compression, FilterKind, ReadOptions, TableOptions};
pub use raw::RawCursor;
pub use run::EntryRef;
pub use section::Place;
pub use statistics::Statistics;
pub use table::{Found, Table};
pub use tombstones::{RangeTombstone, RangeTombstones};
pub use verify::{Verified, verify};

pub(crate) use block::{Block, SharedBlock};

use crate::codec;

/// Decodes bytes as one kind of section, behind the checksum: for fuzzing only.
#[doc(hidden)]
pub fn decode_anything(kind: u8, bytes: &[u8]) {
    const MEMORY_MAX: usize = 16 << 20;
    let look_at = |block: SharedBlock| {
        let (key, commit) = (bytes, carnet_base::Timestamp::MAX);
        assert!(block.seek(key, commit) <= block.len() && block.memory_bytes() <= 2 * MEMORY_MAX);
        for at in 0..block.len() {
            let entry = block.get(at);
            assert_eq!(block.seek(entry.key, entry.commit), at);
        }
    };
    let end = bytes.len() as u64;
    let _ = match kind % 7 {
        0 => run::decode(bytes, MEMORY_MAX).map(look_at),
        1 => page::decode_data(bytes).map(drop),
        2 => page::decode_page(bytes, end).map(drop),
        3 => page::decode_top(bytes, 0, end).map(drop),
        4 => RangeTombstones::read(bytes).map(drop),
        5 => Statistics::read(bytes).map(drop),
        _ => footer::Footer::read(bytes, 1, end).map(drop).map_err(|_| "no footer"),
    };
}

/// What is wrong with bytes that were read.
type Wrong = &'static str;

/// What stands before the partition key in a flat key: table, token, length.
const FRAME_BYTES: usize = 14;

/// The longest flat key.
pub const KEY_BYTES_MAX: usize =
    FRAME_BYTES + codec::PARTITION_KEY_BYTES_MAX + codec::CLUSTERING_KEY_BYTES_MAX;

/// Names a table's file.
#[must_use]
pub fn file_name(number: u64) -> String {
    format!("sst-{number:08}.sst")
}

/// Returns the number in a table's file name, or `None` for the name of anything else.
#[must_use]
pub fn number_in(name: &str) -> Option<u64> {
    let number = name.strip_prefix("sst-")?.strip_suffix(".sst")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// How many of a flat key's first bytes name its partition; all of them where it is too short.
fn partition_len(key: &[u8]) -> usize {
    match key {
        [_, _, _, _, _, _, _, _, _, _, _, _, high, low, ..] => {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            key.len().min(FRAME_BYTES + len)
        }
        _ => key.len(),
    }
}

/// The id of the cell table that a flat key lies in.
fn table_of(key: &[u8]) -> u32 {
    key.first_chunk().map_or(0, |id| u32::from_be_bytes(*id))
}

/// The token of a flat key.
fn token_of(key: &[u8]) -> Token {
    let flipped = key.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |t| u64::from_be_bytes(*t));
    Token((flipped ^ (1 << 63)).cast_signed())
}
