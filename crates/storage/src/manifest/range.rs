//! Half-open ranges of flat keys.

use bytes::Bytes;
use carnet_base::TableId;

/// The flat keys in `[lower, upper)`.
///
/// Half-open like a range tombstone, because there is no last key before `upper`. The range of a
/// single key *k* ends at *k* followed by a zero byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatRange {
    /// Lower bound, inclusive.
    pub lower: Bytes,
    /// Upper bound, exclusive.
    pub upper: Bytes,
}

impl FlatRange {
    /// Makes a range.
    #[must_use]
    pub fn new(lower: impl Into<Bytes>, upper: impl Into<Bytes>) -> Self {
        Self { lower: lower.into(), upper: upper.into() }
    }

    /// Returns `true` if the range has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lower >= self.upper
    }

    /// Returns `true` if the range contains a key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.lower <= key && key < self.upper
    }

    /// Returns `true` if the ranges share a key.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }

    /// Extends the range to contain the other one too.
    pub fn cover(&mut self, other: &Self) {
        if other.lower < self.lower {
            self.lower = other.lower.clone();
        }
        if other.upper > self.upper {
            self.upper = other.upper.clone();
        }
    }

    /// Returns the smallest range that contains all ranges; `None` if there are none.
    #[must_use]
    pub fn hull<'a>(ranges: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let mut ranges = ranges.into_iter();
        let mut hull = ranges.next()?.clone();
        ranges.for_each(|range| hull.cover(range));
        Some(hull)
    }

    /// Returns the table (of the catalog) that all keys of the range belong to, if there is exactly
    /// one.
    #[must_use]
    pub fn only_table(&self) -> Option<TableId> {
        let table = table_of(&self.lower)?;
        let within = match table.0.checked_add(1) {
            Some(next) => self.upper <= next.to_be_bytes()[..],
            None => true,
        };
        within.then_some(table)
    }

    /// Returns the length of the prefix that all keys of the range share.
    ///
    /// Every key between two others begins with their common prefix.
    #[must_use]
    pub fn shared_prefix_bytes(&self) -> usize {
        self.lower.iter().zip(&self.upper).take_while(|(lower, upper)| lower == upper).count()
    }
}

/// Returns the table that a flat key belongs to; `None` if the bytes are too short for a key.
#[must_use]
pub fn table_of(key: &[u8]) -> Option<TableId> {
    key.first_chunk().map(|bytes| TableId(u32::from_be_bytes(*bytes)))
}

/// Returns the immediate successor of a key.
#[must_use]
pub fn after(key: &[u8]) -> Bytes {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    after.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_do_not_overlap() {
        let range = |lower: &'static [u8], upper: &'static [u8]| FlatRange::new(lower, upper);
        assert!(!range(b"a", b"c").overlaps(&range(b"c", b"d")));
        assert!(range(b"a", b"c\0").overlaps(&range(b"c", b"d")));
        assert!(range(b"a", b"z").overlaps(&range(b"c", b"d")));
        assert!(range(b"a", &[]).is_empty() && !range(b"a", b"c").contains(b"c"));
        assert_eq!(
            FlatRange::hull([&range(b"c", b"d"), &range(b"a", b"b")]),
            Some(range(b"a", b"d"))
        );
        assert_eq!(range(b"abc", b"abd").shared_prefix_bytes(), 2);
    }

    #[test]
    fn range_within_one_table_names_it() {
        let range = |lower: &[u8], upper: &[u8]| FlatRange::new(lower.to_vec(), upper.to_vec());
        let table = Some(TableId(7));
        assert_eq!(range(&[0, 0, 0, 7, 1], &[0, 0, 0, 7, 9]).only_table(), table);
        assert_eq!(range(&[0, 0, 0, 7], &[0, 0, 0, 8]).only_table(), table);
        assert_eq!(range(&[0, 0, 0, 7], &[0, 0, 0, 8, 0]).only_table(), None);
        assert_eq!(range(&[0, 0], &[1]).only_table(), None);
        assert_eq!(range(&[255; 5], &[255; 9]).only_table(), Some(TableId(u32::MAX)));
    }
}
