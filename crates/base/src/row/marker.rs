//! Row markers.

use bytes::{BufMut, BytesMut};

use super::flags::{MARKED, MARKER_EXPIRES, WRITTEN};
use crate::clock::WallTime;

/// Row marker: the row exists even without columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    /// Expiry in seconds since 1970-01-01 UTC; `None` is never.
    pub expiry: Option<i64>,
}

impl Marker {
    /// Writes the flags of a row, the marker's expiry, and the version's write time.
    pub(super) fn put(marker: Option<Self>, written: Option<WallTime>, out: &mut BytesMut) {
        let expiry = marker.and_then(|marker| marker.expiry);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.put_u8(
            flag(marker.is_some(), MARKED)
                | flag(expiry.is_some(), MARKER_EXPIRES)
                | flag(written.is_some(), WRITTEN),
        );
        if let Some(expiry) = expiry {
            out.put_i64(expiry);
        }
        if let Some(written) = written {
            out.put_i64(written.0);
        }
    }
}
