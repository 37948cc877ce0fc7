//! Row delta: the part of a row that one transaction changed without reading the row.
//!
//! A reader merges the deltas of a cell with the image below them, and writers that change different columns of a row
//! do not depend on each other. Rows without deltas are not merged: the first byte of a payload tells a delta from an
//! image.
//!
//! ```text
//! delta    format        1 byte      2
//!          schema        VAR_LONG    schema version that it was written under, 0 ..= 2³² − 1
//!          flags         1 byte      0x01 the row marker is set
//!                                    0x02 the marker expires
//!                                    0x04 the write time follows
//!                                    0x08 the marker has a write time of its own
//!          [expiry]      8 bytes     the marker's, where 0x02 is set
//!          [written]     8 bytes     where 0x04 is set: the write time of all changes
//!          [written]     8 bytes     the marker's, where 0x08 is set
//!          count         VAR_LONG    how many changes follow, 0 ..= 65 536
//!          change × count, ascending by id, no id twice
//!
//! change   id            VAR_LONG    0 ..= 65 535
//!          kind          1 byte      0 the column is set
//!                                    1 the column is set and expires
//!                                    2 the column is deleted
//!                                    3 an amount is added to the column, a counter
//!                                    4 elements of a collection change
//!          [expiry]      8 bytes     of kind 1
//!          [length]      VAR_LONG    of kinds 0 and 1: of the value, in bytes
//!          [value]       length      of kinds 0 and 1: as Cassandra serializes it
//!          [amount]      8 bytes     of kind 3: two's complement, big-endian
//!          [elements]                of kind 4: see [`CollectionChange`]
//! ```
//!
//! # Merging
//!
//! For each column, the newest version that mentions it decides; amounts are added up to and
//! including the image. A column that is set hides the column below, also after it has expired.
//! Without an image below, deltas apply to an empty row.
//!
//! ```text
//!   C   version
//!   7   delta   a = 3, b deleted
//!   6   delta   a = 2, n += 4
//!   4   image   a = 1, b = 1, c = 1, n = 10        row: a = 3, c = 1, n = 14
//! ```
//!
//! For each element of a collection, the newest version that mentions it or clears the collection
//! decides; elements are added to a list in the order of versions. A plain value below is taken for
//! the collection that it is.
//!
//! The merged image has the write time of the newest version. Columns and elements that the newest
//! version did not write keep theirs.

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::clock::WallTime;
use carnet_base::error::{Error, Result};
use carnet_base::ids::{ColumnId, Timestamp};
use carnet_base::var_long;

use super::bytes::{put_bytes, put_len, take_bytes, take_i64, take_u8};
use super::collection_change::CollectionChange;
use super::flags::FORMAT_DELTA;
use super::image::{Column, RowImage};
use super::marker::Marker;
use super::reader;

const SET: u8 = 0;
const SET_EXPIRING: u8 = 1;
const DELETED: u8 = 2;
const ADDED: u8 = 3;
const ELEMENTS: u8 = 4;

/// Minimum length of a change: id, kind.
const CHANGE_LEN_MIN: usize = 2;

/// Change of a column by a delta.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The column is set.
    Set {
        /// The value as Cassandra serializes it ([`crate::serial`]).
        value: Bytes,
        /// Expiry in seconds since 1970-01-01 UTC; `None` is never.
        expiry: Option<i64>,
    },
    /// The column is set to null.
    Deleted,
    /// An amount is added to a counter. Its value wraps around, as in Cassandra.
    Added(i64),
    /// Elements of a collection change.
    Elements(Box<CollectionChange>),
}

impl From<CollectionChange> for Change {
    fn from(change: CollectionChange) -> Self {
        Self::Elements(Box::new(change))
    }
}

