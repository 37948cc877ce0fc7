//! Range reads in pages: merges memtables and tables cell by cell, in either direction.
//!
//! ```text
//!  newest   memtable    b      d        h        a page copies its cells into one buffer,
//!           memtable       c                     so that no source is referenced between
//!           run 0       b         f              pages, and a row costs no allocation
//!  oldest   run 1          c   d     g  h
//!                       └ the newest source with a version of the cell decides
//! ```
//!
//! A *run* is a table of level 0, or all tables of a deeper level. Range tombstones of every source
//! hide older versions in all sources.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{
    BytePermit, BytePermits, CellKey, CellKeyRef, CellPage, CellRef, CellsBuilder, Error, KeyRange,
    PageLimit, Result, Timestamp,
};

use super::core::{Core, Engine, READ_BYTES};
use super::view::View;
use crate::manifest::FlatRange;
use crate::memtable::{Fragment, MemtableCursor};
use crate::metrics::add;
use crate::sstable::read_ahead::READ_AHEAD_BYTES;
use crate::sstable::{EntryRef, ReadOptions, Table, TableCursor, Walk};

/// Maximum number of hidden cells (deleted, or newer than the snapshot) before a page ends, which
/// bounds its work.
const HIDDEN_CELLS_MAX: usize = 4096;

/// Maximum size of a page that is assumed for its permit: callers with a higher limit, or none,
/// usually limit the number of cells.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Maximum initial capacity of a page, which may find fewer cells than requested.
const RESERVED_CELLS_MAX: usize = 128;
const RESERVED_BYTES_MAX: usize = 32 << 10;

impl Engine {
    /// Reads a page of a range: each cell's newest version that committed at or before `read`, from
    /// the first cell on or, if `reverse`, from the last.
    ///
    /// `read` must be at most [`Engine::published`], otherwise newer commits may be visible in
    /// part.
    ///
    /// # Errors
    ///
    /// `Invalid` if a bound belongs to another table; `Corrupted`, naming the file and the offset;
    /// `Unavailable` if the disk fails.
    pub async fn range(
        &self,
        range: &KeyRange,
        read: Timestamp,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<CellPage> {
        self.range_with(range, read, reverse, limit, ReadOptions::default()).await
    }

    /// Like [`Engine::range`], with options for the cache.
    ///
    /// # Errors
    ///
    /// Like [`Engine::range`].
    pub async fn range_with(
        &self,
        range: &KeyRange,
        read: Timestamp,
        reverse: bool,
        limit: PageLimit,
        reads: ReadOptions,
    ) -> Result<CellPage> {
        check(range)?;
        let reading = self.core.usage.page(range.table, &*self.core.clock);
        let Some(bounds) = range.byte_bounds() else { return Ok(CellPage::default()) };
        let cells_wanted = Some(limit.cells.max(1));
        let how = Walk { read, reverse, cells_wanted, reads, ..Walk::default() };
        let mark = self.core.deltas.get().and_then(|deltas| deltas.mark_of(range.table));
        let (mut merge, kept) = {
            let view = self.core.view();
            let kept = mark.map(|_| Arc::clone(&view));
            (Merge::new(&self.core, &view, bounds, &how), kept)
        };
        merge.page_bytes = limit.bytes.min(PAGE_BYTES_MAX);
        let mut filling = Filling { mark, ..Filling::new(read, limit) };
        merge.begin().await?;
        merge.fill(&mut filling).await?;
        let waited = merge.permit.is_some();
        drop(merge);
        add(&self.core.counters.page_cells_hidden, filling.hidden);
        let has_deltas = filling.has_deltas;
        let page = filling.finish(range, reverse)?;
        let page = match kept {
            Some(view) if has_deltas => {
                let rest_behind = |last| range.after(last, reverse);
                self.merged_page(&view, page, reads, limit.bytes, rest_behind).await?
            }
            _ => page,
        };
        reading.paged(&page, waited, &*self.core.clock);
        Ok(page)
    }
}

/// Returns an error if a bound belongs to another table than the range.
fn check(range: &KeyRange) -> Result<()> {
    use std::ops::Bound::{Excluded, Included};
    for bound in [&range.lower, &range.upper] {
        if let Included(key) | Excluded(key) = bound
            && key.table() != range.table
        {
            return Err(Error::invalid(format!(
                "a range of table {} is bounded by a cell of table {}",
                range.table,
                key.table()
            )));
        }
    }
    Ok(())
}

enum Source {
    Memtable(MemtableCursor),
    Run(Box<RunCursor>),
}

/// Chain of disjoint tables.
struct RunCursor {
    rest: VecDeque<Arc<Table>>,
    cursor: TableCursor,
    walk: Walk,
}

impl RunCursor {
    /// Makes a cursor before the first cell.
    fn new(mut tables: VecDeque<Arc<Table>>, walk: Walk) -> Option<Self> {
        let first = tables.pop_front()?;
        Some(Self { rest: tables, cursor: TableCursor::new(first, walk.clone()), walk })
    }

