//! Cursor over every version of a table in order, for compactions, merges of large transactions,
//! and backups.
//!
//! Reads blocks in pieces of up to 256 KiB, or fewer bytes if they are set, on the caller's thread, bypassing both the block
//! cache and the page cache: each block is read once, usually of a file that is about to be
//! removed. Index pages, which follow all blocks, are read many at a time.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use super::block::{Block, SharedBlock};
use super::cache::Kind;
use super::entry_ref::EntryRef;
use super::page;
use super::section::Place;
use super::table::{Table, slot_of};
use crate::disk::BulkReader;

/// Maximum size of a read of blocks: half a millisecond for a device of 500 MB/s.
const PIECE_BYTES: u32 = 256 << 10;
/// Maximum size of a read of index pages, which cover about a hundred times as many bytes of
/// blocks.
const PAGES_BYTES: u32 = 64 << 10;

/// Cursor over all versions in a range of keys. It starts before the first one.
pub struct RawCursor {
    table: Arc<Table>,
    lower: Bytes,
    upper: Option<Bytes>,
    piece_bytes: u32,
    page_number: usize,
    /// Index pages that were read together, and the offset of the first one.
    pages: Option<(u64, Vec<u8>)>,
    page: Option<SharedBlock>,
    slot: usize,
    /// Holds the piece of the file at offset `piece`.
    reader: Option<BulkReader>,
    piece: u64,
    block: Option<SharedBlock>,
    at: usize,
    /// End of the range within the block.
    to: usize,
    ended: bool,
}

/// A part of the file that has to be read first.
#[derive(Clone, Copy)]
struct Need {
    place: Place,
    kind: Kind,
}

impl RawCursor {
    /// Makes a cursor before the first version of the keys in `[lower, upper)`, or to the table's
    /// end; reads nothing.
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
            piece_bytes: PIECE_BYTES,
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

    /// Sets the maximum size in bytes of a read of blocks. A larger block is read whole.
    #[must_use]
    pub fn with_piece_bytes(self, piece_bytes: u32) -> Self {
        Self { piece_bytes, ..self }
    }

    /// Returns the current version; `None` at the end and before the first one.
    #[must_use]
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        self.block.as_ref().map(|block| block.get(self.at))
    }

    /// Returns the key of the current version, like [`RawCursor::entry`].
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.block.as_ref().map(|block| block.key(self.at))
    }

    /// Moves to the next version; reads on the caller's thread if necessary.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
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
            // Releases file and memory, because the merge may continue for long.
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

    /// Enters the next block, if it is in memory; otherwise returns the part to read.
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
                        let place = self.contiguous(top, self.page_number, PAGES_BYTES);
                        return Ok(Some(Need { place, kind: Kind::Index }));
                    };
                    let page = self.table.decode(place.offset, bytes, Kind::Index)?;
                    // The range can begin after the first block only in the first page.
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

    /// Returns `true` if the section at a slot of an index is after the range.
    fn is_beyond(&self, index: &Block, slot: usize) -> bool {
        self.upper.as_ref().is_some_and(|upper| **upper <= *index.key(slot))
    }

    /// Returns the sections of an index from a slot on that are within the range, as one piece of
    /// at most about `bytes_max` bytes.
    fn contiguous(&self, index: &Block, slot: usize, bytes_max: u32) -> Place {
        let mut contiguous = page::place(index, slot);
        for slot in slot + 1..index.len() {
            let len = contiguous.len.saturating_add(page::place(index, slot).len);
            if self.is_beyond(index, slot) || len > bytes_max {
                break;
            }
            contiguous.len = len;
        }
        contiguous
    }

    /// Returns the blocks from the slot on to read together. If the next page's blocks are wanted
    /// too, the last one may be cut off; then it is read again.
    fn piece_from(&self, top: &Block, index: &Block) -> Place {
        let mut piece = self.contiguous(index, self.slot, self.piece_bytes);
        let next = self.page_number + 1;
        let is_all = piece.end() == page::place(index, index.len() - 1).end();
        if is_all && next < top.len() && !self.is_beyond(top, next) {
            let rest = u32::try_from(self.table.footer.index - piece.offset).unwrap_or(u32::MAX);
            piece.len = piece.len.max(rest.min(self.piece_bytes));
        }
        piece
    }
}

/// Returns the bytes of a section from a piece of the file that begins at `from`; `None` if it is
/// not contained. The first section of a piece is incomplete only if the file was truncated.
fn part(piece: &[u8], from: u64, place: Place) -> Option<&[u8]> {
    let at = usize::try_from(place.offset.checked_sub(from)?).ok()?;
    let to = at.checked_add(place.len as usize)?;
    (to <= piece.len() || at == 0).then(|| &piece[at..to.min(piece.len())])
}
