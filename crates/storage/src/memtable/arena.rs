//! Arena of a memtable: allocations never move and are freed together.
//!
//! ```text
//!  record   commit u64 │ start u64 │ cell │ cell │ …            written by one thread, then shared
//!  cell     older → cell │ → record │ key length │ payload length │ [expiry] │ key │ payload
//!
//!  node     see `node`: atomics only
//! ```
//!
//! A [`Ref`] is an offset in the arena, counted in words of eight bytes: half the size of a
//! pointer. A value is written in full before its `Ref` exists and, except for its atomics, never
//! changes afterwards. So a thread that loads a `Ref` from a [`Link`] may read the value while
//! other threads write elsewhere in the arena. A `Ref` is valid in its own arena only; only the
//! tree, which owns the arena, stores `Ref`s.
//!
//! Records and nodes have separate chunks. A new chunk has an eighth of the bytes that its kind has
//! already, up to [`SPAN_BYTES`]. So a small memtable stays small, a large one consists of few
//! chunks, and little of the counted memory is unused when the memtable is full.
//!
//! Nodes have their own chunks because an insertion searches them: a tenth of the bytes, which
//! share pages and TLB entries if they are adjacent.
#![expect(unsafe_code, reason = "cells are shared while others are written into the same memory")]

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use carnet_base::Timestamp;

use super::cell::{CellRef, VersionRef};
use super::chunks::Chunks;
use super::line::Line;
use super::pages;
use crate::lock::lock;

const WORD: usize = 8;
/// Size of a span: offsets are divided into spans, and a chunk begins at the beginning of a span.
const SPAN_BYTES: usize = 4 << 20;
const SPAN_WORDS: u32 = 1 << 19;
/// Spans for 17 GiB of offsets: enough for [`MEMTABLE_BYTES_MAX`], even if each chunk is slightly
/// longer than a span and takes two. The additional spans are for the first chunks of records and
/// of nodes, which are short and take a span each.
const SPANS: usize = (1 << 12) + 256;
/// Maximum size of a memtable at which it is sealed. A sealed memtable may grow to twice that, plus
/// the records that its writers have reserved.
pub(crate) const MEMTABLE_BYTES_MAX: usize = 3 << 30;
/// Number of words whose pages are populated together.
const STEP_WORDS: u32 = 1 << 13;
const _: () = assert!(STEP_WORDS as usize * WORD == pages::STEP_BYTES);
const CHUNK_BYTES_MIN: usize = 4 << 10;

const NO_PAYLOAD: u32 = u32::MAX;
/// Flag in `key_len`: an expiry follows the header.
const EXPIRING: u32 = 1 << 31;

/// Memory of a memtable; see the module documentation.
pub(super) struct Arena {
    /// Address of each span.
    spans: Box<[AtomicPtr<u64>]>,
    spans_taken: AtomicUsize,
    records: Mutex<Tail>,
    nodes: Mutex<Tail>,
    /// Total size of all chunks.
    allocated: AtomicUsize,
    /// Pool that chunks are taken from and returned to.
    kept: Chunks,
}

/// Allocation position of one kind of chunk.
#[derive(Default)]
struct Tail {
    next: u32,
    end: u32,
    /// End of the words whose pages are populated.
    populated: u32,
    /// Chunks of length 0: only their capacity is used.
    chunks: Vec<Vec<Line>>,
    /// Total size of `chunks`.
    bytes: usize,
}

struct Taken {
    at: NonZeroU32,
    /// Words whose pages the caller has to populate.
    fresh: Range<u32>,
}

/// Offset of a `T` in its arena.
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

    /// Removes the type.
    pub(super) const fn erase(self) -> Ref<()> {
        Ref::new(self.place)
    }
}

impl Ref<()> {
    /// Adds the type.
    ///
    /// # Safety
    ///
    /// `self` was erased from a `Ref<T>`.
    pub(super) const unsafe fn restore<T>(self) -> Ref<T> {
        Ref::new(self.place)
    }
}

