//! Reference-counted blocks: one allocation, its reference count, and the link that refers to it.
//!
//! A block has two kinds of readers. Some *hold* it with a counted reference, as the cache does;
//! the last one frees it. Lookups instead follow the link in the index and read the block without a
//! reference. Counting would cost each lookup several writes to shared memory, and concurrent
//! readers of a block would contend for its cache line. To keep the block alive, such a reader pins
//! its thread's epoch ([`epoch::pin`]). A block without references is freed only after every reader
//! that was pinned at that time has unpinned:
//!
//! ```text
//!  holder    count falls to 0 ── link cleared ── [ epochs pass ] ── memory freed
//!  reader          pin ── link followed ── reads ───────── unpin ──┘
//! ```
//!
//! * A link refers to a block only while the block has a holder, or while its last holder is about
//!   to clear the link. Only a holder sets the link, and the block's *parent* field records which
//!   link it is.
//! * A block has one parent. No other link refers to it until the index with the parent link is
//!   dropped; then the index may be loaded again while the block is still alive.
//! * A reader that follows a link may read the block while it is pinned, and may become a holder if
//!   the reference count is not zero.
//! * If the index was dropped before the block, there is no link to clear. No new reader can find
//!   the block, and freeing it still waits for readers that had followed the link.
//! * A block that no link has ever referred to is freed immediately.
//!
//! The epochs are those of `crossbeam_epoch`; they are unrelated to a leader's epochs. The cache
//! does not count blocks that wait to be freed. There are few: a thread that has retired 64 KiB of
//! blocks advances the epoch, unless another thread is pinned. That takes about a microsecond, or
//! longer if the pinned thread is descheduled.

#![expect(
    unsafe_code,
    reason = "no safe reference-counted pointer supports unsized values or epochs"
)]

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crossbeam_epoch::{self as epoch, Guard};

use crate::lock::lock;
use crate::sstable::bloom::Filter;
use crate::sstable::prefetch;

/// A decoded block of at least one entry, by key, newest version first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Block {
    pub(super) front: Front,
    pub(super) memory: [u8],
}

/// Fixed part of a block; the fields of a search come first.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Front {
    pub(super) count: u32,
    /// Length of the prefix that all keys share.
    pub(super) skip: u32,
    pub(super) first_head: u64,
    pub(super) last_head: u64,
    /// Number of entries per unit of head.
    pub(super) slope: f64,
    pub(super) index: Option<Arc<Index>>,
    /// Number of lookups by links that were reported to the cache, see [`Block::should_report`].
    pub(super) reported: AtomicU8,
}

/// Fields of an index besides its entries. A block that a link of the index refers to keeps a weak
/// reference to this only, not to the page.
#[derive(Debug)]
pub(in crate::sstable) struct Index {
    /// Filter of the blocks that the page refers to.
    pub(super) filter: Filter,
    pub(in crate::sstable) links: Links,
}

/// A counted reference to a block, which keeps it alive.
#[derive(Debug)]
pub(crate) struct SharedBlock(NonNull<Header>);

/// Header of a block.
#[derive(Debug)]
#[repr(C)]
struct Header {
    holders: AtomicUsize,
    /// Number of bytes after the block's front.
    bytes: usize,
    parent: Mutex<Option<Parent>>,
}

/// A block with its header, as allocated.
#[repr(C)]
struct Whole {
    header: Header,
    block: Block,
}

/// The link that refers to a block.
#[derive(Debug)]
struct Parent {
    index: Weak<Index>,
    slot: usize,
}

/// Links from the entries of an index to their blocks.
#[derive(Debug)]
pub(in crate::sstable) struct Links {
    /// One link per entry.
    links: Box<[AtomicPtr<Header>]>,
    /// Size, with header, of the block linked last: an estimate for the others.
    usual_bytes: AtomicUsize,
}

// SAFETY: this is a counted pointer to data shared between threads. The header and the front are
// `Send` and `Sync`, which `shared` below checks, and the rest is bytes. The count is atomic.
unsafe impl Send for SharedBlock {}
// SAFETY: as above.
unsafe impl Sync for SharedBlock {}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Header>();
    shared::<Front>();
};

// The front follows the header directly: a size is a multiple of the alignment.
const _: () = assert!(align_of::<Header>() == align_of::<Front>());

/// Memory of the header.
pub(super) const BEFORE_BYTES: usize = size_of::<Header>();

/// Maximum reference count, to detect leaked references.
const HOLDERS_MAX: usize = usize::MAX / 2;

