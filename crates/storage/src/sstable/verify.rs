//! Verifies every byte of a table, and the consistency of its sections.

use carnet_base::{Error, Result, Timestamp};

use super::block::{Block, SharedBlock};
use super::cache::Kind;
use super::entry_ref::EntryRef;
use super::flat_key::partition_len;
use super::page;
use super::section::Place;
use super::statistics::{Counting, Statistics};
use super::table::Table;

/// Progress of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of valid blocks.
    pub blocks: u64,
    /// Number of valid index pages.
    pub index_pages: u64,
    /// Number of versions in those blocks.
    pub versions: u64,
    /// Number of bytes of the file that were read.
    pub bytes: u64,
}

/// Verifies a table: every block and index page, their order, the filters and the statistics. Reads
/// on the caller's thread, bypassing the cache, and calls `progress` after every index page.
///
/// [`Table::open`] has verified the other sections; [`Verified::bytes`] includes them.
///
/// # Errors
///
/// `Corrupted` for the first damage, naming the file, the section and the offset; `Unavailable` if
/// the disk fails.
pub fn verify(table: &Table, mut progress: impl FnMut(&Verified)) -> Result<Verified> {
    let mut check = Check {
        table,
        verified: Verified::default(),
        counting: Counting::default(),
        last: None,
        data_end: 0,
    };
    for number in 0..table.top.as_ref().map_or(0, |top| top.len()) {
        check.page(number)?;
        progress(&check.verified);
    }
    check.finish()
}

struct Check<'a> {
    table: &'a Table,
    verified: Verified,
    counting: Counting,
    /// Last version of the previous block.
    last: Option<(Vec<u8>, Timestamp)>,
    data_end: u64,
}

impl Check<'_> {
    fn page(&mut self, number: usize) -> Result<()> {
        let table = self.table;
        let Some(top) = &table.top else { return Ok(()) };
        let at = page::place(top, number);
        let index = self.read(at, Kind::Index)?;
        self.verified.index_pages += 1;
        let wrong = |what| table.source.damaged("index page", at.offset, Error::corrupted(what));
        if (index.key(0), index.commit(0)) != (top.key(number), top.commit(number)) {
            return Err(wrong("it is not the one that the top index names"));
        }
        for slot in 0..index.len() {
            let place = page::place(&index, slot);
            if place.offset != self.data_end {
                return Err(wrong("its blocks do not adjoin those of the page before"));
            }
            self.data_end = place.end();
            let block = self.read(place, Kind::Data)?;
            self.block(&index, slot, place, &block)?;
        }
        Ok(())
    }

    fn block(&mut self, index: &Block, slot: usize, place: Place, block: &Block) -> Result<()> {
        let wrong =
            |what: &str| self.table.source.damaged("block", place.offset, Error::corrupted(what));
        let separator = (index.key(slot), index.commit(slot));
        let first = (block.key(0), block.commit(0));
        if !is_in_order(separator, first) && separator != first {
            return Err(wrong("it begins before its separator in the index"));
        }
        if let Some((key, commit)) = &self.last {
            let last = (&key[..], *commit);
            if !is_in_order(last, first) || !is_in_order(last, separator) {
                return Err(wrong("it begins before the end of the block before it"));
            }
        }
        let mut partition = self.last.as_ref().map(|(key, _)| key[..partition_len(key)].to_vec());
        for at in 0..block.len() {
            let entry: EntryRef<'_> = block.get(at);
            if !index.may_contain(entry.key) {
                return Err(wrong("the filter of its index page lacks one of its keys"));
            }
            let prefix = &entry.key[..partition_len(entry.key)];
            let is_new = partition.as_deref() != Some(prefix);
            if is_new {
                partition = Some(prefix.to_vec());
            }
            self.counting.add(&entry, is_new);
        }
        let last = block.len() - 1;
        self.last = Some((block.key(last).to_vec(), block.commit(last)));
        self.verified.blocks += 1;
        self.verified.versions += block.len() as u64;
        Ok(())
    }

    fn finish(self) -> Result<Verified> {
        let Self { table, mut verified, mut counting, last, data_end } = self;
        let wrong = |what: &str, offset, why: &str| {
            Err(table.source.damaged(what, offset, Error::corrupted(why)))
        };
        let footer = &table.footer;
        if data_end != footer.index {
            return wrong("index", footer.index, "it does not name all blocks");
        }
        table.range_tombstones().count(&mut counting);
        let last = last.map(|(key, _)| key).unwrap_or_default();
        let counted: Statistics = counting.finish(&last);
        if counted != *table.statistics() {
            let why = "they are not what the blocks hold";
            return wrong("statistics", footer.statistics.offset, why);
        }
        // The other sections were read and verified when the table was opened.
        verified.bytes += table.bytes() - footer.tombstones.offset;
        Ok(verified)
    }

    fn read(&mut self, place: Place, kind: Kind) -> Result<SharedBlock> {
        let bytes = self.table.source.bytes(place)?;
        self.verified.bytes += bytes.len() as u64;
        self.table.decode(place.offset, &bytes, kind)
    }
}

/// Returns `true` if two versions are in order: by key, then newest first.
fn is_in_order(left: (&[u8], Timestamp), right: (&[u8], Timestamp)) -> bool {
    left.0.cmp(right.0).then(right.1.cmp(&left.1)).is_lt()
}
