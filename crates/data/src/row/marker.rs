//! Row markers.

use bytes::{BufMut, BytesMut};
use carnet_base::clock::WallTime;

use super::flags::{MARKED, MARKER_EXPIRES, MARKER_WRITTEN, WRITTEN};

/// Row marker: the row exists even without columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marker {
    /// Expiry in seconds since 1970-01-01 UTC; `None` is never.
    pub expiry: Option<i64>,
    /// Write time, where timestamps decide between writes; `None` is that of the version.
    pub written: Option<WallTime>,
}

impl Marker {
    /// Creates a marker with an expiry, in seconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn expiring(expiry: Option<i64>) -> Self {
        Self { expiry, written: None }
    }

    /// Writes the flags of a row, the marker's expiry, and the version's write time.
    pub(super) fn put(marker: Option<Self>, written: Option<WallTime>, out: &mut BytesMut) {
        let expiry = marker.and_then(|marker| marker.expiry);
        let own = marker.and_then(|marker| marker.written);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        out.put_u8(
            flag(marker.is_some(), MARKED)
                | flag(expiry.is_some(), MARKER_EXPIRES)
                | flag(written.is_some(), WRITTEN)
                | flag(own.is_some(), MARKER_WRITTEN),
        );
        if let Some(expiry) = expiry {
            out.put_i64(expiry);
        }
        for written in [written, own].into_iter().flatten() {
            out.put_i64(written.0);
        }
    }
}
