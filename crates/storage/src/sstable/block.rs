//! A block: a run of versions, compressed.
//!
//! ```text
//!  0  compression   u8    0 none, 1 LZ4 (block format)
//!  1  length        u32   of the run before compression
//!  5  run           see `codec`; every cell carries its version
//!     CRC32C        u32
//! ```

use bytes::{BufMut, Bytes};
use carnet_base::{CellKey, Error, Result, Timestamp, Version};

use super::section;
use crate::codec::{self, Decoder, put_cell};

const NONE: u8 = 0;
const LZ4: u8 = 1;
/// A block is closed once it is long enough, so that its last cell may stand out by its length.
pub(crate) const RUN_BYTES_MAX: usize =
    (1 << 20) + codec::CELL_KEY_BYTES_MAX + codec::PAYLOAD_BYTES_MAX + 64;
/// The longest that [`crate::Options::block_bytes`] may be.
pub(crate) const BLOCK_BYTES_MAX: usize = 1 << 20;

/// A version in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: CellKey,
    pub(crate) start: Timestamp,
    pub(crate) commit: Timestamp,
    pub(crate) payload: Option<Bytes>,
}

impl Entry {
    pub(crate) fn version(&self) -> Version {
        Version { start: self.start, commit: Some(self.commit), payload: self.payload.clone() }
    }
}

/// A decoded block: at least one entry, by cell, newest version first.
#[derive(Debug)]
pub(crate) struct Block {
    entries: Vec<Entry>,
    run_bytes: usize,
}

impl Block {
    /// Reads a block that stands at `offset`.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(crate) fn read(bytes: &Bytes, offset: u64) -> Result<Self> {
        let mut decoder = Decoder::new(section::open(bytes, offset)?);
        let compression = decoder.u8()?;
        let len = decoder.u32()? as usize;
        if len > RUN_BYTES_MAX {
            return Err(Error::corrupted(format!("a block of {len} bytes is too long")));
        }
        let stored = decoder.rest();
        let run = match compression {
            NONE => stored,
            LZ4 => Bytes::from(lz4_flex::block::decompress(&stored, len).map_err(|error| {
                Error::corrupted("the block cannot be decompressed").with_source(error)
            })?),
            other => return Err(Error::corrupted(format!("compression {other} is unknown"))),
        };
        if run.len() != len {
            return Err(Error::corrupted("the block has another length than it says"));
        }
        let entries = entries_of(run)?;
        Ok(Self { entries, run_bytes: len })
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What the block costs in memory.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.run_bytes + self.entries.capacity() * size_of::<Entry>()
    }

    /// Returns the index of the first entry at or after a version of a cell.
    pub(crate) fn seek(&self, key: &CellKey, read: Timestamp) -> usize {
        self.entries.partition_point(|entry| is_before(&entry.key, entry.commit, key, read))
    }
}

/// The order of versions: by cell, then newest first.
pub(crate) fn is_before(
    key: &CellKey,
    commit: Timestamp,
    other: &CellKey,
    other_commit: Timestamp,
) -> bool {
    key.cmp(other).then(other_commit.cmp(&commit)).is_lt()
}

fn entries_of(run: Bytes) -> Result<Vec<Entry>> {
    let mut decoder = Decoder::new(run);
    let mut entries: Vec<Entry> = Vec::new();
    while !decoder.is_empty() {
        let last = entries.last();
        let cell = decoder.cell()?;
        let Some((start, commit)) = cell.version else {
            return Err(Error::corrupted("a cell in a block has no version"));
        };
        if last.is_some_and(|last| !is_before(&last.key, last.commit, &cell.key, commit)) {
            return Err(Error::corrupted("the block's cells are not in order"));
        }
        entries.push(Entry { key: cell.key, start, commit, payload: cell.payload });
    }
    if entries.is_empty() {
        return Err(Error::corrupted("the block has no cells"));
    }
    Ok(entries)
}

/// Collects the run of a block.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    run: Vec<u8>,
}

impl BlockBuilder {
    /// How many bytes the run has so far.
    pub(crate) const fn len(&self) -> usize {
        self.run.len()
    }

    pub(crate) fn push(
        &mut self,
        key: &CellKey,
        (start, commit): (Timestamp, Timestamp),
        payload: Option<&[u8]>,
    ) {
        put_cell(&mut self.run, key, Some((start, commit)), payload);
    }

    /// Appends the block, which will stand at `offset`, to `out`, and begins the next one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>, offset: u64) {
        let from = out.len();
        let len = u32::try_from(self.run.len()).expect("a run is at most RUN_BYTES_MAX bytes");
        let compressed = lz4_flex::block::compress(&self.run);
        let (compression, stored) =
            if compressed.len() < self.run.len() { (LZ4, &compressed) } else { (NONE, &self.run) };
        out.put_u8(compression);
        out.put_u32_le(len);
        out.put_slice(stored);
        section::seal(out, from, offset);
        self.run.clear();
    }
}