/// An optional [`Ref`] that threads may load and replace concurrently.
///
/// A store publishes the value that it refers to.
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

/// Bytes of a cell to prefetch: header, key and a small payload.
const CELL_AHEAD_BYTES: usize = 192;

/// Header of a cell.
#[repr(C)]
pub(super) struct Cell {
    older: Link<Self>,
    record: u32,
    key_len: u32,
    payload_len: u32,
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

    /// Returns the bytes that were requested from the allocator, including those not handed out.
    pub(super) fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Allocates words at a multiple of `align` words.
    ///
    /// # Panics
    ///
    /// If the arena's offsets are exhausted, which [`MEMTABLE_BYTES_MAX`] rules out.
    fn take(&self, from: &Mutex<Tail>, words: usize, align: u32) -> NonZeroU32 {
        let Taken { at, fresh } = self.place(&mut lock(from), words, align);
        // Populated without the lock, so that no other thread waits for the page faults.
        if !fresh.is_empty() {
            pages::populate(self.pointer(fresh.start).cast(), fresh.len() * WORD);
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
        let populated = tail.populated;
        if tail.next > populated {
            tail.populated = tail.next.saturating_add(STEP_WORDS).min(tail.end);
        }
        let at = NonZeroU32::new(at).expect("offset 0 is never handed out");
        Taken { at, fresh: populated..tail.populated }
    }

    fn grow(&self, tail: &mut Tail, words: usize) {
        // Two more lines: for alignment, and for word 0, which is not used. Powers of two, so that
        // a pooled chunk fits again.
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
        // Word 0 of the arena is not used, so that no offset is zero.
        tail.next = place(first * SPAN_WORDS as usize) + u32::from(first == 0);
        tail.end = place(first * SPAN_WORDS as usize + bytes / WORD);
        tail.populated = if is_fresh { tail.next } else { tail.end };
    }

    fn pointer(&self, place: u32) -> *mut u64 {
        let span = self.spans[(place / SPAN_WORDS) as usize].load(Ordering::Acquire);
        span.wrapping_add((place % SPAN_WORDS) as usize)
    }

    /// Moves a value into the arena, aligned to a cache line. The value is never dropped.
    pub(super) fn put<T: Sync>(&self, value: T) -> Ref<T> {
        const { assert!(align_of::<T>() <= align_of::<Line>() && !std::mem::needs_drop::<T>()) };
        let place = self.take(&self.nodes, size_of::<T>().div_ceil(WORD), 8);
        // SAFETY: `take` gave this thread exclusive words of a chunk that lives as long as the
        // arena; they are large enough for a `T` and aligned to a line.
        unsafe { self.pointer(place.get()).cast::<T>().write(value) };
        Ref::new(place)
    }

    pub(super) fn get<T: Sync>(&self, at: Ref<T>) -> &T {
        // SAFETY: only `put` makes a `Ref<T>`, except for those of cells, which are read through
        // `cell`. The value was written before its `Ref` existed, changes only through its own
        // atomics, and lives as long as the arena.
        unsafe { &*self.pointer(at.place.get()).cast::<T>() }
    }

    /// Prefetches a value.
    pub(super) fn prefetch<T>(&self, at: Ref<T>) {
        self.prefetch_lines(at.place.get(), size_of::<T>());
    }

    /// Prefetches the beginning of a cell.
    pub(super) fn prefetch_cell(&self, at: Ref<Cell>) {
        self.prefetch_lines(at.place.get(), CELL_AHEAD_BYTES);
    }

    /// Prefetches the record of a cell; this reads the cell itself.
    pub(super) fn prefetch_record(&self, of: Ref<Cell>) {
        self.prefetch_lines(self.cell(of).header().record, size_of::<[u64; 2]>());
    }

    fn prefetch_lines(&self, place: u32, bytes: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let first: *const i8 = self.pointer(place).cast();
            for line in (0..bytes).step_by(size_of::<Line>()) {
                // SAFETY: a prefetch has no observable effect, at any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(line)) };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (place, bytes);
    }

    /// Copies the cells of a record into the arena.
    pub(super) fn write<'a>(
        &self,
        start: Timestamp,
        commit: Timestamp,
        cells: impl Iterator<Item = CellRef<'a>> + Clone,
    ) -> Written<'_> {
        let words = 2 + cells.clone().map(|cell| words_of(&cell)).sum::<usize>();
        let first = self.take(&self.records, words, 1);
        let record = self.pointer(first.get());
        // SAFETY: `take` gave this thread exclusive use of `words` words, at least two.
        unsafe {
            record.write(commit.get());
            record.add(1).write(start.get());
        }
        let (mut at, mut left) = (2, 0);
        for cell in cells {
            let taken = words_of(&cell);
            assert!(at + taken <= words, "an iterator and its clone differ");
            // SAFETY: as above; the assertion keeps the cell within them.
            unsafe { write_cell(record.add(at), first, &cell) };
            at += taken;
            left += 1;
        }
        Written { arena: self, next: first.get() + 2, left }
    }