/// Changes of a row by one transaction.
///
/// ```
/// use carnet_data::row::{Change, RowDelta, RowImage};
/// use carnet_base::{ColumnId, Timestamp};
///
/// let mut delta = RowDelta::new(1);
/// delta.change(ColumnId(4), Change::Added(2));
/// let at = |number| Timestamp::new(number).unwrap();
/// let versions = [(at(9), delta.encode()), (at(7), delta.encode())];
/// let row = RowDelta::merge(None, &versions)?;
/// assert_eq!(row.value(ColumnId(4)).unwrap()[..], 4_i64.to_be_bytes());
/// # Ok::<_, carnet_base::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowDelta {
    /// Version of the table's schema under which the delta was written.
    pub schema_version: u32,
    /// Row marker, if the transaction set it.
    pub marker: Option<Marker>,
    /// Write time of the changes; `None` if it is not known.
    pub written: Option<WallTime>,
    /// Sorted by id, without duplicates.
    changes: Vec<(ColumnId, Change)>,
}

impl RowDelta {
    /// Creates a delta without changes.
    #[must_use]
    pub const fn new(schema_version: u32) -> Self {
        Self { schema_version, marker: None, written: None, changes: Vec::new() }
    }

    /// First byte of an encoded delta. No image begins with it.
    pub const MARK: u8 = FORMAT_DELTA;

    /// Returns `true` if the delta changes nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.marker.is_none() && self.changes.is_empty()
    }

    /// Returns the changes, sorted by id.
    #[must_use]
    pub fn changes(&self) -> &[(ColumnId, Change)] {
        &self.changes
    }

    /// Adds a change, after the earlier changes of the transaction.
    pub fn change(&mut self, id: ColumnId, change: Change) {
        match self.changes.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(index) => self.changes[index].1.extend(change),
            Err(index) => self.changes.insert(index, (id, change)),
        }
    }

    /// Adds the changes of a later statement of the same transaction.
    pub fn extend(&mut self, later: Self) {
        self.schema_version = later.schema_version;
        self.marker = later.marker.or(self.marker);
        self.written = later.written.or(self.written);
        for (id, change) in later.changes {
            self.change(id, change);
        }
    }

    /// Applies the changes to an older image.
    ///
    /// # Errors
    ///
    /// `Corrupted` if elements change of a column that is no such collection.
    pub fn apply(&self, image: &mut RowImage) -> Result<()> {
        image.schema_version = self.schema_version;
        image.marker = self.marker.or(image.marker);
        // The write times of elements that are replaced do not matter.
        for (id, change) in &self.changes {
            if matches!(change, Change::Elements(change) if change.is_cleared()) {
                image.remove(*id);
            }
        }
        image.begin_version(self.written);
        self.changes.iter().try_for_each(|(id, change)| change.apply(*id, image))
    }

    /// Merges versions of a cell: deltas with their starts, newest first, and the image below them
    /// with its start, if there is one.
    ///
    /// # Errors
    ///
    /// Like [`RowDelta::decode`] and [`RowImage::decode`].
    pub fn merge(
        image: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<RowImage> {
        let mut merged = match image {
            Some((_, image)) => RowImage::decode(image)?,
            None => RowImage::default(),
        };
        for (_, delta) in deltas.iter().rev() {
            Self::decode(delta)?.apply(&mut merged)?;
        }
        Ok(merged)
    }

    /// Encodes the delta.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(16 + self.changes.len() * 24);
        out.put_u8(FORMAT_DELTA);
        var_long::put(&mut out, i64::from(self.schema_version));
        Marker::put(self.marker, self.written, &mut out);
        put_len(&mut out, self.changes.len());
        for (id, change) in &self.changes {
            var_long::put(&mut out, i64::from(id.0));
            change.put(&mut out);
        }
        out.freeze()
    }

    /// Decodes a delta that takes all of `bytes`; its values are slices of them.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the bytes are not a delta; `Unsupported` if a later version of the program
    /// wrote them.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut rest = &bytes[..];
        match take_u8(&mut rest)? {
            FORMAT_DELTA => {}
            other => return Err(no_delta(&format!("format {other}"))),
        }
        let schema_version = u32::try_from(var_long::take_unsigned(&mut rest)?)
            .map_err(|_| no_delta("the schema version is out of range"))?;
        let (marker, written) = reader::take_marker(&mut rest)?;
        let count = var_long::take_unsigned(&mut rest)?;
        let count = usize::try_from(count)
            .ok()
            .filter(|count| *count <= rest.len() / CHANGE_LEN_MIN)
            .ok_or_else(|| no_delta(&format!("{count} changes cannot follow")))?;
        let mut changes: Vec<(ColumnId, Change)> = Vec::with_capacity(count);
        for _ in 0..count {
            let id = u16::try_from(var_long::take_unsigned(&mut rest)?)
                .map_err(|_| no_delta("a column id is out of range"))?;
            if changes.last().is_some_and(|(last, _)| last.0 >= id) {
                return Err(no_delta(&format!("column {id} is out of order")));
            }
            changes.push((ColumnId(id), Change::take(&mut rest, bytes)?));
        }
        match rest.len() {
            0 => Ok(Self { schema_version, marker, written, changes }),
            len => Err(no_delta(&format!("{len} bytes behind the last change"))),
        }
    }
}

