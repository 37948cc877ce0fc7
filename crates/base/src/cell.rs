//! Cells, their versions, and the one order in which every store keeps them.
//!
//! ```text
//! table / partition key (bytes) / clustering key (bytes, ordered) / version → payload | tombstone
//! ```
//!
//! * A *cell* is named by a [`CellKey`]. Cells are ordered by table, then by the Murmur3
//!   [token](Token) of the partition key, then by the partition key (a shorter one first), then by
//!   the clustering key's bytes.
//! * A key *is* one byte string, and the order of its bytes is the order of cells. So comparing,
//!   hashing and storing a key do not decode its fields:
//!
//! ```text
//!  0  table                 u32, big-endian
//!  4  token                 u64, big-endian, its sign bit flipped
//! 12  partition key length  u16, big-endian
//! 14  partition key
//!     clustering key        to the end
//! ```
//!
//! * A *version* of a cell is named by the start timestamp of the transaction that wrote it, and
//!   never changes. It carries the commit timestamp as a *stamp* once that is known.
//! * A range of cells is a pair of bounds on cell keys of one table: a whole table, a span of
//!   tokens, one partition and a span of clustering keys are all the same [`KeyRange`].
//!
//! In a table with clustering columns the empty clustering key is reserved for the cell of the
//! static columns, which therefore sorts first in its partition.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::cell_hash::CellHash;
use crate::error::{Error, Result};
use crate::ids::{TableId, Timestamp, Token};
use crate::limits::{CLUSTERING_KEY_BYTES_MAX, PARTITION_KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// A partition key in Cassandra's own serialization, with its token.
///
/// Partition keys are ordered by token, then by length, then by their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    token: Token,
    bytes: Bytes,
}

impl PartitionKey {
    /// Creates the key of a partition from serialized bytes, and computes its token.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { token: crate::murmur3::token(&bytes), bytes }
    }

    /// Creates a key with a known token, or a bound between partitions.
    #[must_use]
    pub const fn with_token(token: Token, bytes: Bytes) -> Self {
        Self { token, bytes }
    }

    /// Returns the smallest bound at a token: it sorts before every partition with that token.
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

    /// Returns the smallest bound after this partition: the next key of its length, or the first
    /// one of the next length.
    #[must_use]
    pub fn successor(&self) -> Self {
        let mut bytes = BytesMut::from(&self.bytes[..]);
        for byte in bytes.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                return Self { token: self.token, bytes: bytes.freeze() };
            }
        }
        if bytes.len() == PARTITION_KEY_BYTES_MAX {
            // The last partition key of its token: the next key has the next token.
            return Self::first_at(Token(self.token.0.saturating_add(1)));
        }
        bytes.put_u8(0);
        Self { token: self.token, bytes: bytes.freeze() }
    }
}

impl Ord for PartitionKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = || self.bytes.len().cmp(&other.bytes.len());
        self.token.cmp(&other.token).then_with(by_length).then_with(|| self.bytes.cmp(&other.bytes))
    }
}

impl PartialOrd for PartitionKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Length of the part of a cell key in front of the partition key.
pub(crate) const FRAME_BYTES: usize = 14;

/// Key of a cell: one byte string, in the order of every store. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey(Bytes);

impl CellKey {
    /// Creates a cell key. The clustering key is order-preserving bytes, empty for static columns
    /// and for tables without clustering columns.
    ///
    /// # Panics
    ///
    /// If the partition key is longer than [`PARTITION_KEY_BYTES_MAX`].
    #[must_use]
    pub fn new(table: TableId, partition: &PartitionKey, clustering: impl AsRef<[u8]>) -> Self {
        Self::of_some_table(partition, clustering.as_ref())(table)
    }

