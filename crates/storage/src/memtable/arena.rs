//! The memory of a memtable: handed out once, never moved, given back as a whole.
//!
//! ```text
//!  record   commit u64 │ start u64 │ cell │ cell │ …            written by one thread, then shared
//!  cell     older → cell │ → record │ key length │ payload length │ [expiry] │ key │ payload
//!
//!  node     see the module of nodes: atomics from end to end
//! ```
//!
//! A [`Ref`] is a place counted in words of eight bytes, half the size of a pointer. Whatever a
//! `Ref` names was written in full before the `Ref` was there, and but for its atomics it does
//! not change any more; so whoever learns a `Ref` through a [`Link`] may read what it names while
//! others write elsewhere. A `Ref` is good in its own arena only: the tree, which owns the arena,
//! is the only one that keeps any.
//!
//! Memory is asked for in chunks of an eighth of what there is of the kind, up to [`SPAN_BYTES`], so that
//! a small memtable is small, a large one takes few pieces, and little of what is counted lies idle
//! when it is full.
//!
//! Nodes lie in chunks of their own. They are a tenth of the bytes, and what an insertion looks for: spread
//! among the records, each lay in a page of its own, whose address had to be looked up in memory as
//! well. Transactions of 8 puts without flushes, thousands of keys a second, medians of five in turn:
//! 793 (764 before, with a slower token) by one thread, 1,198 (1,093) by eight; with memtables of 64 MiB
//! nothing was seen. (Pages of 2 MiB for all of it are no gain on the machine this was tried on: their
//! memory, once it was given back, costs eight times as much to get again.)
#![expect(unsafe_code, reason = "cells are shared while others are written into the same memory")]

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use carnet_base::Timestamp;

use super::CellRef;
use super::chunks::Chunks;
use super::pages;
use crate::lock::lock;

const WORD: usize = 8;
/// Places are divided into spans of so many bytes; a chunk begins at a span's beginning.
const SPAN_BYTES: usize = 4 << 20;
const SPAN_WORDS: u32 = 1 << 19;
/// 17 GiB of places: [`MEMTABLE_BYTES_MAX`] is chosen so that they suffice, also where each chunk
/// is little more than a span and takes two. The last ones are for the first chunks of records and of
/// nodes, which are short and take a span each.
const SPANS: usize = (1 << 12) + 256;
/// How large a memtable may be when its successor is made; it may then grow to twice that, and by
/// what its writers have reserved meanwhile.
pub(crate) const MEMTABLE_BYTES_MAX: usize = 3 << 30;
/// Of pages that are asked for at a time.
const STEP_WORDS: u32 = 1 << 13;
const _: () = assert!(STEP_WORDS as usize * WORD == pages::STEP_BYTES);
const CHUNK_BYTES_MIN: usize = 4 << 10;

const NO_PAYLOAD: u32 = u32::MAX;
/// Set in a key's length where an expiry follows the header.
const EXPIRING: u32 = 1 << 31;

/// A cache line, so that nodes can begin at one.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(super) struct Line(#[expect(dead_code, reason = "it is only room")] [u64; 8]);

/// See the module's essay.
pub(super) struct Arena {
    /// Where the memory of each span begins.
    spans: Box<[AtomicPtr<u64>]>,
    spans_taken: AtomicUsize,
    records: Mutex<Tail>,
    nodes: Mutex<Tail>,
    /// Bytes of all chunks.
    allocated: AtomicUsize,
    /// Where chunks come from, if one of their size is there, and go to.
    kept: Chunks,
}

/// Where the next piece is taken from.
#[derive(Default)]
struct Tail {
    next: u32,
    end: u32,
    /// Up to here the system was asked for pages.
    asked: u32,
    /// They have no elements as far as `Vec` knows: only their memory is used.
    chunks: Vec<Vec<Line>>,
    /// Of all chunks.
    bytes: usize,
}

