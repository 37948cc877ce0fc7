//! A stretch of a file with a checksum that also covers where it stands.

use bytes::{BufMut, Bytes};
use carnet_base::{Error, Result};

/// What a checksum adds to a section.
pub(super) const CRC_BYTES: usize = 4;

/// Where a section lies in its file, checksum included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// Appends the checksum to the section that begins at `from` in `out` and at `offset` in its file.
pub(super) fn seal(out: &mut Vec<u8>, from: usize, offset: u64) {
    let crc = crc_at(offset, &out[from..]);
    out.put_u32_le(crc);
}

/// Checks a section that was read from `offset` and returns it without its checksum.
pub(super) fn open(bytes: &Bytes, offset: u64) -> Result<Bytes> {
    let Some((section, crc)) = bytes.split_last_chunk::<CRC_BYTES>() else {
        return Err(Error::corrupted("the bytes end too early"));
    };
    if u32::from_le_bytes(*crc) != crc_at(offset, section) {
        return Err(Error::corrupted("the checksum does not match"));
    }
    Ok(bytes.slice(..section.len()))
}

fn crc_at(offset: u64, section: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&offset.to_le_bytes()), section)
}