    /// Moves to the next cell; returns `false` if that needs a read.
    fn try_advance(&mut self) -> bool {
        self.cursor.try_advance() && (self.cursor.peek_key().is_some() || self.rest.is_empty())
    }

    async fn load_next(&mut self) -> Result<()> {
        self.cursor.load_next().await?;
        while self.cursor.peek_key().is_none()
            && let Some(next) = self.rest.pop_front()
        {
            self.cursor = TableCursor::new(next, self.walk.clone());
            self.cursor.advance().await?;
        }
        Ok(())
    }
}

/// A version in a source.
struct Known<'a> {
    start: Timestamp,
    commit: Timestamp,
    payload: Option<&'a [u8]>,
}

impl<'a> Known<'a> {
    #[inline]
    fn of(entry: EntryRef<'a>) -> Self {
        let EntryRef { start, commit, payload, .. } = entry;
        Self { start, commit, payload }
    }
}

impl Source {
    /// Returns the approximate memory that the source holds while it waits for the disk.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Memtable(_) => 0,
            Self::Run(_) => READ_BYTES + READ_AHEAD_BYTES as usize,
        }
    }

    fn peek_key(&self) -> Option<&[u8]> {
        match self {
            Self::Memtable(cursor) => cursor.peek_key(),
            Self::Run(run) => run.cursor.peek_key(),
        }
    }

    fn version(&self) -> Option<Known<'_>> {
        match self {
            Self::Memtable(cursor) => cursor.version().map(|version| Known {
                start: version.start,
                commit: version.commit,
                payload: version.payload,
            }),
            Self::Run(run) => run.cursor.version().map(Known::of),
        }
    }

    fn try_advance(&mut self) -> bool {
        match self {
            Self::Memtable(cursor) => {
                cursor.advance();
                true
            }
            Self::Run(run) => run.try_advance(),
        }
    }

    async fn load_next(&mut self) -> Result<()> {
        match self {
            Self::Memtable(_) => Ok(()),
            Self::Run(run) => run.load_next().await,
        }
    }
}

/// Range tombstones of a source.
enum Cover {
    Memtable(Vec<Fragment>),
    Table(Arc<Table>),
}

impl Cover {
    /// Returns the commit of the newest range tombstone at or before `read` that covers a key.
    fn covering(&self, key: &[u8], read: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Memtable(fragments) => {
                let at = fragments.partition_point(|fragment| *fragment.upper <= *key);
                let fragment = fragments.get(at).filter(|fragment| *fragment.lower <= *key)?;
                fragment.at(read).map(|(commit, _)| commit)
            }
            Self::Table(table) => {
                table.range_tombstones().covering(key, read).map(|(commit, _)| commit)
            }
        }
    }
}

/// Number of versions in the runs of a merge. Each run is assumed to hold its share of a page's
/// cells, so that not every run reads ahead for the whole page.
struct Shares {
    versions: u64,
}

impl Shares {
    fn of(runs: &[Vec<Arc<Table>>]) -> Self {
        Self { versions: runs.iter().map(|run| Self::versions(run)).sum() }
    }

    fn versions(run: &[Arc<Table>]) -> u64 {
        run.iter().map(|table| table.statistics().versions).sum()
    }

    /// Returns the number of cells, out of `cells`, that a run is assumed to hold; at least one.
    fn of_run(&self, run: &[Arc<Table>], cells: usize) -> usize {
        let part = u128::from(Self::versions(run)) * cells as u128;
        let part = part.div_ceil(u128::from(self.versions.max(1)));
        usize::try_from(part).unwrap_or(cells).max(1)
    }
}

/// All sources of a range, newest first. There are few, so the least key is found by comparing all.
struct Merge<'a> {
    permits: &'a BytePermits,
    /// Taken at the first disk read, and held until the page ends.
    permit: Option<BytePermit<'a>>,
    page_bytes: usize,
    sources: Vec<Source>,
    covers: Vec<Cover>,
    reverse: bool,
    /// Sources positioned at the last returned cell, to be advanced.
    leaving: Vec<usize>,
}