/// Words that were handed out.
struct Taken {
    at: NonZeroU32,
    /// The system is to be asked for the pages of these.
    fresh: Range<u32>,
}

/// The place of a `T` in its arena.
pub(super) struct Ref<T> {
    place: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl<T> Ref<T> {
    const fn new(place: NonZeroU32) -> Self {
        Self { place, of: PhantomData }
    }

    /// Forgets what it names.
    pub(super) const fn erase(self) -> Ref<()> {
        Ref::new(self.place)
    }
}

impl Ref<()> {
    /// Remembers what it names.
    ///
    /// # Safety
    ///
    /// It was erased from a `Ref<T>`.
    pub(super) const unsafe fn restore<T>(self) -> Ref<T> {
        Ref::new(self.place)
    }
}

/// A [`Ref`] that many threads read and some replace, or none.
///
/// Storing it publishes what it names.
pub(super) struct Link<T> {
    place: AtomicU32,
    of: PhantomData<fn() -> T>,
}

impl<T> Link<T> {
    pub(super) const fn new(to: Option<Ref<T>>) -> Self {
        let place = match to {
            Some(to) => to.place.get(),
            None => 0,
        };
        Self { place: AtomicU32::new(place), of: PhantomData }
    }

    pub(super) fn load(&self) -> Option<Ref<T>> {
        NonZeroU32::new(self.place.load(Ordering::Acquire)).map(Ref::new)
    }

    pub(super) fn store(&self, to: Option<Ref<T>>) {
        self.place.store(to.map_or(0, |to| to.place.get()), Ordering::Release);
    }
}

/// So many bytes of a cell are asked for ahead: header, key and a small payload.
const CELL_AHEAD_BYTES: usize = 192;

/// What a cell's bytes begin with.
#[repr(C)]
pub(super) struct Cell {
    older: Link<Self>,
    record: u32,
    key_len: u32,
    payload_len: u32,
}

/// A version as it lies in a memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionRef<'a> {
    pub(crate) start: Timestamp,
    pub(crate) commit: Timestamp,
    pub(crate) expiry: Option<u64>,
    pub(crate) payload: Option<&'a [u8]>,
}

impl Arena {
    pub(super) fn new(kept: Chunks) -> Self {
        Self {
            spans: (0..SPANS).map(|_| AtomicPtr::default()).collect(),
            spans_taken: AtomicUsize::new(0),
            records: Mutex::default(),
            nodes: Mutex::default(),
            allocated: AtomicUsize::new(0),
            kept,
        }
    }

    /// How many bytes it has of the allocator, also where they are not handed out yet, or never will
    /// be.
    pub(super) fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Hands out words that nobody else has, beginning at a multiple of `align` words.
    ///
    /// # Panics
    ///
    /// Where the arena has used up its places, which [`MEMTABLE_BYTES_MAX`] rules out.
    fn take(&self, from: &Mutex<Tail>, words: usize, align: u32) -> NonZeroU32 {
        let Taken { at, fresh } = self.place(&mut lock(from), words, align);
        // Nobody else waits while the system finds the pages.
        if !fresh.is_empty() {
            pages::ask(self.pointer(fresh.start).cast(), fresh.len() * WORD);
        }
        at
    }

    fn place(&self, tail: &mut Tail, words: usize, align: u32) -> Taken {
        let wanted = u32::try_from(words).expect("a record is far smaller than 16 GiB");
        let mut at = tail.next.next_multiple_of(align);
        if u64::from(at) + u64::from(wanted) > u64::from(tail.end) {
            self.grow(tail, words);
            at = tail.next.next_multiple_of(align);
        }
        tail.next = at + wanted;
        let asked = tail.asked;
        if tail.next > asked {
            tail.asked = tail.next.saturating_add(STEP_WORDS).min(tail.end);
        }
        let at = NonZeroU32::new(at).expect("the first word is left out");
        Taken { at, fresh: asked..tail.asked }
    }

