//! Pages of ranges: memtables and tables merged, cell by cell, either way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use carnet_base::{CellKey, Error, KeyRange, Result, Timestamp, Version};

use super::{Core, Engine};
use crate::memtable::MemtableCursor;
use crate::metrics::add;
use crate::sstable::TableCursor;

/// A page ends after so many cells that are deleted or newer than the snapshot, so that its work
/// is bounded even where it finds nothing.
const HIDDEN_CELLS_MAX: usize = 4096;

/// How much one page may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// At most this many cells; 0 counts as 1.
    pub cells: usize,
    /// No further cell once this many bytes of keys and payloads are in the page.
    pub bytes: usize,
}

/// A page of a range: owned, so that nothing is pinned between pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Each cell's newest version at the snapshot, in the order asked for. Deleted cells are left
    /// out.
    pub cells: Vec<(CellKey, Version)>,
    /// What is left of the range. A page may be short, even empty, and still have more.
    pub resume: Option<KeyRange>,
}

enum Cursor {
    Memtable(MemtableCursor),
    Table(TableCursor),
}

impl Cursor {
    fn peek(&self) -> Option<&CellKey> {
        match self {
            Self::Memtable(cursor) => cursor.peek(),
            Self::Table(cursor) => cursor.peek(),
        }
    }

    fn take(&mut self) -> Result<Option<(CellKey, Option<Version>)>> {
        match self {
            Self::Memtable(cursor) => Ok(cursor.take()),
            Self::Table(cursor) => cursor.take(),
        }
    }
}

impl Engine {
    /// Reads a page of a range: of each cell the newest version that committed at or before
    /// `read`, from the first cell on or, `reverse`, from the last one.
    ///
    /// `read` is at most [`Engine::published`], or newer commits may be seen in part.
    ///
    /// # Errors
    ///
    /// `Invalid` where a bound lies in another table; `Corrupted`, naming the file and the place;
    /// `Unavailable` where the disk fails.
    #[expect(clippy::unused_async, reason = "this edition reads the file on the caller's thread")]
    pub async fn range(
        &self,
        range: &KeyRange,
        read: Timestamp,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<Page> {
        check(range)?;
        self.core.counters.pages.fetch_add(1, Ordering::Relaxed);
        Merge::begin(&self.core, range, read, reverse)?.page(&self.core, range, limit)
    }
}

/// Refuses bounds that lie in another table than the range says.
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

/// All sources of a range, newest first. They are few: the least key is found by looking at each.
struct Merge {
    cursors: Vec<Cursor>,
    reverse: bool,
}

impl Merge {
    fn begin(core: &Core, range: &KeyRange, read: Timestamp, reverse: bool) -> Result<Self> {
        let view = core.view();
        let mut cursors = Vec::new();
        for memtable in view.memtables() {
            let memtable = Arc::clone(memtable);
            cursors.push(Cursor::Memtable(MemtableCursor::new(memtable, range, read, reverse)));
        }
        for table in view.tables.iter().filter(|table| table.overlaps(range, read)) {
            let table = Arc::clone(table);
            cursors.push(Cursor::Table(TableCursor::new(table, range, read, reverse)?));
        }
        cursors.retain(|cursor| cursor.peek().is_some());
        Ok(Self { cursors, reverse })
    }

    fn page(mut self, core: &Core, range: &KeyRange, limit: PageLimit) -> Result<Page> {
        let mut page = Page::default();
        let (mut bytes, mut hidden) = (0, 0);
        while let Some((key, version)) = self.take()? {
            let done = match version.filter(|version| version.payload.is_some()) {
                None => {
                    hidden += 1;
                    (hidden >= HIDDEN_CELLS_MAX).then_some(key)
                }
                Some(version) => {
                    bytes += key.as_bytes().len();
                    bytes += version.payload.as_ref().map_or(0, bytes::Bytes::len);
                    let full = page.cells.len() + 1 >= limit.cells || bytes >= limit.bytes;
                    let done = full.then(|| key.clone());
                    page.cells.push((key, version));
                    done
                }
            };
            if let Some(last) = done {
                let more = self.cursors.iter().any(|cursor| cursor.peek().is_some());
                page.resume = more.then(|| range.after(last, self.reverse));
                break;
            }
        }
        add(&core.counters.page_cells_hidden, hidden);
        Ok(page)
    }

    /// Takes the next cell from every source that has it; the newest version stays.
    fn take(&mut self) -> Result<Option<(CellKey, Option<Version>)>> {
        let keys = self.cursors.iter().enumerate().filter_map(|(at, c)| Some((at, c.peek()?)));
        // Both return the newest of several sources at the same cell.
        let next = if self.reverse {
            keys.reduce(|best, other| if other.1 > best.1 { other } else { best })
        } else {
            keys.reduce(|best, other| if other.1 < best.1 { other } else { best })
        };
        let Some((at, _)) = next else { return Ok(None) };
        let Some((key, mut version)) = self.cursors[at].take()? else { return Ok(None) };
        for cursor in &mut self.cursors[at + 1..] {
            if cursor.peek() == Some(&key)
                && let Some((_, older)) = cursor.take()?
            {
                version = version.or(older);
            }
        }
        Ok(Some((key, version)))
    }
}
