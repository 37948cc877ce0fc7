//! Reads and searches a decoded block.

use std::cmp::Ordering;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic;

use carnet_base::Timestamp;

use super::entry::{self, EXPIRY_BYTES, Entry, RECORD_BYTES};
use super::shared::{BEFORE_BYTES, Block, Front, Index, Linked, Links, SharedBlock};
use crate::sstable::bloom::Filter;
use crate::sstable::entry_ref::EntryRef;
use crate::sstable::memory_limits::{BLOCK_MEMORY_MAX, TOP_MEMORY_MAX};
use crate::sstable::prefetch::{self, LINE_BYTES};

pub(super) const HEAD_BYTES: usize = 8;

pub(super) const PLACE_BYTES: usize = 4;

/// Flag in an entry's offset: the entry has the same key as the previous one.
pub(super) const CONTINUES: u32 = 1 << 31;

// Offsets, and lengths beside another flag, are below 2³¹.
const _: () = assert!(TOP_MEMORY_MAX < CONTINUES as usize && BLOCK_MEMORY_MAX <= TOP_MEMORY_MAX);

/// Maximum of `Front::reported`: the cache needs to count no further.
const REPORTED_MAX: u8 = 2;

impl SharedBlock {
    /// Sets the commit of every entry.
    pub(in crate::sstable) fn stamped(mut self, commit: Timestamp) -> Self {
        let block = self.alone();
        for at in 0..block.len() {
            let place = block.place(at);
            entry::stamp(&mut block.memory[place..], commit.get());
        }
        self
    }

    /// Makes it an index: its entries refer to blocks, and the filter covers their cells.
    pub(in crate::sstable) fn into_index(mut self, filter: Filter) -> Self {
        let links = Links::new(self.len());
        self.alone().front.index = Some(Arc::new(Index { filter, links }));
        self
    }
}

impl Block {
    /// Returns the memory of `count` entries with `rest` bytes of keys, expiries and payloads.
    pub(in crate::sstable) const fn room_of(count: usize, rest: usize) -> usize {
        count.saturating_mul(HEAD_BYTES + PLACE_BYTES + RECORD_BYTES).saturating_add(rest)
    }

    /// Returns the index fields; `None` for a data block.
    pub(in crate::sstable) const fn index(&self) -> Option<&Arc<Index>> {
        self.front.index.as_ref()
    }

    /// Returns an index's filter; `None` for a data block.
    pub(in crate::sstable) fn filter(&self) -> Option<&Filter> {
        self.index().map(|index| &index.filter)
    }

    /// Returns `false` if no block of the index contains the cell; `true` if one may contain it.
    pub(in crate::sstable) fn may_contain(&self, key: &[u8]) -> bool {
        self.filter().is_none_or(|filter| filter.may_contain(key))
    }

    /// Returns `true` if a lookup of the block should be reported to the cache. The cache counts to
    /// two between evictions considered ([`Block::is_considered`]).
    pub(crate) fn should_report(&self) -> bool {
        let reported = self.front.reported.load(atomic::Ordering::Relaxed);
        if reported < REPORTED_MAX {
            self.front.reported.store(reported + 1, atomic::Ordering::Relaxed);
        }
        reported < REPORTED_MAX
    }

    /// Records that the cache considers the block for eviction.
    pub(crate) fn is_considered(&self) {
        self.front.reported.store(0, atomic::Ordering::Relaxed);
    }

    /// Returns the number of entries.
    pub(in crate::sstable) const fn len(&self) -> usize {
        self.front.count as usize
    }

    /// Returns the memory of the block.
    pub(crate) fn memory_bytes(&self) -> usize {
        let index = self.index().map_or(0, |index| {
            2 * size_of::<usize>()
                + size_of::<Index>()
                + index.filter.len()
                + index.links.memory_bytes()
        });
        BEFORE_BYTES + size_of_val(self) + index
    }

    pub(super) fn head(&self, at: usize) -> u64 {
        let from = at * HEAD_BYTES;
        u64::from_le_bytes(*self.memory[from..].first_chunk().expect("each entry has a head"))
    }

