//! The block index: each block's place and first version.
//!
//! ```text
//!    entry*    length, offset: VAR_LONGs, then the block's first version as a cell of a run (see
//!              `codec`) without a payload
//!    CRC32C    u32
//! ```

use bytes::Bytes;
use carnet_base::{CellKey, Error, Result, Timestamp, var_long};

use super::block::is_before;
use super::section::{self, Place};
use crate::codec::{Decoder, put_cell};

/// A block as its index names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) place: Place,
    pub(crate) first: CellKey,
    pub(crate) commit: Timestamp,
}

/// The blocks of a table, at least one, in order.
#[derive(Debug)]
pub(crate) struct Index(Vec<IndexEntry>);

impl Index {
    /// Reads an index that stands at `offset`, behind all blocks.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(crate) fn read(bytes: &Bytes, offset: u64) -> Result<Self> {
        let mut decoder = Decoder::new(section::open(bytes, offset)?);
        let mut entries: Vec<IndexEntry> = Vec::new();
        let mut end = 0;
        while !decoder.is_empty() {
            let len = decoder.var()?;
            let place = Place {
                offset: decoder.var()?,
                len: u32::try_from(len).map_err(|_| Error::corrupted("a block is too long"))?,
            };
            let last = entries.last();
            let cell = decoder.cell()?;
            let Some((_, commit)) = cell.version else {
                return Err(Error::corrupted("an index entry has no version"));
            };
            let sorted =
                last.is_none_or(|last| is_before(&last.first, last.commit, &cell.key, commit));
            if !sorted || place.offset != end {
                return Err(Error::corrupted("the index is not in order"));
            }
            end += len;
            entries.push(IndexEntry { place, first: cell.key, commit });
        }
        if entries.is_empty() || end != offset {
            return Err(Error::corrupted("the index does not fit the file"));
        }
        Ok(Self(entries))
    }

    /// Appends an index, which will stand at `offset`.
    pub(crate) fn put(entries: &[IndexEntry], out: &mut Vec<u8>, offset: u64) {
        let from = out.len();
        for IndexEntry { place, first, commit } in entries {
            var_long::put(out, i64::from(place.len));
            var_long::put(out, place.offset.cast_signed());
            put_cell(out, first, Some((Timestamp::ZERO, *commit)), None);
        }
        section::seal(out, from, offset);
    }

    pub(crate) const fn blocks(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, block: usize) -> Option<&IndexEntry> {
        self.0.get(block)
    }

    /// Returns the block in which a version stands or would stand.
    pub(crate) fn seek(&self, key: &CellKey, read: Timestamp) -> usize {
        self.0
            .partition_point(|entry| !is_before(key, read, &entry.first, entry.commit))
            .saturating_sub(1)
    }
}
