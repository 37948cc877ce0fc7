//! Cursor over the keys of a table, forward or backward.
//!
//! The cursor is positioned at a *group*, the versions of one key, and borrows the key and its
//! newest version at the snapshot. Within a block it moves without blocking
//! ([`TableCursor::try_advance`]). Only a block or an index page that is not in the cache requires
//! [`TableCursor::load_next`]. Both directions cost the same: a block records where a group begins,
//! so no keys are compared.
//!
//! **Groups across blocks.** The separators of the index state whether a block continues the last
//! key of the previous block, and at which commit timestamp the previous block ended. So the cursor
//! knows without a read whether the wanted version is in the neighboring block, and whether a
//! neighbor holds only versions of a key that it has returned already. Such blocks are skipped.
//!
//! **Memory.** Blocks in the cache are prefetched into the processor caches: the part after the
//! position at which the scan begins, and parts of the next block with each key that is taken.
//! Facts that the separators determine are not read from the block.
//!
//! **Read-ahead.** A cursor holds one block and one index page. A scan with a known number of cells
//! is read in one piece from its first uncached block on, with the table's average version size.
//! Other scans read one block; from the second uncached block in a row on they read ahead, in
//! growing pieces of up to [`READ_AHEAD_BYTES`]. Blocks are contiguous, so this is one read in either
//! direction.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use super::block::{Block, SharedBlock};
use super::cache::Kind;
use super::entry_ref::EntryRef;
use super::links::{Named, Wanted};
use super::prefetch::Region;
use super::read_ahead::ReadAhead;
use super::section::Place;
use super::table::{Table, slot_of};
use super::walk::Walk;

/// A scan of fewer cells of a table does not prefetch whole blocks.
const FEW_CELLS: usize = 8;

/// Cursor over the keys of a range. It starts before the first one.
pub struct TableCursor {
    table: Arc<Table>,
    walk: Walk,
    page: Option<SharedBlock>,
    page_number: usize,
    slot: usize,
    block: Option<SharedBlock>,
    /// Entries of the block that are within the bounds.
    from: usize,
    to: usize,
    /// Whether the block's first key continues from the previous block.
    continues: bool,
    /// Current group; the version at the snapshot is at `shown`.
    group: (usize, usize),
    shown: Option<usize>,
    state: CursorState,
    read_ahead: ReadAhead,
    /// Memory of the next block; a part is prefetched with each key that is
    /// [taken](TableCursor::take_more).
    next: Region,
}

/// State of a cursor: its next need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CursorState {
    /// Needs an index page, to be entered at `At`.
    Page(At),
    /// Needs the block at the slot.
    Block(At),
    /// Is at a group.
    Group,
    /// Is at the end.
    End,
}

/// Position at which a page or a block is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// At the bound of the scan.
    Bound,
    /// At its near end; `handed` if the group across that end was returned already.
    Edge { handed: bool },
}

/// A section that has to be read first.
pub(super) struct Need {
    pub(super) place: Place,
    pub(super) kind: Kind,
}

impl TableCursor {
    /// Makes a cursor before the first key; reads nothing.
    #[must_use]
    pub fn new(table: Arc<Table>, walk: Walk) -> Self {
        let mut cursor = Self {
            table,
            page: None,
            page_number: 0,
            slot: 0,
            block: None,
            from: 0,
            to: 0,
            continues: false,
            group: (0, 0),
            shown: None,
            state: CursorState::End,
            read_ahead: ReadAhead::default(),
            next: Region::default(),
            walk,
        };
        let Walk { lower, upper, reverse, .. } = &cursor.walk;
        let empty = upper.as_ref().is_some_and(|upper| upper <= lower);
        if let Some(top) = cursor.table.top.as_ref().filter(|_| !empty) {
            cursor.page_number = match upper {
                Some(upper) if *reverse => slot_before(top, upper),
                None if *reverse => top.len() - 1,
                _ => slot_of(top, lower, Timestamp::MAX),
            };
            cursor.state = CursorState::Page(At::Bound);
        }
        cursor
    }

    /// Returns the current key; `None` at the end and before the first key.
    #[must_use]
    pub fn peek_key(&self) -> Option<&[u8]> {
        match (self.state, &self.block) {
            (CursorState::Group, Some(block)) => Some(block.key(self.group.0)),
            _ => None,
        }
    }

