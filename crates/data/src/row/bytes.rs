//! Numbers and byte strings within the encoding of rows.

use bytes::{Buf, BufMut, BytesMut};

use carnet_base::error::{Error, Result};
use carnet_base::var_long;

pub(super) fn put_len(out: &mut BytesMut, len: usize) {
    var_long::put(out, i64::try_from(len).expect("no allocation is longer than i64::MAX"));
}

/// Writes the length of a byte string and the byte string.
pub(super) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.put_slice(bytes);
}

pub(super) fn take_u8(rest: &mut &[u8]) -> Result<u8> {
    rest.split_off_first().copied().ok_or_else(ends_early)
}

pub(super) fn take_i64(rest: &mut &[u8]) -> Result<i64> {
    rest.try_get_i64().map_err(|_| ends_early())
}

pub(super) fn take_len(rest: &mut &[u8]) -> Result<usize> {
    usize::try_from(var_long::take_unsigned(rest)?).map_err(|_| ends_early())
}

pub(super) fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = take_len(rest)?;
    rest.split_off(..len).ok_or_else(ends_early)
}

pub(super) fn ends_early() -> Error {
    Error::corrupted("row: the bytes end too early")
}
