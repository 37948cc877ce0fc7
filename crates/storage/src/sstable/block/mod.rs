//! A decoded block: what the cache holds and every search walks.
//!
//! A block is decoded once, when it is read from disk; look-ups never decode again. It is one
//! allocation ([`shared`]), so that a look-up touches few pages of memory and whoever knows where a
//! block lies knows where all of it lies:
//!
//! ```text
//! ┌────────┬───────┬────────────────┬────────────────┬─────────────────────────────────────────┐
//! │ header │ front │ heads: u64 × n │ places: u32 × n│ records                                 │
//! └────────┴───────┴────────────────┴────────────────┴─────────────────────────────────────────┘
//!  who holds        8 bytes of each  where its        commit, start, where the key is, its length
//!  it               key behind what  record stands    and the payload's; key; expiry; payload
//!                   all keys share
//! ```
//!
//! What a search compares stands together, in front, and what it finds stands together: out of memory
//! that is not in the processor's caches a look-up comes in two waits, one for each.
//!
//! **Search.** All keys of a block share their first `skip` bytes. A wanted key is compared with
//! those once; then the eight bytes behind them decide, as one number. Tokens are uniform and
//! clustering keys often count up, so that a straight line through the heads nearly hits: the
//! search begins where the line says, brackets from there in doubling steps and halves what is
//! left. Only where heads are equal are keys compared in full.
//!
//! **Versions** of a key stand side by side, newest first, and refer to the same key bytes. The place
//! of a version's record says whether the one before is of the same key, so that a walk looks at no
//! record but those that it wants.

mod entry;
mod filling;
pub(in crate::sstable) mod shared;

use std::cmp::Ordering;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicU8};

use carnet_base::Timestamp;

pub(super) use filling::{Filling, New};
pub(super) use shared::Linked;
pub(crate) use shared::SharedBlock;

use super::bloom::Filter;
use super::page::TOP_MEMORY_MAX;
use super::prefetch::{self, LINE_BYTES};
use super::run::{BLOCK_MEMORY_MAX, EntryRef};
use entry::{EXPIRY_BYTES, Entry, RECORD_BYTES};
use shared::{BEFORE_BYTES, Links};

const HEAD_BYTES: usize = 8;
const PLACE_BYTES: usize = 4;
/// In an entry's place: its key is that of the entry before.
const CONTINUES: u32 = 1 << 31;

// Places, and lengths beside another mark, are below 2³¹.
const _: () = assert!(TOP_MEMORY_MAX < CONTINUES as usize && BLOCK_MEMORY_MAX <= TOP_MEMORY_MAX);

/// So often is the cache told of a block between two considerations: it counts no further.
const TOLD_MAX: u8 = 2;

/// A decoded block: at least one entry, by key, newest version first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Block {
    front: Front,
    memory: [u8],
}

/// What stands before a block's entries; what a search needs comes first.
#[derive(Debug, Default)]
#[repr(C)]
struct Front {
    count: u32,
    /// How many bytes all keys share.
    skip: u32,
    first_head: u64,
    last_head: u64,
    /// Entries per unit of head.
    slope: f64,
    index: Option<Arc<Index>>,
    /// How often the cache was told of a look-up that went past it.
    told: AtomicU8,
}

/// What an index has beside its entries. A block to which one of its links leads knows it, and with
/// it nothing of the page's memory but this.
#[derive(Debug)]
pub(super) struct Index {
    /// What the page says of the blocks that it names.
    filter: Filter,
    pub(super) links: Links,
}

impl SharedBlock {
    /// Gives every entry a commit.
    pub(super) fn stamped(mut self, commit: Timestamp) -> Self {
        let block = self.alone();
        for at in 0..block.len() {
            let place = block.place(at);
            entry::stamp(&mut block.memory[place..], commit.get());
        }
        self
    }

    /// Makes it an index: its entries name blocks, of which the filter tells something.
    pub(super) fn into_index(mut self, filter: Filter) -> Self {
        let links = Links::new(self.len());
        self.alone().front.index = Some(Arc::new(Index { filter, links }));
        self
    }
}

impl Block {
    /// Returns how much room so many entries take that have so many bytes of keys, expiries and
    /// payloads.
    pub(in crate::sstable) const fn room_of(count: usize, rest: usize) -> usize {
        count.saturating_mul(HEAD_BYTES + PLACE_BYTES + RECORD_BYTES).saturating_add(rest)
    }

    /// Returns what an index has beside its entries; a data block has nothing.
    pub(super) const fn index(&self) -> Option<&Arc<Index>> {
        self.front.index.as_ref()
    }

    /// Returns an index's filter; a data block has none.
    pub(super) fn filter(&self) -> Option<&Filter> {
        self.index().map(|index| &index.filter)
    }

    /// Tells whether an index's blocks may hold a cell; `false` is certain.
    pub(super) fn may_contain(&self, key: &[u8]) -> bool {
        self.filter().is_none_or(|filter| filter.may_contain(key))
    }

    /// Tells whether the cache has yet to be told that the block was looked at: it counts to two,
    /// and begins again when it considers the block for eviction ([`Block::is_considered`]).
    pub(crate) fn is_news(&self) -> bool {
        let told = self.front.told.load(atomic::Ordering::Relaxed);
        if told < TOLD_MAX {
            self.front.told.store(told + 1, atomic::Ordering::Relaxed);
        }
        told < TOLD_MAX
    }

    /// Notes that the cache considers the block for eviction.
    pub(crate) fn is_considered(&self) {
        self.front.told.store(0, atomic::Ordering::Relaxed);
    }

    /// How many entries there are.
    pub(super) const fn len(&self) -> usize {
        self.front.count as usize
    }