    /// Returns the position of an entry's offset.
    pub(super) const fn place_at(&self, at: usize) -> usize {
        self.len() * HEAD_BYTES + at * PLACE_BYTES
    }

    /// Returns the offset of the first record.
    pub(super) const fn records(&self) -> usize {
        self.place_at(self.len())
    }

    #[inline]
    fn marked_place(&self, at: usize) -> u32 {
        let place = self.memory[self.place_at(at)..].first_chunk();
        u32::from_le_bytes(*place.expect("each entry has a place"))
    }

    /// Returns the offset of an entry's record.
    #[inline]
    fn place(&self, at: usize) -> usize {
        (self.marked_place(at) & !CONTINUES) as usize
    }

    /// Returns `true` if an entry is an older version of the previous entry's key.
    #[inline]
    pub(in crate::sstable) fn continues(&self, at: usize) -> bool {
        self.marked_place(at) & CONTINUES != 0
    }

    /// Returns the end of the versions of an entry's key.
    #[inline]
    pub(in crate::sstable) fn group_end(&self, from: usize) -> usize {
        let mut to = from + 1;
        while to < self.len() && self.continues(to) {
            to += 1;
        }
        to
    }

    /// Returns the begin of the versions of the key of the entry before `to`.
    #[inline]
    pub(in crate::sstable) fn group_begin(&self, to: usize) -> usize {
        let mut from = to - 1;
        while self.continues(from) {
            from -= 1;
        }
        from
    }

    #[inline]
    fn record(&self, at: usize) -> &[u8; RECORD_BYTES] {
        self.memory[self.place(at)..].first_chunk().expect("a place is that of a record")
    }

    /// Returns the offset of the first key, which begins with the shared prefix.
    const fn first_key(&self) -> usize {
        self.records() + RECORD_BYTES
    }

    #[inline]
    pub(super) fn key_of(&self, entry: &Entry) -> &[u8] {
        &self.memory[entry.key_at as usize..][..entry.key_len as usize]
    }

    #[inline]
    pub(in crate::sstable) fn key(&self, at: usize) -> &[u8] {
        let (key_at, len) = entry::key(self.record(at));
        &self.memory[key_at..][..len]
    }

