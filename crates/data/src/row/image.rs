//! A decoded row image.

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::clock::WallTime;
use carnet_base::error::Result;
use carnet_base::ids::ColumnId;
use carnet_base::var_long;

use super::bytes::{put_bytes, put_len};
use super::collection::Collection;
use super::element::CollectionKind;
use super::encoded::move_time;
use super::flags::{COLLECTION, COLUMN_WRITTEN, EXPIRES, FORMAT};
use super::marker::Marker;
use super::reader::{ReadColumn, RowReader};

/// Write time of a column that was written without one.
pub(super) const UNKNOWN: WallTime = WallTime(i64::MIN);

/// One column of a row image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The value as Cassandra serializes it ([`crate::serial`]).
    pub value: Bytes,
    /// Expiry in seconds since 1970-01-01 UTC; `None` is never.
    pub expiry: Option<i64>,
    /// Write time; `None` is that of the version.
    pub written: Option<WallTime>,
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
    /// Write time of the columns and elements without one of their own; `None` if it is not known.
    pub written: Option<WallTime>,
    /// Columns with plain values, sorted by id, without duplicates.
    columns: Vec<(ColumnId, Column)>,
    /// Columns with elements, sorted by id, none of them in `columns`. No collection is empty.
    collections: Vec<(ColumnId, Collection)>,
}

impl RowImage {
    /// Creates an image without marker and columns.
    #[must_use]
    pub const fn new(schema_version: u32) -> Self {
        Self {
            schema_version,
            marker: None,
            written: None,
            columns: Vec::new(),
            collections: Vec::new(),
        }
    }

