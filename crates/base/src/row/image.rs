//! A decoded row image.

use bytes::{BufMut, Bytes, BytesMut};

use super::flags::{EXPIRES, FORMAT, WRITTEN_BEFORE};
use super::marker::Marker;
use super::reader::{ReadColumn, RowReader};
use crate::error::Result;
use crate::ids::{ColumnId, Timestamp};
use crate::var_long;

/// One column of a row image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The value as Cassandra serializes it ([`crate::serial`]).
    pub value: Bytes,
    /// Expiry in seconds since 1970-01-01 UTC; `None` is never.
    pub expiry: Option<i64>,
    /// Start timestamp of the version that set the column; `None` is this version itself.
    pub written: Option<Timestamp>,
}

impl Column {
    /// Creates a column set by this version, without an expiry.
    #[must_use]
    pub fn new(value: impl Into<Bytes>) -> Self {
        Self { value: value.into(), expiry: None, written: None }
    }

    /// Sets the expiry, in seconds since 1970-01-01 UTC.
    #[must_use]
    pub fn expiring(mut self, expiry: Option<i64>) -> Self {
        self.expiry = expiry;
        self
    }
}

/// A whole row, or the static columns of a partition, in one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowImage {
    /// Version of the table's schema under which the image was written.
    pub schema_version: u32,
    /// Row marker, if the row has one.
    pub marker: Option<Marker>,
    /// Sorted by id, without duplicates.
    columns: Vec<(ColumnId, Column)>,
}

impl RowImage {
    /// Creates an image without marker and columns.
    #[must_use]
    pub const fn new(schema_version: u32) -> Self {
        Self { schema_version, marker: None, columns: Vec::new() }
    }

    /// Returns `true` if the row exists, that is, has a marker or a column.
    ///
    /// Apply the expiry first, see [`RowImage::expire`].
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.marker.is_some() || !self.columns.is_empty()
    }

    /// Returns the columns, sorted by id.
    #[must_use]
    pub fn columns(&self) -> &[(ColumnId, Column)] {
        &self.columns
    }

    /// Returns a column; `None` is null.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        self.position(id).ok().map(|index| &self.columns[index].1)
    }

    /// Returns a column's serialized value; `None` is null.
    #[must_use]
    pub fn value(&self, id: ColumnId) -> Option<&Bytes> {
        self.column(id).map(|column| &column.value)
    }

    /// Sets a column, and returns its previous value.
    pub fn set(&mut self, id: ColumnId, column: Column) -> Option<Column> {
        match self.position(id) {
            Ok(index) => Some(std::mem::replace(&mut self.columns[index].1, column)),
            Err(index) => {
                self.columns.insert(index, (id, column));
                None
            }
        }
    }

    /// Sets a column to null, and returns its previous value.
    pub fn remove(&mut self, id: ColumnId) -> Option<Column> {
        self.position(id).ok().map(|index| self.columns.remove(index).1)
    }

    /// Keeps the columns for which the predicate is true.
    pub fn retain(&mut self, mut keep: impl FnMut(ColumnId, &Column) -> bool) {
        self.columns.retain(|(id, column)| keep(*id, column));
    }

    fn position(&self, id: ColumnId) -> Result<usize, usize> {
        self.columns.binary_search_by_key(&id, |(id, _)| *id)
    }

    /// Returns `true` if the marker or a column expires.
    #[must_use]
    pub fn expires(&self) -> bool {
        self.marker.is_some_and(|marker| marker.expiry.is_some())
            || self.columns.iter().any(|(_, column)| column.expiry.is_some())
    }

    /// Removes the expired marker and columns.
    ///
    /// `now` is in seconds since 1970-01-01 UTC. A column is gone at the second of its expiry.
    pub fn expire(&mut self, now: i64) {
        let is_gone = |expiry: Option<i64>| expiry.is_some_and(|expiry| expiry <= now);
        self.marker.take_if(|marker| is_gone(marker.expiry));
        self.columns.retain(|(_, column)| !is_gone(column.expiry));
    }

    /// Returns the starting point of the row's next version: the contents of this version, whose
    /// start timestamp is `start`, with each column naming the version that set it.
    ///
    /// The statement then sets and removes its own columns. A row that the *same* transaction wrote
    /// before is cloned instead: its columns are already set by "this version".
    #[must_use]
    pub fn carried_over(&self, start: Timestamp) -> Self {
        let mut next = self.clone();
        for (_, column) in &mut next.columns {
            column.written.get_or_insert(start);
        }
        next
    }

    /// Encodes the image.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let values: usize = self.columns.iter().map(|(_, column)| column.value.len() + 24).sum();
        let mut out = BytesMut::with_capacity(16 + values);
        out.put_u8(FORMAT);
        var_long::put(&mut out, i64::from(self.schema_version));
        Marker::put(self.marker, &mut out);
        put_len(&mut out, self.columns.len());
        for (id, column) in &self.columns {
            put_column(&mut out, *id, column);
        }
        out.freeze()
    }

    /// Decodes an image that takes all of `bytes`; its values are slices of them.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the bytes are not an image; `Unsupported` if a later version of the
    /// program wrote them.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let mut reader = RowReader::new(bytes)?;
        let mut columns = Vec::with_capacity(reader.columns_left());
        while let Some(ReadColumn { id, value, expiry, written }) = reader.next_column()? {
            columns.push((id, Column { value: bytes.slice_ref(value), expiry, written }));
        }
        Ok(Self { schema_version: reader.schema_version(), marker: reader.marker(), columns })
    }
}

