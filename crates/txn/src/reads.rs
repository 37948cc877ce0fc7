//! The read set of a transaction, kept small: cells by hash, ranges by their ends, the pages of one
//! scan as one range.

use std::ops::Bound;

use carnet_base::{CellHash, CellKey, KeyRange, Result};
use carnet_store::ReadSet;

use crate::limits::{self, Bounds};
use crate::memory::SetMemory;

/// The read set as it is gathered: cells and ranges that no other transaction may write between R
/// and C.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    set: ReadSet,
    range_bytes: usize,
    memory: SetMemory,
    /// The last guarded cell.
    guarded: Option<CellHash>,
}

impl Reads {
    /// Adds a cell.
    pub(crate) fn point(&mut self, cell: CellHash, bounds: &Bounds) -> Result<()> {
        self.check(size_of::<CellHash>(), bounds)?;
        self.set.points.push(cell);
        Ok(())
    }

    /// Adds a cell that is guarded repeatedly, such as a table's schema at each of its rows.
    pub(crate) fn guard(&mut self, cell: CellHash, bounds: &Bounds) -> Result<()> {
        if self.guarded != Some(cell) {
            self.point(cell, bounds)?;
            self.guarded = Some(cell);
        }
        Ok(())
    }

    /// Adds a range.
    pub(crate) fn range(&mut self, range: KeyRange, bounds: &Bounds) -> Result<()> {
        let more = limits::range_bytes(&range);
        self.check(more, bounds)?;
        if let Some(last) = self.set.ranges.last_mut() {
            // The next page of a scan starts where the last one ended.
            let before = limits::range_bytes(last);
            if adjoin(&last.upper, &range.lower) {
                last.upper = range.upper;
                self.range_bytes = self.range_bytes - before + limits::range_bytes(last);
                return Ok(());
            }
            if adjoin(&range.upper, &last.lower) {
                last.lower = range.lower;
                self.range_bytes = self.range_bytes - before + limits::range_bytes(last);
                return Ok(());
            }
        }
        self.range_bytes += more;
        self.set.ranges.push(range);
        Ok(())
    }

    /// Narrows the last range: the reader of `page` read nothing behind `last`. Does nothing if the
    /// page is not the end of that range, because another handle of the transaction has added a
    /// range since.
    pub(crate) fn narrow(&mut self, page: &KeyRange, reverse: bool, last: &CellKey) {
        let Some(range) = self.set.ranges.last_mut() else { return };
        let is_end = if reverse { range.lower == page.lower } else { range.upper == page.upper };
        if !is_end || !page.contains(last) || !range.contains(last) {
            return;
        }
        let before = limits::range_bytes(range);
        let end = if reverse { &mut range.lower } else { &mut range.upper };
        *end = Bound::Included(last.clone());
        self.range_bytes = self.range_bytes - before + limits::range_bytes(range);
    }

    /// Removes the last cells, in their order: their reader did not use them. Does nothing if
    /// others have been added since.
    pub(crate) fn forget_points(&mut self, cells: &[CellHash]) {
        let points = &mut self.set.points;
        if points.ends_with(cells) {
            points.truncate(points.len() - cells.len());
        }
    }

    /// Returns the charged bytes.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Returns the cells that were added one by one.
    pub(crate) fn points(&self) -> &[CellHash] {
        &self.set.points
    }

    /// Returns the set, and its memory, which is to be kept until the set is dropped.
    pub(crate) fn into_set(self) -> (ReadSet, SetMemory) {
        (self.set, self.memory)
    }

    /// Checks that the set may grow by `more` bytes.
    fn check(&mut self, more: usize, bounds: &Bounds) -> Result<()> {
        let bytes = self.set.points.len() * size_of::<CellHash>() + self.range_bytes + more;
        bounds.limits.check_reads(bytes)?;
        self.memory.grow_to(bytes, bounds)
    }
}