    /// What the block takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let index = self.index().map_or(0, |index| {
            2 * size_of::<usize>()
                + size_of::<Index>()
                + index.filter.len()
                + index.links.memory_bytes()
        });
        BEFORE_BYTES + size_of_val(self) + index
    }

    fn head(&self, at: usize) -> u64 {
        let from = at * HEAD_BYTES;
        u64::from_le_bytes(*self.memory[from..].first_chunk().expect("each entry has a head"))
    }

    /// Where an entry's place stands.
    const fn place_at(&self, at: usize) -> usize {
        self.len() * HEAD_BYTES + at * PLACE_BYTES
    }

    /// Where the records begin.
    const fn records(&self) -> usize {
        self.place_at(self.len())
    }

    #[inline]
    fn marked_place(&self, at: usize) -> u32 {
        let place = self.memory[self.place_at(at)..].first_chunk();
        u32::from_le_bytes(*place.expect("each entry has a place"))
    }

    /// Where an entry's record stands.
    #[inline]
    fn place(&self, at: usize) -> usize {
        (self.marked_place(at) & !CONTINUES) as usize
    }

    /// Tells whether an entry is an older version of the key of the one before it.
    #[inline]
    pub(super) fn continues(&self, at: usize) -> bool {
        self.marked_place(at) & CONTINUES != 0
    }

    /// Returns where the versions end of the key of an entry.
    #[inline]
    pub(super) fn group_end(&self, from: usize) -> usize {
        let mut to = from + 1;
        while to < self.len() && self.continues(to) {
            to += 1;
        }
        to
    }

    /// Returns where the versions begin of the key of the entry before `to`.
    #[inline]
    pub(super) fn group_begin(&self, to: usize) -> usize {
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

    /// Where the first key stands, whose prefix all share.
    const fn first_key(&self) -> usize {
        self.records() + RECORD_BYTES
    }

    #[inline]
    fn key_of(&self, entry: &Entry) -> &[u8] {
        &self.memory[entry.key_at as usize..][..entry.key_len as usize]
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> &[u8] {
        let (key_at, len) = entry::key(self.record(at));
        &self.memory[key_at..][..len]
    }

    /// Returns an entry in full, by its place below [`Block::len`].
    #[expect(
        clippy::inline_always,
        reason = "a walk took a tenth longer for copying what it returns"
    )]
    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> EntryRef<'_> {
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

    /// Asks memory for the records of some entries.
    pub(super) fn ask(&self, from: usize, to: usize) {
        let place = |at: usize| if at < self.len() { self.place(at) } else { self.memory.len() };
        if from < to {
            let (from, to) = (place(from), place(to));
            prefetch::ask_all(self.memory[from..].as_ptr().addr(), to - from);
        }
    }

    #[inline]
    pub(super) fn commit(&self, at: usize) -> Timestamp {
        timestamp(entry::commit(self.record(at)))
    }

    /// Returns where the first entry stands that is at or after a version of a key in the order of
    /// a table: where the version itself stands, if it is here.
    pub(super) fn seek(&self, key: &[u8], commit: Timestamp) -> usize {
        let skip = self.front.skip as usize;
        let (start, rest) = key.split_at(skip.min(key.len()));
        let wanted = head(rest);
        let guess = self.guess(wanted);
        // Before the prefix is compared: that, too, would wait for memory of its own.
        self.touch(guess);
        let prefix = &self.memory[self.first_key()..][..skip];
        match start.cmp(prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let mut low = self.first_at_or_above(wanted, guess);
        let (mut high, mut step) = (low, 1);
        // Past the equal heads by doubling; what was jumped over too far compares as greater.
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

    /// Tells whether the entry at a place is that version of that key.
    pub(super) fn is_at(&self, at: usize, key: &[u8], commit: Timestamp) -> bool {
        // The search was here: in most cases no record has to be looked at.
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
        // From here on heads[low] < wanted <= heads[high].
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

    /// Asks memory for all that the search is likely to look at, at once: what it needs next
    /// depends on what it found, and each of these steps would wait for memory of its own.
    fn touch(&self, guess: usize) {
        black_box(self.memory[guess * HEAD_BYTES]);
        black_box(self.memory[self.first_key()]);
        if let Some(index) = self.index() {
            // Heads decide mostly, so that no record of an index is read; where it leads to, is. Reads
            // out of the cache gained 7 % (never written) and 13 % (raw) by it.
            index.links.ask(guess);
            return;
        }
        let records = self.records();
        // Most records are equally long.
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

/// Asks memory for so much of a block at once, from its beginning.
pub(super) fn ask(block: Linked<'_>, bytes: usize) {
    prefetch::ask_all(block.address(), bytes);
}

/// The first eight bytes as a number, zeros behind a shorter key.
fn head(rest: &[u8]) -> u64 {
    if let Some(head) = rest.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; HEAD_BYTES];
    head[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(head)
}

/// How many bytes two keys share at their beginning.
pub(super) fn shared_len(left: &[u8], right: &[u8]) -> usize {
    let (lefts, rights) = (left.chunks_exact(8), right.chunks_exact(8));
    let mut at = 0;
    for (left, right) in lefts.zip(rights) {
        let word = |bytes: &[u8]| u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"));
        let different = word(left) ^ word(right);
        if different != 0 {
            return at + different.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = left[at..].iter().zip(&right[at..]);
    at + rest.take_while(|(left, right)| left == right).count()
}

#[inline]
fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).expect("timestamps are checked when a block is decoded")
}

pub(super) fn short(number: usize) -> u32 {
    u32::try_from(number).expect("a decoded block is far below 4 GiB")
}
