//! Cells, their versions, and the one order in which every store keeps them.
//!
//! ```text
//! table / partition key (bytes) / clustering key (bytes, ordered) / version → payload | tombstone
//! ```
//!
//! * A *cell* is named by a [`CellKey`]. Cells are ordered by table, then by the Murmur3
//!   [token](Token) of the partition key, then by the partition key's bytes, then by the
//!   clustering key's bytes. The derived `Ord` below *is* that order: every store, the conflict
//!   check and every range rely on it.
//! * A *version* of a cell is named by the start timestamp of the transaction that wrote it, and
//!   never changes. It carries the commit timestamp as a *stamp* once that is known.
//! * A range of cells is a pair of bounds on cell keys of one table: a whole table, a span of
//!   tokens, one partition and a span of clustering keys are all the same [`KeyRange`].
//!
//! In a table with clustering columns the empty clustering key is reserved for the cell of the
//! static columns, which therefore sorts first in its partition.

use std::ops::Bound;

use bytes::{BufMut, Bytes, BytesMut};

use crate::ids::{TableId, Timestamp, Token};

/// A partition key in Cassandra's own serialization, with its token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    token: Token,
    bytes: Bytes,
}

impl PartitionKey {
    /// Names the partition of a serialized key and computes its token.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { token: crate::murmur3::token(&bytes), bytes }
    }

    /// Names a partition whose token is known already, or a bound between partitions.
    #[must_use]
    pub const fn with_token(token: Token, bytes: Bytes) -> Self {
        Self { token, bytes }
    }

    /// The smallest bound at a token: it sorts before every partition of that token.
    #[must_use]
    pub const fn first_at(token: Token) -> Self {
        Self { token, bytes: Bytes::new() }
    }

    /// Returns the token.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Returns the serialized key.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the smallest bound after this partition: the same token, one zero byte longer.
    #[must_use]
    pub fn successor(&self) -> Self {
        let mut bytes = BytesMut::with_capacity(self.bytes.len() + 1);
        bytes.put_slice(&self.bytes);
        bytes.put_u8(0);
        Self { token: self.token, bytes: bytes.freeze() }
    }
}

/// Names a cell. The derived order is the order of every store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// The table.
    pub table: TableId,
    /// The partition.
    pub partition: PartitionKey,
    /// The clustering key, order-preserving bytes; empty for static columns and for tables
    /// without clustering columns.
    pub clustering: Bytes,
}

impl CellKey {
    /// Names a cell.
    #[must_use]
    pub fn new(table: TableId, partition: PartitionKey, clustering: impl Into<Bytes>) -> Self {
        Self { table, partition, clustering: clustering.into() }
    }
}

/// A span of cells of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The table. Both bounds lie in it.
    pub table: TableId,
    /// Where the span begins; `Unbounded` is the table's first cell.
    pub lower: Bound<CellKey>,
    /// Where the span ends; `Unbounded` is the table's last cell.
    pub upper: Bound<CellKey>,
}

impl KeyRange {
    /// The span of a whole table.
    #[must_use]
    pub const fn table(table: TableId) -> Self {
        Self { table, lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// The span of one partition, its static cell included.
    #[must_use]
    pub fn partition(table: TableId, partition: &PartitionKey) -> Self {
        Self::clustering(table, partition, Bound::Unbounded, Bound::Unbounded)
    }

    /// A span of clustering keys within one partition.
    #[must_use]
    pub fn clustering(
        table: TableId,
        partition: &PartitionKey,
        lower: Bound<Bytes>,
        upper: Bound<Bytes>,
    ) -> Self {
        let cell = |clustering| CellKey { table, partition: partition.clone(), clustering };
        let lower = match lower {
            Bound::Unbounded => Bound::Included(cell(Bytes::new())),
            bound => bound.map(cell),
        };
        let upper = match upper {
            Bound::Unbounded => {
                Bound::Excluded(CellKey::new(table, partition.successor(), Bytes::new()))
            }
            bound => bound.map(cell),
        };
        Self { table, lower, upper }
    }

    /// The span of every partition whose token lies within the bounds.
    #[must_use]
    pub fn tokens(table: TableId, lower: Bound<Token>, upper: Bound<Token>) -> Self {
        let at = |token| CellKey::new(table, PartitionKey::first_at(token), Bytes::new());
        let next = |token: Token| token.0.checked_add(1).map(|next| at(Token(next)));
        let nothing = Bound::Excluded(at(Token::MIN));
        let lower = match lower {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(token) => Bound::Included(at(token)),
            Bound::Excluded(token) => match next(token) {
                Some(first) => Bound::Included(first),
                None => return Self { table, lower: Bound::Unbounded, upper: nothing },
            },
        };
        let upper = match upper {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(token) => next(token).map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Excluded(token) => Bound::Excluded(at(token)),
        };
        Self { table, lower, upper }
    }

    /// Tells whether a cell lies in the span.
    #[must_use]
    pub fn contains(&self, key: &CellKey) -> bool {
        let after = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => key >= lower,
            Bound::Excluded(lower) => key > lower,
        };
        let before = match &self.upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => key <= upper,
            Bound::Excluded(upper) => key < upper,
        };
        key.table == self.table && after && before
    }

