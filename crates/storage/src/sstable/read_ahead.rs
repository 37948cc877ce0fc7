//! Read-ahead: reads the next blocks of a long scan in one piece.

use bytes::Bytes;
use carnet_base::Result;

use super::block::{Block, SharedBlock};
use super::cache::Kind;
use super::page;
use super::section::Place;
use super::table::Table;
use super::walk::Walk;
use crate::metrics::add;

/// Size of the first piece that is read ahead of a scan without a known size; each further piece is
/// `GROWTH` times larger, up to `READ_AHEAD_BYTES`.
const FIRST_BYTES: u32 = 32 << 10;
const GROWTH: u32 = 4;
pub(crate) const READ_AHEAD_BYTES: u32 = 128 << 10;

/// Read-ahead state of a scan, and the piece that was read.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// Maximum size of the next piece; 0 to read a single block, so that short scans read nothing
    /// in vain.
    window: u32,
    /// Size and number of versions of the blocks entered so far, to estimate the size of a version.
    seen_bytes: u64,
    seen_versions: u64,
    /// Number of those versions within the scan's bounds.
    passed: u64,
    offset: u64,
    bytes: Bytes,
}

impl ReadAhead {
    /// Records that a block was in the cache: the next block that is not is read alone.
    pub(super) fn hit(&mut self, place: Place, block: &Block) {
        self.window = 0;
        self.saw(place, block);
    }

    fn saw(&mut self, place: Place, block: &Block) {
        self.seen_bytes += u64::from(place.len);
        self.seen_versions += block.len() as u64;
    }

    /// Records that the scan returns this number of versions of the current block.
    pub(super) const fn pass(&mut self, versions: usize) {
        self.passed += versions as u64;
    }

    /// Returns the number of versions within the scan's bounds so far.
    pub(super) const fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the block at a slot of an index page, which is not in the cache.
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
            // The first block may also hold versions before the lower bound.
            (0, Some(_)) => READ_AHEAD_BYTES.min(self.rest(table, walk).saturating_add(place.len)),
            _ => self.window.min(self.rest(table, walk)),
        };
        let span = self.span(walk, index, slot, bytes_max);
        self.window = self.window.saturating_mul(GROWTH).clamp(FIRST_BYTES, READ_AHEAD_BYTES);
        if span.len > place.len {
            // A scan holds one piece at a time.
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

    /// Returns the number of bytes worth reading in one piece: the estimated size of the versions
    /// that the scan still wants. The size of a version is that of the blocks seen or, before the
    /// first block, the table's average. A scan that has passed as many versions as it wants reads
    /// a few more. After twice as many it reads the maximum, because most versions here are
    /// evidently not wanted.
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

    /// Returns the block's bytes, if the piece contains it.
    fn taken(&self, place: Place) -> Option<Bytes> {
        let from = usize::try_from(place.offset.checked_sub(self.offset)?).ok()?;
        let to = from.checked_add(place.len as usize)?;
        (to <= self.bytes.len()).then(|| self.bytes.slice(from..to))
    }

    /// Returns the part of the file with the block at a slot and those after it, of at most
    /// `bytes_max` bytes.
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
