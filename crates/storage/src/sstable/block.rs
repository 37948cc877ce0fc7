//! A decoded block: what the cache holds and every search walks.
//!
//! A block is decoded once, when it is read from disk; look-ups never decode again. It is one
//! allocation, so that a look-up touches few pages of memory:
//!
//! ```text
//! ┌───────────────┬──────────────────────────────────────┬──────────────────────────────────┐
//! │ heads: u64 × n│ entries: 32 bytes × n                │ keys, in full, and payloads      │
//! └───────────────┴──────────────────────────────────────┴──────────────────────────────────┘
//!   8 bytes of the   commit, start, where the key is,
//!   key after what   where the payload is
//!   all keys share
//! ```
//!
//! **Search.** All keys of a block share their first `skip` bytes. A wanted key is compared with
//! those once; then the eight bytes behind them decide, as one number. Tokens are uniform and
//! clustering keys often count up, so that a straight line through the heads nearly hits: the
//! search begins where the line says, brackets from there in doubling steps and halves what is
//! left. Only where heads are equal are keys compared in full.
//!
//! **Versions** of a key stand side by side, newest first, and refer to the same key bytes: two
//! entries have the same key exactly if they name the same place.

use std::cmp::Ordering;
use std::hint::black_box;
use std::sync::atomic::{self, AtomicU8};
use std::sync::{Arc, OnceLock};

use carnet_base::Timestamp;

use super::Wrong;
use super::bloom::Filter;
use super::links::{Links, Parent};
use super::prefetch;
use super::run::EntryRef;

pub(super) const HEAD_BYTES: usize = 8;
pub(super) const ENTRY_BYTES: usize = 32;

/// What memory gives at once.
const LINE_BYTES: usize = 64;

const EXPIRES: u32 = 1 << 31;
const NO_PAYLOAD: u32 = u32::MAX;

/// So often is the cache told of a block between two considerations: it counts no further.
const TOLD_MAX: u8 = 2;

/// An entry as it stands in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) commit: u64,
    pub(super) start: u64,
    pub(super) key_at: u32,
    pub(super) key_len: u32,
    pub(super) expires: bool,
    pub(super) payload_at: u32,
    /// `None` is a tombstone.
    pub(super) payload_len: Option<u32>,
}

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let key_len = self.key_len | if self.expires { EXPIRES } else { 0 };
        bytes[..8].copy_from_slice(&self.commit.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.start.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.key_at.to_le_bytes());
        bytes[20..24].copy_from_slice(&key_len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_at.to_le_bytes());
        bytes[28..].copy_from_slice(&self.payload_len.unwrap_or(NO_PAYLOAD).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let long = |at: usize| {
            u64::from_le_bytes(*bytes[at..].first_chunk().expect("an entry has 32 bytes"))
        };
        let short = |at: usize| {
            u32::from_le_bytes(*bytes[at..].first_chunk().expect("an entry has 32 bytes"))
        };
        let (key_len, payload_len) = (short(20), short(28));
        Self {
            commit: long(0),
            start: long(8),
            key_at: short(16),
            key_len: key_len & !EXPIRES,
            expires: key_len & EXPIRES != 0,
            payload_at: short(24),
            payload_len: (payload_len != NO_PAYLOAD).then_some(payload_len),
        }
    }
}

/// A decoded block: at least one entry, by key, newest version first.
#[derive(Debug)]
pub(crate) struct Block {
    count: usize,
    /// How many bytes all keys share.
    skip: usize,
    first_head: u64,
    last_head: u64,
    /// Entries per unit of head.
    slope: f64,
    memory: Vec<u8>,
    index: Option<Box<Index>>,
    parent: OnceLock<Parent>,
    /// How often the cache was told of a look-up that went past it.
    told: AtomicU8,
}

/// What an index has beside its entries.
#[derive(Debug)]
struct Index {
    /// What the page says of the blocks that it names.
    filter: Filter,
    links: Links,
}

impl Block {
    /// Begins a block of so many entries and so many bytes of keys and payloads.
    pub(super) fn with_room(count: usize, rest: usize) -> Self {
        let fixed = count * (HEAD_BYTES + ENTRY_BYTES);
        let mut memory = Vec::with_capacity(fixed + rest);
        memory.resize(fixed, 0);
        Self {
            count,
            skip: 0,
            first_head: 0,
            last_head: 0,
            slope: 0.0,
            memory,
            index: None,
            parent: OnceLock::new(),
            told: AtomicU8::new(0),
        }
    }