impl<'a> Merge<'a> {
    /// Makes a merge of the cells within bounds, which replace those of `how`.
    fn new(core: &'a Core, view: &View, (lower, upper): (Bytes, Bytes), how: &Walk) -> Self {
        let Walk { read, reverse, .. } = *how;
        let range = FlatRange { lower: lower.clone(), upper: upper.clone() };
        let walk = Walk { lower, upper: Some(upper), ..how.clone() };
        let (mut sources, mut covers) = (Vec::new(), Vec::new());
        for memtable in view.memtables() {
            let fragments = memtable.range_tombstones();
            if !fragments.is_empty() {
                covers.push(Cover::Memtable(fragments));
            }
            let bounds = (range.lower.clone(), range.upper.clone());
            let cursor = MemtableCursor::new(Arc::clone(memtable), bounds, read, reverse);
            if cursor.peek_key().is_some() {
                sources.push(Source::Memtable(cursor));
            }
        }
        let mut runs = view.runs(&range);
        for run in &mut runs {
            run.retain(|table| table.overlaps(&walk.lower, walk.upper.as_deref(), read));
        }
        let shares = Shares::of(&runs);
        for mut run in runs {
            let cells_wanted = walk.cells_wanted.map(|cells| shares.of_run(&run, cells));
            let walk = Walk { cells_wanted, ..walk.clone() };
            let has_covers = |table: &&Arc<Table>| !table.range_tombstones().is_empty();
            covers
                .extend(run.iter().filter(has_covers).map(|table| Cover::Table(Arc::clone(table))));
            if reverse {
                run.reverse();
            }
            sources.extend(RunCursor::new(run.into(), walk).map(|run| Source::Run(Box::new(run))));
        }
        let (permits, leaving) = (&core.permits, Vec::new());
        Self { permits, permit: None, page_bytes: 0, sources, covers, reverse, leaving }
    }

    /// Positions every source at its first cell.
    async fn begin(&mut self) -> Result<()> {
        for at in 0..self.sources.len() {
            if let Source::Run(run) = &mut self.sources[at]
                && !run.try_advance()
            {
                self.load_next(at).await?;
            }
        }
        self.sources.retain(|source| source.peek_key().is_some());
        Ok(())
    }

    /// Completes the move of a source with a disk read.
    async fn load_next(&mut self, at: usize) -> Result<()> {
        if self.permit.is_none() {
            let sources: usize = self.sources.iter().map(Source::held_bytes).sum();
            self.permit = Some(self.permits.take(self.page_bytes + sources).await);
        }
        self.sources[at].load_next().await
    }

    /// Fills a page.
    async fn fill(&mut self, page: &mut Filling) -> Result<()> {
        loop {
            while let Some(at) = self.leaving.pop() {
                if !self.sources[at].try_advance() {
                    self.load_next(at).await?;
                }
            }
            if !self.take(page)? {
                return Ok(());
            }
            page.full = page.is_full();
            if page.full {
                page.ended = !self.may_have_more();
                return Ok(());
            }
        }
    }

    /// Returns `false` if there is certainly no further cell; reads nothing from disk.
    fn may_have_more(&mut self) -> bool {
        while let Some(at) = self.leaving.pop() {
            if !self.sources[at].try_advance() {
                return true;
            }
        }
        self.sources.iter().any(|source| source.peek_key().is_some())
    }

    /// Adds the next cell from all sources that have it. If that is a single table, adds the
    /// following cells of its block up to the next cell of another source. Returns `false` at the
    /// end.
    fn take(&mut self, page: &mut Filling) -> Result<bool> {
        let Self { sources, covers, reverse, leaving, .. } = self;
        let Some((first, rival)) = next(sources, *reverse, leaving) else { return Ok(false) };
        let known = leaving.iter().find_map(|at| sources[*at].version());
        let key = sources[first].peek_key().expect("it was chosen for its key");
        page.push(key, known.as_ref(), covers)?;
        if leaving.len() > 1 || page.is_full() {
            return Ok(true);
        }
        let (source, rival) = match rival {
            None => (&mut sources[first], None),
            Some(rival) => {
                let two = sources.get_disjoint_mut([first, rival]);
                let [source, rival] = two.expect("two different sources");
                (source, rival.peek_key())
            }
        };
        let Source::Run(run) = source else { return Ok(true) };
        run.cursor.take_more(|key, entry| {
            let is_next =
                rival.is_none_or(|rival| if *reverse { key > rival } else { key < rival });
            let takes = is_next && !page.is_full();
            if takes {
                page.push(key, entry.map(Known::of).as_ref(), covers)?;
            }
            Ok(takes)
        })?;
        Ok(true)
    }
}

