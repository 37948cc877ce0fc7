//! Which files are the database.
//!
//! ```text
//!  0  magic            8 bytes  "CARNTMAN"
//!  8  format version   u32
//! 12  timestamp bound  u64
//! 20  next file number u64
//! 28  first segment    u64      the oldest segment of the log that is still needed
//! 36  its base LSN     u64
//! 44  tables           u32      then for each, oldest first: number u64, length in bytes u64
//!     CRC32C           u32      of everything before it
//! ```
//!
//! The file is small and is replaced as a whole: written under another name, synced, renamed,
//! and the directory synced. So an edit happens at once or not at all, and files that it names
//! are durable before it.

use bytes::{BufMut, Bytes};
use carnet_base::{Error, Result, Timestamp};

use crate::codec::Decoder;
use crate::disk::{self, Disk, During};
use crate::sstable::Built;

pub(crate) const FILE_NAME: &str = "MANIFEST";
const MAGIC: &[u8; 8] = b"CARNTMAN";
const VERSION: u32 = 1;

/// The state of a database's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Timestamps below it may have been handed out.
    pub(crate) bound: Timestamp,
    pub(crate) next_file: u64,
    pub(crate) first_segment: u64,
    pub(crate) first_lsn: u64,
    /// Oldest first.
    pub(crate) tables: Vec<Built>,
}

impl Manifest {
    /// The manifest of an empty database.
    pub(crate) const fn empty() -> Self {
        Self {
            bound: Timestamp::ZERO,
            next_file: 1,
            first_segment: 1,
            first_lsn: 0,
            tables: Vec::new(),
        }
    }

    /// Reads a directory's manifest; `None` where there is none.
    ///
    /// # Errors
    ///
    /// `Corrupted`, `Unavailable`, or `Unsupported` for a later version of the format.
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        let file = match disk.open(FILE_NAME) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.during("open", disk, FILE_NAME)?,
        };
        let bytes = disk::read_all(disk, &*file, FILE_NAME)?;
        Self::decode(&bytes.into(), &disk.path(FILE_NAME)).map(Some)
    }

    /// Replaces a directory's manifest; durable before it returns.
    ///
    /// # Errors
    ///
    /// `Unavailable`; then the old one or the new one is in force.
    pub(crate) fn store(&self, disk: &dyn Disk) -> Result<()> {
        disk::replace(disk, FILE_NAME, &self.encode())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_slice(MAGIC);
        out.put_u32_le(VERSION);
        out.put_u64_le(self.bound.get());
        out.put_u64_le(self.next_file);
        out.put_u64_le(self.first_segment);
        out.put_u64_le(self.first_lsn);
        out.put_u32_le(u32::try_from(self.tables.len()).expect("there are few tables"));
        for table in &self.tables {
            out.put_u64_le(table.number);
            out.put_u64_le(table.bytes);
        }
        let crc = crc32c::crc32c(&out);
        out.put_u32_le(crc);
        out
    }

    /// Decodes a manifest; `path` is named in errors.
    pub(crate) fn decode(bytes: &Bytes, path: &str) -> Result<Self> {
        let damaged = || {
            Error::corrupted(format!(
                "{path} is damaged; keep a copy of the directory and restore a backup"
            ))
        };
        let Some((sealed, crc)) = bytes.split_last_chunk::<4>() else { return Err(damaged()) };
        if !sealed.starts_with(MAGIC) || crc32c::crc32c(sealed) != u32::from_le_bytes(*crc) {
            return Err(damaged());
        }
        let mut decoder = Decoder::new(bytes.slice(MAGIC.len()..sealed.len()));
        let version = decoder.u32().map_err(|_| damaged())?;
        if version != VERSION {
            return Err(Error::unsupported(format_args!(
                "version {version} of the manifest's format in {path}; this program reads version \
                 {VERSION}, open the database with a newer one"
            )));
        }
        Self::fields(decoder).map_err(|error| damaged().with_source(error))
    }

    fn fields(mut decoder: Decoder) -> Result<Self> {
        let bound = Timestamp::new(decoder.u64()?)
            .ok_or_else(|| Error::corrupted("the bound is not a timestamp"))?;
        let next_file = decoder.u64()?;
        let first_segment = decoder.u64()?;
        let first_lsn = decoder.u64()?;
        let count = decoder.u32()?;
        let mut tables = Vec::new();
        for _ in 0..count {
            tables.push(Built { number: decoder.u64()?, bytes: decoder.u64()? });
        }
        if !decoder.is_empty() {
            return Err(Error::corrupted("there are bytes too many"));
        }
        Ok(Self { bound, next_file, first_segment, first_lsn, tables })
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{ErrorKind, Rng, SeededRng};

    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            bound: Timestamp::new(77).unwrap(),
            next_file: 9,
            first_segment: 4,
            first_lsn: 12_345,
            tables: vec![Built { number: 3, bytes: 100 }, Built { number: 7, bytes: 200 }],
        }
    }

    #[test]
    fn a_manifest_comes_back() {
        let bytes = Bytes::from(manifest().encode());
        assert_eq!(Manifest::decode(&bytes, "M").unwrap(), manifest());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let bytes = manifest().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode(&bytes.into(), "M").is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            let error = Manifest::decode(&bytes[..len].to_vec().into(), "M").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupted, "cut at {len}");
        }
    }

    #[test]
    fn mutated_manifests_with_right_checksums_never_panic() {
        let mut rng = SeededRng::new(1);
        for _ in 0..10_000 {
            let mut bytes = manifest().encode();
            bytes.truncate(bytes.len() - 4);
            for _ in 0..=rng.below(3) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = rng.next_u64().to_le_bytes()[0];
            }
            bytes.truncate(usize::try_from(rng.below(2 * bytes.len() as u64)).unwrap());
            let crc = crc32c::crc32c(&bytes);
            bytes.put_u32_le(crc);
            let _ = Manifest::decode(&bytes.into(), "M");
        }
    }

    #[test]
    fn a_later_format_is_refused_by_name() {
        let mut bytes = manifest().encode();
        bytes[8] = 2;
        let sealed = bytes.len() - 4;
        let crc = crc32c::crc32c(&bytes[..sealed]).to_le_bytes();
        bytes[sealed..].copy_from_slice(&crc);
        let error = Manifest::decode(&bytes.into(), "db/MANIFEST").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("version 2"), "{error}");
    }
}
