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
mod compress;
mod cursor;
mod describe;
mod footer;
mod links;
mod options;
mod page;
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

/// Decodes bytes as one kind of section, without a checksum: for fuzzing only.
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

/// Description of damage.
type Wrong = &'static str;

/// Length of the frame before the partition key in a flat key: table, token, length.
const FRAME_BYTES: usize = 14;

/// Maximum length of a flat key.
pub const KEY_BYTES_MAX: usize =
    FRAME_BYTES + codec::PARTITION_KEY_BYTES_MAX + codec::CLUSTERING_KEY_BYTES_MAX;

/// Returns the file name of a table.
#[must_use]
pub fn file_name(number: u64) -> String {
    format!("sst-{number:08}.sst")
}

/// Returns the number in a table's file name; `None` for other names.
#[must_use]
pub fn number_in(name: &str) -> Option<u64> {
    let number = name.strip_prefix("sst-")?.strip_suffix(".sst")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Returns the length of a flat key's prefix that identifies its partition; the whole key if it is
/// too short.
fn partition_len(key: &[u8]) -> usize {
    match key {
        [_, _, _, _, _, _, _, _, _, _, _, _, high, low, ..] => {
            let len = usize::from(u16::from_be_bytes([*high, *low]));
            key.len().min(FRAME_BYTES + len)
        }
        _ => key.len(),
    }
}

/// Returns the id of a flat key's cell table.
fn table_of(key: &[u8]) -> u32 {
    key.first_chunk().map_or(0, |id| u32::from_be_bytes(*id))
}

/// Returns the token of a flat key.
fn token_of(key: &[u8]) -> Token {
    let flipped = key.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |t| u64::from_be_bytes(*t));
    Token((flipped ^ (1 << 63)).cast_signed())
}