impl Change {
    /// Adds a later change of the same transaction.
    fn extend(&mut self, later: Self) {
        *self = match (&mut *self, later) {
            (Self::Elements(earlier), Self::Elements(later)) => return earlier.extend(*later),
            (_, Self::Elements(later)) => later.on_nothing().into(),
            (Self::Added(before), Self::Added(amount)) => Self::Added(before.wrapping_add(amount)),
            (Self::Deleted, Self::Added(amount)) => {
                Self::Set { value: amount_bytes(amount), expiry: None }
            }
            (Self::Set { value, .. }, Self::Added(amount)) => {
                let sum = amount_of(value).wrapping_add(amount);
                Self::Set { value: amount_bytes(sum), expiry: None }
            }
            (_, later) => later,
        };
    }

    /// Applies the change to a column of an image.
    pub(super) fn apply(&self, id: ColumnId, image: &mut RowImage) -> Result<()> {
        match self {
            Self::Set { value, expiry } => {
                let value = value.clone();
                image.set(id, Column { value, expiry: *expiry, written: None });
            }
            Self::Added(amount) => {
                let before = image.value(id).map_or(0, |value| amount_of(value));
                let sum = before.wrapping_add(*amount);
                image.set(id, Column::new(amount_bytes(sum)));
            }
            Self::Deleted => image.remove(id),
            Self::Elements(change) => {
                let older = image.take_elements(id, change.kind())?;
                image.set_collection(id, change.apply(older)?);
            }
        }
        Ok(())
    }

    fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Set { value, expiry } => {
                match expiry {
                    None => out.put_u8(SET),
                    Some(expiry) => {
                        out.put_u8(SET_EXPIRING);
                        out.put_i64(*expiry);
                    }
                }
                put_bytes(out, value);
            }
            Self::Deleted => out.put_u8(DELETED),
            Self::Added(amount) => {
                out.put_u8(ADDED);
                out.put_i64(*amount);
            }
            Self::Elements(change) => {
                out.put_u8(ELEMENTS);
                change.put(out);
            }
        }
    }

    fn take(rest: &mut &[u8], bytes: &Bytes) -> Result<Self> {
        let kind = take_u8(rest)?;
        match kind {
            SET | SET_EXPIRING => {
                let expiry = if kind == SET { None } else { Some(take_i64(rest)?) };
                let value = bytes.slice_ref(take_bytes(rest)?);
                Ok(Self::Set { value, expiry })
            }
            DELETED => Ok(Self::Deleted),
            ADDED => Ok(Self::Added(take_i64(rest)?)),
            ELEMENTS => CollectionChange::take(rest, bytes).map(Self::from),
            later => Err(Error::unsupported(format!("row deltas with changes of kind {later}"))),
        }
    }
}

/// Returns the value of a counter; a value that is not 8 bytes long counts as zero.
fn amount_of(value: &[u8]) -> i64 {
    value.try_into().map_or(0, i64::from_be_bytes)
}

fn amount_bytes(amount: i64) -> Bytes {
    Bytes::copy_from_slice(&amount.to_be_bytes())
}

fn no_delta(why: &str) -> Error {
    Error::corrupted(format!("row delta: {why}"))
}

#[cfg(test)]
#[path = "delta_tests.rs"]
mod tests;