/// Returns the newest source of the next cell, and the source of the cell after it. `at_next`
/// becomes all sources with the next cell, newest first.
fn next(
    sources: &[Source],
    reverse: bool,
    at_next: &mut Vec<usize>,
) -> Option<(usize, Option<usize>)> {
    let is_before = |one: &[u8], other: &[u8]| if reverse { one > other } else { one < other };
    let mut best: Option<(usize, &[u8])> = None;
    let mut rival = best;
    for (at, source) in sources.iter().enumerate() {
        let Some(key) = source.peek_key() else { continue };
        match best {
            Some((_, least)) if key == least => at_next.push(at),
            Some((_, least)) if is_before(least, key) => {
                rival = rival.filter(|(_, other)| !is_before(key, other)).or(Some((at, key)));
            }
            _ => {
                rival = best.replace((at, key));
                at_next.clear();
                at_next.push(at);
            }
        }
    }
    Some((best?.0, rival.map(|(at, _)| at)))
}

/// Returns `true` if a newer range tombstone covers a version.
#[inline]
fn is_hidden(covers: &[Cover], read: Timestamp, key: &[u8], commit: Timestamp) -> bool {
    let hides = |cover: &Cover| cover.covering(key, read).is_some_and(|at| at > commit);
    covers.iter().any(hides)
}

/// A page being filled.
struct Filling {
    /// Timestamp of the snapshot.
    read: Timestamp,
    limit: PageLimit,
    cells: CellsBuilder,
    hidden: usize,
    /// Number of hidden cells that are deleted.
    deleted: usize,
    /// Key of the last cell, added or hidden.
    last: Vec<u8>,
    full: bool,
    ended: bool,
    /// First byte of the table's deltas, if it has any.
    mark: Option<u8>,
    has_deltas: bool,
}

impl Filling {
    fn new(read: Timestamp, limit: PageLimit) -> Self {
        let (cells, last) = (CellsBuilder::default(), Vec::new());
        let (full, ended, mark, has_deltas) = (false, false, None, false);
        Self { read, limit, cells, hidden: 0, deleted: 0, last, full, ended, mark, has_deltas }
    }

    /// Returns `true` if the page accepts no further cell.
    fn is_full(&self) -> bool {
        self.cells.len() >= self.limit.cells.max(1)
            || self.cells.bytes() >= self.limit.bytes
            || self.hidden >= HIDDEN_CELLS_MAX
    }

    /// Reserves memory for a page of cells of the first one's size, up to a limit, to avoid copying
    /// as the page grows.
    #[cold]
    fn reserve(&mut self) {
        let limit = self.limit;
        let cells = limit.cells.saturating_sub(1).min(RESERVED_CELLS_MAX);
        let bytes = cells.saturating_mul(self.cells.bytes());
        self.cells.reserve(cells, bytes.min(limit.bytes).min(RESERVED_BYTES_MAX));
    }

    /// Adds a cell with its newest version at the snapshot; counts it as hidden if there is none or
    /// it is deleted.
    #[inline]
    fn push(&mut self, key: &[u8], known: Option<&Known<'_>>, covers: &[Cover]) -> Result<()> {
        match known {
            Some(&Known { start, commit, payload: Some(payload) })
                if !is_hidden(covers, self.read, key, commit) =>
            {
                self.has_deltas |= self.mark.is_some() && self.mark == payload.first().copied();
                self.cells.push(&CellRef { key: CellKeyRef::new(key)?, start, commit, payload });
                self.last.clear();
                if self.cells.len() == 1 {
                    self.reserve();
                }
            }
            _ => {
                self.hidden += 1;
                self.deleted += usize::from(known.is_some());
                self.last.clear();
                self.last.extend_from_slice(key);
            }
        }
        Ok(())
    }

    fn finish(self, range: &KeyRange, reverse: bool) -> Result<CellPage> {
        let mut page = CellPage { cells: self.cells.finish(), resume: None, deleted: self.deleted };
        if self.full && !self.ended {
            let last = match page.cells.iter().next_back() {
                Some(last) if self.last.is_empty() => last.key.to_key(),
                _ => CellKey::from_bytes(self.last.into())?,
            };
            page.resume = Some(range.after(last, reverse));
        }
        Ok(page)
    }
}