    fn grow(&self, tail: &mut Tail, words: usize) {
        // One line more: for alignment, and for the word that is left out.
        // Of few sizes, so that a chunk that is left can serve again.
        let chunk_bytes = (tail.bytes / 8).clamp(CHUNK_BYTES_MIN, SPAN_BYTES);
        let bytes = ((words + 2 * WORD) * WORD).max(1 << chunk_bytes.ilog2());
        let lines = bytes.div_ceil(size_of::<Line>());
        let kept = self.kept.take(lines);
        let is_fresh = kept.is_none();
        let mut chunk = kept.unwrap_or_else(|| Vec::with_capacity(lines));
        let bytes = chunk.capacity() * size_of::<Line>();
        let spans = bytes.div_ceil(SPAN_BYTES);
        let first = self.spans_taken.fetch_add(spans, Ordering::Relaxed);
        assert!(first + spans <= SPANS, "a memtable has no more than 17 GiB of places");
        let memory: *mut u64 = chunk.as_mut_ptr().cast();
        for (span, at) in
            self.spans[first..first + spans].iter().zip((0..).step_by(SPAN_WORDS as usize))
        {
            span.store(memory.wrapping_add(at), Ordering::Release);
        }
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
        tail.bytes += bytes;
        tail.chunks.push(chunk);
        let place = |words: usize| u32::try_from(words).expect("there are 2^32 places");
        // The very first word belongs to nobody, so that no place is zero.
        tail.next = place(first * SPAN_WORDS as usize) + u32::from(first == 0);
        tail.end = place(first * SPAN_WORDS as usize + bytes / WORD);
        tail.asked = if is_fresh { tail.next } else { tail.end };
    }

    fn pointer(&self, place: u32) -> *mut u64 {
        let span = self.spans[(place / SPAN_WORDS) as usize].load(Ordering::Acquire);
        span.wrapping_add((place % SPAN_WORDS) as usize)
    }

    /// Moves a value in, at the beginning of a cache line. It is never dropped.
    pub(super) fn put<T: Sync>(&self, value: T) -> Ref<T> {
        const { assert!(align_of::<T>() <= align_of::<Line>() && !std::mem::needs_drop::<T>()) };
        let place = self.take(&self.nodes, size_of::<T>().div_ceil(WORD), 8);
        // SAFETY: `take` gave this thread words of a chunk that nobody else has and that live as
        // long as the arena; they suffice for a `T`, and a line's alignment does too.
        unsafe { self.pointer(place.get()).cast::<T>().write(value) };
        Ref::new(place)
    }

    pub(super) fn get<T: Sync>(&self, at: Ref<T>) -> &T {
        // SAFETY: a `Ref<T>` is made by `put` alone, but for those of cells, which are read
        // through `cell`; what it names was written before, is never written again other than
        // through its own atomics, and lives as long as the arena.
        unsafe { &*self.pointer(at.place.get()).cast::<T>() }
    }

    /// Asks for the lines of a value before they are needed.
    pub(super) fn prefetch<T>(&self, at: Ref<T>) {
        self.ask(at.place.get(), size_of::<T>());
    }

    /// Asks for the beginning of a cell before it is needed.
    pub(super) fn prefetch_cell(&self, at: Ref<Cell>) {
        self.ask(at.place.get(), CELL_AHEAD_BYTES);
    }

    /// Asks for a cell's record before it is needed. The cell itself is needed for that.
    pub(super) fn prefetch_record(&self, of: Ref<Cell>) {
        self.ask(self.cell(of).header().record, size_of::<[u64; 2]>());
    }