    /// Creates the key of a cell whose table is not known yet, in its final memory.
    ///
    /// # Panics
    ///
    /// See [`CellKey::new`].
    pub fn of_some_table(
        partition: &PartitionKey,
        clustering: &[u8],
    ) -> impl FnOnce(TableId) -> Self + Send + use<> {
        let bytes = partition.bytes();
        let len = u16::try_from(bytes.len())
            .expect("a partition key has at most PARTITION_KEY_BYTES_MAX bytes");
        let mut key = BytesMut::with_capacity(FRAME_BYTES + bytes.len() + clustering.len());
        key.put_u32(0);
        key.put_u64(ordered(partition.token()));
        key.put_u16(len);
        key.put_slice(bytes);
        key.put_slice(clustering);
        move |table| {
            (&mut key[..]).put_u32(table.0);
            Self(key.freeze())
        }
    }

    /// Creates a cell key from its bytes.
    ///
    /// # Errors
    ///
    /// `Corrupted` if they are too short for a cell key.
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        CellKeyRef::new(&bytes)?;
        Ok(Self(bytes))
    }

    /// Creates a cell key from bytes that are known to be one.
    pub(crate) const fn of_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Returns the key's bytes, whose order is the order of cells.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Borrows the key.
    #[must_use]
    pub fn as_key_ref(&self) -> CellKeyRef<'_> {
        CellKeyRef(&self.0)
    }

    /// Returns the table.
    #[must_use]
    pub fn table(&self) -> TableId {
        self.as_key_ref().table()
    }

    /// Returns the partition key's token.
    #[must_use]
    pub fn token(&self) -> Token {
        let [_, _, _, _, a, b, c, d, e, f, g, h, ..] = *self.frame();
        let ordered = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Token((ordered ^ (1 << 63)).cast_signed())
    }

    /// Returns the partition key; it shares the cell key's memory.
    #[must_use]
    pub fn partition(&self) -> PartitionKey {
        PartitionKey { token: self.token(), bytes: self.0.slice(FRAME_BYTES..self.prefix_len()) }
    }

    /// Returns the clustering key.
    #[must_use]
    pub fn clustering(&self) -> &[u8] {
        &self.0[self.prefix_len()..]
    }

    /// Returns the clustering key; it shares the cell key's memory.
    #[must_use]
    pub fn clustering_bytes(&self) -> Bytes {
        self.0.slice(self.prefix_len()..)
    }

    /// Like [`CellKey::clustering_bytes`], but consumes the key and so saves a reference count.
    #[must_use]
    pub fn into_clustering_bytes(self) -> Bytes {
        let prefix_len = self.prefix_len();
        let mut bytes = self.0;
        bytes.advance(prefix_len);
        bytes
    }

    /// Returns everything before the clustering key: all cells of a partition share it, and no
    /// others do.
    #[must_use]
    pub fn partition_prefix(&self) -> &[u8] {
        &self.0[..self.prefix_len()]
    }

    /// Returns a hash of the whole key.
    #[must_use]
    pub fn hash(&self) -> CellHash {
        self.as_key_ref().hash()
    }

    /// Returns `true` if a cell lies in the same partition of the same table.
    #[must_use]
    pub fn same_partition(&self, other: &Self) -> bool {
        self.partition_prefix() == other.partition_prefix()
    }

    fn frame(&self) -> &[u8; FRAME_BYTES] {
        self.as_key_ref().frame()
    }

    fn prefix_len(&self) -> usize {
        self.as_key_ref().prefix_len()
    }

    /// Returns the smallest bound after this cell.
    fn after(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(self.0.len() + 1);
        bytes.put_slice(&self.0);
        bytes.put_u8(0);
        bytes.freeze()
    }
}

impl fmt::Debug for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellKey")
            .field("table", &self.table().0)
            .field("token", &self.token().0)
            .field("partition", self.partition().bytes())
            .field("clustering", &self.clustering_bytes())
            .finish()
    }
}

/// A cell key that borrows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CellKeyRef<'a>(&'a [u8]);