impl Header {
    fn layout(bytes: usize) -> Layout {
        let bytes = size_of::<Header>() + size_of::<Front>() + bytes;
        let layout = Layout::from_size_align(bytes, align_of::<Header>());
        layout.expect("a decoded block is far below 4 GiB").pad_to_align()
    }

    /// Returns the pointer to the whole block.
    ///
    /// # Safety
    ///
    /// `at` refers to a block that was made and is not freed.
    unsafe fn whole(at: NonNull<Self>) -> *mut Whole {
        // SAFETY: the caller guarantees that the block exists; its size never changes.
        let bytes = unsafe { (*at.as_ptr()).bytes };
        ptr::slice_from_raw_parts_mut(at.as_ptr().cast::<u8>(), bytes) as *mut Whole
    }
}

/// A block to be freed; no other reference to it exists when this is dropped.
struct Gone(NonNull<Header>);

// SAFETY: as for `SharedBlock`.
unsafe impl Send for Gone {}

impl Drop for Gone {
    fn drop(&mut self) {
        // SAFETY: `SharedBlock::new` made it, the last holder left it here, and no reader follows a
        // link to it any more. So this is the only reference, and it is dropped once.
        unsafe {
            let layout = Header::layout(self.0.as_ref().bytes);
            ptr::drop_in_place(Header::whole(self.0));
            alloc::dealloc(self.0.as_ptr().cast(), layout);
        }
    }
}

impl SharedBlock {
    /// Makes a block with `bytes` zero bytes after its front.
    pub(super) fn new(front: Front, bytes: usize) -> Self {
        let layout = Header::layout(bytes);
        // SAFETY: the layout is not empty, because it contains a header.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        let Some(at) = NonNull::new(memory.cast::<Header>()) else {
            alloc::handle_alloc_error(layout)
        };
        let header = Header { holders: AtomicUsize::new(1), bytes, parent: Mutex::default() };
        // SAFETY: the memory is aligned for both, has room for both, and is exclusive to this call.
        unsafe {
            at.write(header);
            at.add(1).cast::<Front>().write(front);
        }
        Self(at)
    }

    fn header(&self) -> &Header {
        // SAFETY: `self` holds a reference.
        unsafe { self.0.as_ref() }
    }

    fn parent(&self) -> MutexGuard<'_, Option<Parent>> {
        lock(&self.header().parent)
    }

    /// Returns the block mutably. Only for a block that is not shared yet.
    pub(super) fn alone(&mut self) -> &mut Block {
        let is_alone =
            self.header().holders.load(Ordering::Acquire) == 1 && self.parent().is_none();
        assert!(is_alone, "a shared block is not changed any more");
        // SAFETY: there is no other holder and no link, so none can appear during this borrow.
        unsafe { &mut (*Header::whole(self.0)).block }
    }

    /// Sets an index's link to this block, unless it is linked from another index that is still
    /// alive, whose link would not be cleared.
    pub(in crate::sstable) fn link_from(&self, index: &Arc<Index>, slot: usize) {
        let mut parent = self.parent();
        if parent.as_ref().is_none_or(Parent::is_gone) {
            *parent = Some(Parent { index: Arc::downgrade(index), slot });
        }
        if parent.as_ref().is_some_and(|parent| parent.is(index, slot)) {
            let Links { links, usual_bytes } = &index.links;
            usual_bytes.store(Header::layout(self.header().bytes).size(), Ordering::Relaxed);
            links[slot].store(self.0.as_ptr(), Ordering::Release);
        }
    }

    #[cold]
    fn retire(&mut self) {
        let gone = Gone(self.0);
        // The lock is in the block, so it is released first.
        let parent = self.parent().take();
        let Some(parent) = parent else { return drop(gone) };
        if let Some(index) = parent.index.upgrade() {
            // The link may refer to another block by now, which was read again.
            let (here, nowhere) = (self.0.as_ptr(), ptr::null_mut());
            let link = &index.links.links[parent.slot];
            let _ = link.compare_exchange(here, nowhere, Ordering::AcqRel, Ordering::Relaxed);
        }
        let bytes = Header::layout(self.header().bytes).size();
        let pinned = epoch::pin();
        pinned.defer(move || drop(gone));
        if is_much(bytes) {
            pinned.flush();
        }
    }
}

