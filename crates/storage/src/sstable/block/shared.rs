//! A block that many share: one allocation, who holds it, and the link that leads to it.
//!
//! Two kinds of readers come to a block. Some *hold* it, the cache among them: they count, and the last
//! one gives it back. The others come by the link in the index that names it, look, and are gone; would
//! they count, each look-up would write to memory that it waits for, three times, and two threads that
//! read one block would take it from each other. They hold nothing. What keeps the block there is that
//! they say, of their own thread, that they are looking ([`epoch::pin`]), and that a block which nobody
//! holds any more is given back only behind all who were looking then:
//!
//! ```text
//!  holder    count falls to 0 ── link cleared ── [ epochs pass ] ── memory given back
//!  reader          pin ── link followed ── looks ───────── unpin ──┘
//! ```
//!
//! * A link leads to a block only while somebody holds the block, or while its last holder is about to
//!   clear the link: whoever sets it holds the block, and the block's *parent* says which link it is.
//! * A block has one parent, and no other link leads to it, until the index is gone that has the parent
//!   link; the index may come back while the block stays.
//! * Who follows a link may look as long as he is pinned, and may come to hold the block, if its count
//!   is not zero by then.
//! * Where the index has gone before the block there is no link to clear: nobody finds a way to it any
//!   more, but for those who had followed it, for whom the block waits all the same.
//! * A block to which no link has ever led is given back at once.
//!
//! The epochs are those of `crossbeam_epoch`; a leader's have nothing to do with them. What waits to be
//! given back is not counted by the cache. It is little: a thread from which 64 KiB of blocks have gone
//! lets the epochs move on, unless another one is looking, which takes a microsecond, or the time for
//! which that one is put off the processor meanwhile.
//!
//! Against blocks in an `Arc` with weak links behind locks, reads out of the cache became 2 to 6 % faster
//! with one thread and 10 to 15 % with eight, reads of keys that were never written 7 and 20 %.

#![expect(
    unsafe_code,
    reason = "no safe way makes a counted pointer to what has no fixed size, nor one that waits for readers"
)]

use std::alloc::{self, Layout};
use std::cell::Cell;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crossbeam_epoch::{self as epoch, Guard};

use super::{Block, Front, Index};
use crate::lock::lock;
use crate::sstable::prefetch;

/// A block that is held; it is there as long as one of these is.
#[derive(Debug)]
pub(crate) struct SharedBlock(NonNull<Header>);

/// What stands in front of a block.
#[derive(Debug)]
#[repr(C)]
struct Header {
    /// How many hold it.
    holders: AtomicUsize,
    /// How many bytes stand behind the block's front.
    bytes: usize,
    parent: Mutex<Option<Parent>>,
}

/// A block with its header: what is allocated.
#[repr(C)]
struct Whole {
    header: Header,
    block: Block,
}

/// Which link leads to a block.
#[derive(Debug)]
struct Parent {
    index: Weak<Index>,
    slot: usize,
}

/// Where the blocks lie that an index names.
#[derive(Debug)]
pub(in crate::sstable) struct Links {
    /// One an entry.
    links: Box<[AtomicPtr<Header>]>,
    /// How long the block is, header included, to which a link was set last: the others are alike.
    usual_bytes: AtomicUsize,
}

// SAFETY: it is a counted pointer to what is shared between threads: header and front are `Send` and
// `Sync`, which `_shared` checks, and the rest is bytes. The count is atomic.
unsafe impl Send for SharedBlock {}
// SAFETY: as above.
unsafe impl Sync for SharedBlock {}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Header>();
    shared::<Front>();
};

// The front stands right behind the header: a length is a multiple of the alignment.
const _: () = assert!(align_of::<Header>() == align_of::<Front>());

/// What stands before a block's own memory.
pub(super) const BEFORE_BYTES: usize = size_of::<Header>();

/// More holders than there can be, unless they are forgotten over and over.
const HOLDERS_MAX: usize = usize::MAX / 2;

impl Header {
    fn layout(bytes: usize) -> Layout {
        let bytes = size_of::<Header>() + size_of::<Front>() + bytes;
        let layout = Layout::from_size_align(bytes, align_of::<Header>());
        layout.expect("a decoded block is far below 4 GiB").pad_to_align()
    }

    /// The pointer to all of it.
    ///
    /// # Safety
    ///
    /// A block that was made stands there and has not been given back.
    unsafe fn whole(at: NonNull<Self>) -> *mut Whole {
        // SAFETY: the caller says that it is there; the number never changes.
        let bytes = unsafe { (*at.as_ptr()).bytes };
        ptr::slice_from_raw_parts_mut(at.as_ptr().cast::<u8>(), bytes) as *mut Whole
    }
}

/// A block that goes, of which nobody knows any more when this is dropped.
struct Gone(NonNull<Header>);

// SAFETY: as for `SharedBlock`.
unsafe impl Send for Gone {}

impl Drop for Gone {
    fn drop(&mut self) {
        // SAFETY: it was made by `SharedBlock::new`, the last holder left it here, and nobody follows a
        // link to it any more; so that this is the only way to it, and goes down it once.
        unsafe {
            let layout = Header::layout(self.0.as_ref().bytes);
            ptr::drop_in_place(Header::whole(self.0));
            alloc::dealloc(self.0.as_ptr().cast(), layout);
        }
    }
}