    /// Returns `true` if the row exists, that is, has a marker or a column.
    ///
    /// Apply the expiry first, see [`RowImage::expire`].
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.marker.is_some() || !self.columns.is_empty() || !self.collections.is_empty()
    }

    /// Returns the columns with plain values, sorted by id.
    #[must_use]
    pub fn columns(&self) -> &[(ColumnId, Column)] {
        &self.columns
    }

    /// Returns the columns with elements, sorted by id.
    #[must_use]
    pub fn collections(&self) -> &[(ColumnId, Collection)] {
        &self.collections
    }

    /// Returns a column with a plain value; `None` is null.
    #[must_use]
    pub fn column(&self, id: ColumnId) -> Option<&Column> {
        position(&self.columns, id).ok().map(|index| &self.columns[index].1)
    }

    /// Returns a column's elements; `None` if it is null or has a plain value.
    #[must_use]
    pub fn collection(&self, id: ColumnId) -> Option<&Collection> {
        position(&self.collections, id).ok().map(|index| &self.collections[index].1)
    }

    /// Returns a column's elements, also of a plain value; `None` is null.
    ///
    /// # Errors
    ///
    /// `Corrupted` if a plain value is no collection of this kind.
    pub fn elements(&self, id: ColumnId, kind: CollectionKind) -> Result<Option<Collection>> {
        let Some(column) = self.column(id) else { return Ok(self.collection(id).cloned()) };
        let mut collection = Collection::from_serialized(kind, &column.value, column.expiry)?;
        for element in collection.elements_mut() {
            element.written = column.written;
        }
        Ok(Some(collection))
    }

    /// Returns a column's elements, also of a plain value, and removes them if they are no plain value,
    /// before the column is set; `None` is null.
    ///
    /// # Errors
    ///
    /// Same as [`RowImage::elements`].
    pub(super) fn take_elements(
        &mut self,
        id: ColumnId,
        kind: CollectionKind,
    ) -> Result<Option<Collection>> {
        if self.column(id).is_some() {
            return self.elements(id, kind);
        }
        Ok(take(&mut self.collections, id))
    }

    /// Returns `true` if a column is not null.
    #[must_use]
    pub fn has(&self, id: ColumnId) -> bool {
        self.column(id).is_some() || self.collection(id).is_some()
    }

    /// Returns a plain column's serialized value; `None` is null.
    #[must_use]
    pub fn value(&self, id: ColumnId) -> Option<&Bytes> {
        self.column(id).map(|column| &column.value)
    }

    /// Sets a column to a plain value.
    pub fn set(&mut self, id: ColumnId, column: Column) {
        take(&mut self.collections, id);
        put(&mut self.columns, id, column);
    }

    /// Sets a column to the elements of a collection. Without elements it is null.
    pub fn set_collection(&mut self, id: ColumnId, collection: Collection) {
        take(&mut self.columns, id);
        match collection.is_empty() {
            true => drop(take(&mut self.collections, id)),
            false => put(&mut self.collections, id, collection),
        }
    }

    /// Sets a column to null.
    pub fn remove(&mut self, id: ColumnId) {
        take(&mut self.columns, id);
        take(&mut self.collections, id);
    }

    /// Keeps the columns for which the predicate is true.
    pub fn retain(&mut self, mut keep: impl FnMut(ColumnId) -> bool) {
        self.columns.retain(|(id, _)| keep(*id));
        self.collections.retain(|(id, _)| keep(*id));
    }

    /// Returns `true` if the marker, a column or an element expires.
    #[must_use]
    pub fn expires(&self) -> bool {
        self.first_expiry().is_some()
    }

    /// Returns the first expiry of the marker, a column or an element; `None` if nothing expires.
    #[must_use]
    pub fn first_expiry(&self) -> Option<i64> {
        let elements = self.collections.iter().flat_map(|(_, it)| it.iter());
        let marker = self.marker.and_then(|marker| marker.expiry);
        let columns = self.columns.iter().filter_map(|(_, column)| column.expiry);
        marker.into_iter().chain(columns).chain(elements.filter_map(|it| it.expiry)).min()
    }

    /// Removes the expired marker, columns and elements.
    ///
    /// `now` is in seconds since 1970-01-01 UTC. A column is gone at the second of its expiry.
    pub fn expire(&mut self, now: i64) {
        let is_gone = |expiry: Option<i64>| expiry.is_some_and(|expiry| expiry <= now);
        self.marker.take_if(|marker| is_gone(marker.expiry));
        self.columns.retain(|(_, column)| !is_gone(column.expiry));
        self.collections.retain_mut(|(_, collection)| {
            collection.expire(now);
            !collection.is_empty()
        });
    }

    /// Makes the marker, the columns and the elements expire at a moment, in seconds since 1970-01-01
    /// UTC, unless they expire before.
    pub fn limit_expiry(&mut self, limit: i64) {
        let shorten = |expiry: &mut Option<i64>| {
            *expiry = Some(expiry.map_or(limit, |expiry| expiry.min(limit)));
        };
        if let Some(marker) = &mut self.marker {
            shorten(&mut marker.expiry);
        }
        self.columns.iter_mut().for_each(|(_, column)| shorten(&mut column.expiry));
        for (_, collection) in &mut self.collections {
            collection.elements_mut().iter_mut().for_each(|it| shorten(&mut it.expiry));
        }
    }

    /// Begins the next version of the row, which is written at another time. Columns and elements
    /// keep their write times.
    pub fn begin_version(&mut self, written: Option<WallTime>) {
        if self.written == written {
            return;
        }
        let (older, newer) = (self.written.unwrap_or(UNKNOWN), written.unwrap_or(UNKNOWN));
        for (_, column) in &mut self.columns {
            move_time(&mut column.written, older, newer);
        }
        self.collections.iter_mut().for_each(|(_, it)| it.begin_version(older, newer));
        self.written = written;
    }

    /// Returns the write time of a column or element, from its own; `None` if it is not known.
    #[must_use]
    pub fn write_time(&self, own: Option<WallTime>) -> Option<WallTime> {
        own.or(self.written).filter(|written| *written != UNKNOWN)
    }

    /// Returns about the size of the encoded image in bytes, without collections whose elements were changed.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let values: usize = self.columns.iter().map(|(_, column)| column.value.len() + 24).sum();
        let elements: usize = self.collections.iter().map(|(_, it)| 24 + it.encoded_bytes()).sum();
        24 + values + elements
    }

    /// Encodes the image.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.encoded_bytes());
        out.put_u8(FORMAT);
        var_long::put(&mut out, i64::from(self.schema_version));
        Marker::put(self.marker, self.written, &mut out);
        put_len(&mut out, self.columns.len() + self.collections.len());
        let mut collections = self.collections.iter().peekable();
        for (id, column) in &self.columns {
            while let Some((id, collection)) = collections.next_if(|(other, _)| other < id) {
                put_collection(&mut out, *id, collection);
            }
            put_column(&mut out, *id, column);
        }
        collections.for_each(|(id, collection)| put_collection(&mut out, *id, collection));
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
        let mut collections = Vec::new();
        while let Some(ReadColumn { id, value, expiry, written, has_elements }) =
            reader.next_column()?
        {
            if has_elements {
                let collection = Collection::decode(value, bytes)?;
                if !collection.is_empty() {
                    collections.push((id, collection));
                }
                continue;
            }
            columns.push((id, Column { value: bytes.slice_ref(value), expiry, written }));
        }
        let (schema_version, marker) = (reader.schema_version(), reader.marker());
        Ok(Self { schema_version, marker, written: reader.written(), columns, collections })
    }
}

fn position<T>(sorted: &[(ColumnId, T)], id: ColumnId) -> std::result::Result<usize, usize> {
    sorted.binary_search_by_key(&id, |(id, _)| *id)
}

