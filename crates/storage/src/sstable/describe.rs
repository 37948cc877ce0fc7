//! Description of a table's layout, for inspection.

use carnet_base::{Result, Timestamp};

use super::cache::Kind;
use super::options::{Compression, FilterKind};
use super::section::Place;
use super::statistics::Statistics;
use super::table::Table;
use super::{compress, page};
use crate::sstable::block::Block;

/// Sections of a table and their sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Number of the file.
    pub number: u64,
    /// Version of the file's format.
    pub version: u32,
    /// Length of the file.
    pub bytes: u64,
    /// Statistics of the contents.
    pub statistics: Statistics,
    /// Bytes of compressed blocks and their checksums.
    pub data_bytes: u64,
    /// Bytes of index pages, filters and their checksums.
    pub index_bytes: u64,
    /// Bytes of filters, a part of `index_bytes`.
    pub filter_bytes: u64,
    /// Bytes of the top index in the file.
    pub top_bytes: u64,
    /// Memory of the open table, without the cache.
    pub memory_bytes: usize,
    /// Number of blocks.
    pub blocks: u64,
    /// All index pages.
    pub pages: Vec<PageDescription>,
}

/// An index page and the blocks that it refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct PageDescription {
    /// Offset and length of the page.
    pub place: Place,
    /// Kind and size of its filter, if any.
    pub filter: Option<(FilterKind, usize)>,
    /// Blocks that the page refers to.
    pub blocks: Vec<BlockDescription>,
}

/// A block, as described by its index page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDescription {
    /// Offset and length of the block.
    pub place: Place,
    /// Separator key: after all keys before the block, and not after the block's first key.
    pub separator: Vec<u8>,
    /// Separator commit, if the block continues the versions of that key.
    pub goes_on_below: Option<Timestamp>,
}

/// Describes a table. Reads every index page, bypassing the cache, and no block.
///
/// # Errors
///
/// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
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
    /// Returns the compression of a block and the length of its uncompressed run.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub fn describe_block(&self, place: Place) -> Result<(Compression, usize)> {
        let bytes = self.source.bytes(place)?;
        self.source.decode("block", place.offset, &bytes, |section| {
            let kind = compress::kind_of(section).ok_or("the block's compression is unknown")?;
            Ok((kind, compress::run_of(section, compress::RUN_BYTES_MAX)?.len()))
        })
    }
}
