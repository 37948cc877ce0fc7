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
//! A link knows where the block's memory lies and how long it is. Whoever goes by it asks for what it
//! will look at before it waits for the block's count: a search for the block's beginning, with what it
//! compares (reads of a row out of the cache became a tenth faster), a walk for all of it (pages of 100
//! rows a tenth, reversed ones a fifth). Asking for the next block as well while one is gone through
//! took a tenth longer.
//!
//! Only the cache and readers keep a block alive. When it goes it clears the link that leads to
//! it, so that no link keeps a block's memory: a block has one parent, and no other index's link leads
//! to it, until that one's page is gone, which may come back while the block stays. A link is guarded by
//! a lock that no look-up waits for: whoever finds it taken asks the cache.

use std::sync::{Arc, Mutex, PoisonError, TryLockError, Weak};

use super::block::{self, Block, Index};
use super::page;
use super::section::Place;
use crate::cache::Kind;

/// A section as an index names it.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    by: &'a Block,
    slot: usize,
    kind: Kind,
}

impl<'a> Named<'a> {
    /// The index page at a slot of the top index.
    pub(super) fn page(top: &'a Block, slot: usize) -> Self {
        Self { by: top, slot, kind: Kind::Index }
    }

    /// The block at a slot of an index page.
    pub(super) fn block(page: &'a Block, slot: usize) -> Self {
        Self { by: page, slot, kind: Kind::Data }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn place(&self) -> Place {
        page::place(self.by, self.slot)
    }

    /// Returns the section, if the link leads to it.
    pub(super) fn linked(&self, wanted: Wanted) -> Option<Arc<Block>> {
        self.by.index()?.links.get(self.slot, wanted)
    }

    /// Makes the link lead to the section.
    pub(super) fn link(&self, section: &Arc<Block>) {
        if let Some(index) = self.by.index() {
            // Another one is not cleared when the section goes.
            if section.set_parent(index, self.slot) {
                index.links.set(self.slot, section);
            }
        }
    }
}

/// How much of a section will be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// An index page. Nothing is asked for: pages are few, and near.
    Page,
    /// What a search comes by.
    Little,
    /// A walk goes through it.
    All,
}

impl Wanted {
    /// So many bytes of it, from its beginning, are asked of memory before they are needed.
    const fn bytes(self) -> usize {
        match self {
            Self::Page => 0,
            Self::Little => 512,
            Self::All => 8 << 10,
        }
    }
}

/// Where the blocks lie that an index names; one link an entry.
#[derive(Debug, Default)]
pub(super) struct Links(Box<[Mutex<Link>]>);

/// Where a block lies.
type Link = Option<Weak<Block>>;

/// The link that leads to a block.
#[derive(Debug)]
pub(super) struct Parent {
    index: Weak<Index>,
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
            let block = link.as_ref()?;
            // Before its count is changed, which waits for it.
            block::ask(block.as_ptr(), wanted.bytes());
            block.upgrade()
        })
        .flatten()
    }

    /// Remembers where the block that an entry names lies.
    pub(super) fn set(&self, slot: usize, block: &Arc<Block>) {
        self.with(slot, |link| *link = Some(Arc::downgrade(block)));
    }

    /// Forgets a block that goes, unless the link leads to another one by now.
    ///
    /// This waits for the lock, which is held for moments in which no block goes.
    fn clear(&self, slot: usize, block: &Block) {
        if let Some(link) = self.0.get(slot) {
            let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
            link.take_if(|linked| std::ptr::addr_eq(linked.as_ptr(), block));
        }
    }

    /// Tells whether a link leads nowhere, not even to what remains of a block.
    #[cfg(test)]
    pub(super) fn is_clear(&self, slot: usize) -> bool {
        self.with(slot, |link| link.is_none()) == Some(true)
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
    pub(super) fn new(index: &Arc<Index>, slot: usize) -> Self {
        Self { index: Arc::downgrade(index), slot }
    }

    /// Tells whether the page is gone whose link led to the block.
    pub(super) fn is_gone(&self) -> bool {
        self.index.strong_count() == 0
    }

    /// Tells whether it is the link of an index.
    pub(super) fn is_of(&self, index: &Arc<Index>) -> bool {
        std::ptr::eq(self.index.as_ptr(), Arc::as_ptr(index))
    }

    /// Clears the link that leads to a block.
    pub(super) fn forget(&self, block: &Block) {
        if let Some(index) = self.index.upgrade() {
            index.links.clear(self.slot, block);
        }
    }
}
