//! Links: direct references from an index to its blocks, without a lookup in the cache's hash
//! table.
//!
//! A lookup in the block cache costs three dependent loads, which miss the processor caches if the
//! cache is large: its hash table, its entry, and the block. So an index keeps a link to the block
//! for each of its entries:
//!
//! ```text
//!  index page ── link ──┐               cache ── holds ───► block
//!                       └────────────────────────────────────▲ │
//!        ▲────────────────────── parent, weak ─────────────────┘
//! ```
//!
//! A link holds the address of the block's memory, and the links of a page share an estimate of the
//! size of its blocks. A reader that follows a link prefetches the memory that it will read before
//! it waits for the block. A search, with which a scan begins too, prefetches the block's beginning
//! with the heads. A scan prefetches the next block while it returns the current one, a part with
//! each row: prefetching all of it at once is slower, because the scan would have to wait. See
//! docs/design/0018-read-path.md.
//!
//! Only the cache and readers keep a block alive; [`super::block::shared`] describes why a link to
//! it is safe.

use std::ops::Deref;

use crossbeam_epoch::{self as epoch, Guard};

use super::block::{Block, Linked, SharedBlock, prefetch_block};
use super::cache::Kind;
use super::page;
use super::prefetch::Region;
use super::section::Place;

/// A section that an index entry refers to.
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

    /// Returns the section, if the link refers to it.
    pub(super) fn linked<'g>(&self, wanted: Wanted, pinned: &'g Guard) -> Option<Linked<'g>> {
        let links = &self.by.index()?.links;
        let linked = links.get(self.slot, pinned)?;
        prefetch_block(linked, wanted.bytes().min(links.usual_bytes()));
        Some(linked)
    }

    /// Returns the memory of a section that a scan will read, if a link refers to it.
    pub(super) fn region(&self) -> Option<Region> {
        let index = self.by.index()?;
        let pinned = epoch::pin();
        let linked = index.links.get(self.slot, &pinned)?;
        let bytes = Wanted::All.bytes().min(index.links.usual_bytes());
        Some(Region::new(linked.address(), bytes))
    }

    /// Sets the link to the section.
    pub(super) fn link(&self, section: &SharedBlock) {
        if let Some(index) = self.by.index() {
            section.link_from(index, self.slot);
        }
    }
}

/// Part of a section that will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Nothing to prefetch: index pages are few and usually cached, and other blocks were
    /// prefetched.
    Nothing,
    /// The part that a search reads.
    Little,
    /// All of it, by a scan.
    All,
}

impl Wanted {
    /// Returns the number of bytes to prefetch, from the beginning of the section.
    const fn bytes(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Little => 512,
            Self::All => 8 << 10,
        }
    }
}

/// A section in memory.
pub(super) enum Seen<'g> {
    /// Followed by a link.
    Linked(Linked<'g>),
    /// Held by a reference from the cache.
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
