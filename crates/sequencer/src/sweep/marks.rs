//! How far the sweep has come, as every process reads it.
//!
//! ```text
//!   0  version       u8, 1
//!   1  versions      u64, big-endian like all that follow
//!   9  entries       u64
//!  17  entries_from  u64
//! ```

use carnet_base::{Bytes, Error, Result, Timestamp};

const VERSION: u8 = 1;

/// The sweep's marks. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// What only snapshots below it saw may be gone.
    pub versions: Timestamp,
    /// Entries of commits up to here may be gone: where one of a start up to here is absent, nobody
    /// can say any more what became of it.
    pub entries: Timestamp,
    /// No entry of a start below it is left, but for markers that were put late.
    pub entries_from: Timestamp,
}

impl Marks {
    /// Returns the later of each two.
    #[must_use]
    pub fn raised(self, to: Self) -> Self {
        Self {
            versions: self.versions.max(to.versions),
            entries: self.entries.max(to.entries),
            entries_from: self.entries_from.max(to.entries_from),
        }
    }

    /// Returns the marks' bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        for mark in [self.versions, self.entries, self.entries_from] {
            bytes.extend(mark.get().to_be_bytes());
        }
        bytes.into()
    }

    /// Reads marks.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a version that this program does not know; `Corrupted` where the bytes
    /// are no marks.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let corrupted = || Error::corrupted("the sweep's marks are damaged");
        let (&version, marks) = bytes.split_first().ok_or_else(corrupted)?;
        if version != VERSION {
            return Err(Error::unsupported(format!("marks of the sweep of version {version}")));
        }
        let (&[versions, entries, entries_from], []) = marks.as_chunks::<8>() else {
            return Err(corrupted());
        };
        let mark = |bytes| Timestamp::new(u64::from_be_bytes(bytes)).ok_or_else(corrupted);
        Ok(Self {
            versions: mark(versions)?,
            entries: mark(entries)?,
            entries_from: mark(entries_from)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{ErrorKind, Rng, SeededRng};

    use super::*;

    fn marks() -> Marks {
        let at = |number| Timestamp::new(number).unwrap();
        Marks { versions: at(9), entries: at(7), entries_from: at(3) }
    }

    #[test]
    fn marks_come_back_from_their_bytes_and_damage_is_refused() {
        let good = marks().encode();
        assert_eq!(Marks::decode(&good).unwrap(), marks());
        let newer = [&[2], &good[1..]].concat();
        assert_eq!(Marks::decode(&newer).unwrap_err().kind(), ErrorKind::Unsupported);
        for seed in 0..10_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = good.to_vec();
            bytes.truncate(usize::try_from(rng.below(good.len() as u64 + 1)).unwrap());
            let at = usize::try_from(rng.below(good.len() as u64)).unwrap();
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
            if let Ok(marks) = Marks::decode(&bytes) {
                assert_eq!(&marks.encode()[..], &bytes[..], "seed {seed}");
            }
        }
    }
}
