//! What a table looks like inside, for inspection.

use carnet_base::{Result, Timestamp};

use super::options::{Compression, FilterKind};
use super::section::Place;
use super::statistics::Statistics;
use super::table::Table;
use super::{compress, page};
use crate::cache::Kind;
use crate::sstable::block::Block;

/// The sections of a table and what they take.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Names the file.
    pub number: u64,
    /// The version of the format.
    pub version: u32,
    /// The file's length.
    pub bytes: u64,
    /// What it holds.
    pub statistics: Statistics,
    /// Bytes of blocks, compressed, with their checksums.
    pub data_bytes: u64,
    /// Bytes of index pages, with their filters and checksums.
    pub index_bytes: u64,
    /// Bytes of filters among them.
    pub filter_bytes: u64,
    /// Bytes of the top index, in the file.
    pub top_bytes: u64,
    /// Bytes of memory that the table takes while it is open, beside the cache.
    pub memory_bytes: usize,
    /// Blocks.
    pub blocks: u64,
    /// Every index page.
    pub pages: Vec<PageDescription>,
}

/// An index page and the blocks that it names.
#[derive(Clone, Debug, PartialEq)]
pub struct PageDescription {
    /// Where it lies.
    pub place: Place,
    /// The kind and the bytes of its filter, where it has one.
    pub filter: Option<(FilterKind, usize)>,
    /// Its blocks.
    pub blocks: Vec<BlockDescription>,
}

/// A block as its index page names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDescription {
    /// Where it lies.
    pub place: Place,
    /// The separator's key: after all keys before the block and not after its first one.
    pub separator: Vec<u8>,
    /// The separator's commit timestamp, where the block goes on with the versions of that key.
    pub goes_on_below: Option<Timestamp>,
}

/// Describes a table. It reads every index page, past the cache, and no block.
///
/// # Errors
///
/// `Corrupted`, naming the file and the place; `Unavailable` where the disk fails.
pub fn describe(table: &Table) -> Result<Description> {
    let mut pages = Vec::new();
    for number in 0..table.top.as_ref().map_or(0, |top| top.len()) {
        let Some(top) = &table.top else { break };
        let place = page::place(top, number);
        let bytes = table.source.bytes(place)?;
        let index = table.decode(place.offset, &bytes, Kind::Index)?;
        let filter = index.filter().filter(|filter| filter.len() > 0);
        pages.push(PageDescription {
            place,
            filter: filter.map(|filter| (filter.kind(), filter.len())),
            blocks: (0..index.len()).map(|slot| describe_block(&index, slot)).collect(),
        });
    }
    let filters = pages.iter().filter_map(|page| page.filter).map(|(_, bytes)| bytes as u64);
    Ok(Description {
        number: table.number(),
        version: table.footer.version,
        bytes: table.bytes(),
        statistics: table.statistics().clone(),
        data_bytes: table.footer.index,
        index_bytes: table.footer.tombstones.offset - table.footer.index,
        filter_bytes: filters.sum(),
        top_bytes: u64::from(table.footer.top.len),
        memory_bytes: table.memory_bytes(),
        blocks: pages.iter().map(|page| page.blocks.len() as u64).sum(),
        pages,
    })
}

fn describe_block(index: &Block, slot: usize) -> BlockDescription {
    let commit = index.commit(slot);
    BlockDescription {
        place: page::place(index, slot),
        separator: index.key(slot).to_vec(),
        goes_on_below: (commit < Timestamp::MAX).then_some(commit),
    }
}

impl Table {
    /// Returns how the block at a place is compressed and how long its run is before that.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the place; `Unavailable` where the disk fails.
    pub fn describe_block(&self, place: Place) -> Result<(Compression, usize)> {
        let bytes = self.source.bytes(place)?;
        self.source.decode("block", place.offset, &bytes, |section| {
            let kind = compress::kind_of(section).ok_or("the block's compression is unknown")?;
            Ok((kind, compress::run_of(section, compress::RUN_BYTES_MAX)?.len()))
        })
    }
}
