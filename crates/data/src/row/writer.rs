//! Writes a row image in place.

use bytes::{BufMut, BytesMut};
use carnet_base::ids::ColumnId;
use carnet_base::var_long;

use super::flags::{FORMAT, MARKED};

/// Writer of the image of a row with a marker, whose columns are all set by this version without an
/// expiry. Columns are written in place, one after the other.
#[derive(Debug)]
pub struct RowWriter<'a> {
    out: &'a mut BytesMut,
    ids: std::slice::Iter<'a, ColumnId>,
    count: u8,
    count_at: usize,
}

impl<'a> RowWriter<'a> {
    /// Maximum number of columns: the count is encoded in one byte.
    pub const COLUMNS_MAX: usize = 0x7f;

    /// Begins an image at the end of a buffer, for columns with rising ids.
    ///
    /// # Panics
    ///
    /// If there are more than [`RowWriter::COLUMNS_MAX`].
    #[must_use]
    pub fn new(out: &'a mut BytesMut, schema_version: u32, ids: &'a [ColumnId]) -> Self {
        assert!(ids.len() <= Self::COLUMNS_MAX, "{} columns are too many", ids.len());
        debug_assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
        out.put_u8(FORMAT);
        var_long::put(out, i64::from(schema_version));
        out.put_u8(MARKED);
        let count_at = out.len();
        out.put_u8(0);
        Self { out, ids: ids.iter(), count: 0, count_at }
    }

    /// Writes the next column; `put` appends its value to the buffer.
    ///
    /// # Panics
    ///
    /// If there are fewer ids than columns.
    pub fn value(&mut self, put: impl FnOnce(&mut BytesMut)) {
        let id = self.ids.next().expect("each column has an id");
        var_long::put(self.out, i64::from(id.0));
        self.out.put_u8(0);
        let at = self.out.len();
        self.out.put_u8(0);
        put(self.out);
        let len = self.out.len() - at - 1;
        match u8::try_from(len) {
            Ok(byte @ 0..0x80) => self.out[at] = byte,
            _ => self.put_long_len(at, len),
        }
        self.count += 1;
        self.out[self.count_at] = self.count;
    }

    /// Skips the next column: it is null.
    pub fn null(&mut self) {
        self.ids.next();
    }

    /// Replaces the one-byte length in front of a written value by a longer one.
    fn put_long_len(&mut self, at: usize, len: usize) {
        let encoded =
            var_long::encode(i64::try_from(len).expect("no buffer is longer than i64::MAX"));
        let (end, more) = (self.out.len(), encoded.len() - 1);
        self.out.put_bytes(0, more);
        self.out.copy_within(at + 1..end, at + 1 + more);
        self.out[at..=at + more].copy_from_slice(&encoded);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::row::{Column, Marker, RowImage};

    #[test]
    fn written_row_matches_its_image() {
        let long = [7; 20_000];
        let values = [Some(&b"two"[..]), None, Some(b""), Some(&long), Some(&long[..128])];
        let ids = [2, 5, 300, 301, 65_535].map(ColumnId);
        let mut image = RowImage::new(9);
        image.marker = Some(Marker::default());
        let mut out = BytesMut::from("before");
        let mut row = RowWriter::new(&mut out, 9, &ids);
        for (id, value) in ids.iter().zip(values) {
            match value {
                Some(value) => {
                    image.set(*id, Column::new(Bytes::copy_from_slice(value)));
                    row.value(|out| out.put_slice(value));
                }
                None => row.null(),
            }
        }
        assert_eq!(out.split_to(6), "before");
        assert_eq!(out.freeze(), image.encode());
    }
}