/// Bytes of retired blocks at which a thread advances the epoch. Advancing it for each block would
/// slow reads that evict blocks.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Adds a retired block; returns `true` if this thread should advance the epoch.
fn is_much(bytes: usize) -> bool {
    thread_local! {
        static WAITING_BYTES: Cell<usize> = const { Cell::new(0) };
    }
    let add = |waiting: &Cell<usize>| {
        let sum = waiting.get() + bytes;
        let is_much = sum >= WAITING_BYTES_MAX;
        waiting.set(if is_much { 0 } else { sum });
        is_much
    };
    // A thread that is ending has flushed its own.
    WAITING_BYTES.try_with(add).unwrap_or(true)
}

impl Clone for SharedBlock {
    fn clone(&self) -> Self {
        if self.header().holders.fetch_add(1, Ordering::Relaxed) > HOLDERS_MAX {
            std::process::abort();
        }
        Self(self.0)
    }
}

impl Deref for SharedBlock {
    type Target = Block;

    fn deref(&self) -> &Block {
        // SAFETY: `self` holds a reference, and shared blocks are never changed.
        unsafe { &(*Header::whole(self.0)).block }
    }
}

impl Drop for SharedBlock {
    fn drop(&mut self) {
        // Like `Arc`: accesses by other threads happen before the block is freed.
        if self.header().holders.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            self.retire();
        }
    }
}

impl Parent {
    fn is_gone(&self) -> bool {
        self.index.strong_count() == 0
    }

    fn is(&self, index: &Arc<Index>, slot: usize) -> bool {
        ptr::eq(self.index.as_ptr(), Arc::as_ptr(index)) && self.slot == slot
    }
}

/// A block that a link refers to, valid while its reader is pinned.
#[derive(Clone, Copy)]
pub(in crate::sstable) struct Linked<'a> {
    at: NonNull<Header>,
    _pinned: &'a Guard,
}

impl Links {
    pub(super) fn new(count: usize) -> Self {
        let links = (0..count).map(|_| AtomicPtr::default()).collect();
        Self { links, usual_bytes: AtomicUsize::new(0) }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.links)
    }

    /// Returns the approximate size, with header, of a linked block.
    pub(in crate::sstable) fn usual_bytes(&self) -> usize {
        self.usual_bytes.load(Ordering::Relaxed)
    }

    /// Prefetches the link of an entry.
    pub(super) fn prefetch(&self, slot: usize) {
        prefetch::line(self.links[slot].as_ptr().addr());
    }

    /// Returns the block that the link of an entry refers to.
    pub(in crate::sstable) fn get<'a>(&self, slot: usize, pinned: &'a Guard) -> Option<Linked<'a>> {
        let at = NonNull::new(self.links.get(slot)?.load(Ordering::Acquire))?;
        Some(Linked { at, _pinned: pinned })
    }
}

impl<'a> Linked<'a> {
    /// Returns the address of the memory, for prefetching.
    pub(in crate::sstable) fn address(self) -> usize {
        self.at.addr().get()
    }

