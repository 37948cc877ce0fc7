//! Statistics, and the footer by which a table's sections are found.
//!
//! ```text
//! statistics   cells, tombstones, least commit, greatest commit: u64 each; then the first and
//!              the last version as cells of a run (see `codec`) without a payload; CRC32C
//!
//! footer  0  index       offset u64, length u32
//!        12  filter      offset u64, length u32
//!        24  statistics  offset u64, length u32
//!        36  file length u64
//!        44  format version u32
//!        48  CRC32C      u32   of bytes 0..48 and the footer's place
//!        52  magic       8 bytes "CARNTSST"
//! ```
//!
//! The magic number comes last: it is the first thing looked at, and its place depends on
//! nothing but the end of the file.

use bytes::{BufMut, Bytes};
use carnet_base::{CellKey, Error, Result, Timestamp};

use super::section::{self, Place};
use crate::codec::{Decoder, put_cell};

/// How long the footer is.
pub(crate) const FOOTER_BYTES: u32 = 60;
const MAGIC: &[u8; 8] = b"CARNTSST";
const VERSION: u32 = 1;

/// What a table holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Versions, tombstones included.
    pub(crate) cells: u64,
    pub(crate) tombstones: u64,
    pub(crate) commit_min: Timestamp,
    pub(crate) commit_max: Timestamp,
    pub(crate) first: CellKey,
    pub(crate) last: CellKey,
}

impl Statistics {
    /// Reads statistics that stand at `offset`.
    ///
    /// # Errors
    ///
    /// `Corrupted`.
    pub(crate) fn read(bytes: &Bytes, offset: u64) -> Result<Self> {
        let mut decoder = Decoder::new(section::open(bytes, offset)?);
        let mut time = || {
            Timestamp::new(decoder.u64()?)
                .ok_or_else(|| Error::corrupted("a count is no 63-bit number"))
        };
        let (cells, tombstones) = (time()?.get(), time()?.get());
        let (commit_min, commit_max) = (time()?, time()?);
        let first = decoder.cell()?.key;
        let last = decoder.cell()?.key;
        if !decoder.is_empty() {
            return Err(Error::corrupted("the statistics are too long"));
        }
        Ok(Self { cells, tombstones, commit_min, commit_max, first, last })
    }

    /// Appends statistics, which will stand at `offset`.
    pub(crate) fn put(&self, out: &mut Vec<u8>, offset: u64) {
        let from = out.len();
        out.put_u64_le(self.cells);
        out.put_u64_le(self.tombstones);
        out.put_u64_le(self.commit_min.get());
        out.put_u64_le(self.commit_max.get());
        put_cell(out, &self.first, None, None);
        put_cell(out, &self.last, None, None);
        section::seal(out, from, offset);
    }
}

/// Where a table's sections lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) index: Place,
    pub(crate) filter: Place,
    pub(crate) statistics: Place,
}

impl Footer {
    /// Reads the footer of a file of that length from its last bytes.
    ///
    /// # Errors
    ///
    /// `Corrupted`, or `Unsupported` for a later version of the format.
    pub(crate) fn read(bytes: &Bytes, file_len: u64) -> Result<Self> {
        let Some((sealed, magic)) = bytes.split_last_chunk::<8>() else {
            return Err(Error::corrupted("the file is too short for a table"));
        };
        if magic != MAGIC || bytes.len() as u64 != u64::from(FOOTER_BYTES) {
            return Err(Error::corrupted("the file does not end as a table does"));
        }
        let offset = file_len - u64::from(FOOTER_BYTES);
        let mut decoder = Decoder::new(section::open(&bytes.slice(..sealed.len()), offset)?);
        let mut place = || Ok::<_, Error>(Place { offset: decoder.u64()?, len: decoder.u32()? });
        let (index, filter, statistics) = (place()?, place()?, place()?);
        let said_len = decoder.u64()?;
        let version = decoder.u32()?;
        if version != VERSION {
            return Err(Error::unsupported(format_args!(
                "version {version} of the table format; this program reads version {VERSION}, \
                 open the database with a newer one"
            )));
        }
        let places = [index, filter, statistics];
        let mut end = index.offset;
        let adjoin = places.iter().all(|place| {
            let fits = place.offset == end;
            end = place.offset.saturating_add(u64::from(place.len));
            fits
        });
        if !adjoin || end != offset || said_len != file_len {
            return Err(Error::corrupted("the footer does not fit the file"));
        }
        Ok(Self { index, filter, statistics })
    }

    /// Appends the footer, which will stand at `offset`.
    pub(crate) fn put(&self, out: &mut Vec<u8>, offset: u64) {
        let from = out.len();
        for Place { offset, len } in [self.index, self.filter, self.statistics] {
            out.put_u64_le(offset);
            out.put_u32_le(len);
        }
        out.put_u64_le(offset + u64::from(FOOTER_BYTES));
        out.put_u32_le(VERSION);
        section::seal(out, from, offset);
        out.put_slice(MAGIC);
    }
}
