//! Room for a block: the counters of its `Arc`, its front and its memory, in one allocation.
//!
//! A look-up in the cache waits for memory: for the counter that it raises, for what the search begins
//! with, and for what the search comes by. Side by side they are on one page.

#![expect(unsafe_code, reason = "no safe way makes an `Arc` of what has no fixed size")]

use std::ptr;
use std::sync::Arc;

use super::{Block, Front};

type Word = u64;

/// Makes a block of so many bytes of zeros behind its front.
pub(super) fn block(front: Front, bytes: usize) -> Arc<Block> {
    // Bytes ask for nothing: a block is aligned, and its length rounded, as its front is.
    const { assert!(align_of::<Front>() == align_of::<Word>()) };
    const { assert!(align_of::<Front>() == size_of::<Word>()) };
    let words = (size_of::<Front>() + bytes).div_ceil(size_of::<Word>());
    let mut room = Arc::<[Word]>::new_zeroed_slice(words);
    let all = Arc::get_mut(&mut room).expect("nobody else has what was just made");
    // SAFETY: the words are aligned as a front is, and at least as many bytes.
    unsafe { all.as_mut_ptr().cast::<Front>().write(front) };
    let memory = ptr::slice_from_raw_parts(Arc::into_raw(room).cast::<u8>(), bytes);
    // SAFETY: the pointer comes from `Arc::into_raw`. A block of so many bytes is as long as the words,
    // which were rounded up as the block's length is, and aligned as they are; its front was written,
    // and the rest are zeros, which are bytes.
    unsafe { Arc::from_raw(memory as *const Block) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::bloom::Filter;
    use crate::sstable::links::{Named, Wanted};

    #[test]
    fn a_block_has_the_room_that_was_asked_for_and_gives_it_back() {
        for bytes in (0..70).chain([4096, 6 << 10]) {
            let mut block = block(Front { count: 7, ..Front::default() }, bytes);
            assert_eq!((block.len(), block.memory.len()), (7, bytes));
            assert!(block.memory.iter().all(|byte| *byte == 0));
            Arc::get_mut(&mut block).unwrap().memory.fill(0xff);
            let weak = Arc::downgrade(&block);
            let other = weak.upgrade().unwrap();
            assert_eq!(
                other.memory.iter().map(|byte| usize::from(*byte)).sum::<usize>(),
                255 * bytes
            );
            drop((block, other));
            assert!(weak.upgrade().is_none());
        }
    }

    #[test]
    fn a_block_has_one_parent_whose_link_it_clears_when_it_goes() {
        let block = || block(Front { count: 1, ..Front::default() }, Block::room_of(1, 1));
        let page = || block().into_index(Filter::default());
        let links = |page: &Arc<Block>| Arc::clone(page.index().unwrap());
        let leads = |page: &Arc<Block>| links(page).links.get(0, Wanted::Little).is_some();
        let (first, second, data) = (page(), page(), block());
        Named::block(&first, 0).link(&data);
        Named::block(&second, 0).link(&data);
        assert!(leads(&first) && !leads(&second));
        drop(first);
        Named::block(&second, 0).link(&data);
        assert!(leads(&second), "the page came back while the block stayed");
        drop(data);
        assert!(links(&second).links.is_clear(0));
        let data = block();
        Named::block(&second, 0).link(&data);
        drop(second);
        drop(data);
    }
}
