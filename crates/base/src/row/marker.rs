//! Row markers.

use bytes::{BufMut, BytesMut};

use super::flags::{MARKED, MARKER_EXPIRES};

/// Row marker: the row exists even without columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    /// Expiry in seconds since 1970-01-01 UTC; `None` is never.
    pub expiry: Option<i64>,
}

impl Marker {
    /// Writes the flags of a row, and the marker's expiry.
    pub(super) fn put(marker: Option<Self>, out: &mut BytesMut) {
        match marker {
            None => out.put_u8(0),
            Some(Self { expiry: None }) => out.put_u8(MARKED),
            Some(Self { expiry: Some(expiry) }) => {
                out.put_u8(MARKED | MARKER_EXPIRES);
                out.put_i64(expiry);
            }
        }
    }
}