    /// Tells whether no cell can lie in the span.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        match (&self.lower, &self.upper) {
            (Unbounded, Excluded(upper)) => {
                *upper <= CellKey::new(self.table, PartitionKey::first_at(Token::MIN), Bytes::new())
            }
            (Unbounded, _) | (_, Unbounded) => false,
            (Included(lower), Included(upper)) => lower > upper,
            (Included(lower) | Excluded(lower), Excluded(upper) | Included(upper)) => {
                lower >= upper
            }
        }
    }

    /// Returns the one partition that the span lies in, where it lies in one.
    #[must_use]
    pub fn single_partition(&self) -> Option<&PartitionKey> {
        let (Bound::Included(lower) | Bound::Excluded(lower)) = &self.lower else { return None };
        let within = match &self.upper {
            Bound::Unbounded => false,
            Bound::Included(upper) => upper.partition == lower.partition,
            Bound::Excluded(upper) => {
                upper.partition == lower.partition
                    || (upper.clustering.is_empty()
                        && upper.partition == lower.partition.successor())
            }
        };
        within.then_some(&lower.partition)
    }

    /// Returns what is left of the span after `done`, going forward or, `reverse`, backward.
    #[must_use]
    pub fn after(&self, done: CellKey, reverse: bool) -> Self {
        let mut rest = self.clone();
        if reverse {
            rest.upper = Bound::Excluded(done);
        } else {
            rest.lower = Bound::Excluded(done);
        }
        rest
    }

    /// Returns the bounds as a pair that ordered maps accept: never inverted, always in this table.
    ///
    /// `None` means that the span is empty.
    #[must_use]
    pub fn map_bounds(&self) -> Option<(Bound<CellKey>, Bound<CellKey>)> {
        if self.is_empty() {
            return None;
        }
        let first = |table| CellKey::new(table, PartitionKey::first_at(Token::MIN), Bytes::new());
        let lower = match &self.lower {
            Bound::Unbounded => Bound::Included(first(self.table)),
            bound => bound.clone(),
        };
        let upper = match (&self.upper, self.table.0.checked_add(1)) {
            (Bound::Unbounded, Some(next)) => Bound::Excluded(first(TableId(next))),
            (bound, _) => bound.clone(),
        };
        Some((lower, upper))
    }
}

/// One version of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Names the version: the start timestamp of its transaction.
    pub start: Timestamp,
    /// The stamp: the commit timestamp of its transaction, where the store knows it.
    pub commit: Option<Timestamp>,
    /// The row image or byte string; `None` is a tombstone.
    pub payload: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(token: i64, partition: &'static str, clustering: &'static str) -> CellKey {
        let partition = PartitionKey::with_token(Token(token), Bytes::from(partition));
        CellKey::new(TableId(1), partition, clustering)
    }

    #[test]
    fn a_partition_range_holds_its_cells_and_no_neighbours() {
        let here = cell(5, "b", "");
        let range = KeyRange::partition(TableId(1), &here.partition);
        assert!(range.contains(&here));
        assert!(range.contains(&cell(5, "b", "zzz")));
        assert!(!range.contains(&cell(5, "a", "zzz")));
        assert!(!range.contains(&cell(5, "b\0", "")));
        assert!(!range.contains(&cell(5, "ba", "")));
        assert!(!range.contains(&cell(6, "b", "")));
        assert_eq!(range.single_partition(), Some(&here.partition));
        assert!(!range.is_empty());
    }

    #[test]
    fn token_ranges_include_and_exclude_whole_tokens() {
        use Bound::{Excluded, Included, Unbounded};
        let range = KeyRange::tokens(TableId(1), Excluded(Token(3)), Included(Token(5)));
        assert!(!range.contains(&cell(3, "zz", "zz")));
        assert!(range.contains(&cell(4, "", "")));
        assert!(range.contains(&cell(5, "zz", "zz")));
        assert!(!range.contains(&cell(6, "", "")));
        assert_eq!(range.single_partition(), None);
        assert!(KeyRange::tokens(TableId(1), Excluded(Token::MAX), Unbounded).is_empty());
        assert!(KeyRange::tokens(TableId(1), Unbounded, Included(Token::MAX)).contains(&cell(
            i64::MAX,
            "x",
            "y"
        )));
    }

    #[test]
    fn map_bounds_never_leave_the_table_and_never_invert() {
        let whole = KeyRange::table(TableId(1));
        let map: std::collections::BTreeMap<CellKey, ()> = [
            (cell(1, "a", ""), ()),
            (CellKey::new(TableId(2), PartitionKey::first_at(Token::MIN), ""), ()),
        ]
        .into();
        let bounds = whole.map_bounds().expect("a whole table is not empty");
        assert_eq!(map.range(bounds).count(), 1);
        let inverted = KeyRange {
            table: TableId(1),
            lower: Bound::Excluded(cell(2, "a", "")),
            upper: Bound::Excluded(cell(2, "a", "")),
        };
        assert_eq!(inverted.map_bounds(), None);
    }
}
