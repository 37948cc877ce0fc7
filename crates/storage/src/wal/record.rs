//! Log record: a fixed header and a body of cells.
//!
//! ```text
//!  0  magic            u32   "CREC"
//!  4  body length      u32
//!  8  LSN              u64
//! 16  start            u64
//! 24  commit           u64
//! 32  durable through  u64   the log was synced up to this LSN
//! 40  body CRC32C      u32
//! 44  header CRC32C    u32   of bytes 0..44
//! ```
//!
//! Integers are little-endian.

use bytes::{BufMut, Bytes};
use carnet_base::Timestamp;

use super::lsn::Lsn;

/// Length of a header.
pub(crate) const HEADER_BYTES: usize = 48;
/// Maximum length of a body.
pub(crate) const BODY_BYTES_MAX: usize = 256 << 20;
const MAGIC: u32 = u32::from_le_bytes(*b"CREC");

/// A record that was read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Number of the record's segment.
    pub(crate) segment: u64,
    pub(crate) lsn: Lsn,
    pub(crate) start: Timestamp,
    pub(crate) commit: Timestamp,
    pub(crate) body: Bytes,
}

impl Record {
    /// Returns the bytes of log that a record with a body of this length takes.
    pub(crate) const fn len_with(body_len: usize) -> u64 {
        (HEADER_BYTES + body_len) as u64
    }
}

/// A record header with a valid checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) lsn: Lsn,
    pub(crate) start: Timestamp,
    pub(crate) commit: Timestamp,
    pub(crate) durable: Lsn,
    pub(crate) body_len: usize,
    pub(crate) body_crc: u32,
}

impl Header {
    /// Writes the header into the bytes reserved in front of its body.
    pub(crate) fn fill(&self, mut room: &mut [u8]) {
        let len = u32::try_from(self.body_len).expect("prepare() bounds a body far below 4 GiB");
        let mut header = [0; HEADER_BYTES];
        let mut out = &mut header[..];
        out.put_u32_le(MAGIC);
        out.put_u32_le(len);
        out.put_u64_le(self.lsn.0);
        out.put_u64_le(self.start.get());
        out.put_u64_le(self.commit.get());
        out.put_u64_le(self.durable.0);
        out.put_u32_le(self.body_crc);
        let crc = crc32c::crc32c(&header[..44]);
        header[44..].copy_from_slice(&crc.to_le_bytes());
        room.put_slice(&header);
    }

    /// Reads a header at the beginning of `bytes`; `None` if there is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let u32_at = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(*header.get(at..)?.first_chunk()?));
        if u32_at(0)? != MAGIC || u32_at(44)? != crc32c::crc32c(&header[..44]) {
            return None;
        }
        let body_len = usize::try_from(u32_at(4)?).ok()?;
        (body_len <= BODY_BYTES_MAX).then_some(Self {
            lsn: Lsn(u64_at(8)?),
            start: Timestamp::new(u64_at(16)?)?,
            commit: Timestamp::new(u64_at(24)?)?,
            durable: Lsn(u64_at(32)?),
            body_len,
            body_crc: u32_at(40)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(body_len: usize) -> Header {
        let at = |number| Timestamp::new(number).unwrap();
        let (lsn, durable) = (Lsn(100), Lsn(90));
        Header { lsn, start: at(3), commit: at(4), durable, body_len, body_crc: 5 }
    }

    /// Returns the header's bytes after a change, with a checksum that fits them.
    fn bytes(header: &Header, change: impl FnOnce(&mut [u8])) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        header.fill(&mut bytes);
        change(&mut bytes);
        let crc = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn only_whole_headers_of_records_are_read() {
        let whole = header(BODY_BYTES_MAX);
        assert_eq!(Header::read(&bytes(&whole, |_| {})), Some(whole));
        assert_eq!(Header::read(&bytes(&header(BODY_BYTES_MAX + 1), |_| {})), None, "too long");
        assert_eq!(Header::read(&bytes(&whole, |bytes| bytes[0] ^= 1)), None, "no record");
        let mut damaged = bytes(&whole, |_| {});
        damaged[40] ^= 1;
        assert_eq!(Header::read(&damaged), None, "its checksum differs");
        assert_eq!(Header::read(&bytes(&whole, |_| {})[..HEADER_BYTES - 1]), None, "cut off");
    }
}