/// Returns `true` if no key lies between the two bounds.
fn adjoin(upper: &Bound<CellKey>, lower: &Bound<CellKey>) -> bool {
    match (upper, lower) {
        (Bound::Included(end), Bound::Excluded(begin))
        | (Bound::Excluded(end), Bound::Included(begin)) => end == begin,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{ErrorKind, PartitionKey, TableId};

    use super::*;
    use crate::limits::Limits;

    fn cell(name: &str) -> CellKey {
        CellKey::new(TableId(1), &PartitionKey::new("p"), name)
    }

    fn range(lower: Bound<&str>, upper: Bound<&str>) -> KeyRange {
        let whole = KeyRange::partition(TableId(1), &PartitionKey::new("p"));
        KeyRange { lower: lower.map(cell), upper: upper.map(cell), ..whole }
    }

    #[test]
    fn pages_of_a_scan_become_one_range() {
        use Bound::{Excluded, Included};
        let bounds = Bounds::default();
        let mut reads = Reads::default();
        reads.range(range(Included("a"), Included("c")), &bounds).unwrap();
        reads.range(range(Excluded("c"), Included("f")), &bounds).unwrap();
        reads.range(range(Excluded("f"), Excluded("m")), &bounds).unwrap();
        assert_eq!(reads.set.ranges, [range(Included("a"), Excluded("m"))]);
        reads.range(range(Included("x"), Excluded("z")), &bounds).unwrap();
        reads.range(range(Included("v"), Excluded("x")), &bounds).unwrap();
        // There is a gap between these two.
        reads.range(range(Included("r"), Excluded("u")), &bounds).unwrap();
        reads.range(range(Excluded("u"), Excluded("v")), &bounds).unwrap();
        assert_eq!(
            reads.set.ranges,
            [
                range(Included("a"), Excluded("m")),
                range(Included("v"), Excluded("z")),
                range(Included("r"), Excluded("u")),
                range(Excluded("u"), Excluded("v")),
            ]
        );
        let bytes: usize = reads.set.ranges.iter().map(limits::range_bytes).sum();
        assert_eq!(reads.range_bytes, bytes);
    }

    #[test]
    fn cells_and_ranges_are_handed_over() {
        let bounds = Bounds::default();
        let mut reads = Reads::default();
        let hashes: Vec<CellHash> = (0..5).map(|n| cell(&n.to_string()).hash()).collect();
        hashes.iter().for_each(|hash| reads.point(*hash, &bounds).unwrap());
        let scan = range(Bound::Included("a"), Bound::Excluded("c"));
        reads.range(scan.clone(), &bounds).unwrap();
        // Others have been added since: nothing is forgotten.
        reads.forget_points(&hashes[2..4]);
        assert_eq!(reads.points(), &hashes);
        reads.forget_points(&hashes[3..]);
        assert_eq!(reads.points(), &hashes[..3]);
        let (set, _memory) = reads.into_set();
        assert_eq!((set.points, set.ranges), (hashes[..3].to_vec(), vec![scan]));
    }

    /// Another handle of the transaction has added a shorter range with the same end.
    #[test]
    fn range_without_the_last_cell_is_kept() {
        use Bound::{Excluded, Included};
        let bounds = Bounds::default();
        let mut reads = Reads::default();
        let (page, other) =
            (range(Included("a"), Excluded("z")), range(Included("m"), Excluded("z")));
        reads.range(other.clone(), &bounds).unwrap();
        reads.narrow(&page, false, &cell("c"));
        assert_eq!(reads.set.ranges, [other]);
    }

    #[test]
    fn unseen_end_of_a_page_is_forgotten() {
        use Bound::{Excluded, Included};
        let bounds = Bounds::default();
        let mut reads = Reads::default();
        reads.range(range(Included("a"), Included("c")), &bounds).unwrap();
        let page = range(Excluded("c"), Excluded("m"));
        reads.range(page.clone(), &bounds).unwrap();
        reads.narrow(&page, false, &cell("e"));
        assert_eq!(reads.set.ranges, [range(Included("a"), Included("e"))]);
        // Its end is gone already, so narrowing the same page again has no effect.
        reads.narrow(&page, false, &cell("d"));
        assert_eq!(reads.set.ranges, [range(Included("a"), Included("e"))]);

        let page = range(Included("p"), Excluded("z"));
        reads.range(page.clone(), &bounds).unwrap();
        reads.narrow(&page, true, &cell("a"));
        assert_eq!(reads.set.ranges[1], page, "the cell does not lie in the page");
        reads.narrow(&page, true, &cell("x"));
        assert_eq!(reads.set.ranges[1], range(Included("x"), Excluded("z")));
        let bytes: usize = reads.set.ranges.iter().map(limits::range_bytes).sum();
        assert_eq!(reads.range_bytes, bytes);
    }

    #[test]
    fn unseen_points_are_forgotten_from_the_end() {
        let bounds = Bounds::default();
        let mut reads = Reads::default();
        let hashes = ["a", "b", "c"].map(|name| cell(name).hash());
        for hash in hashes {
            reads.point(hash, &bounds).unwrap();
        }
        reads.forget_points(&hashes[..2]);
        assert_eq!(reads.set.points, hashes, "others were remembered since");
        reads.forget_points(&hashes[1..]);
        assert_eq!(reads.set.points, hashes[..1]);
    }

    #[test]
    fn read_set_is_bounded() {
        let limits = Limits { read_set_bytes: 3 * size_of::<CellHash>(), ..Limits::default() };
        let bounds = Bounds { limits, ..Bounds::default() };
        let mut reads = Reads::default();
        for name in ["a", "b"] {
            reads.guard(cell("schema").hash(), &bounds).unwrap();
            reads.point(cell(name).hash(), &bounds).unwrap();
        }
        reads.guard(cell("schema").hash(), &bounds).unwrap();
        let error = reads.point(cell("c").hash(), &bounds).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("32 bytes of its read set"), "{error}");
        assert!(error.to_string().contains("at most 24 fit"), "{error}");
    }
}