    /// Returns an entry; `at` must be below [`Block::len`].
    #[expect(clippy::inline_always, reason = "without it a scan copies the returned value")]
    #[inline(always)]
    pub(in crate::sstable) fn get(&self, at: usize) -> EntryRef<'_> {
        let entry = Entry::read(self.record(at), self.place(at));
        let payload_at = entry.payload_at as usize;
        let expiry = entry.expires.then(|| {
            let bytes = self.memory[payload_at - EXPIRY_BYTES..].first_chunk();
            u64::from_le_bytes(*bytes.expect("an expiry has eight bytes"))
        });
        EntryRef {
            key: self.key_of(&entry),
            commit: timestamp(entry.commit),
            start: timestamp(entry.start),
            expiry,
            payload: entry.payload_len.map(|len| &self.memory[payload_at..][..len as usize]),
        }
    }

    /// Prefetches the records of a range of entries.
    pub(in crate::sstable) fn prefetch(&self, from: usize, to: usize) {
        let place = |at: usize| if at < self.len() { self.place(at) } else { self.memory.len() };
        if from < to {
            let (from, to) = (place(from), place(to));
            prefetch::range(self.memory[from..].as_ptr().addr(), to - from);
        }
    }

    #[inline]
    pub(in crate::sstable) fn commit(&self, at: usize) -> Timestamp {
        timestamp(entry::commit(self.record(at)))
    }

    /// Returns the index of the first entry at or after a version of a key, in table order.
    pub(in crate::sstable) fn seek(&self, key: &[u8], commit: Timestamp) -> usize {
        let skip = self.front.skip as usize;
        let (start, rest) = key.split_at(skip.min(key.len()));
        let wanted = head(rest);
        let guess = self.guess(wanted);
        // Before the prefix comparison, which would wait for memory too.
        self.prefetch_search(guess);
        let prefix = &self.memory[self.first_key()..][..skip];
        match start.cmp(prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let mut low = self.first_at_or_above(wanted, guess);
        let (mut high, mut step) = (low, 1);
        // Skips equal heads in doubling steps; entries skipped too far compare as greater.
        while high < self.len() && self.head(high) == wanted {
            high = (high + step).min(self.len());
            step *= 2;
        }
        while low < high {
            let middle = low.midpoint(high);
            if self.is_before(middle, key, commit) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns `true` if the entry is that version of that key.
    pub(in crate::sstable) fn is_at(&self, at: usize, key: &[u8], commit: Timestamp) -> bool {
        // Usually the head decides, which the search has loaded, and no record is read.
        let rest = key.get(self.front.skip as usize..);
        if rest.is_none_or(|rest| head(rest) != self.head(at)) {
            return false;
        }
        self.commit(at) == commit && self.key(at) == key
    }

    fn is_before(&self, at: usize, key: &[u8], commit: Timestamp) -> bool {
        let skip = self.front.skip as usize;
        match self.key(at)[skip..].cmp(&key[skip..]) {
            Ordering::Less => true,
            Ordering::Equal => self.commit(at) > commit,
            Ordering::Greater => false,
        }
    }

    /// Returns the first entry whose head is at least `wanted`.
    fn first_at_or_above(&self, wanted: u64, guess: usize) -> usize {
        if wanted <= self.front.first_head {
            return 0;
        }
        if wanted > self.front.last_head {
            return self.len();
        }
        // Invariant: heads[low] < wanted <= heads[high].
        let (mut low, mut high) = (0, self.len() - 1);
        let mut step = 1;
        if self.head(guess) < wanted {
            low = guess;
            while low + step < high {
                if self.head(low + step) >= wanted {
                    high = low + step;
                    break;
                }
                low += step;
                step *= 2;
            }
        } else {
            high = guess;
            while high > low + step {
                if self.head(high - step) < wanted {
                    low = high - step;
                    break;
                }
                high -= step;
                step *= 2;
            }
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.head(middle) < wanted { low = middle } else { high = middle }
        }
        high
    }

    /// Prefetches all that the search is likely to read. Without this, each step would wait for
    /// memory in turn.
    fn prefetch_search(&self, guess: usize) {
        black_box(self.memory[guess * HEAD_BYTES]);
        black_box(self.memory[self.first_key()]);
        if let Some(index) = self.index() {
            // Heads usually decide, so no record of an index is read, but the link is.
            index.links.prefetch(guess);
            return;
        }
        let records = self.records();
        // Assumes records of similar length.
        let near = records + (self.memory.len() - records) / self.len() * guess;
        let ahead = |at: usize| at.min(self.memory.len() - 1);
        black_box(self.memory[self.place_at(guess)]);
        black_box(self.memory[ahead(near)]);
        black_box(self.memory[ahead(near + LINE_BYTES)]);
        black_box(self.memory[ahead(near + 2 * LINE_BYTES)]);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product of two numbers that are not negative; the cast saturates"
    )]
    fn guess(&self, wanted: u64) -> usize {
        let Front { first_head, last_head, slope, .. } = self.front;
        let guess = ((wanted.clamp(first_head, last_head) - first_head) as f64 * slope) as usize;
        guess.min(self.len() - 1)
    }
}

/// Prefetches the first `bytes` bytes of a block.
pub(in crate::sstable) fn prefetch_block(block: Linked<'_>, bytes: usize) {
    prefetch::range(block.address(), bytes);
}

/// Returns the first eight bytes as a number, padded with zeros.
pub(super) fn head(rest: &[u8]) -> u64 {
    if let Some(head) = rest.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_BYTES];
    head[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(head)
}

#[inline]
fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).expect("timestamps are checked when a block is decoded")
}

pub(super) fn short(number: usize) -> u32 {
    u32::try_from(number).expect("a decoded block is far below 4 GiB")
}