    /// Returns the newest version of the current key that committed at or before the snapshot;
    /// `None` if all are newer. The table's range tombstones are not applied, because they hide
    /// versions in older sources too: see [`Table::range_tombstones`].
    #[must_use]
    pub fn version(&self) -> Option<EntryRef<'_>> {
        match (self.state, &self.block) {
            (CursorState::Group, Some(block)) => self.shown.map(|at| block.get(at)),
            _ => None,
        }
    }

    /// Moves to the next key. Returns `false` if that needs a read; then [`TableCursor::load_next`]
    /// completes the move. At the end the cursor stays.
    pub fn try_advance(&mut self) -> bool {
        if self.state == CursorState::Group {
            // The common case: the next group is in the same block.
            let (begin, end) = self.group;
            let settled = match self.walk.reverse {
                true => begin > self.from && self.settle_backward(begin),
                false => end < self.to && self.settle_forward(end),
            };
            if settled {
                return true;
            }
            if self.state == CursorState::Group {
                self.leave_bounded(true);
            }
        }
        self.resume(None).is_none()
    }

    /// Moves within the block while `take` accepts keys, each with its newest version at the
    /// snapshot, and stays at the last accepted one. Stops at the latest before the block's last
    /// key, whose versions may continue in the next block.
    ///
    /// # Errors
    ///
    /// Errors of `take`.
    #[inline]
    pub fn take_more(
        &mut self,
        mut take: impl FnMut(&[u8], Option<EntryRef<'_>>) -> Result<bool>,
    ) -> Result<()> {
        let (CursorState::Group, Some(block)) = (self.state, &self.block) else { return Ok(()) };
        let Walk { read, reverse, .. } = self.walk;
        loop {
            let (begin, end) = self.group;
            let next = match reverse {
                true if begin > self.from => (block.group_begin(begin), begin),
                false if end < self.to => (end, block.group_end(end)),
                _ => return Ok(()),
            };
            if next.0 == 0 || next.1 == block.len() {
                return Ok(());
            }
            let newest = block.get(next.0);
            let (shown, entry) = if newest.commit <= read {
                (Some(next.0), Some(newest))
            } else {
                let shown = shown(block, next, read);
                (shown, shown.map(|at| block.get(at)))
            };
            if !take(newest.key, entry)? {
                return Ok(());
            }
            (self.group, self.shown) = (next, shown);
            let rest = newest.key.len() + newest.payload.map_or(0, <[u8]>::len);
            self.next.advance(Block::room_of(1, rest));
        }
    }

    /// Reads the sections that [`TableCursor::try_advance`] lacked and completes the move.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub async fn load_next(&mut self) -> Result<()> {
        let mut loaded = None;
        while let Some(need) = self.resume(loaded.take()) {
            loaded = Some(self.load(need).await?);
        }
        Ok(())
    }

    /// Moves to the next key; reads if necessary.
    ///
    /// # Errors
    ///
    /// Like [`TableCursor::load_next`].
    pub async fn advance(&mut self) -> Result<()> {
        if self.try_advance() { Ok(()) } else { self.load_next().await }
    }

    /// Moves as far as possible with one section that was just read.
    fn resume(&mut self, mut loaded: Option<SharedBlock>) -> Option<Need> {
        loop {
            let (named, at) = match self.state {
                CursorState::Group | CursorState::End => return None,
                CursorState::Page(at) => {
                    (Named::page(self.table.top.as_ref()?, self.page_number), at)
                }
                CursorState::Block(at) => (Named::block(self.page.as_ref()?, self.slot), at),
            };
            let kind = named.kind();
            let wanted = match (kind, at) {
                (Kind::Index, _) => Wanted::Nothing,
                (Kind::Data, At::Edge { .. }) if !self.next.is_empty() => {
                    self.next.advance(usize::MAX);
                    Wanted::Nothing
                }
                (Kind::Data, At::Edge { .. }) if self.wants_many() => Wanted::All,
                (Kind::Data, _) => Wanted::Little,
            };
            let block = match loaded.take() {
                Some(block) => block,
                None => match self.table.cached(named, self.walk.reads, wanted) {
                    Some(block) => {
                        if kind == Kind::Data {
                            self.read_ahead.hit(named.place(), &block);
                        }
                        block
                    }
                    None => return Some(Need { place: named.place(), kind }),
                },
            };
            match kind {
                Kind::Index => self.enter_page(block, at),
                Kind::Data => self.enter_block(block, at),
            }
        }
    }

    fn enter_page(&mut self, page: SharedBlock, at: At) {
        let Walk { lower, upper, reverse, .. } = &self.walk;
        self.slot = match (at, upper) {
            (At::Bound, None) if *reverse => page.len() - 1,
            (At::Bound, Some(upper)) if *reverse => slot_before(&page, upper),
            (At::Bound, _) => slot_of(&page, lower, Timestamp::MAX),
            (At::Edge { .. }, _) if *reverse => page.len() - 1,
            (At::Edge { .. }, _) => 0,
        };
        self.page = Some(page);
        self.state = CursorState::Block(at);
    }

    fn enter_block(&mut self, block: SharedBlock, at: At) {
        let handed = at == At::Edge { handed: true };
        let len = block.len();
        let reverse = self.walk.reverse;
        (self.from, self.to) = self.within_bounds(&block, at);
        let wanted = self.wanted();
        if at == At::Bound && self.wants_many() {
            // The begin is known only now.
            match reverse {
                true => block.prefetch(self.from.max(self.to.saturating_sub(wanted)), self.to),
                false => block.prefetch(self.from, self.to.min(self.from.saturating_add(wanted))),
            }
        }
        self.read_ahead.pass(self.to.saturating_sub(self.from));
        let goes_on = if reverse { self.from == 0 } else { self.to == len };
        self.next = match goes_on {
            true => self.next_in_memory().unwrap_or_default(),
            false => Region::default(),
        };
        self.continues = self.separator().is_some_and(Separator::goes_on);
        let (mut from, mut to) = (self.from, self.to);
        if handed && reverse {
            to = to.min(block.group_begin(len));
        } else if handed && self.continues {
            from = from.max(block.group_end(0));
        }
        self.block = Some(block);
        if from >= to {
            self.leave_bounded(handed && (from == len || to == 0));
        } else if reverse {
            self.settle_backward(to);
        } else {
            self.settle_forward(from);
        }
    }

    /// Returns the entries of an entered block that are within the bounds.
    fn within_bounds(&self, block: &Block, at: At) -> (usize, usize) {
        let Walk { lower, upper, reverse, .. } = &self.walk;
        // Prefers the separators, because accessing the block's keys would wait for memory.
        let is_inner = at != At::Bound;
        let all_behind_lower = match reverse {
            true => self.separator().is_some_and(|before| **lower <= *before.key),
            false => is_inner,
        };
        let all_before_upper = |upper: &Bytes| match reverse {
            true => is_inner,
            false => self.next_separator().is_some_and(|next| *next.key < **upper),
        };
        let seek = |key| block.seek(key, Timestamp::MAX);
        let from = if all_behind_lower { 0 } else { seek(lower) };
        let to = upper.as_ref().filter(|upper| !all_before_upper(upper)).map(|upper| seek(upper));
        (from, to.unwrap_or_else(|| block.len()))
    }

    /// Returns the approximate number of cells wanted after the blocks entered so far.
    fn wanted(&self) -> usize {
        let passed = usize::try_from(self.read_ahead.passed()).unwrap_or(usize::MAX);
        self.walk.cells_wanted.map_or(usize::MAX, |cells| cells.saturating_sub(passed))
    }

    fn wants_many(&self) -> bool {
        self.walk.cells_wanted.is_none_or(|cells| cells >= FEW_CELLS)
    }

    /// Returns the memory of the next block, if the scan probably needs it and a link refers to it.
    fn next_in_memory(&self) -> Option<Region> {
        let page = self.page.as_ref().filter(|_| self.wanted() > 0)?;
        let slot = match self.walk.reverse {
            true => self.slot.checked_sub(1)?,
            false => self.slot + 1,
        };
        Named::block(page, slot).region()
    }

    /// Moves to the group that begins at `from`, unless its version is in the next block.
    fn settle_forward(&mut self, from: usize) -> bool {
        let Some(block) = &self.block else { return false };
        let to = block.group_end(from);
        let shown = shown(block, (from, to), self.walk.read);
        let beyond = shown.is_none() && to == block.len();
        if beyond && self.next_separator().is_some_and(Separator::goes_on) {
            self.leave(false);
            return false;
        }
        self.stand((from, to), shown)
    }

    /// Moves to the group that ends at `to`, unless its version is in the previous block.
    fn settle_backward(&mut self, to: usize) -> bool {
        let Some(block) = &self.block else { return false };
        let from = block.group_begin(to);
        let shown = shown(block, (from, to), self.walk.read);
        // The previous block ends with a commit just above that of the separator.
        let newer =
            |separator: Separator<'_>| separator.goes_on() && separator.commit < self.walk.read;
        if from == 0 && self.separator().is_some_and(newer) {
            self.leave(false);
            return false;
        }
        self.stand((from, to), shown)
    }

    fn stand(&mut self, group: (usize, usize), shown: Option<usize>) -> bool {
        self.group = group;
        self.shown = shown;
        self.state = CursorState::Group;
        true
    }

    /// Leaves the block, unless a bound is within it.
    fn leave_bounded(&mut self, handed: bool) {
        let len = self.block.as_ref().map_or(0, |block| block.len());
        let bounded = if self.walk.reverse { self.from > 0 } else { self.to < len };
        if bounded { self.state = CursorState::End } else { self.leave(handed) }
    }

    /// Moves to the neighboring block. `handed` is `true` if the group at this block's far end was
    /// returned.
    fn leave(&mut self, handed: bool) {
        self.state = if self.walk.reverse {
            self.leave_backward(handed && self.continues)
        } else {
            self.leave_forward(handed)
        };
    }

    fn leave_forward(&mut self, handed: bool) -> CursorState {
        let Some(next) = self.next_separator() else { return CursorState::End };
        if self.walk.upper.as_ref().is_some_and(|upper| **upper <= *next.key) {
            return CursorState::End;
        }
        let Some(page) = &self.page else { return CursorState::End };
        if self.slot + 1 == page.len() {
            self.page_number += 1;
            return CursorState::Page(At::Edge { handed });
        }
        self.slot += 1;
        // Skips blocks that hold only unwanted versions of one key: older than the returned one, or
        // newer than the snapshot.
        while self.slot + 1 < page.len()
            && is_within_group(page, self.slot)
            && (handed || page.commit(self.slot + 1) >= self.walk.read)
        {
            self.slot += 1;
            self.next = Region::default();
        }
        CursorState::Block(At::Edge { handed })
    }

    fn leave_backward(&mut self, handed: bool) -> CursorState {
        let Some(separator) = self.separator() else { return CursorState::End };
        // All versions in the previous blocks sort before the separator.
        let in_bounds = match separator.goes_on() {
            true => *separator.key >= *self.walk.lower,
            false => *separator.key > *self.walk.lower,
        };
        if !in_bounds {
            return CursorState::End;
        }
        if self.slot > 0 {
            self.slot -= 1;
            let Some(page) = &self.page else { return CursorState::End };
            // Likewise, except that the previous block must have no version that is newer and
            // visible.
            while self.slot > 0
                && is_within_group(page, self.slot)
                && (handed || page.commit(self.slot) < self.walk.read)
            {
                self.slot -= 1;
                self.next = Region::default();
            }
            return CursorState::Block(At::Edge { handed });
        }
        match self.page_number.checked_sub(1) {
            None => CursorState::End,
            Some(number) => {
                self.page_number = number;
                CursorState::Page(At::Edge { handed })
            }
        }
    }

    /// Returns the separator before this block.
    fn separator(&self) -> Option<Separator<'_>> {
        let page = self.page.as_ref()?;
        Some(Separator { key: page.key(self.slot), commit: page.commit(self.slot) })
    }

    /// Returns the separator between this block and the next one.
    fn next_separator(&self) -> Option<Separator<'_>> {
        let page = self.page.as_ref()?;
        let (index, at) = match self.slot + 1 {
            at if at < page.len() => (&**page, at),
            _ => (&**self.table.top.as_ref()?, self.page_number + 1),
        };
        (at < index.len()).then(|| Separator { key: index.key(at), commit: index.commit(at) })
    }

    async fn load(&mut self, need: Need) -> Result<SharedBlock> {
        let Need { place, kind } = need;
        if kind == Kind::Index {
            return self.table.load_at(place, kind, self.walk.reads).await;
        }
        let Self { table, walk, page, slot, read_ahead, .. } = self;
        let Some(page) = page else { return table.load_at(place, kind, walk.reads).await };
        read_ahead.load(table, walk, page, *slot).await
    }
}

/// Separator between two blocks.
#[derive(Clone, Copy)]
struct Separator<'a> {
    key: &'a [u8],
    commit: Timestamp,
}

impl Separator<'_> {
    /// Returns `true` if the key before the separator continues after it.
    fn goes_on(self) -> bool {
        self.commit < Timestamp::MAX
    }
}

/// Returns the index entry of the block with the last version before a key.
fn slot_before(index: &Block, upper: &[u8]) -> usize {
    index.seek(upper, Timestamp::MAX).saturating_sub(1)
}

/// Returns `true` if the block at a slot, which is not the page's last, holds versions of one key
/// only, which continues in both neighbors.
fn is_within_group(page: &Block, slot: usize) -> bool {
    page.continues(slot + 1) && page.commit(slot) < Timestamp::MAX
}

/// Returns the first version of a group that committed at or before `read`.
fn shown(block: &Block, (from, to): (usize, usize), read: Timestamp) -> Option<usize> {
    (from..to).find(|at| block.commit(*at) <= read)
}
