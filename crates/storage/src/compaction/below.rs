//! Key ranges that may hold older data than a compaction's inputs.

use std::cmp::Ordering;

use crate::manifest::{FlatRange, Levels};

/// Ranges of all tables that may hold older data than a compaction's output. A tombstone may be
/// dropped only outside of these ranges.
///
/// Queries must come in ascending key order, so that each table is passed once.
#[derive(Clone, Debug, Default)]
pub struct Below {
    /// Disjoint, in ascending order.
    ranges: Vec<FlatRange>,
    passed: usize,
}

impl Below {
    /// Collects ranges, in any order.
    #[must_use]
    pub fn of(ranges: impl IntoIterator<Item = FlatRange>) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_unstable_by(|left, right| left.lower.cmp(&right.lower));
        let mut ranges: Vec<FlatRange> = Vec::new();
        for range in sorted {
            match ranges.last_mut() {
                Some(last) if range.lower <= last.upper => last.cover(&range),
                _ => ranges.push(range),
            }
        }
        Self { ranges, passed: 0 }
    }

    /// Collects the ranges of tables that are older than the output of a compaction of `inputs`
    /// into `level`: those of the levels below it and, for level 0, those before the oldest input.
    #[must_use]
    pub fn output(levels: &Levels, level: u8, inputs: &[u64], hull: &FlatRange) -> Self {
        let level = usize::from(level);
        let tables = (level + 1..crate::manifest::LEVELS)
            .flat_map(|level| levels.overlapping(level, hull))
            .map(|table| table.range.clone());
        let older = levels.level(0).iter().take_while(|table| !inputs.contains(&table.number));
        let older = older.filter(|_| level == 0).map(|table| table.range.clone());
        Self::of(tables.chain(older).filter(|range| range.overlaps(hull)))
    }

    /// Returns `true` if older data of a key may exist. Keys must ascend from call to call.
    pub fn may_hold(&mut self, key: &[u8]) -> bool {
        self.pass(key);
        self.ranges.get(self.passed).is_some_and(|range| range.lower <= key)
    }

    /// Returns `true` if older data of a key in `[lower, upper)` may exist. Lower bounds must
    /// ascend from call to call.
    pub fn may_overlap(&mut self, lower: &[u8], upper: &[u8]) -> bool {
        self.pass(lower);
        self.ranges
            .get(self.passed)
            .is_some_and(|range| range.lower.as_ref().cmp(upper) == Ordering::Less)
    }

    fn pass(&mut self, key: &[u8]) {
        while self.ranges.get(self.passed).is_some_and(|range| range.upper <= key) {
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below() -> Below {
        let range = |lower: &'static str, upper: &'static str| FlatRange::new(lower, upper);
        Below::of([range("m", "p"), range("b", "d"), range("x", "x"), range("c", "f")])
    }

    #[test]
    fn older_data_may_exist_only_within_tables() {
        let mut below = below();
        let held = ["a", "b", "d", "e", "f", "l", "m", "o", "p", "x", "z"]
            .into_iter()
            .filter(|key| below.may_hold(key.as_bytes()));
        assert_eq!(held.collect::<Vec<_>>(), ["b", "d", "e", "m", "o"]);
    }

    #[test]
    fn adjacent_range_does_not_overlap() {
        let mut below = below();
        let ranges = [("a", "b"), ("a", "bb"), ("e", "z"), ("f", "m"), ("f", "n"), ("p", "z")];
        let overlaps =
            ranges.map(|(lower, upper)| below.may_overlap(lower.as_bytes(), upper.as_bytes()));
        assert_eq!(overlaps, [false, true, true, false, true, false]);
    }
}