    /// Returns a view of a cell.
    pub(super) fn cell(&self, at: Ref<Cell>) -> CellView<'_> {
        CellView { arena: self, cell: self.pointer(at.place.get()).cast() }
    }

    /// Returns a cell's key.
    pub(super) fn key(&self, at: Ref<Cell>) -> &[u8] {
        self.cell(at).key()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // Chunks of nodes first, because they are smaller: the records of a large memtable would
        // leave no room for them in the pool.
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
/// `to` points at [`words_of`] the cell words that no other thread uses.
unsafe fn write_cell(to: *mut u64, record: NonZeroU32, cell: &CellRef<'_>) {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("a record is far below 2 GiB");
    let header = Cell {
        older: Link::new(None),
        record: record.get(),
        key_len: len(cell.key) | if cell.expiry.is_some() { EXPIRING } else { 0 },
        payload_len: cell.payload.map_or(NO_PAYLOAD, len),
    };
    // SAFETY: the caller's words hold the header, the optional expiry, the key and the payload, in
    // this order; a word's alignment suffices for the header.
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

/// Iterator over the cells of a record that was written, in order.
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

/// View of a cell in an arena.
#[derive(Clone, Copy)]
pub(super) struct CellView<'a> {
    /// Keeps the cell's memory borrowed.
    arena: &'a Arena,
    cell: *const Cell,
}

impl<'a> CellView<'a> {
    fn header(self) -> &'a Cell {
        // SAFETY: a view is made from a `Ref<Cell>`, so its cell was written; the view borrows the
        // arena that holds the cell.
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

    /// Returns bytes after the header and the expiry, from an offset on.
    fn bytes(self, at: usize, len: usize) -> &'a [u8] {
        let skipped = size_of::<Cell>() + if self.is_expiring() { WORD } else { 0 };
        // SAFETY: `write_cell` wrote key and payload there; the callers compute offset and length
        // from the header. The pointer covers the chunk, not only the header.
        unsafe { std::slice::from_raw_parts(self.cell.cast::<u8>().add(skipped + at), len) }
    }

    pub(super) fn key(self) -> &'a [u8] {
        self.bytes(0, self.key_len())
    }

    /// Returns the record's commit and start timestamps.
    fn record(self) -> (u64, u64) {
        let record = self.arena.pointer(self.header().record);
        // SAFETY: a cell's record was written before the cell.
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
        // SAFETY: `write_cell` wrote an expiry there if the flag is set.
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

    /// A memtable may grow to twice its limit while 32 records of 64 MiB are being written. Its
    /// arena has room for all of them, whatever their lengths and after many short chunks.
    #[test]
    #[cfg_attr(miri, ignore = "gigabytes are too many")]
    fn arena_has_offsets_for_largest_memtable() {
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

    /// Nodes are adjacent even if many records are written between them.
    #[test]
    fn nodes_are_adjacent() {
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
