//! File with the model of a directory's disk.
//!
//! ```text
//!  "CARNTIOM" · version u32 · combine u8 · read operations, read bytes, write operations, write bytes a second, u64
//!  each · residual u32 · median and 99th percentile of reads, u64 each, in nanoseconds · CRC-32C u32
//! ```
//!
//! Numbers are little-endian. The file belongs to the machine, not to the database, so backups do
//! not contain it.

use bytes::Bytes;
use carnet_base::{Error, Result};

use super::{Disk, During, replace};
use crate::codec::Decoder;
use crate::io::{Combine, Model};

/// Name of the file.
pub const FILE_NAME: &str = "IO_MODEL";

const MAGIC: &[u8; 8] = b"CARNTIOM";
const VERSION: u32 = 1;
const BYTES: usize = 8 + 4 + 1 + 4 * 8 + 4 + 2 * 8 + 4;

/// Maximum plausible rate.
const RATE_MAX: u64 = 1_000_000_000_000_000;

/// Loads the model of a directory's disk; `None` if there is none.
///
/// # Errors
///
/// `Corrupted` if the file is damaged, `Unsupported` if a newer program wrote it, `Unavailable` if
/// the disk fails.
pub fn load(disk: &dyn Disk) -> Result<Option<Model>> {
    let file = match disk.open(FILE_NAME) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.during("open", disk, FILE_NAME)?,
    };
    // One byte more, to detect a longer file.
    let mut bytes = vec![0; BYTES + 1];
    let read = file.read_at(&mut bytes, 0).during("read", disk, FILE_NAME)?;
    bytes.truncate(read);
    let damaged = |error: Error| {
        let path = disk.path(FILE_NAME);
        Error::new(
            error.kind(),
            format!("{path}: {error}; measure the disk again, or remove the file"),
        )
    };
    decode(&bytes).map(Some).map_err(damaged)
}

/// Stores the model of a directory's disk, durably.
///
/// # Errors
///
/// `Unavailable` if the disk fails.
pub fn store(disk: &dyn Disk, model: &Model) -> Result<()> {
    replace(disk, FILE_NAME, &encode(model))
}

/// Encodes a model.
#[must_use]
pub fn encode(model: &Model) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out.push(match model.combine {
        Combine::Max => 0,
        Combine::Sum => 1,
    });
    let rates = [model.read_iops, model.read_bytes_per_second, model.write_iops];
    rates.iter().for_each(|rate| out.extend(rate.to_le_bytes()));
    out.extend(model.write_bytes_per_second.to_le_bytes());
    out.extend(model.residual_permille.to_le_bytes());
    out.extend(model.read_median_nanos.to_le_bytes());
    out.extend(model.read_p99_nanos.to_le_bytes());
    out.extend(crc32c::crc32c(&out).to_le_bytes());
    out
}

/// Decodes a model.
///
/// # Errors
///
/// `Corrupted` if it is damaged; `Unsupported` if a newer program wrote it.
pub fn decode(bytes: &[u8]) -> Result<Model> {
    let Some((fields, crc)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::corrupted("the model of the disk ends too early"));
    };
    if !fields.starts_with(MAGIC) || crc32c::crc32c(fields) != u32::from_le_bytes(*crc) {
        return Err(Error::corrupted("the model of the disk is damaged"));
    }
    let mut decoder = Decoder::new(Bytes::copy_from_slice(&fields[MAGIC.len()..]));
    let version = decoder.u32()?;
    if version != VERSION {
        return Err(Error::unsupported(format!("version {version} of the model of a disk")));
    }
    let combine = match decoder.u8()? {
        0 => Combine::Max,
        1 => Combine::Sum,
        other => return Err(Error::corrupted(format!("{other} is no way to combine costs"))),
    };
    let model = Model {
        combine,
        read_iops: rate(&mut decoder)?,
        read_bytes_per_second: rate(&mut decoder)?,
        write_iops: rate(&mut decoder)?,
        write_bytes_per_second: rate(&mut decoder)?,
        residual_permille: decoder.u32()?,
        read_median_nanos: decoder.u64()?,
        read_p99_nanos: decoder.u64()?,
    };
    if !decoder.is_empty() {
        return Err(Error::corrupted("the model of the disk has trailing bytes"));
    }
    Ok(model)
}

fn rate(decoder: &mut Decoder) -> Result<u64> {
    match decoder.u64()? {
        rate @ 1..=RATE_MAX => Ok(rate),
        other => {
            Err(Error::corrupted(format!("{other} per second is not a plausible rate of a disk")))
        }
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{ErrorKind, Rng, SeededRng};

    use super::*;
    use crate::disk::sim::SimDisk;

    const MODEL: Model = Model {
        combine: Combine::Max,
        read_iops: 1,
        read_bytes_per_second: 2,
        write_iops: 3,
        write_bytes_per_second: RATE_MAX,
        residual_permille: 5,
        read_median_nanos: 6,
        read_p99_nanos: u64::MAX,
    };

    #[test]
    fn model_round_trips() {
        let disk = SimDisk::new(1);
        assert_eq!(load(&disk).unwrap(), None);
        for combine in [Combine::Max, Combine::Sum] {
            let model = Model { combine, ..MODEL };
            store(&disk, &model).unwrap();
            assert_eq!(load(&disk).unwrap(), Some(model));
        }
    }

    #[test]
    fn every_damaged_byte_is_detected() {
        let good = encode(&MODEL);
        assert_eq!(good.len(), BYTES);
        for at in 0..BYTES {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::Corrupted, "byte {at}");
            assert!(decode(&good[..at]).is_err());
        }
        let disk = SimDisk::new(1);
        disk.plant(FILE_NAME, [&good[..], b"x"].concat());
        let error = load(&disk).unwrap_err();
        assert!(error.to_string().contains("measure the disk again"), "{error}");
    }

    /// Seeded edition of the fuzz target `models`.
    #[test]
    fn mutated_models_decode_or_are_refused() {
        let mut rng = SeededRng::new(33);
        for _ in 0..20_000 {
            let mut bytes = encode(&MODEL);
            bytes.truncate(BYTES - 4);
            for _ in 0..1 + rng.below(4) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = u8::try_from(rng.below(256)).unwrap();
            }
            bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
            if let Ok(model) = decode(&bytes) {
                assert_eq!(encode(&model), bytes);
            }
        }
        let mut zero = encode(&Model { read_iops: 0, ..MODEL });
        assert!(decode(&zero).is_err());
        zero = encode(&Model { write_iops: RATE_MAX + 1, ..MODEL });
        assert!(decode(&zero).is_err());
    }
}