impl<'a> CellKeyRef<'a> {
    /// Borrows a cell key's bytes.
    ///
    /// # Errors
    ///
    /// `Corrupted` if they are too short for a cell key.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        match bytes.get(12..FRAME_BYTES) {
            Some(&[high, low])
                if bytes.len() - FRAME_BYTES >= usize::from(u16::from_be_bytes([high, low])) =>
            {
                Ok(Self(bytes))
            }
            _ => Err(Error::corrupted(format!("{} bytes are too few for a cell key", bytes.len()))),
        }
    }

    pub(crate) const fn from_valid(key: &'a [u8]) -> Self {
        Self(key)
    }

    /// Returns the key's bytes, whose order is the order of cells.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the table.
    #[must_use]
    pub fn table(self) -> TableId {
        let [a, b, c, d, ..] = *self.frame();
        TableId(u32::from_be_bytes([a, b, c, d]))
    }

    /// Returns the serialized partition key.
    #[must_use]
    pub fn partition(self) -> &'a [u8] {
        &self.0[FRAME_BYTES..self.prefix_len()]
    }

    /// Returns the clustering key.
    #[must_use]
    pub fn clustering(self) -> &'a [u8] {
        &self.0[self.prefix_len()..]
    }

    /// Rejects a clustering key or a value that is too long; the value is `None` for a deletion. A partition key cannot
    /// be too long: [`CellKeyBuilder`](crate::CellKeyBuilder) rejects it.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the limit and the actual length.
    pub fn check_size(self, value: Option<&[u8]>) -> Result<()> {
        let limits = [
            ("clustering key", self.clustering().len(), CLUSTERING_KEY_BYTES_MAX),
            ("value", value.map_or(0, <[u8]>::len), VALUE_BYTES_MAX),
        ];
        for (what, len, max) in limits {
            if len > max {
                return Err(Error::invalid(format!(
                    "a {what} of {len} bytes is too long: at most {max} bytes are stored"
                )));
            }
        }
        Ok(())
    }

    /// Returns a hash of the whole key.
    #[must_use]
    pub fn hash(self) -> CellHash {
        CellHash(crate::murmur3::token(self.0).0.cast_unsigned())
    }

    /// Copies the key.
    #[must_use]
    pub fn to_key(self) -> CellKey {
        CellKey(Bytes::copy_from_slice(self.0))
    }

    fn frame(self) -> &'a [u8; FRAME_BYTES] {
        self.0.first_chunk().expect("every constructor makes at least a frame")
    }

    fn prefix_len(self) -> usize {
        let [.., high, low] = *self.frame();
        FRAME_BYTES + usize::from(u16::from_be_bytes([high, low]))
    }
}

/// The bytes compare and hash like the key.
impl Borrow<[u8]> for CellKey {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> From<&'a CellKey> for CellKeyRef<'a> {
    fn from(key: &'a CellKey) -> Self {
        key.as_key_ref()
    }
}

/// Returns a token as an unsigned number with the same order.
pub(crate) const fn ordered(token: Token) -> u64 {
    token.0.cast_unsigned() ^ (1 << 63)
}

/// A range of cells of one table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Table of both bounds.
    pub table: TableId,
    /// Lower bound; `Unbounded` is the table's first cell.
    pub lower: Bound<CellKey>,
    /// Upper bound; `Unbounded` is the table's last cell.
    pub upper: Bound<CellKey>,
}