    fn ask(&self, place: u32, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let first: *const i8 = self.pointer(place).cast();
            for line in (0..bytes).step_by(size_of::<Line>()) {
                // SAFETY: a prefetch reads nothing that a program could observe, at any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line)) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (place, bytes);
    }

    /// Copies the cells of a record in.
    pub(super) fn write<'a>(
        &self,
        start: Timestamp,
        commit: Timestamp,
        cells: impl Iterator<Item = CellRef<'a>> + Clone,
    ) -> Written<'_> {
        let words = 2 + cells.clone().map(|cell| words_of(&cell)).sum::<usize>();
        let first = self.take(&self.records, words, 1);
        let record = self.pointer(first.get());
        // SAFETY: `take` gave this thread `words` words, at least two, that nobody else has.
        unsafe {
            record.write(commit.get());
            record.add(1).write(start.get());
        }
        let (mut at, mut left) = (2, 0);
        for cell in cells {
            let taken = words_of(&cell);
            assert!(at + taken <= words, "an iterator and its clone differ");
            // SAFETY: as above, and the assertion keeps the cell's words among them.
            unsafe { write_cell(record.add(at), first, &cell) };
            at += taken;
            left += 1;
        }
        Written { arena: self, next: first.get() + 2, left }
    }

    /// Lends a cell.
    pub(super) fn cell(&self, at: Ref<Cell>) -> CellView<'_> {
        CellView { arena: self, cell: self.pointer(at.place.get()).cast() }
    }

    /// A cell's key.
    pub(super) fn key(&self, at: Ref<Cell>) -> &[u8] {
        self.cell(at).key()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Nodes' chunks are shorter: a long memtable's records would leave no room for them.
        for tail in [&mut self.nodes, &mut self.records] {
            let tail = tail.get_mut().unwrap_or_else(PoisonError::into_inner);
            self.kept.give(tail.chunks.drain(..));
        }
    }
}

fn words_of(cell: &CellRef<'_>) -> usize {
    let bytes = cell.key.len() + cell.payload.map_or(0, <[u8]>::len);
    (size_of::<Cell>() + bytes).div_ceil(WORD) + usize::from(cell.expiry.is_some())
}

/// Writes a cell.
///
/// # Safety
///
/// `to` begins [`words_of`] the cell words that nobody else uses.
unsafe fn write_cell(to: *mut u64, record: NonZeroU32, cell: &CellRef<'_>) {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a record is far below 2 GiB");
    let header = Cell {
        older: Link::new(None),
        record: record.get(),
        key_len: len(cell.key) | if cell.expiry.is_some() { EXPIRING } else { 0 },
        payload_len: cell.payload.map_or(NO_PAYLOAD, len),
    };
    // SAFETY: the caller's words hold the header, the expiry where there is one, key and payload,
    // in this order; a word's alignment is the header's, too.
    unsafe {
        to.cast::<Cell>().write(header);
        let mut behind = to.add(size_of::<Cell>() / WORD);
        if let Some(expiry) = cell.expiry {
            behind.write(expiry);
            behind = behind.add(1);
        }
        let bytes: *mut u8 = behind.cast();
        bytes.copy_from_nonoverlapping(cell.key.as_ptr(), cell.key.len());
        if let Some(payload) = cell.payload {
            let behind = bytes.add(cell.key.len());
            behind.copy_from_nonoverlapping(payload.as_ptr(), payload.len());
        }
    }
}

/// The cells of a record that were written, in order.
pub(super) struct Written<'a> {
    arena: &'a Arena,
    next: u32,
    left: usize,
}

impl Iterator for Written<'_> {
    type Item = Ref<Cell>;

    fn next(&mut self) -> Option<Ref<Cell>> {
        self.left = self.left.checked_sub(1)?;
        let cell = Ref::new(NonZeroU32::new(self.next).expect("no place is zero"));
        let words = self.arena.cell(cell).words();
        self.next += u32::try_from(words).expect("the record's places were handed out");
        Some(cell)
    }
}

/// A cell that lies in an arena.
#[derive(Clone, Copy)]
pub(super) struct CellView<'a> {
    /// Keeps the memory.
    arena: &'a Arena,
    cell: *const Cell,
}