    pub(in crate::sstable) fn block(self) -> &'a Block {
        // SAFETY: a reader that is still pinned followed the link. Before the block is handed to
        // the epochs, its last holder clears the link, or the index with the link was dropped,
        // which waited for the reader too. The block is handed to the epochs because it has a
        // parent. So it is alive while the reader is pinned, and shared blocks are never changed.
        unsafe { &(*Header::whole(self.at)).block }
    }

    /// Returns a counted reference, unless the block is about to be freed.
    pub(in crate::sstable) fn hold(self) -> Option<SharedBlock> {
        // SAFETY: as in `block`.
        let header = unsafe { self.at.as_ref() };
        let more = |holders: usize| (1..HOLDERS_MAX).contains(&holders).then(|| holders + 1);
        let held = header.holders.fetch_update(Ordering::Acquire, Ordering::Relaxed, more);
        held.ok().map(|_| SharedBlock(self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize) -> SharedBlock {
        SharedBlock::new(Front { count: 1, ..Front::default() }, bytes)
    }

    fn index() -> SharedBlock {
        block(Block::room_of(1, 1)).into_index(Filter::default())
    }

    fn links(page: &SharedBlock) -> Arc<Index> {
        Arc::clone(page.index().unwrap())
    }

    fn leads(page: &SharedBlock) -> bool {
        links(page).links.get(0, &epoch::pin()).is_some()
    }

    #[test]
    fn block_is_allocated_with_given_size() {
        for bytes in (0..70).chain([4096, 6 << 10]) {
            let mut block = SharedBlock::new(Front { count: 7, ..Front::default() }, bytes);
            assert_eq!((block.len(), block.memory.len()), (7, bytes));
            assert!(block.memory.iter().all(|byte| *byte == 0));
            block.alone().memory.fill(0xff);
            let other = block.clone();
            drop(block);
            let sum: usize = other.memory.iter().map(|byte| usize::from(*byte)).sum();
            assert_eq!(sum, 255 * bytes);
        }
    }

    #[test]
    fn freed_block_clears_its_parent_link() {
        let (first, second, data) = (index(), index(), block(8));
        data.link_from(&links(&first), 0);
        data.link_from(&links(&second), 0);
        assert!(leads(&first) && !leads(&second));
        let parent = Arc::downgrade(first.index().unwrap());
        drop(first);
        assert_eq!(parent.strong_count(), 0, "no link referred to the page: it was freed at once");
        data.link_from(&links(&second), 0);
        assert!(leads(&second), "the page was loaded again while the block was alive");
        let other = block(8);
        other.link_from(&links(&second), 0);
        drop(data);
        assert!(leads(&second), "it refers to the block that was read again");
        drop(other);
        assert!(!leads(&second));
        let data = block(8);
        data.link_from(&links(&second), 0);
        drop(second);
        drop(data);
    }

    #[test]
    #[should_panic(expected = "a shared block")]
    fn linked_block_is_not_changed() {
        let (page, mut data) = (index(), block(8));
        data.link_from(&links(&page), 0);
        data.alone();
    }

    #[test]
    fn block_is_freed_after_pinned_readers() {
        let (top, page) = (index(), index());
        page.link_from(&links(&top), 0);
        let there = Arc::downgrade(page.index().unwrap());
        let pinned = epoch::pin();
        let linked = links(&top).links.get(0, &pinned).unwrap();
        drop(linked.hold().expect("it is held"));
        drop(page);
        assert!(!leads(&top) && linked.hold().is_none());
        for _ in 0..1_000 {
            epoch::pin().flush();
        }
        assert_eq!(there.strong_count(), 1);
        assert_eq!(linked.block().memory.len(), Block::room_of(1, 1));
        drop(pinned);
        // Other tests of this process may be pinned; then it takes until they unpin.
        for _ in 0..100_000 {
            epoch::pin().flush();
            if there.strong_count() == 0 {
                return;
            }
            std::thread::yield_now();
        }
        panic!("the block has no reader any more, and is not freed");
    }

    #[test]
    fn retired_blocks_do_not_accumulate() {
        const BLOCKS: usize = 60;
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 1_000 };
        let top = index();
        let page =
            || SharedBlock::new(Front { count: 1, ..Front::default() }, WAITING_BYTES_MAX / 8);
        // Other tests of this process may be pinned, but not always.
        let waiting = (0..ROUNDS).map(|_| {
            let gone: Vec<_> = (0..BLOCKS)
                .map(|_| {
                    let page = page().into_index(Filter::default());
                    page.link_from(&links(&top), 0);
                    Arc::downgrade(page.index().unwrap())
                })
                .collect();
            gone.iter().filter(|gone| gone.strong_count() > 0).count()
        });
        assert!(waiting.min().is_some_and(|least| least < BLOCKS / 2));
    }

    #[test]
    fn followed_link_refers_to_valid_block() {
        const READERS: usize = 2;
        struct Done<'a>(&'a AtomicUsize);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        let blocks = if cfg!(miri) { 40 } else { 20_000 };
        let page = index();
        let reading = AtomicUsize::new(READERS);
        std::thread::scope(|scope| {
            for reader in 0..READERS {
                let (links, reading) = (links(&page), &reading);
                scope.spawn(move || {
                    let _done = Done(reading);
                    let (mut seen, mut held) = (0, None);
                    while seen < blocks / 4 {
                        let pinned = epoch::pin();
                        let Some(linked) = links.links.get(0, &pinned) else {
                            std::thread::yield_now();
                            continue;
                        };
                        let memory = &linked.block().memory;
                        assert!(memory.iter().all(|byte| *byte == memory[0]));
                        seen += 1;
                        if seen % 8 == reader {
                            held = linked.hold().or(held);
                        }
                        let memory =
                            held.as_ref().map_or(&[][..], |held: &SharedBlock| &held.memory);
                        assert!(memory.iter().all(|byte| *byte == memory[0]));
                    }
                });
            }
            let mut round = 0_u8;
            while reading.load(Ordering::Acquire) > 0 {
                round = round.wrapping_add(1);
                let mut block = block(200);
                block.alone().memory.fill(round);
                block.link_from(&links(&page), 0);
                std::thread::yield_now();
            }
        });
    }
}
