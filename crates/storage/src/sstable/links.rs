//! A short way from an index to what it names, past the cache's table.
//!
//! Looking a block up in the cache costs three loads that wait for each other and, in a cache of
//! some size, for memory: its hash table, its entry, and only then the block. An index therefore
//! remembers, for each of its entries, where the block lies:
//!
//! ```text
//!  index page ── link ──┐ weak          cache ── strong ──► block
//!                       └────────────────────────────────────▲ │
//!                       ▲────────────── parent, weak ───────────┘
//! ```
//!
//! A link also knows where the block's memory lies. A walk that goes through it asks for all of that at
//! once, and not for each line when it comes to it: pages of 100 rows out of the cache became a tenth
//! faster so, reversed ones a fifth. (Asking for the next block as well while one is gone through took
//! a tenth longer; asking for what a search is likely to look at brought point reads nothing that stood out.)
//!
//! Only the cache and readers keep a block alive. When it goes it clears the link that leads to
//! it, so that no link keeps the memory of a block's head. A link is guarded by a lock that
//! nobody waits for: whoever finds it taken asks the cache.

use std::sync::{Arc, Mutex, TryLockError, Weak};

use super::block::{Block, Stretch};
use super::page;
use super::section::Place;
use crate::cache::Kind;

/// A section as an index names it.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    index: &'a Block,
    /// The index, where it is a page: then a block is named.
    page: Option<&'a Arc<Block>>,
    slot: usize,
}

impl<'a> Named<'a> {
    /// The index page at a slot of the top index.
    pub(super) fn page(top: &'a Block, slot: usize) -> Self {
        Self { index: top, page: None, slot }
    }

    /// The block at a slot of an index page.
    pub(super) fn block(page: &'a Arc<Block>, slot: usize) -> Self {
        Self { index: page, page: Some(page), slot }
    }

    pub(super) fn kind(&self) -> Kind {
        if self.page.is_some() { Kind::Data } else { Kind::Index }
    }

    pub(super) fn place(&self) -> Place {
        page::place(self.index, self.slot)
    }

    /// Returns the section, if the link leads to it.
    pub(super) fn linked(&self, wanted: Wanted) -> Option<Arc<Block>> {
        self.index.links()?.get(self.slot, wanted)
    }

    /// Makes the link lead to the section.
    pub(super) fn link(&self, section: &Arc<Block>) {
        if let Some(links) = self.index.links() {
            // A link of the top index is not cleared: there is one to a page of blocks.
            if let Some(page) = self.page {
                section.set_parent(page, self.slot);
            }
            links.set(self.slot, section);
        }
    }
}

/// How much of a section will be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// What a search comes by.
    Little,
    /// A walk goes through it.
    All,
}

/// Where the blocks lie that an index names; one link an entry.
#[derive(Debug, Default)]
pub(super) struct Links(Box<[Mutex<Link>]>);

#[derive(Debug, Default)]
struct Link {
    block: Weak<Block>,
    stretch: Stretch,
}

/// The link that leads to a block.
#[derive(Debug)]
pub(super) struct Parent {
    index: Weak<Block>,
    slot: usize,
}

impl Links {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| Mutex::default()).collect())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.len() * size_of::<Mutex<Link>>()
    }

    /// Returns the block that an entry names, if it is in memory and the link is free.
    pub(super) fn get(&self, slot: usize, wanted: Wanted) -> Option<Arc<Block>> {
        self.with(slot, |link| {
            // Before the block's count is changed, which waits for its head.
            if wanted == Wanted::All {
                link.stretch.ask();
            }
            link.block.upgrade()
        })
        .flatten()
    }

    /// Remembers where the block that an entry names lies.
    pub(super) fn set(&self, slot: usize, block: &Arc<Block>) {
        let (block, stretch) = (Arc::downgrade(block), block.stretch());
        self.with(slot, |link| *link = Link { block, stretch });
    }

    /// Forgets a block that goes, unless the link leads to another one by now.
    fn clear(&self, slot: usize, block: &Block) {
        self.with(slot, |link| {
            if std::ptr::eq(link.block.as_ptr(), block) {
                *link = Link::default();
            }
        });
    }

    /// Tells whether a link leads nowhere, not even to what remains of a block.
    #[cfg(test)]
    pub(super) fn is_clear(&self, slot: usize) -> bool {
        self.with(slot, |link| link.block.ptr_eq(&Weak::new())) == Some(true)
    }

    fn with<T>(&self, slot: usize, act: impl FnOnce(&mut Link) -> T) -> Option<T> {
        match self.0.get(slot)?.try_lock() {
            Ok(mut link) => Some(act(&mut link)),
            Err(TryLockError::Poisoned(link)) => Some(act(&mut link.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Parent {
    pub(super) fn new(index: &Arc<Block>, slot: usize) -> Self {
        Self { index: Arc::downgrade(index), slot }
    }

    /// Clears the link that leads to a block.
    pub(super) fn forget(&self, block: &Block) {
        if let Some(index) = self.index.upgrade()
            && let Some(links) = index.links()
        {
            links.clear(self.slot, block);
        }
    }
}
