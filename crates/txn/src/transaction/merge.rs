//! Merges stored pages of a range with a transaction's own writes.

use carnet_base::{
    Bytes, CellKey, CellKeyRef, CellPage, CellRef, CellsBuilder, KeyRange, PageLimit, Timestamp,
};
use carnet_store::SpilledPage;

/// The first own writes in a range.
pub(super) struct OwnPage {
    /// Cells with their payloads, in the order of the read; `None` deletes a cell.
    cells: Vec<(CellKey, Option<Bytes>)>,
    /// Whether there are more.
    more: bool,
}

impl OwnPage {
    /// Merges writes in memory and older, spilled ones, both in order, up to `cells_max` cells.
    pub(super) fn new(
        own: impl Iterator<Item = (CellKey, Option<Bytes>)>,
        spilled: SpilledPage,
        cells_max: usize,
        reverse: bool,
    ) -> Self {
        let SpilledPage { cells: spilled, more } = spilled;
        let (mut own, mut spilled) = (own.peekable(), spilled.into_iter().peekable());
        let mut cells = Vec::new();
        while cells.len() < cells_max {
            // Behind the last loaded spilled cell there may be more that are not loaded.
            if more && spilled.peek().is_none() {
                return Self { cells, more: true };
            }
            let next = match (own.peek(), spilled.peek()) {
                (Some((ours, _)), Some((older, _))) if is_before(older, ours, reverse) => {
                    spilled.next()
                }
                (Some((ours, _)), Some((older, _))) if ours == older => {
                    spilled.next();
                    own.next()
                }
                (Some(_), _) => own.next(),
                (None, _) => spilled.next(),
            };
            let Some(cell) = next else { return Self { cells, more: false } };
            cells.push(cell);
        }
        let more = more || own.peek().is_some() || spilled.peek().is_some();
        Self { cells, more }
    }
}

/// Own writes to be overlaid on a stored page.
pub(super) struct Overlay<'a> {
    pub(super) own: OwnPage,
    /// Start of the transaction.
    pub(super) start: Timestamp,
    pub(super) range: &'a KeyRange,
    pub(super) reverse: bool,
    pub(super) limit: PageLimit,
}

impl Overlay<'_> {
    /// Overlays the writes: an own write hides the stored cell. The page keeps its limit of cells, and
    /// ends with the last own write if there are more.
    pub(super) fn on(self, page: CellPage) -> CellPage {
        let Self { own: OwnPage { cells: own, more }, reverse, .. } = self;
        let last = own.last().filter(|_| more).map(|(key, _)| key.clone());
        if own.is_empty() {
            return page;
        }
        let mut merged = Merged {
            cells: CellsBuilder::default(),
            cells_max: self.limit.cells.max(1),
            last: None,
        };
        let mut stored = page.cells.iter().peekable();
        for (key, payload) in &own {
            let key = key.as_key_ref();
            while let Some(cell) = stored.next_if(|cell| is_before(cell.key, key, reverse)) {
                merged.push(&cell);
            }
            stored.next_if(|cell| cell.key == key);
            if let Some(payload) = payload {
                let commit = Timestamp::MAX;
                merged.push(&CellRef { key, start: self.start, commit, payload });
            }
        }
        if last.is_none() {
            stored.for_each(|cell| merged.push(&cell));
        }
        let rest_behind = |last: CellKey| self.range.after(last, reverse);
        let resume = match (merged.last, last) {
            (Some(cut), _) => Some(rest_behind(cut)),
            (None, Some(last)) => Some(rest_behind(last)),
            (None, None) => page.resume,
        };
        CellPage { cells: merged.cells.finish(), resume, ..page }
    }
}

/// Cells of a merged page, up to its limit.
struct Merged {
    cells: CellsBuilder,
    cells_max: usize,
    /// Key of the last cell, if the limit left out others.
    last: Option<CellKey>,
}

impl Merged {
    fn push(&mut self, cell: &CellRef<'_>) {
        if self.cells.len() < self.cells_max {
            self.cells.push(cell);
        } else if self.last.is_none() {
            self.last = self.cells.last().map(|cell| cell.key.to_key());
        }
    }
}

fn is_before<'a, K: Into<CellKeyRef<'a>>>(one: K, other: K, reverse: bool) -> bool {
    let (one, other) = (one.into(), other.into());
    if reverse { one > other } else { one < other }
}

/// Returns the part of a range that a page has covered.
pub(super) fn covered(range: &KeyRange, rest: Option<&KeyRange>, reverse: bool) -> KeyRange {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let Some(rest) = rest else { return range.clone() };
    let flip = |bound: &std::ops::Bound<CellKey>| match bound {
        Included(key) => Excluded(key.clone()),
        Excluded(key) => Included(key.clone()),
        Unbounded => Unbounded,
    };
    let mut covered = range.clone();
    if reverse {
        covered.lower = flip(&rest.upper);
    } else {
        covered.upper = flip(&rest.lower);
    }
    covered
}