impl KeyRange {
    /// Creates the range of a whole table.
    #[must_use]
    pub const fn table(table: TableId) -> Self {
        Self { table, lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// Creates the range of one partition, including its static cell.
    #[must_use]
    pub fn partition(table: TableId, partition: &PartitionKey) -> Self {
        Self::clustering(table, partition, Bound::Unbounded, Bound::Unbounded)
    }

    /// Creates a range of clustering keys within one partition.
    #[must_use]
    pub fn clustering(
        table: TableId,
        partition: &PartitionKey,
        lower: Bound<Bytes>,
        upper: Bound<Bytes>,
    ) -> Self {
        let cell = |clustering: Bytes| CellKey::new(table, partition, clustering);
        let lower = match lower {
            Bound::Unbounded => Bound::Included(cell(Bytes::new())),
            bound => bound.map(cell),
        };
        let upper = match upper {
            Bound::Unbounded => Bound::Excluded(CellKey::new(table, &partition.successor(), "")),
            bound => bound.map(cell),
        };
        Self { table, lower, upper }
    }

    /// Creates the range of every partition with a token within the bounds.
    #[must_use]
    pub fn tokens(table: TableId, lower: Bound<Token>, upper: Bound<Token>) -> Self {
        let at = |token| CellKey::new(table, &PartitionKey::first_at(token), "");
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

    /// Returns `true` if the range contains a cell.
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
        key.table() == self.table && after && before
    }

    /// Returns `true` if no cell can lie in the range.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        match (&self.lower, &self.upper) {
            (Unbounded, Excluded(upper)) => *upper <= first_of(self.table),
            (Unbounded, _) | (_, Unbounded) => false,
            (Included(lower), Included(upper)) => lower > upper,
            (Included(lower) | Excluded(lower), Excluded(upper) | Included(upper)) => {
                lower >= upper
            }
        }
    }

    /// Returns the partition of the range if it lies in a single one.
    #[must_use]
    pub fn single_partition(&self) -> Option<PartitionKey> {
        let (Bound::Included(lower) | Bound::Excluded(lower)) = &self.lower else { return None };
        let within = match &self.upper {
            Bound::Unbounded => false,
            Bound::Included(upper) => upper.same_partition(lower),
            Bound::Excluded(upper) => {
                upper.same_partition(lower)
                    || (upper.clustering().is_empty()
                        && upper.partition() == lower.partition().successor())
            }
        };
        within.then(|| lower.partition())
    }

    /// Returns the range as a half-open range of cell keys' bytes; `None` if it is empty.
    #[must_use]
    pub fn byte_bounds(&self) -> Option<(Bytes, Bytes)> {
        if self.is_empty() {
            return None;
        }
        let table = |id: u64| Bytes::copy_from_slice(&id.to_be_bytes()[4..]);
        let lower = match &self.lower {
            Bound::Unbounded => table(u64::from(self.table.0)),
            Bound::Included(key) => key.as_bytes().clone(),
            Bound::Excluded(key) => key.after(),
        };
        let upper = match &self.upper {
            // No next table id exists; this lies behind all cells of the last table.
            Bound::Unbounded if self.table.0 == u32::MAX => Bytes::from_static(&[0xff; 64]),
            Bound::Unbounded => table(u64::from(self.table.0) + 1),
            Bound::Included(key) => key.after(),
            Bound::Excluded(key) => key.as_bytes().clone(),
        };
        Some((lower, upper))
    }

    /// Returns the rest of the range after `done`, forward or, if `reverse`, backward.
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
    /// `None` means that the range is empty.
    #[must_use]
    pub fn map_bounds(&self) -> Option<(Bound<CellKey>, Bound<CellKey>)> {
        if self.is_empty() {
            return None;
        }
        let lower = match &self.lower {
            Bound::Unbounded => Bound::Included(first_of(self.table)),
            bound => bound.clone(),
        };
        let upper = match (&self.upper, self.table.0.checked_add(1)) {
            (Bound::Unbounded, Some(next)) => Bound::Excluded(first_of(TableId(next))),
            (bound, _) => bound.clone(),
        };
        Some((lower, upper))
    }
}

/// Returns the smallest bound in a table.
fn first_of(table: TableId) -> CellKey {
    CellKey::new(table, &PartitionKey::first_at(Token::MIN), "")
}

