//! The footer, by which a table's sections are found.
//!
//! ```text
//!  0  file number       u64
//!  8  index             u64            where the blocks end and the index pages begin
//! 16  range tombstones  u64, u32       offset, length with its checksum
//! 28  top index         u64, u32
//! 40  statistics        u64, u32
//! 52  file length       u64
//! 60  footer length     u32            80
//! 64  format version    u32            3; 2 where all filters are of the older kinds (see bloom)
//! 68  CRC32C            u32            of bytes 0 to 67 and the footer's place
//! 72  magic             8 bytes        "CARNTSST"
//! ```
//!
//! The last twenty bytes are the same in every version from 2 on, and the checksum is checked
//! before the version is believed: so a later version is told from a damaged one.

use bytes::BufMut;
use carnet_base::{Error, Result};

use super::Wrong;
use super::section::{self, Place};

/// How long the footer is.
pub(super) const FOOTER_BYTES: u32 = 80;
pub(super) const MAGIC: &[u8; 8] = b"CARNTSST";
/// The version of the format that is written.
pub(super) const VERSION: u32 = 3;
/// The first version that is read. Its filters' probes lie all over.
const VERSION_MIN: u32 = 2;
const TAIL_BYTES: usize = 20;
const FOOTER_BYTES_V1: usize = 60;
/// No later version has a longer footer.
const FOOTER_BYTES_MAX: u32 = 4096;

/// Where a table's sections lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) version: u32,
    /// Where the blocks end and the index pages begin.
    pub(super) index: u64,
    pub(super) tombstones: Place,
    pub(super) top: Place,
    pub(super) statistics: Place,
}

impl Footer {
    /// Reads the footer from the end of the file of that number and length; `end` is its last
    /// bytes, as many as there are up to 4096.
    ///
    /// # Errors
    ///
    /// `Corrupted`, or `Unsupported` for another version of the format.
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

    /// Appends the footer, which will stand at `offset` in the file of that number.
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

/// How many bytes of a file's end [`Footer::read`] wants.
pub(super) fn end_bytes(file_len: u64) -> u32 {
    u32::try_from(file_len).map_or(FOOTER_BYTES_MAX, |len| len.min(FOOTER_BYTES_MAX))
}

/// Returns the version of the format once the checksum vouches for it.
fn version_of(end: &[u8], file: u64, file_len: u64) -> Result<u32, Wrong> {
    let tail = end.last_chunk::<TAIL_BYTES>().ok_or("the file is too short for a table")?;
    let short = |at: usize| tail[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    let (len, version) = (short(0) as usize, short(4));
    if tail[12..] != *MAGIC {
        return Err("the file does not end as a table does");
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