fn put<T>(sorted: &mut Vec<(ColumnId, T)>, id: ColumnId, column: T) {
    match position(sorted, id) {
        Ok(index) => sorted[index].1 = column,
        Err(index) => sorted.insert(index, (id, column)),
    }
}

fn take<T>(sorted: &mut Vec<(ColumnId, T)>, id: ColumnId) -> Option<T> {
    let index = position(sorted, id).ok()?;
    Some(sorted.remove(index).1)
}

fn put_column(out: &mut BytesMut, id: ColumnId, column: &Column) {
    var_long::put(out, i64::from(id.0));
    let expires = if column.expiry.is_some() { EXPIRES } else { 0 };
    let written = if column.written.is_some() { COLUMN_WRITTEN } else { 0 };
    out.put_u8(expires | written);
    if let Some(expiry) = column.expiry {
        out.put_i64(expiry);
    }
    if let Some(written) = column.written {
        out.put_i64(written.0);
    }
    put_bytes(out, &column.value);
}

fn put_collection(out: &mut BytesMut, id: ColumnId, collection: &Collection) {
    var_long::put(out, i64::from(id.0));
    out.put_u8(COLLECTION);
    let mut elements = BytesMut::new();
    collection.put(&mut elements);
    put_bytes(out, &elements);
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::row::Element;
    use crate::testing;
    use carnet_base::error::ErrorKind;

    fn elements(kind: CollectionKind, elements: &[(&str, &str)]) -> Collection {
        let element = |(key, value): &(&str, &str)| Element {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: Bytes::copy_from_slice(value.as_bytes()),
            ..Element::default()
        };
        Collection::new(kind, elements.iter().map(element).collect())
    }

    fn column() -> impl Strategy<Value = Column> {
        let written = option::of(any::<i64>().prop_map(WallTime));
        (vec(any::<u8>(), 0..300), option::of(any::<i64>()), written).prop_map(
            |(value, expiry, written)| Column { value: Bytes::from(value), expiry, written },
        )
    }

    fn image() -> impl Strategy<Value = RowImage> {
        let marker = option::of(
            (option::of(any::<i64>()), option::of(any::<i64>()))
                .prop_map(|(expiry, written)| Marker { expiry, written: written.map(WallTime) }),
        );
        (any::<u32>(), marker, btree_map(any::<u16>(), column(), 0..8)).prop_map(
            |(schema_version, marker, columns)| {
                let mut image = RowImage::new(schema_version);
                image.marker = marker;
                image.written = (schema_version % 2 == 0).then_some(WallTime(77));
                for (id, column) in columns.into_iter().rev() {
                    image.set(ColumnId(id), column);
                    let collection = elements(CollectionKind::Map, &[("b", "1"), ("a", "")]);
                    image.set_collection(ColumnId(id / 2), collection);
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

        image.marker = Some(Marker::expiring(Some(-2)));
        let column =
            Column { value: Bytes::from_static(b"x"), expiry: Some(5), written: Some(WallTime(3)) };
        image.set(ColumnId(200), column);
        let head = [1, 3, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 2];
        let first = [2, 0, 4, 0, 0, 0, 7];
        let second = [&[0x80, 0xc8, 9][..], &5_i64.to_be_bytes(), &3_i64.to_be_bytes(), &[1, b'x']];
        assert_eq!(image.encode(), [&head[..], &first, &second.concat()].concat());

        // A version with a write time, a map with an element that expires, and a list.
        let mut image = RowImage::new(3);
        image.written = Some(WallTime(9));
        let mut map = elements(CollectionKind::Map, &[("b", "two"), ("a", "")]);
        map.elements_mut()[1].expiry = Some(5);
        map.elements_mut()[1].written = Some(WallTime(-2));
        image.set_collection(ColumnId(1), map);
        image.set_collection(ColumnId(2), elements(CollectionKind::List, &[("", "x"), ("", "x")]));
        let head = [&[1, 3, 4][..], &9_i64.to_be_bytes(), &[2]].concat();
        let two = [&[3][..], &5_i64.to_be_bytes(), &(-2_i64).to_be_bytes(), b"\x01b\x03two"];
        let map = [&[1, 4, 29, 2, 2, 0, 1, b'a', 0][..], &two.concat()].concat();
        let list = [2, 4, 8, 0, 2, 0, 1, b'x', 0, 1, b'x'];
        assert_eq!(image.encode(), [&head[..], &map, &list].concat());
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
        assert_eq!(kind(&[1, 0, 8, 0]), ErrorKind::Corrupted, "a write time of no marker");
        assert_eq!(kind(&[1, 0, 16, 0]), ErrorKind::Corrupted, "unknown flags of the row");
        assert_eq!(kind(&[1, 0, 0, 1, 2, 16, 0]), ErrorKind::Corrupted, "unknown flags");
        assert_eq!(kind(&[1, 0, 0, 1, 2, 4, 0]), ErrorKind::Corrupted, "a collection of no kind");
        assert_eq!(kind(&[1, 0, 0, 1, 2, 5, 0]), ErrorKind::Corrupted, "it expires as a whole");
        assert_eq!(kind(&[1, 0, 0, 1, 2, 4, 2, 4, 0]), ErrorKind::Unsupported, "a later kind");
        assert_eq!(kind(&[1, 0, 0, 1, 2, 4, 3, 1, 0, 0]), ErrorKind::Corrupted, "a byte too many");
        let twice = [1, 0, 0, 1, 2, 4, 6, 1, 2, 0, 0, 0, 0];
        assert_eq!(kind(&twice), ErrorKind::Corrupted, "a key twice");
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
        image.marker = Some(Marker::expiring(Some(9)));
        image.set(ColumnId(1), Column::new(&b"abc"[..]));
        image.set(ColumnId(300), Column::new(&b"de"[..]).expiring(Some(77)));
        let mut later = image.clone();
        later.begin_version(Some(WallTime(5)));
        later.set_collection(ColumnId(7), elements(CollectionKind::Set, &[("k", ""), ("l", "")]));
        later.set_collection(ColumnId(8), elements(CollectionKind::Record, &[("\0\x01", "v")]));
        let good = [image.encode(), later.encode(), RowImage::new(0).encode()];
        testing::fuzz(&good, |bytes| {
            if let Ok(image) = RowImage::decode(&Bytes::copy_from_slice(bytes)) {
                let encoded = image.encode();
                assert_eq!(RowImage::decode(&encoded).unwrap(), image);
                // Only the ignored versions of columns, and collections without elements, are lost.
                assert!(encoded.len() < bytes.len() || encoded == bytes);
            }
        });
    }

    /// Images of older programs name the start of the version that set a column.
    #[test]
    fn versions_of_columns_are_ignored() {
        let bytes = Bytes::from_static(&[1, 3, 1, 1, 2, 2, 0x81, 0x2c, 1, b'x']);
        let image = RowImage::decode(&bytes).unwrap();
        assert_eq!(image.column(ColumnId(2)), Some(&Column::new("x")));
        assert_eq!(image.write_time(None), None);
    }

    #[test]
    fn columns_keep_their_write_times() {
        let times = |image: &RowImage| {
            let own = |id| image.write_time(image.column(ColumnId(id)).unwrap().written);
            let element = &image.collection(ColumnId(9)).unwrap().elements()[0];
            [own(1), own(2), image.write_time(element.written)]
        };
        let (t5, t6) = (Some(WallTime(5)), Some(WallTime(6)));
        let mut image = RowImage::new(0);
        image.set(ColumnId(1), Column::new("x"));
        image.begin_version(t5);
        image.set(ColumnId(2), Column::new("y"));
        image.set_collection(ColumnId(9), elements(CollectionKind::Set, &[("k", "")]));
        assert_eq!(times(&image), [None, t5, t5]);
        let before = image.clone();
        image.begin_version(t6);
        assert_eq!(times(&image), [None, t5, t5]);
        image.begin_version(None);
        assert_eq!(times(&image), [None, t5, t5]);
        image.begin_version(t5);
        assert_eq!(image, before);
    }

    #[test]
    fn elements_expire_alone() {
        let mut map = elements(CollectionKind::Map, &[("a", "1"), ("b", "2")]);
        map.elements_mut()[0].expiry = Some(10);
        let mut image = RowImage::new(0);
        image.set_collection(ColumnId(1), map);
        let live = |image: &RowImage, now| {
            RowReader::new(&image.encode()).unwrap().live(|| now).unwrap().is_some()
        };
        assert!(image.expires() && live(&image, i64::MAX));
        image.expire(9);
        assert_eq!(image.collection(ColumnId(1)).unwrap().elements().len(), 2);
        image.expire(10);
        assert_eq!(
            image.collection(ColumnId(1)),
            Some(&elements(CollectionKind::Map, &[("b", "2")]))
        );
        let mut collection = image.collection(ColumnId(1)).unwrap().clone();
        collection.elements_mut()[0].expiry = Some(20);
        image.set_collection(ColumnId(1), collection);
        assert!(live(&image, 19) && !live(&image, 20), "the row lives until its last element");
        image.expire(20);
        assert!(!image.is_live());
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
        image.marker = Some(Marker::expiring(Some(10)));
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