/// One version of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Start timestamp of the version's transaction, which names the version.
    pub start: Timestamp,
    /// The stamp: the commit timestamp of the transaction, if the store knows it.
    pub commit: Option<Timestamp>,
    /// Row image or byte string; `None` is a tombstone.
    pub payload: Option<Bytes>,
}

impl Version {
    /// Returns the size of the payload in bytes.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, Bytes::len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cell(token: i64, partition: &'static str, clustering: &'static str) -> CellKey {
        let partition = PartitionKey::with_token(Token(token), Bytes::from(partition));
        CellKey::new(TableId(1), &partition, clustering)
    }

    fn any_cell() -> impl Strategy<Value = CellKey> {
        let few = proptest::sample::select(vec![0_u8, 1, 0xfe, 0xff]);
        let bytes = proptest::collection::vec(few, 0..3);
        (1..3_u32, -2..2_i64, bytes.clone(), bytes).prop_map(|(table, token, key, clustering)| {
            let partition = PartitionKey::with_token(Token(token), key.into());
            CellKey::new(TableId(table), &partition, clustering)
        })
    }

    fn any_bound() -> impl Strategy<Value = Bound<CellKey>> {
        prop_oneof![
            Just(Bound::Unbounded),
            any_cell().prop_map(Bound::Included),
            any_cell().prop_map(Bound::Excluded)
        ]
    }

    proptest! {
        #[test]
        fn byte_order_equals_field_order(a in any_cell(), b in any_cell()) {
            let fields = |key: &CellKey| (key.table(), key.partition(), key.clustering_bytes());
            prop_assert_eq!(a.cmp(&b), fields(&a).cmp(&fields(&b)));
            prop_assert_eq!(CellKey::new(a.table(), &a.partition(), a.clustering()), a.clone());
            prop_assert_eq!(a.clone().into_clustering_bytes(), a.clustering());
            prop_assert_eq!(CellKey::from_bytes(a.as_bytes().clone()).unwrap(), a);
        }

        #[test]
        fn nothing_lies_between_a_partition_and_its_successor(a in any_cell(), b in any_cell()) {
            let (partition, next) = (a.partition(), a.partition().successor());
            prop_assert!(partition < next);
            prop_assert!(b.partition() <= partition || b.partition() >= next);
        }

        #[test]
        fn byte_bounds_hold_the_same_cells(lower in any_bound(), upper in any_bound(), key in any_cell()) {
            let table = TableId(1);
            let in_table = |bound: &Bound<CellKey>| match bound {
                Bound::Unbounded => true,
                Bound::Included(key) | Bound::Excluded(key) => key.table() == table,
            };
            prop_assume!(in_table(&lower) && in_table(&upper));
            let range = KeyRange { table, lower, upper };
            let held = range
                .byte_bounds()
                .is_some_and(|(lower, upper)| lower <= *key.as_bytes() && *key.as_bytes() < upper);
            prop_assert_eq!(held, range.contains(&key));
        }
    }

    #[test]
    fn bytes_that_are_not_a_cell_key_are_rejected() {
        let whole = cell(1, "ab", "").as_bytes().clone();
        for cut in 0..whole.len() {
            assert!(CellKey::from_bytes(whole.slice(..cut)).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_partition_range_holds_its_cells_and_no_neighbours() {
        let here = cell(5, "b", "");
        let range = KeyRange::partition(TableId(1), &here.partition());
        assert!(range.contains(&here));
        assert!(range.contains(&cell(5, "b", "zzz")));
        assert!(!range.contains(&cell(5, "a", "zzz")));
        assert!(!range.contains(&cell(5, "b\0", "")));
        assert!(!range.contains(&cell(5, "ba", "")));
        assert!(!range.contains(&cell(6, "b", "")));
        assert_eq!(range.single_partition(), Some(here.partition()));
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
        let map: std::collections::BTreeMap<CellKey, ()> =
            [(cell(1, "a", ""), ()), (first_of(TableId(2)), ())].into();
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
