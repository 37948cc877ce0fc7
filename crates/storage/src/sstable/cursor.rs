//! Walks the keys of a table in order, either way.
//!
//! A cursor stands at a *group*, the versions of one key, and lends the key and its newest version
//! at the snapshot. Within a block the next group is found without any call that could wait
//! ([`TableCursor::try_advance`]); only a block or an index page that is not in the cache takes
//! [`TableCursor::load_next`]. Both directions do the same work: a block says where a
//! group begins, so that no keys are compared, and blocks are entered at either end alike.
//!
//! **Groups across blocks.** The separators of the index say whether a block goes on with the last
//! key of the block before it, and at which commit timestamp that one ended. So a cursor knows
//! without reading whether the version that it looks for lies in the neighbouring block, and
//! whether a neighbour holds only versions of a key that it has handed out already: such blocks
//! are passed over.
//!
//! **Memory.** A block in the cache has to come from memory first, for which a walk would wait at each line.
//! It asks for what it wants: behind the place where it begins once that is found, and of the next block a
//! part with each key that is taken. What it can know from the separators it does not look up in a block.
//!
//! **Reading ahead.** A cursor holds one block and one index page. A walk that says how much it wants
//! has that read in one piece, from the first block on that is not in the cache, as long as versions
//! of this table are on average. Another reads one block, and where a second in a row is not in the
//! cache those that follow in one piece, more each time up to [`AHEAD_BYTES`]. Blocks adjoin, so that
//! this is one read, and in reverse too.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use super::ReadOptions;
use super::ahead::Ahead;
use super::block::{Block, SharedBlock};
use super::links::{Named, Wanted};
use super::prefetch::Stretch;
use super::run::EntryRef;
use super::section::Place;
use super::table::{Table, slot_of};
use crate::cache::Kind;

/// A walk that wants fewer cells of a table does not ask memory for whole blocks.
const FEW_CELLS: usize = 8;

/// The range of a walk and how it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The first key that is wanted.
    pub lower: Bytes,
    /// The first key behind them that is not; `None` goes to the table's end.
    pub upper: Option<Bytes>,
    /// Versions that committed later are not seen.
    pub read: Timestamp,
    /// From the last key to the first.
    pub reverse: bool,
    /// About how many cells are wanted, where that is known: of each table not much more is read
    /// ahead.
    pub cells_wanted: Option<usize>,
    /// How the walk treats the cache.
    pub reads: ReadOptions,
}

/// A walk over the keys of a range. It begins in front of the first one.
pub struct TableCursor {
    table: Arc<Table>,
    walk: Walk,
    page: Option<SharedBlock>,
    page_number: usize,
    slot: usize,
    block: Option<SharedBlock>,
    /// Which entries of the block lie within the bounds.
    from: usize,
    to: usize,
    /// Whether the block's first key goes on from the block before.
    continues: bool,
    /// The group that it stands at; the version at the snapshot is at `shown`.
    group: (usize, usize),
    shown: Option<usize>,
    state: State,
    ahead: Ahead,
    /// Where the next block lies, of which a part is asked for with each key that is
    /// [taken](TableCursor::take_more).
    next: Stretch,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// An index page has to be there, to be entered at `At`.
    Page(At),
    /// The block at the slot has to be there.
    Block(At),
    /// It stands at a group.
    Group,
    /// There is no more.
    End,
}

/// Where a page or a block is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Where the near bound says.
    Bound,
    /// At its near end; `handed` where the group that goes on across that end was handed out.
    Edge { handed: bool },
}

/// A section that has to be read first.
pub(super) struct Need {
    pub(super) place: Place,
    pub(super) kind: Kind,
}

