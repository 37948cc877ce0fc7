//! Section: a part of a file with a checksum that also covers the file's number and the offset.
//!
//! So a section that was written to, or read from, another offset or file is detected even if its
//! bytes are intact.

use bytes::BufMut;

use super::damage::Wrong;

/// Length of a checksum.
pub(super) const CRC_BYTES: usize = 4;

/// Position of a section in its file, including the checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Offset of the section.
    pub offset: u64,
    /// Length of the section, including the checksum.
    pub len: u32,
}

impl Place {
    /// Returns the offset of the first byte after the section.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }
}

/// Appends the checksum to the section that begins at `from` in `out` and at `offset` in the file
/// with this number.
pub(super) fn seal(out: &mut Vec<u8>, from: usize, file: u64, offset: u64) {
    let crc = crc_at(file, offset, &out[from..]);
    out.put_u32_le(crc);
}

/// Verifies a section that was read from `offset` and returns it without its checksum.
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