    /// Checks that an entry comes after `last` and shares as much with its key as it can; tells
    /// whether it has another key.
    pub(super) fn check_order(
        &self,
        at: usize,
        last: &Entry,
        shared: usize,
        rest: &[u8],
        commit: u64,
    ) -> Result<bool, Wrong> {
        if at == 0 {
            // An empty key could not be told from the next one by its place.
            let is_whole = shared == 0 && !rest.is_empty();
            return if is_whole { Ok(true) } else { Err("a block's first key is not whole") };
        }
        let key = self.key_of(last);
        match (key.get(shared), rest.first()) {
            (Some(old), Some(new)) if old < new => Ok(true),
            (None, Some(_)) if shared == key.len() => Ok(true),
            (None, None) if shared == key.len() && commit < last.commit => Ok(false),
            _ => Err("a block's entries are not in order"),
        }
    }

    /// Adds a key that shares bytes with the one that stands at `last_at`.
    pub(super) fn push_key(&mut self, last_at: u32, shared: usize, rest: &[u8]) -> (u32, u32) {
        let at = self.memory.len();
        let last_at = last_at as usize;
        self.memory.extend_from_within(last_at..last_at + shared);
        self.memory.extend_from_slice(rest);
        (short(at), short(shared + rest.len()))
    }

