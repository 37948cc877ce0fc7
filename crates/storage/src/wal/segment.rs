//! Log segment: one file of the log.
//!
//! ```text
//!  0  magic            8 bytes   "CARNTWAL"
//!  8  format version   u32
//! 12  segment number   u64
//! 20  base LSN         u64       the LSN of this header's first byte
//! 28  durable through  u64       the log was synced up to this LSN
//! 36  CRC32C           u32       of bytes 0..36
//! ```

use bytes::BufMut;
use carnet_base::{Error, Result};

use super::lsn::Lsn;

/// Length of a segment header.
pub(crate) const HEADER_BYTES: usize = 40;
const MAGIC: &[u8; 8] = b"CARNTWAL";
const VERSION: u32 = 2;

/// Returns the file name of a segment.
pub(crate) fn file_name(number: u64) -> String {
    format!("wal-{number:08}.log")
}

/// Returns the name of a segment's file while its header is not durable.
pub(crate) fn temporary_name(number: u64) -> String {
    format!("{}.tmp", file_name(number))
}

/// Returns the number in a segment's file name; `None` for other names.
pub(crate) fn number_in(name: &str) -> Option<u64> {
    let number = name.strip_prefix("wal-")?.strip_suffix(".log")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u64,
    pub(crate) base: Lsn,
    pub(crate) durable: Lsn,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.put_slice(MAGIC);
        out.put_u32_le(VERSION);
        out.put_u64_le(self.number);
        out.put_u64_le(self.base.0);
        out.put_u64_le(self.durable.0);
        let crc = crc32c::crc32c(&out);
        out.put_u32_le(crc);
        out
    }

    /// Reads the header at the beginning of the file at `path`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another version of the format.
    pub(crate) fn read(bytes: &[u8], path: &str) -> Result<Option<Self>> {
        Ok(match Self::read_any(bytes) {
            Some((VERSION, header)) => Some(header),
            Some((version, _)) => {
                return Err(Error::unsupported(format_args!(
                    "version {version} of the log's format in {path}; this program reads version \
                     {VERSION}, open the database with the one that wrote it"
                )));
            }
            None => None,
        })
    }

    fn read_any(bytes: &[u8]) -> Option<(u32, Self)> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*header.get(at..)?.first_chunk()?));
        if !header.starts_with(MAGIC) || u32_at(36)? != crc32c::crc32c(&header[..36]) {
            return None;
        }
        let header =
            Self { number: u64_at(12)?, base: Lsn(u64_at(20)?), durable: Lsn(u64_at(28)?) };
        Some((u32_at(8)?, header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_headers_of_segments_are_read() {
        let bytes = SegmentHeader { number: 1, base: Lsn(2), durable: Lsn(1) }.encode();
        assert!(SegmentHeader::read(&bytes, "f").unwrap().is_some());
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        assert!(SegmentHeader::read(&damaged, "f").unwrap().is_none(), "its checksum differs");
        let mut foreign = bytes;
        foreign[0] ^= 1;
        let crc = crc32c::crc32c(&foreign[..36]).to_le_bytes();
        foreign[36..].copy_from_slice(&crc);
        assert!(SegmentHeader::read(&foreign, "f").unwrap().is_none(), "no segment of a log");
    }
}