impl SharedBlock {
    /// Makes a block of so many bytes of zeros behind its front.
    pub(super) fn new(front: Front, bytes: usize) -> Self {
        let layout = Header::layout(bytes);
        // SAFETY: the layout has a size: a header has.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        let Some(at) = NonNull::new(memory.cast::<Header>()) else {
            alloc::handle_alloc_error(layout)
        };
        let header = Header { holders: AtomicUsize::new(1), bytes, parent: Mutex::default() };
        // SAFETY: the memory is aligned for both, there is room for both, and it is this call's own.
        unsafe {
            at.write(header);
            at.add(1).cast::<Front>().write(front);
        }
        Self(at)
    }

    fn header(&self) -> &Header {
        // SAFETY: it is held.
        unsafe { self.0.as_ref() }
    }

    fn parent(&self) -> MutexGuard<'_, Option<Parent>> {
        lock(&self.header().parent)
    }

    /// The block, for whoever has made it and told nobody of it yet.
    pub(super) fn alone(&mut self) -> &mut Block {
        let is_alone =
            self.header().holders.load(Ordering::Acquire) == 1 && self.parent().is_none();
        assert!(is_alone, "a block that others know of is not changed any more");
        // SAFETY: there is no other holder, and no link leads here, so that none can come to be while
        // this one is borrowed.
        unsafe { &mut (*Header::whole(self.0)).block }
    }

    /// Makes an index's link lead here, unless that of another one does which is still there: it
    /// would not be cleared when the block goes.
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
        // The lock lies in the block: it is given back first.
        let parent = self.parent().take();
        let Some(parent) = parent else { return drop(gone) };
        if let Some(index) = parent.index.upgrade() {
            // It may lead to another one by now, which was read again.
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

/// So many bytes may wait in a thread before it lets the epochs move on. To do that for each block took a
/// 25th of the reads of eight threads of which most let one go.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// Tells whether a block of so many bytes is one too many to wait in this thread.
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
    // A thread that ends has given its own away.
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
        // SAFETY: it is held, and nobody changes a block that is shared.
        unsafe { &(*Header::whole(self.0)).block }
    }
}

impl Drop for SharedBlock {
    fn drop(&mut self) {
        // As `Arc`: what others did with it comes before it is given back.
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

/// A block to which a link led, for as long as its reader is pinned.
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

    /// About how long a block is, header included, to which a link leads.
    pub(in crate::sstable) fn usual_bytes(&self) -> usize {
        self.usual_bytes.load(Ordering::Relaxed)
    }

    /// Asks memory for the link of an entry.
    pub(super) fn ask(&self, slot: usize) {
        prefetch::ask(self.links[slot].as_ptr().addr());
    }

    /// Returns where the link of an entry leads to.
    pub(in crate::sstable) fn get<'a>(&self, slot: usize, pinned: &'a Guard) -> Option<Linked<'a>> {
        let at = NonNull::new(self.links.get(slot)?.load(Ordering::Acquire))?;
        Some(Linked { at, _pinned: pinned })
    }
}

impl<'a> Linked<'a> {
    /// The address of the memory, for whoever asks for it before he looks.
    pub(in crate::sstable) fn address(self) -> usize {
        self.at.addr().get()
    }

    pub(in crate::sstable) fn block(self) -> &'a Block {
        // SAFETY: the link was followed by a reader who has been pinned since. The block's last holder
        // clears the link before he leaves the block to the epochs, or the index is gone that had it,
        // which waited for the reader too; and he does leave it to them, because the block has a
        // parent. It is there as long as the reader is pinned, and nobody changes it.
        unsafe { &(*Header::whole(self.at)).block }
    }

    /// Holds the block, unless it is about to go.
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
    use crate::sstable::bloom::Filter;

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
    fn a_block_has_the_room_that_was_asked_for_and_gives_it_back() {
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
    fn a_block_has_one_parent_whose_link_it_clears_when_it_goes() {
        let (first, second, data) = (index(), index(), block(8));
        data.link_from(&links(&first), 0);
        data.link_from(&links(&second), 0);
        assert!(leads(&first) && !leads(&second));
        let parent = Arc::downgrade(first.index().unwrap());
        drop(first);
        assert_eq!(parent.strong_count(), 0, "no link led to the page: it went at once");
        data.link_from(&links(&second), 0);
        assert!(leads(&second), "the page came back while the block stayed");
        let other = block(8);
        other.link_from(&links(&second), 0);
        drop(data);
        assert!(leads(&second), "it leads to the block that was read again");
        drop(other);
        assert!(!leads(&second));
        let data = block(8);
        data.link_from(&links(&second), 0);
        drop(second);
        drop(data);
    }

    #[test]
    #[should_panic(expected = "others know of")]
    fn a_block_to_which_a_link_leads_is_not_changed() {
        let (page, mut data) = (index(), block(8));
        data.link_from(&links(&page), 0);
        data.alone();
    }

    #[test]
    fn a_block_that_goes_stays_for_those_who_look_at_it() {
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
        // Other tests of this process may be looking at something: then it takes until they are done.
        for _ in 0..100_000 {
            epoch::pin().flush();
            if there.strong_count() == 0 {
                return;
            }
            std::thread::yield_now();
        }
        panic!("nobody looks at the block any more, and it is still there");
    }

    #[test]
    fn few_blocks_wait_in_a_thread_that_lets_many_go() {
        const BLOCKS: usize = 60;
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 1_000 };
        let top = index();
        let page =
            || SharedBlock::new(Front { count: 1, ..Front::default() }, WAITING_BYTES_MAX / 8);
        // Other tests of this process may be looking at something, but not at all times.
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
    fn whoever_follows_a_link_finds_a_whole_block() {
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
