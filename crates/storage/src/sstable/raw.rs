//! Walks every version of a table in order, for compactions, large transactions' merges and backups.
//!
//! It reads blocks in pieces of up to [`PIECE_BYTES`], on the caller's thread, past the engine's cache and
//! the system's: each block is read once, and mostly of files that are about to be removed. Index pages,
//! which stand behind all blocks, are read many at a time.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use super::block::{Block, SharedBlock};
use super::page;
use super::run::EntryRef;
use super::section::Place;
use super::table::{Table, slot_of};
use crate::cache::Kind;
use crate::disk::BulkReader;

/// How much is read at once: one read of a device that gives 500 MB/s takes half a millisecond.
const PIECE_BYTES: u32 = 256 << 10;
/// How much of index pages is read at once: for about a hundred times as many bytes of blocks.
const PAGES_BYTES: u32 = 64 << 10;

/// A walk over all versions of a range of keys. It begins in front of the first one.
pub struct RawCursor {
    table: Arc<Table>,
    lower: Bytes,
    upper: Option<Bytes>,
    page_number: usize,
    /// Index pages that were read together, and where the first of them stands in the file.
    pages: Option<(u64, Vec<u8>)>,
    page: Option<SharedBlock>,
    slot: usize,
    /// Has a piece of the file that begins at `piece`.
    reader: Option<BulkReader>,
    piece: u64,
    block: Option<SharedBlock>,
    at: usize,
    /// Where the block's entries leave the range.
    to: usize,
    ended: bool,
}

/// A stretch of the file that has to be read first.
#[derive(Clone, Copy)]
struct Need {
    place: Place,
    kind: Kind,
}

impl RawCursor {
    /// Makes a cursor in front of the first version of the keys from `lower` up to `upper`, or to
    /// the table's end: nothing is read yet.
    #[must_use]
    pub fn new(table: Arc<Table>, lower: Bytes, upper: Option<Bytes>) -> Self {
        let empty = upper.as_ref().is_some_and(|upper| *upper <= lower);
        let first = table.top.as_ref().map(|top| slot_of(top, &lower, Timestamp::MAX));
        Self {
            page_number: first.unwrap_or(0),
            ended: empty || first.is_none(),
            table,
            lower,
            upper,
            pages: None,
            page: None,
            slot: 0,
            reader: None,
            piece: 0,
            block: None,
            at: 0,
            to: 0,
        }
    }

    /// Returns the version that it stands at; `None` at the end, and in front of the first one.
    #[must_use]
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        self.block.as_ref().map(|block| block.get(self.at))
    }

    /// Returns the key of the version that it stands at, as [`RawCursor::entry`].
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.block.as_ref().map(|block| block.key(self.at))
    }

    /// Goes on to the next version; reads on the caller's thread where that is needed.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the place; `Unavailable` where the disk fails.
    pub fn advance_blocking(&mut self) -> Result<()> {
        if self.block.is_some() && self.at + 1 < self.to {
            self.at += 1;
            return Ok(());
        }
        self.leave();
        while let Some(need) = self.need()? {
            self.supply(need)?;
        }
        if self.ended {
            // The file and the memory are others' while a merge goes on.
            (self.reader, self.pages) = (None, None);
        }
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(block) = self.block.take() {
            self.ended |= self.to < block.len();
            self.slot += 1;
        }
    }

    /// Enters the next block as far as that is in memory; says what to read where it is not.
    fn need(&mut self) -> Result<Option<Need>> {
        while !self.ended && self.block.is_none() {
            let Some(top) = &self.table.top else { break };
            match &self.page {
                None if self.page_number == top.len() => self.ended = true,
                None => {
                    let place = page::place(top, self.page_number);
                    let read = self.pages.as_ref();
                    let Some(bytes) = read.and_then(|(from, bytes)| part(bytes, *from, place))
                    else {
                        let place = self.stretch(top, self.page_number, PAGES_BYTES);
                        return Ok(Some(Need { place, kind: Kind::Index }));
                    };
                    let page = self.table.decode(place.offset, bytes, Kind::Index)?;
                    // Only in the first page can the range begin behind the first block.
                    self.slot = slot_of(&page, &self.lower, Timestamp::MAX);
                    self.page = Some(page);
                }
                Some(index) if self.slot == index.len() => {
                    self.page = None;
                    self.page_number += 1;
                }
                Some(index) if self.is_beyond(index, self.slot) => self.ended = true,
                Some(index) => {
                    let place = page::place(index, self.slot);
                    let read = self.reader.as_ref().map(BulkReader::bytes);
                    let read = read.filter(|read| !read.is_empty());
                    let Some(bytes) = read.and_then(|read| part(read, self.piece, place)) else {
                        let place = self.piece_from(top, index);
                        return Ok(Some(Need { place, kind: Kind::Data }));
                    };
                    let block = self.table.decode(place.offset, bytes, Kind::Data)?;
                    self.enter(block);
                }
            }
        }
        Ok(None)
    }

    fn supply(&mut self, need: Need) -> Result<()> {
        let source = &self.table.source;
        match need.kind {
            Kind::Data => {
                source.piece(&mut self.reader, need.place)?;
                self.piece = need.place.offset;
            }
            Kind::Index => {
                self.pages = Some((need.place.offset, source.bytes(need.place)?));
            }
        }
        Ok(())
    }

    fn enter(&mut self, block: SharedBlock) {
        self.at =
            if *self.lower <= *block.key(0) { 0 } else { block.seek(&self.lower, Timestamp::MAX) };
        self.to = match &self.upper {
            Some(upper) => block.seek(upper, Timestamp::MAX),
            None => block.len(),
        };
        if self.at < self.to {
            self.block = Some(block);
        } else {
            self.ended |= self.to < block.len();
            self.slot += 1;
        }
    }

    /// Tells whether what an index names at a slot lies behind the range.
    fn is_beyond(&self, index: &Block, slot: usize) -> bool {
        self.upper.as_ref().is_some_and(|upper| **upper <= *index.key(slot))
    }

    /// What an index names from a slot on, as far as the range goes, in one piece of about so many
    /// bytes at most.
    fn stretch(&self, index: &Block, slot: usize, bytes_max: u32) -> Place {
        let mut stretch = page::place(index, slot);
        for slot in slot + 1..index.len() {
            let len = stretch.len.saturating_add(page::place(index, slot).len);
            if self.is_beyond(index, slot) || len > bytes_max {
                break;
            }
            stretch.len = len;
        }
        stretch
    }

    /// The blocks from the slot on that are read together. Where the next page's blocks are wanted as
    /// well, the last of them may be cut: it is read again.
    fn piece_from(&self, top: &Block, index: &Block) -> Place {
        let mut piece = self.stretch(index, self.slot, PIECE_BYTES);
        let next = self.page_number + 1;
        let is_all = piece.end() == page::place(index, index.len() - 1).end();
        if is_all && next < top.len() && !self.is_beyond(top, next) {
            let rest = u32::try_from(self.table.footer.index - piece.offset).unwrap_or(u32::MAX);
            piece.len = piece.len.max(rest.min(PIECE_BYTES));
        }
        piece
    }
}

/// Returns what stands at a place, of a piece of the file that begins at `from`; `None` where not all of
/// it is there. What the piece was read for is short only where the file was cut.
fn part(piece: &[u8], from: u64, place: Place) -> Option<&[u8]> {
    let at = usize::try_from(place.offset.checked_sub(from)?).ok()?;
    let to = at.checked_add(place.len as usize)?;
    (to <= piece.len() || at == 0).then(|| &piece[at..to.min(piece.len())])
}