impl TableCursor {
    /// Makes a cursor in front of the first key: nothing is read yet.
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
            state: State::End,
            ahead: Ahead::default(),
            next: Stretch::default(),
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
            cursor.state = State::Page(At::Bound);
        }
        cursor
    }

    /// Returns the key that it stands at; `None` at the end, and in front of the first key.
    #[must_use]
    pub fn peek_key(&self) -> Option<&[u8]> {
        match (self.state, &self.block) {
            (State::Group, Some(block)) => Some(block.key(self.group.0)),
            _ => None,
        }
    }

    /// Returns the newest version of the key that it stands at which committed at or before the
    /// snapshot; `None` where all are newer. The table's range tombstones are not applied: they
    /// hide older sources' versions too, see [`Table::range_tombstones`].
    #[must_use]
    pub fn version(&self) -> Option<EntryRef<'_>> {
        match (self.state, &self.block) {
            (State::Group, Some(block)) => self.shown.map(|at| block.get(at)),
            _ => None,
        }
    }

    /// Goes on to the next key, or from the front to the first one. Returns `false` where a read
    /// has to come first: then [`TableCursor::load_next`] completes the step. At the end it stays.
    pub fn try_advance(&mut self) -> bool {
        if self.state == State::Group {
            // The common case, kept small: the next group is in the same block.
            let (begin, end) = self.group;
            let settled = match self.walk.reverse {
                true => begin > self.from && self.settle_backward(begin),
                false => end < self.to && self.settle_forward(end),
            };
            if settled {
                return true;
            }
            if self.state == State::Group {
                self.leave_bounded(true);
            }
        }
        self.resume(None).is_none()
    }

    /// Goes on within the block for as long as `take` takes the keys that it comes to, each with its
    /// newest version at the snapshot, and stands at the last one that was taken. It stops before
    /// the block's last key at the latest, whose versions may go on in the next block.
    ///
    /// # Errors
    ///
    /// Those of `take`.
    #[inline]
    pub fn take_more(
        &mut self,
        mut take: impl FnMut(&[u8], Option<EntryRef<'_>>) -> Result<bool>,
    ) -> Result<()> {
        let (State::Group, Some(block)) = (self.state, &self.block) else { return Ok(()) };
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
            self.next.ask(Block::room_of(1, rest));
        }
    }

    /// Reads what [`TableCursor::try_advance`] lacked and completes the step.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the place; `Unavailable` where the disk fails.
    pub async fn load_next(&mut self) -> Result<()> {
        let mut loaded = None;
        while let Some(need) = self.resume(loaded.take()) {
            loaded = Some(self.load(need).await?);
        }
        Ok(())
    }

    /// Goes on to the next key, reading where that is needed.
    ///
    /// # Errors
    ///
    /// As [`TableCursor::load_next`].
    pub async fn advance(&mut self) -> Result<()> {
        if self.try_advance() { Ok(()) } else { self.load_next().await }
    }

    /// Goes as far as it can with one section that was just read.
    fn resume(&mut self, mut loaded: Option<SharedBlock>) -> Option<Need> {
        loop {
            let (named, at) = match self.state {
                State::Group | State::End => return None,
                State::Page(at) => (Named::page(self.table.top.as_ref()?, self.page_number), at),
                State::Block(at) => (Named::block(self.page.as_ref()?, self.slot), at),
            };
            let kind = named.kind();
            let wanted = match (kind, at) {
                (Kind::Index, _) => Wanted::Nothing,
                (Kind::Data, At::Edge { .. }) if !self.next.is_empty() => {
                    self.next.ask(usize::MAX);
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
                            self.ahead.hit(named.place(), &block);
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
        self.state = State::Block(at);
    }

    fn enter_block(&mut self, block: SharedBlock, at: At) {
        let handed = at == At::Edge { handed: true };
        let len = block.len();
        let reverse = self.walk.reverse;
        (self.from, self.to) = self.within_bounds(&block, at);
        let wanted = self.wanted();
        if at == At::Bound && self.wants_many() {
            // Only now it is known from where on.
            match reverse {
                true => block.ask(self.from.max(self.to.saturating_sub(wanted)), self.to),
                false => block.ask(self.from, self.to.min(self.from.saturating_add(wanted))),
            }
        }
        self.ahead.pass(self.to.saturating_sub(self.from));
        let goes_on = if reverse { self.from == 0 } else { self.to == len };
        self.next = match goes_on {
            true => self.next_in_memory().unwrap_or_default(),
            false => Stretch::default(),
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

    /// Which entries of a block that is entered lie within the bounds.
    fn within_bounds(&self, block: &Block, at: At) -> (usize, usize) {
        let Walk { lower, upper, reverse, .. } = &self.walk;
        // Where it can be known without looking at the block, whose keys would be waited for.
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

    /// About how many cells it still wants, behind those of the blocks that it has come to.
    fn wanted(&self) -> usize {
        let passed = usize::try_from(self.ahead.passed()).unwrap_or(usize::MAX);
        self.walk.cells_wanted.map_or(usize::MAX, |cells| cells.saturating_sub(passed))
    }

    fn wants_many(&self) -> bool {
        self.walk.cells_wanted.is_none_or(|cells| cells >= FEW_CELLS)
    }

    /// Where the next block lies, if it is likely to be wanted and a link leads to it.
    fn next_in_memory(&self) -> Option<Stretch> {
        let page = self.page.as_ref().filter(|_| self.wanted() > 0)?;
        let slot = match self.walk.reverse {
            true => self.slot.checked_sub(1)?,
            false => self.slot + 1,
        };
        Named::block(page, slot).stretch()
    }

    /// Stands at the group that begins at `from`, unless its version lies in the next block.
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

    /// Stands at the group that ends at `to`, unless its version lies in the block before.
    fn settle_backward(&mut self, to: usize) -> bool {
        let Some(block) = &self.block else { return false };
        let from = block.group_begin(to);
        let shown = shown(block, (from, to), self.walk.read);
        // The block before ends with the version after the separator, in commit timestamps.
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
        self.state = State::Group;
        true
    }

    /// Leaves the block, unless a bound lies within it.
    fn leave_bounded(&mut self, handed: bool) {
        let len = self.block.as_ref().map_or(0, |block| block.len());
        let bounded = if self.walk.reverse { self.from > 0 } else { self.to < len };
        if bounded { self.state = State::End } else { self.leave(handed) }
    }

    /// Goes to the neighbouring block. `handed` says whether the group at this block's far end was
    /// handed out.
    fn leave(&mut self, handed: bool) {
        self.state = if self.walk.reverse {
            self.leave_backward(handed && self.continues)
        } else {
            self.leave_forward(handed)
        };
    }

    fn leave_forward(&mut self, handed: bool) -> State {
        let Some(next) = self.next_separator() else { return State::End };
        if self.walk.upper.as_ref().is_some_and(|upper| **upper <= *next.key) {
            return State::End;
        }
        let Some(page) = &self.page else { return State::End };
        if self.slot + 1 == page.len() {
            self.page_number += 1;
            return State::Page(At::Edge { handed });
        }
        self.slot += 1;
        // Past blocks that hold nothing but versions of one key that are not wanted: older ones
        // than what was handed out, or newer ones than the snapshot.
        while self.slot + 1 < page.len()
            && is_within_group(page, self.slot)
            && (handed || page.commit(self.slot + 1) >= self.walk.read)
        {
            self.slot += 1;
            self.next = Stretch::default();
        }
        State::Block(At::Edge { handed })
    }

    fn leave_backward(&mut self, handed: bool) -> State {
        let Some(separator) = self.separator() else { return State::End };
        // Everything in the blocks before comes before the separator.
        let in_bounds = match separator.goes_on() {
            true => *separator.key >= *self.walk.lower,
            false => *separator.key > *self.walk.lower,
        };
        if !in_bounds {
            return State::End;
        }
        if self.slot > 0 {
            self.slot -= 1;
            let Some(page) = &self.page else { return State::End };
            // Likewise; but here the block before has one that is newer and still old enough.
            while self.slot > 0
                && is_within_group(page, self.slot)
                && (handed || page.commit(self.slot) < self.walk.read)
            {
                self.slot -= 1;
                self.next = Stretch::default();
            }
            return State::Block(At::Edge { handed });
        }
        match self.page_number.checked_sub(1) {
            None => State::End,
            Some(number) => {
                self.page_number = number;
                State::Page(At::Edge { handed })
            }
        }
    }

    /// The separator in front of this block.
    fn separator(&self) -> Option<Separator<'_>> {
        let page = self.page.as_ref()?;
        Some(Separator { key: page.key(self.slot), commit: page.commit(self.slot) })
    }

    /// The separator between this block and the next one.
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
        let Self { table, walk, page, slot, ahead, .. } = self;
        let Some(page) = page else { return table.load_at(place, kind, walk.reads).await };
        ahead.load(table, walk, page, *slot).await
    }
}

/// What stands between two blocks.
#[derive(Clone, Copy)]
struct Separator<'a> {
    key: &'a [u8],
    commit: Timestamp,
}

impl Separator<'_> {
    /// Whether the key before it goes on behind it.
    fn goes_on(self) -> bool {
        self.commit < Timestamp::MAX
    }
}

/// Returns which entry of an index names what holds the last version in front of a key.
fn slot_before(index: &Block, upper: &[u8]) -> usize {
    index.seek(upper, Timestamp::MAX).saturating_sub(1)
}

/// Tells whether the block at a slot, and not the page's last, holds versions of one key only,
/// which goes on both before and behind it.
fn is_within_group(page: &Block, slot: usize) -> bool {
    page.continues(slot + 1) && page.commit(slot) < Timestamp::MAX
}

/// Where the first version of a group stands that committed at or before `read`.
fn shown(block: &Block, (from, to): (usize, usize), read: Timestamp) -> Option<usize> {
    (from..to).find(|at| block.commit(*at) <= read)
}
