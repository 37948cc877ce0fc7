//! File with the last wall time that readers have seen.
//!
//! ```text
//!  "CARNTCLK" · version u32 · microseconds since 1970-01-01 UTC i64 · CRC-32C u32
//! ```
//!
//! Numbers are little-endian. Without the file, wall time resumes at the last commit's.

use bytes::Bytes;
use carnet_base::{Error, Result, WallTime};

use crate::codec::Decoder;
use crate::disk::{Disk, During, replace};

/// Name of the file.
pub const FILE_NAME: &str = "CLOCK";

const MAGIC: &[u8; 8] = b"CARNTCLK";
const VERSION: u32 = 1;
const BYTES: usize = 8 + 4 + 8 + 4;

/// Loads the time; `None` if there is no file.
///
/// # Errors
///
/// `Corrupted` if the file is damaged, `Unsupported` if a newer program wrote it, `Unavailable` if
/// the disk fails.
pub fn load(disk: &dyn Disk) -> Result<Option<WallTime>> {
    let file = match disk.open(FILE_NAME) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.during("open", disk, FILE_NAME)?,
    };
    // One byte more, to detect a longer file.
    let mut bytes = vec![0; BYTES + 1];
    let read = file.read_at(&mut bytes, 0).during("read", disk, FILE_NAME)?;
    bytes.truncate(read);
    let named = |error: Error| {
        let path = disk.path(FILE_NAME);
        Error::new(error.kind(), format!("{path}: {error}"))
    };
    decode(&bytes).map(Some).map_err(named)
}

/// Stores a time, durably.
///
/// # Errors
///
/// `Unavailable` if the disk fails.
pub fn store(disk: &dyn Disk, seen: WallTime) -> Result<()> {
    replace(disk, FILE_NAME, &encode(seen))
}

fn encode(seen: WallTime) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.extend(seen.0.to_le_bytes());
    out.extend(crc32c::crc32c(&out).to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Result<WallTime> {
    let damaged = || Error::corrupted("the file is damaged; without it, time may go back");
    let (fields, crc) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
    if !fields.starts_with(MAGIC) || crc32c::crc32c(fields) != u32::from_le_bytes(*crc) {
        return Err(damaged());
    }
    let mut decoder = Decoder::new(Bytes::copy_from_slice(&fields[MAGIC.len()..]));
    let version = decoder.u32()?;
    if version != VERSION {
        return Err(Error::unsupported(format!("version {version} of the file")));
    }
    let seen = decoder.u64()?.cast_signed();
    match bytes.len() {
        BYTES => Ok(WallTime(seen)),
        _ => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::ErrorKind;

    use super::*;
    use crate::disk::sim::SimDisk;

    #[test]
    fn time_round_trips() {
        let disk = SimDisk::new(1);
        assert_eq!(load(&disk).unwrap(), None);
        for seen in [WallTime(i64::MIN), WallTime(-1), WallTime(1_800_000_000_000_000)] {
            store(&disk, seen).unwrap();
            assert_eq!(load(&disk).unwrap(), Some(seen));
        }
    }

    #[test]
    fn every_damaged_byte_is_detected() {
        let good = encode(WallTime(7));
        assert_eq!(good.len(), BYTES);
        for at in 0..BYTES {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::Corrupted, "byte {at}");
            assert!(decode(&good[..at]).is_err());
        }
        assert!(decode(&[&good[..], b"x"].concat()).is_err());
        let mut later = good;
        later[8] = 2;
        let crc = crc32c::crc32c(&later[..BYTES - 4]).to_le_bytes();
        later[BYTES - 4..].copy_from_slice(&crc);
        assert_eq!(decode(&later).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
