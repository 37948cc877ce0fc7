//! A stretch of a file with a checksum that also covers where it stands: in which file, and where.
//!
//! A section that was written to, or read from, another place or another table's file does not
//! match, even where the bytes themselves are whole.

use bytes::BufMut;

use super::Wrong;

/// What a checksum adds to a section.
pub(super) const CRC_BYTES: usize = 4;

/// Where a section lies in its file, checksum included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has, its checksum included.
    pub len: u32,
}

impl Place {
    /// Returns the offset of the first byte behind the section.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }
}

/// Appends the checksum to the section that begins at `from` in `out` and at `offset` in the file
/// of that number.
pub(super) fn seal(out: &mut Vec<u8>, from: usize, file: u64, offset: u64) {
    let crc = crc_at(file, offset, &out[from..]);
    out.put_u32_le(crc);
}

/// Checks a section that was read from `offset` and returns it without its checksum.
pub(super) fn open(bytes: &[u8], file: u64, offset: u64) -> Result<&[u8], Wrong> {
    let Some((section, crc)) = bytes.split_last_chunk::<CRC_BYTES>() else {
        return Err("the bytes end too early");
    };
    if u32::from_le_bytes(*crc) != crc_at(file, offset, section) {
        return Err("the checksum does not match");
    }
    Ok(section)
}

fn crc_at(file: u64, offset: u64, section: &[u8]) -> u32 {
    let mut site = [0; 16];
    site[..8].copy_from_slice(&file.to_le_bytes());
    site[8..].copy_from_slice(&offset.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&site), section)
}