impl<'a> CellView<'a> {
    fn header(self) -> &'a Cell {
        // SAFETY: a view is made of a `Ref<Cell>`, so of a cell that was written, and it borrows
        // the arena that the cell lives in.
        unsafe { &*self.cell }
    }

    fn key_len(self) -> usize {
        (self.header().key_len & !EXPIRING) as usize
    }

    fn is_expiring(self) -> bool {
        self.header().key_len & EXPIRING != 0
    }

    fn payload_len(self) -> Option<usize> {
        let len = self.header().payload_len;
        (len != NO_PAYLOAD).then_some(len as usize)
    }

    fn words(self) -> usize {
        let bytes = self.key_len() + self.payload_len().unwrap_or(0);
        (size_of::<Cell>() + bytes).div_ceil(WORD) + usize::from(self.is_expiring())
    }

    /// The bytes behind header and expiry, at an offset.
    fn bytes(self, at: usize, len: usize) -> &'a [u8] {
        let skipped = size_of::<Cell>() + if self.is_expiring() { WORD } else { 0 };
        // SAFETY: `write_cell` wrote key and payload there, whose lengths the callers add up from
        // the header; the pointer is the chunk's, not one of the header alone.
        unsafe { std::slice::from_raw_parts(self.cell.cast::<u8>().add(skipped + at), len) }
    }

    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(0, self.key_len())
    }

    /// The record's commit and start.
    fn record(self) -> (u64, u64) {
        let record = self.arena.pointer(self.header().record);
        // SAFETY: a cell's record was written before the cell was.
        unsafe { (record.read(), record.add(1).read()) }
    }

    pub(super) fn commit(self) -> u64 {
        self.record().0
    }

    pub(super) fn older(self) -> Option<Ref<Cell>> {
        self.header().older.load()
    }

    pub(super) fn set_older(self, older: Option<Ref<Cell>>) {
        self.header().older.store(older);
    }

    pub(super) fn version(self) -> VersionRef<'a> {
        let (commit, start) = self.record();
        let payload = self.payload_len().map(|len| self.bytes(self.key_len(), len));
        // SAFETY: `write_cell` wrote an expiry there, where the flag is set.
        let expiry = self
            .is_expiring()
            .then(|| unsafe { self.cell.cast::<u64>().add(size_of::<Cell>() / WORD).read() });
        VersionRef { start: timestamp(start), commit: timestamp(commit), expiry, payload }
    }
}

fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).expect("it was taken from a timestamp")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A memtable may grow to twice its size, and 32 records of 64 MiB may be under way; whatever
    /// they are like, and however many short chunks came first, its arena has room.
    #[test]
    #[cfg_attr(miri, ignore = "gigabytes are too many")]
    fn there_are_places_for_all_that_a_memtable_may_take() {
        let span = SPAN_BYTES / WORD;
        // Each record begins a chunk, which takes one span or two.
        let most = 2 * MEMTABLE_BYTES_MAX + 32 * (64 << 20);
        for records in [[span / 2 + 1, span / 2 + 1], [span + 1, span + 1], [span + 1, 32]] {
            let arena = Arena::new(Chunks::new(0));
            for tail in [&arena.records, &arena.nodes] {
                while lock(tail).bytes < 8 * SPAN_BYTES {
                    arena.place(&mut lock(tail), 128, 8);
                }
            }
            for words in records.iter().cycle() {
                if arena.allocated() >= most {
                    break;
                }
                arena.place(&mut lock(&arena.records), *words, 1);
            }
        }
    }

    /// However many records come between them.
    #[test]
    fn values_lie_beside_each_other() {
        let arena = Arena::new(Chunks::new(0));
        let cell = CellRef { key: b"key", payload: Some(&[7; 1000]), expiry: None };
        let mut places: Vec<u32> = Vec::new();
        for _ in 0..100 {
            places.push(arena.put([1_u64; 16]).place.get());
            arena.write(timestamp(1), timestamp(2), std::iter::once(cell));
        }
        let beside = places.windows(2).filter(|pair| pair[1] - pair[0] == 16).count();
        assert!(beside > 90, "but for where a chunk ends: {beside}");
    }
}
