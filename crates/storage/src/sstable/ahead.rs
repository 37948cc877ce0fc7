//! Reads the blocks that a long walk comes to next, several at once.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::Result;

use super::block::Block;
use super::cursor::Walk;
use super::page;
use super::section::Place;
use super::table::Table;
use crate::cache::Kind;
use crate::metrics::add;

/// So many blocks are read one by one first: short walks read nothing in vain.
const MISSES: u32 = 2;
/// The first piece that is read ahead, and the longest.
const FIRST_BYTES: u32 = 16 << 10;
pub(super) const AHEAD_BYTES: u32 = 128 << 10;

/// The piece of the file that was read ahead.
#[derive(Default)]
pub(super) struct Ahead {
    misses: u32,
    window: u32,
    offset: u64,
    bytes: Bytes,
}

impl Ahead {
    /// Forgets the run of misses: a block was in the cache.
    pub(super) const fn hit(&mut self) {
        self.misses = 0;
        self.window = 0;
    }

    /// Returns the block that an index page names at a slot and that is not in the cache.
    pub(super) async fn load(
        &mut self,
        table: &Table,
        walk: &Walk,
        index: &Block,
        slot: usize,
    ) -> Result<Arc<Block>> {
        let place = page::place(index, slot);
        if let Some(bytes) = self.taken(place) {
            add(&table.cache.counters().block_reads_ahead, 1);
            return decode(table, walk, place, &bytes);
        }
        self.misses += 1;
        if self.misses > MISSES {
            self.window = (self.window * 2).clamp(FIRST_BYTES, AHEAD_BYTES);
            let span = self.span(walk, index, slot);
            if span.len > place.len {
                self.bytes = table.source.read(span).await?;
                self.offset = span.offset;
                if let Some(bytes) = self.taken(place) {
                    add(&table.cache.counters().block_reads, 1);
                    return decode(table, walk, place, &bytes);
                }
            }
        }
        table.load_at(place, Kind::Data, walk.reads).await
    }

    /// The block's bytes, where they were read.
    fn taken(&self, place: Place) -> Option<Bytes> {
        let from = usize::try_from(place.offset.checked_sub(self.offset)?).ok()?;
        let to = from.checked_add(place.len as usize)?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }

    /// Which stretch of the file to read for the block at a slot and those that come next.
    fn span(&self, walk: &Walk, index: &Block, slot: usize) -> Place {
        let mut span = page::place(index, slot);
        let mut add = |next: Place| {
            let len = span.len.saturating_add(next.len);
            let fits = len <= self.window;
            if fits {
                span = Place { offset: span.offset.min(next.offset), len };
            }
            fits
        };
        if walk.reverse {
            let wanted = |slot: &usize| *index.key(slot + 1) > *walk.lower;
            let slots = (0..slot).rev().take_while(wanted);
            slots.map(|slot| page::place(index, slot)).all(&mut add);
        } else {
            let upper = walk.upper.as_ref();
            let wanted = |slot: &usize| upper.is_none_or(|upper| *index.key(*slot) < **upper);
            let slots = (slot + 1..index.len()).take_while(wanted);
            slots.map(|slot| page::place(index, slot)).all(&mut add);
        }
        span
    }
}

fn decode(table: &Table, walk: &Walk, place: Place, bytes: &[u8]) -> Result<Arc<Block>> {
    let block = Arc::new(table.decode(place.offset, bytes, Kind::Data)?);
    if !walk.reads.bypass_cache {
        table.cache.offer((table.number(), place.offset), &block);
    }
    Ok(block)
}
