//! A short way from an index to what it names, past the cache's table.
//!
//! Looking a block up in the cache costs three loads that wait for each other and, in a cache of
//! some size, for memory: its hash table, its entry, and only then the block. An index therefore
//! remembers, for each of its entries, where the block lies:
//!
//! ```text
//!  index page ── link ──┐               cache ── holds ───► block
//!                       └────────────────────────────────────▲ │
//!        ▲────────────────────── parent, weak ─────────────────┘
//! ```
//!
//! A link says where the block's memory lies, and the links of a page about how long its blocks are.
//! Whoever goes by a link asks for what it will look at before it waits for the block: a search, which is
//! also how a walk begins, for the block's beginning, with what it compares (reads of a row out of the cache
//! became a tenth faster). While one block is gone through the next one is asked for, a part with each row
//! that is taken: all of it at once took a tenth longer, because the walk had to wait for it. Asking for
//! where a record probably stands before the block's beginning has come took a tenth longer, too.
//!
//! Only the cache and readers keep a block alive. How a link can lead to it all the same says
//! [`super::block::shared`].

use std::ops::Deref;

use crossbeam_epoch::{self as epoch, Guard};

use super::block::{Block, Linked, SharedBlock, ask};
use super::page;
use super::prefetch::Stretch;
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
    pub(super) fn linked<'g>(&self, wanted: Wanted, pinned: &'g Guard) -> Option<Linked<'g>> {
        let links = &self.by.index()?.links;
        let linked = links.get(self.slot, pinned)?;
        ask(linked, wanted.bytes().min(links.usual_bytes()));
        Some(linked)
    }

    /// Where a section lies that a walk will go through, if a link leads to it.
    pub(super) fn stretch(&self) -> Option<Stretch> {
        let index = self.by.index()?;
        let pinned = epoch::pin();
        let linked = index.links.get(self.slot, &pinned)?;
        let bytes = Wanted::All.bytes().min(index.links.usual_bytes());
        Some(Stretch::new(linked.address(), bytes))
    }

    /// Makes the link lead to the section.
    pub(super) fn link(&self, section: &SharedBlock) {
        if let Some(index) = self.by.index() {
            section.link_from(index, self.slot);
        }
    }
}

/// How much of a section will be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// An index page: these are few, and near. Or a block that was asked for before.
    Nothing,
    /// What a search comes by.
    Little,
    /// A walk goes through it.
    All,
}

impl Wanted {
    /// So many bytes of it, from its beginning, are asked of memory before they are needed.
    const fn bytes(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Little => 512,
            Self::All => 8 << 10,
        }
    }
}

/// A section that is in memory.
pub(super) enum Seen<'g> {
    /// A link leads to it, which its reader follows.
    Linked(Linked<'g>),
    /// The cache had it.
    Held(SharedBlock),
}

impl Deref for Seen<'_> {
    type Target = Block;

    fn deref(&self) -> &Block {
        match self {
            Self::Linked(linked) => linked.block(),
            Self::Held(section) => section,
        }
    }
}
