//! Merges stored pages of a range with a transaction's own writes.

use std::iter::Peekable;

use carnet_base::{Bytes, CellKey, KeyRange};
use carnet_store::{PageLimit, SpilledPage};

use crate::entry::{Entry, TransactionPage};

/// Merges stored cells and own writes, both in order; an own write hides the stored cell.
pub(super) fn merge(
    mut stored: Peekable<impl Iterator<Item = (CellKey, Entry)>>,
    own: impl Iterator<Item = (CellKey, Option<Entry>)>,
    before: impl Fn(&CellKey, &CellKey) -> bool,
) -> Vec<(CellKey, Entry)> {
    let mut merged = Vec::new();
    for (key, entry) in own {
        while let Some(cell) = stored.next_if(|(theirs, _)| before(theirs, &key)) {
            merged.push(cell);
        }
        stored.next_if(|(theirs, _)| *theirs == key);
        if let Some(entry) = entry {
            merged.push((key, entry));
        }
    }
    merged.extend(stored);
    merged
}

/// Merges writes in memory and older, spilled ones, both in order, up to `cells_max` cells. Also
/// returns whether there are more.
pub(super) fn own_page(
    own: impl Iterator<Item = (CellKey, Option<Bytes>)>,
    spilled: SpilledPage,
    cells_max: usize,
    before: impl Fn(&CellKey, &CellKey) -> bool,
) -> (Vec<(CellKey, Option<Bytes>)>, bool) {
    let SpilledPage { cells, more } = spilled;
    let (mut own, mut spilled) = (own.peekable(), cells.into_iter().peekable());
    let mut page = Vec::new();
    while page.len() < cells_max {
        // Behind the last loaded spilled cell there may be more that are not loaded.
        if more && spilled.peek().is_none() {
            return (page, true);
        }
        let next = match (own.peek(), spilled.peek()) {
            (Some((ours, _)), Some((older, _))) if before(older, ours) => spilled.next(),
            (Some((ours, _)), Some((older, _))) if ours == older => {
                spilled.next();
                own.next()
            }
            (Some(_), _) => own.next(),
            (None, _) => spilled.next(),
        };
        let Some(cell) = next else { return (page, false) };
        page.push(cell);
    }
    let more = more || own.peek().is_some() || spilled.peek().is_some();
    (page, more)
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

/// Truncates a page to its limit: own writes may have made it longer.
pub(super) fn cut(
    mut cells: Vec<(CellKey, Entry)>,
    resume: Option<KeyRange>,
    range: &KeyRange,
    reverse: bool,
    limit: PageLimit,
) -> TransactionPage {
    let cells_max = limit.cells.max(1);
    if cells.len() <= cells_max {
        return TransactionPage { cells, resume };
    }
    cells.truncate(cells_max);
    let resume = cells.last().map(|(key, _)| range.after(key.clone(), reverse));
    TransactionPage { cells, resume }
}
