//! Reads the blocks that a long walk comes to next, several at once.

use bytes::Bytes;
use carnet_base::Result;

use super::block::{Block, SharedBlock};
use super::cursor::Walk;
use super::page;
use super::section::Place;
use super::table::Table;
use crate::cache::Kind;
use crate::metrics::add;

/// The first piece that is read ahead of a walk that does not know how much it wants, or is mistaken,
/// and the longest; each is so many times as long as the one before.
const FIRST_BYTES: u32 = 32 << 10;
const GROWTH: u32 = 4;
pub(crate) const AHEAD_BYTES: u32 = 128 << 10;

/// The piece of the file that was read ahead.
#[derive(Default)]
pub(super) struct Ahead {
    /// The longest piece that may be read next; 0 where one block is to be read by itself, so that
    /// short walks read nothing in vain.
    window: u32,
    /// The blocks that the walk came to, whole: how long a version is here.
    seen_bytes: u64,
    seen_versions: u64,
    /// So many of those versions lay within its bounds.
    passed: u64,
    offset: u64,
    bytes: Bytes,
}

impl Ahead {
    /// A block was in the cache: the next one that is not is read by itself.
    pub(super) fn hit(&mut self, place: Place, block: &Block) {
        self.window = 0;
        self.saw(place, block);
    }

    fn saw(&mut self, place: Place, block: &Block) {
        self.seen_bytes += u64::from(place.len);
        self.seen_versions += block.len() as u64;
    }

    /// The walk goes on through so many versions of the block that it came to.
    pub(super) const fn pass(&mut self, versions: usize) {
        self.passed += versions as u64;
    }

    /// How many versions it has come to that lay within its bounds.
    pub(super) const fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the block that an index page names at a slot and that is not in the cache.
    pub(super) async fn load(
        &mut self,
        table: &Table,
        walk: &Walk,
        index: &Block,
        slot: usize,
    ) -> Result<SharedBlock> {
        let place = page::place(index, slot);
        let block = self.block(table, walk, index, slot).await?;
        self.saw(place, &block);
        Ok(block)
    }

    async fn block(
        &mut self,
        table: &Table,
        walk: &Walk,
        index: &Block,
        slot: usize,
    ) -> Result<SharedBlock> {
        let place = page::place(index, slot);
        if let Some(bytes) = self.taken(place) {
            add(&table.cache.counters().block_reads_ahead, 1);
            return decode(table, walk, place, &bytes);
        }
        let bytes_max = match (self.seen_versions, walk.cells_wanted) {
            // What was before the walk's bound in its first block comes on top.
            (0, Some(_)) => AHEAD_BYTES.min(self.rest(table, walk).saturating_add(place.len)),
            _ => self.window.min(self.rest(table, walk)),
        };
        let span = self.span(walk, index, slot, bytes_max);
        self.window = self.window.saturating_mul(GROWTH).clamp(FIRST_BYTES, AHEAD_BYTES);
        if span.len > place.len {
            // A walk holds one piece at a time.
            self.bytes = Bytes::new();
            self.bytes = table.source.read(span).await?;
            self.offset = span.offset;
            if let Some(bytes) = self.taken(place) {
                add(&table.cache.counters().block_reads, 1);
                return decode(table, walk, place, &bytes);
            }
        }
        table.load_at(place, Kind::Data, walk.reads).await
    }

    /// How many bytes it makes sense to read in one piece: what the walk would still take if it found
    /// all that it wants here, and versions were as long as those that it has seen, or before the first
    /// block as all of the table are. Where it has passed as many as it wants, a few more; where twice
    /// as many, as much as can be, because most that lies here is not wanted.
    fn rest(&self, table: &Table, walk: &Walk) -> u32 {
        let Some(cells) = walk.cells_wanted.map(|cells| cells as u64) else { return u32::MAX };
        if self.passed > cells.saturating_mul(2) {
            return u32::MAX;
        }
        let versions = cells.saturating_sub(self.passed).max(self.passed / 4);
        let (seen_bytes, seen_versions) = match self.seen_versions {
            0 => (table.footer.index, table.statistics().versions),
            seen => (self.seen_bytes, seen),
        };
        let bytes = versions.saturating_mul(seen_bytes) / seen_versions.max(1);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// The block's bytes, where they were read.
    fn taken(&self, place: Place) -> Option<Bytes> {
        let from = usize::try_from(place.offset.checked_sub(self.offset)?).ok()?;
        let to = from.checked_add(place.len as usize)?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }

    /// Which stretch of the file to read for the block at a slot and those that come next, in one
    /// piece of at most so many bytes.
    fn span(&self, walk: &Walk, index: &Block, slot: usize, bytes_max: u32) -> Place {
        let mut span = page::place(index, slot);
        let mut add = |next: Place| {
            let len = span.len.saturating_add(next.len);
            let fits = len <= bytes_max;
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

fn decode(table: &Table, walk: &Walk, place: Place, bytes: &[u8]) -> Result<SharedBlock> {
    let block = table.decode(place.offset, bytes, Kind::Data)?;
    if !walk.reads.bypass_cache {
        table.cache.offer((table.number(), place.offset), &block);
    }
    Ok(block)
}