    /// Adds other bytes; returns where they stand.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) -> u32 {
        let at = self.memory.len();
        self.memory.extend_from_slice(bytes);
        short(at)
    }

    pub(super) fn set(&mut self, at: usize, entry: &Entry) {
        let from = self.count * HEAD_BYTES + at * ENTRY_BYTES;
        self.memory[from..from + ENTRY_BYTES].copy_from_slice(&entry.to_bytes());
    }

    /// Gives every entry a commit.
    pub(super) fn stamp(&mut self, commit: Timestamp) {
        for at in 0..self.count {
            let entry = Entry { commit: commit.get(), ..self.entry(at) };
            self.set(at, &entry);
        }
    }

    /// Ends the filling: computes what searches need.
    pub(super) fn index(&mut self) {
        self.memory.shrink_to_fit();
        let last = self.count - 1;
        self.skip = shared_len(self.key(0), self.key(last));
        for at in 0..self.count {
            let head = head(&self.key(at)[self.skip..]);
            self.memory[at * HEAD_BYTES..][..HEAD_BYTES].copy_from_slice(&head.to_le_bytes());
        }
        self.first_head = self.head(0);
        self.last_head = self.head(last);
        if self.last_head > self.first_head {
            self.slope = last as f64 / (self.last_head - self.first_head) as f64;
        }
    }

    /// Makes it an index: its entries name blocks, of which the filter tells something.
    pub(super) fn into_index(mut self, filter: Filter) -> Self {
        self.index = Some(Box::new(Index { filter, links: Links::new(self.count) }));
        self
    }

    /// Returns an index's filter; a data block has none.
    pub(super) fn filter(&self) -> Option<&Filter> {
        self.index.as_ref().map(|index| &index.filter)
    }

    /// Tells whether an index's blocks may hold a cell; `false` is certain.
    pub(super) fn may_contain(&self, key: &[u8]) -> bool {
        self.filter().is_none_or(|filter| filter.may_contain(key))
    }

    /// Returns an index's links; a data block has none.
    pub(super) fn links(&self) -> Option<&Links> {
        self.index.as_ref().map(|index| &index.links)
    }

    /// Remembers which link leads here, to clear it in the end. Only the first one counts: a block
    /// lies in one place of one table.
    pub(super) fn set_parent(&self, index: &Arc<Self>, slot: usize) {
        self.parent.get_or_init(|| Parent::new(index, slot));
    }

    /// Tells whether the cache has yet to be told that the block was looked at: it counts to two,
    /// and begins again when it considers the block for eviction ([`Block::is_considered`]).
    pub(crate) fn is_news(&self) -> bool {
        let told = self.told.load(atomic::Ordering::Relaxed);
        if told < TOLD_MAX {
            self.told.store(told + 1, atomic::Ordering::Relaxed);
        }
        told < TOLD_MAX
    }

    /// Notes that the cache considers the block for eviction.
    pub(crate) fn is_considered(&self) {
        self.told.store(0, atomic::Ordering::Relaxed);
    }

    /// Where its entries, keys and payloads lie.
    pub(super) fn stretch(&self) -> Stretch {
        Stretch { address: self.memory.as_ptr().addr(), len: self.memory.len() }
    }

    /// How many entries there are.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// What the block takes in memory, the counters of its `Arc` included.
    pub(crate) fn memory_bytes(&self) -> usize {
        let index = self.index.as_ref().map_or(0, |index| {
            size_of::<Index>() + index.filter.len() + index.links.memory_bytes()
        });
        size_of::<Self>() + 2 * size_of::<usize>() + self.memory.capacity() + index
    }

    fn head(&self, at: usize) -> u64 {
        let from = at * HEAD_BYTES;
        u64::from_le_bytes(*self.memory[from..].first_chunk().expect("each entry has a head"))
    }

    pub(super) fn entry(&self, at: usize) -> Entry {
        let from = self.count * HEAD_BYTES + at * ENTRY_BYTES;
        Entry::from_bytes(self.memory[from..].first_chunk().expect("callers keep below len()"))
    }

    pub(super) fn key_of(&self, entry: &Entry) -> &[u8] {
        &self.memory[entry.key_at as usize..][..entry.key_len as usize]
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        self.key_of(&self.entry(at))
    }

    /// Returns an entry in full.
    pub(super) fn view(&self, entry: &Entry) -> EntryRef<'_> {
        let payload_at = entry.payload_at as usize;
        let expiry = entry.expires.then(|| {
            let bytes = self.memory[payload_at - 8..].first_chunk();
            u64::from_le_bytes(*bytes.expect("an expiry has eight bytes"))
        });
        EntryRef {
            key: self.key_of(entry),
            commit: timestamp(entry.commit),
            start: timestamp(entry.start),
            expiry,
            payload: entry.payload_len.map(|len| &self.memory[payload_at..][..len as usize]),
        }
    }

    /// Returns the entry at a place below [`Block::len`].
    pub(super) fn get(&self, at: usize) -> EntryRef<'_> {
        self.view(&self.entry(at))
    }

    pub(super) fn commit(&self, at: usize) -> Timestamp {
        timestamp(self.entry(at).commit)
    }

    /// Returns where the first entry stands that is at or after a version of a key in the order of
    /// a table: where the version itself stands, if it is here.
    pub(super) fn seek(&self, key: &[u8], commit: Timestamp) -> usize {
        let (start, rest) = key.split_at(self.skip.min(key.len()));
        let wanted = head(rest);
        let guess = self.guess(wanted.clamp(self.first_head, self.last_head));
        // Before the prefix is compared: that, too, would wait for memory of its own.
        self.touch(guess);
        // The first key is the first of what stands behind the entries; all share its prefix.
        let prefix = &self.memory[self.count * (HEAD_BYTES + ENTRY_BYTES)..][..self.skip];
        match start.cmp(prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.count,
            Ordering::Equal => {}
        }
        let mut low = self.first_at_or_above(wanted, guess);
        let (mut high, mut step) = (low, 1);
        // Past the equal heads by doubling; what was jumped over too far compares as greater.
        while high < self.count && self.head(high) == wanted {
            high = (high + step).min(self.count);
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
        let entry = self.entry(at);
        entry.commit == commit.get() && self.key_of(&entry) == key
    }

    fn is_before(&self, at: usize, key: &[u8], commit: Timestamp) -> bool {
        let entry = self.entry(at);
        match self.key_of(&entry)[self.skip..].cmp(&key[self.skip..]) {
            Ordering::Less => true,
            Ordering::Equal => entry.commit > commit.get(),
            Ordering::Greater => false,
        }
    }

    /// Returns the first entry whose head is at least `wanted`.
    fn first_at_or_above(&self, wanted: u64, guess: usize) -> usize {
        if wanted <= self.first_head {
            return 0;
        }
        if wanted > self.last_head {
            return self.count;
        }
        // From here on heads[low] < wanted <= heads[high].
        let (mut low, mut high) = (0, self.count - 1);
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
        let fixed = self.count * (HEAD_BYTES + ENTRY_BYTES);
        // Keys and payloads follow each other as the entries do, and are mostly equally long.
        let near = fixed + (self.memory.len() - fixed) / self.count * guess;
        let ahead = |at: usize| at.min(self.memory.len() - 1);
        black_box(self.memory[guess * HEAD_BYTES]);
        black_box(self.memory[self.count * HEAD_BYTES + guess * ENTRY_BYTES]);
        black_box(self.memory[ahead(near)]);
        black_box(self.memory[ahead(near + LINE_BYTES)]);
        black_box(self.memory[ahead(near + 2 * LINE_BYTES)]);
        black_box(self.memory[ahead(fixed)]);
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product of two numbers that are not negative; the cast saturates"
    )]
    fn guess(&self, wanted: u64) -> usize {
        let guess = ((wanted - self.first_head) as f64 * self.slope) as usize;
        guess.min(self.count - 1)
    }
}

/// Where a block's memory lies, or once lay: it keeps nothing alive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    address: usize,
    len: usize,
}

impl Stretch {
    /// Asks for all of it at once, as far as one walk may well come.
    pub(super) fn ask(&self) {
        const BYTES_MAX: usize = 8 << 10;
        for at in (0..self.len.min(BYTES_MAX)).step_by(LINE_BYTES) {
            prefetch::ask(self.address + at);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(parent) = self.parent.get() {
            parent.forget(self);
        }
    }
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

fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).expect("timestamps are checked when a block is decoded")
}

pub(super) fn short(number: usize) -> u32 {
    u32::try_from(number).expect("a decoded block is far below 4 GiB")
}