pub(super) fn put_len(out: &mut BytesMut, len: usize) {
    var_long::put(out, i64::try_from(len).expect("no allocation is longer than i64::MAX"));
}

fn put_column(out: &mut BytesMut, id: ColumnId, column: &Column) {
    var_long::put(out, i64::from(id.0));
    let expires = if column.expiry.is_some() { EXPIRES } else { 0 };
    let written_before = if column.written.is_some() { WRITTEN_BEFORE } else { 0 };
    out.put_u8(expires | written_before);
    if let Some(expiry) = column.expiry {
        out.put_i64(expiry);
    }
    if let Some(written) = column.written {
        var_long::put(out, written.get().cast_signed());
    }
    put_len(out, column.value.len());
    out.put_slice(&column.value);
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;
    use crate::testing;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn column() -> impl Strategy<Value = Column> {
        let written = option::of((0..=Timestamp::MAX.get()).prop_map(at));
        (vec(any::<u8>(), 0..300), option::of(any::<i64>()), written).prop_map(
            |(value, expiry, written)| Column { value: Bytes::from(value), expiry, written },
        )
    }

    fn image() -> impl Strategy<Value = RowImage> {
        let marker = option::of(option::of(any::<i64>()).prop_map(|expiry| Marker { expiry }));
        (any::<u32>(), marker, btree_map(any::<u16>(), column(), 0..8)).prop_map(
            |(schema_version, marker, columns)| {
                let mut image = RowImage::new(schema_version);
                image.marker = marker;
                for (id, column) in columns.into_iter().rev() {
                    image.set(ColumnId(id), column);
                }
                image
            },
        )
    }

    proptest! {
        #[test]
        fn images_round_trip(image in image()) {
            let bytes = image.encode();
            prop_assert_eq!(RowImage::decode(&bytes).unwrap(), image);
            for cut in 0..bytes.len() {
                prop_assert!(RowImage::decode(&bytes.slice(..cut)).is_err());
            }
        }
    }

    #[test]
    fn bytes_match_the_documented_layout() {
        let mut image = RowImage::new(3);
        image.marker = Some(Marker::default());
        image.set(ColumnId(2), Column::new(&b"\0\0\0\x07"[..]));
        assert_eq!(&image.encode()[..], [1, 3, 1, 1, 2, 0, 4, 0, 0, 0, 7]);

        image.marker = Some(Marker { expiry: Some(-2) });
        let column =
            Column { value: Bytes::from_static(b"x"), expiry: Some(5), written: Some(at(300)) };
        image.set(ColumnId(200), column);
        let head = [1, 3, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 2];
        let first = [2, 0, 4, 0, 0, 0, 7];
        let second = [0x80, 0xc8, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0x81, 0x2c, 1, b'x'];
        assert_eq!(image.encode(), [&head[..], &first, &second].concat());
    }

    #[test]
    fn decoding_copies_no_value() {
        let mut image = RowImage::new(0);
        image.set(ColumnId(0), Column::new(vec![7; 100]));
        let bytes = image.encode();
        let value = RowImage::decode(&bytes).unwrap().value(ColumnId(0)).unwrap().clone();
        assert!(bytes.as_ptr_range().contains(&value.as_ptr()));
    }

    #[test]
    fn wrong_images_are_refused() {
        let kind =
            |bytes: &[u8]| RowImage::decode(&Bytes::copy_from_slice(bytes)).unwrap_err().kind();
        assert_eq!(kind(&[]), ErrorKind::Corrupted);
        assert_eq!(kind(&[0, 0, 0, 0]), ErrorKind::Corrupted);
        assert_eq!(kind(&[3, 0, 0, 0]), ErrorKind::Unsupported);
        assert_eq!(kind(&[1, 0, 0, 0, 0]), ErrorKind::Corrupted, "a byte too many");
        assert_eq!(kind(&[1, 0, 2, 0]), ErrorKind::Corrupted, "an expiry of no marker");
        assert_eq!(kind(&[1, 0, 0, 1, 2, 8, 0]), ErrorKind::Corrupted, "unknown flags");
        assert_eq!(kind(&[1, 0, 0, 1, 2, 4, 0]), ErrorKind::Unsupported, "a collection");
        assert_eq!(kind(&[1, 0, 0, 2, 2, 0, 0, 2, 0, 0]), ErrorKind::Corrupted, "an id twice");
        assert_eq!(kind(&[1, 0, 0, 2, 2, 0, 0, 1, 0, 0]), ErrorKind::Corrupted, "out of order");
        // Counts and lengths beyond the end of the bytes must not be trusted.
        let huge = var_long::encode(i64::MAX);
        assert_eq!(kind(&[&[1, 0, 0][..], &huge].concat()), ErrorKind::Corrupted);
        assert_eq!(kind(&[&[1, 0, 0, 1, 2, 0][..], &huge].concat()), ErrorKind::Corrupted);
        assert_eq!(kind(&[&[1][..], &huge, &[0, 0]].concat()), ErrorKind::Corrupted);
    }

    #[test]
    fn decoder_accepts_only_canonical_bytes() {
        let mut image = RowImage::new(1);
        image.marker = Some(Marker { expiry: Some(9) });
        image.set(ColumnId(1), Column::new(&b"abc"[..]));
        image.set(ColumnId(300), Column::new(&b"de"[..]).expiring(Some(77)));
        let good = [image.encode(), image.carried_over(at(5)).encode(), RowImage::new(0).encode()];
        testing::fuzz(&good, |bytes| {
            if let Ok(image) = RowImage::decode(&Bytes::copy_from_slice(bytes)) {
                assert_eq!(&image.encode()[..], bytes);
            }
        });
    }

    #[test]
    fn a_row_lives_by_its_marker_or_its_columns() {
        let mut image = RowImage::new(0);
        assert!(!image.is_live());
        image.set(ColumnId(1), Column::new("x"));
        assert!(image.is_live());
        image.remove(ColumnId(1));
        assert!(!image.is_live());
        image.marker = Some(Marker::default());
        assert!(image.is_live());
    }

    #[test]
    fn columns_expire_at_their_second() {
        let mut image = RowImage::new(0);
        image.marker = Some(Marker { expiry: Some(10) });
        image.set(ColumnId(1), Column::new("x").expiring(Some(20)));
        image.set(ColumnId(2), Column::new("y"));
        image.expire(9);
        assert_eq!((image.marker.is_some(), image.columns().len()), (true, 2));
        image.expire(10);
        assert_eq!((image.marker.is_some(), image.columns().len()), (false, 2));
        image.expire(20);
        assert_eq!(image.value(ColumnId(1)), None);
        image.expire(i64::MAX);
        assert!(image.is_live(), "columns without an expiry stay");
    }
}
