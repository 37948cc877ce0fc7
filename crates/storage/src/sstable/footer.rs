//! Footer of a table: the positions of its sections.
//!
//! ```text
//!  0  file number       u64
//!  8  index             u64            end of the blocks and begin of the index pages
//! 16  range tombstones  u64, u32       offset, length including the checksum
//! 28  top index         u64, u32
//! 40  statistics        u64, u32
//! 52  file length       u64
//! 60  footer length     u32            80
//! 64  format version    u32            3; 2 if all filters are of the older kinds (see bloom)
//! 68  CRC32C            u32            of bytes 0 to 67 and the footer's offset
//! 72  magic             8 bytes        "CARNTSST"
//! ```
//!
//! The last twenty bytes have the same layout in every version from 2 on, and the checksum is
//! verified before the version is used, so a newer version is distinguished from damage.

use bytes::BufMut;
use carnet_base::{Error, Result};

use super::damage::Wrong;
use super::section::{self, Place};

/// Length of the footer.
pub(super) const FOOTER_BYTES: u32 = 80;
pub(super) const MAGIC: &[u8; 8] = b"CARNTSST";
/// Format version that is written.
pub(super) const VERSION: u32 = 3;
/// Oldest format version that is read. Its filters' probes are not in lines.
const VERSION_MIN: u32 = 2;
const TAIL_BYTES: usize = 20;
const FOOTER_BYTES_V1: usize = 60;
/// Maximum length of a footer in any later version.
const FOOTER_BYTES_MAX: u32 = 4096;

/// Positions of a table's sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) version: u32,
    /// End of the blocks and begin of the index pages.
    pub(super) index: u64,
    pub(super) tombstones: Place,
    pub(super) top: Place,
    pub(super) statistics: Place,
}

impl Footer {
    /// Reads the footer at the end of a file with this number and length; `end` is the file's end,
    /// at most 4096 bytes.
    ///
    /// # Errors
    ///
    /// `Corrupted`, or `Unsupported` for another format version.
    pub(super) fn read(end: &[u8], file: u64, file_len: u64) -> Result<Self> {
        let version = version_of(end, file, file_len).map_err(Error::corrupted)?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            let advice = if version > VERSION {
                "open it with a newer one"
            } else {
                "no release of this program wrote it"
            };
            return Err(Error::unsupported(format_args!(
                "version {version} of the table format; this program reads versions {VERSION_MIN} \
                 to {VERSION}: {advice}"
            )));
        }
        Self::decode(end, file, file_len).map_err(Error::corrupted)
    }

    fn decode(end: &[u8], file: u64, file_len: u64) -> Result<Self, Wrong> {
        let footer = end.last_chunk::<{ FOOTER_BYTES as usize }>().ok_or("the file is short")?;
        let long = |at: usize| footer[at..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        let short = |at: usize| footer[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let place = |at: usize| Place { offset: long(at), len: short(at + 8) };
        let read = Self {
            version: short(64),
            index: long(8),
            tombstones: place(16),
            top: place(28),
            statistics: place(40),
        };
        let begins = file_len - u64::from(FOOTER_BYTES);
        let adjoin = read.index <= read.tombstones.offset
            && read.tombstones.end() == read.top.offset
            && read.top.end() == read.statistics.offset
            && read.statistics.end() == begins;
        if long(0) != file || long(52) != file_len || short(60) != FOOTER_BYTES || !adjoin {
            return Err("the footer does not fit the file");
        }
        Ok(read)
    }

    /// Appends the footer, which will be at `offset` in the file with this number.
    pub(super) fn put(&self, out: &mut Vec<u8>, file: u64, offset: u64) {
        let from = out.len();
        out.put_u64_le(file);
        out.put_u64_le(self.index);
        for Place { offset, len } in [self.tombstones, self.top, self.statistics] {
            out.put_u64_le(offset);
            out.put_u32_le(len);
        }
        out.put_u64_le(offset + u64::from(FOOTER_BYTES));
        out.put_u32_le(FOOTER_BYTES);
        out.put_u32_le(self.version);
        section::seal(out, from, file, offset);
        out.put_slice(MAGIC);
    }
}

/// Returns the number of bytes at a file's end that [`Footer::read`] needs.
pub(super) fn end_bytes(file_len: u64) -> u32 {
    u32::try_from(file_len).map_or(FOOTER_BYTES_MAX, |len| len.min(FOOTER_BYTES_MAX))
}

/// Returns the format version after checking the checksum.
fn version_of(end: &[u8], file: u64, file_len: u64) -> Result<u32, Wrong> {
    let tail = end.last_chunk::<TAIL_BYTES>().ok_or("the file is too short for a table")?;
    let short = |at: usize| tail[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    let (len, version) = (short(0) as usize, short(4));
    if tail[12..] != *MAGIC {
        return Err("the file does not end with a table's magic number");
    }
    let sealed = |len: usize| {
        let begins = end.len().checked_sub(len).ok_or("the file is too short for its footer")?;
        Ok::<_, Wrong>((&end[begins..end.len() - MAGIC.len()], file_len - len as u64))
    };
    if version == 1 {
        let (footer, offset) = sealed(FOOTER_BYTES_V1)?;
        let (footer, crc) = footer.split_last_chunk::<4>().ok_or("the footer is too short")?;
        let expected = crc32c::crc32c_append(crc32c::crc32c(&offset.to_le_bytes()), footer);
        return if u32::from_le_bytes(*crc) == expected {
            Ok(1)
        } else {
            Err("the footer's checksum does not match")
        };
    }
    if len < TAIL_BYTES {
        return Err("the footer is too short");
    }
    let (footer, offset) = sealed(len)?;
    section::open(footer, file, offset).map(|_| version)
}
