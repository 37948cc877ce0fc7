//! The marks of the sweep, as every process reads them.
//!
//! ```text
//!   0  version       u8: 1, or 2 while a backup holds the sweep
//!   1  versions      u64, big-endian like all that follow
//!   9  entries       u64
//!  17  entries_from  u64
//!  25  hold's id       u64   of version 2 alone
//!  33  hold's renewal  u64
//! ```
//!
//! The hold is stored in the same register as the marks, so no mark can be raised past it: raising
//! one compares the whole value.

use carnet_base::{Bytes, Error, Result, Timestamp};

const VERSION: u8 = 1;
const HELD_VERSION: u8 = 2;

/// A hold of the sweep by a backup: no mark is raised while it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Id of the backup.
    pub id: u64,
    /// Number of renewals; while it grows, the owner is alive.
    pub renewal: u64,
}

/// The marks of the sweep. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Versions that only snapshots below this mark saw may be gone.
    pub versions: Timestamp,
    /// Entries of commits up to this mark may be gone. If a start up to this mark has no entry, its
    /// outcome can no longer be known.
    pub entries: Timestamp,
    /// Starts below this mark have no entries, except abort markers that were written late.
    pub entries_from: Timestamp,
    /// The hold that keeps the marks from moving.
    pub hold: Option<Hold>,
}

impl Marks {
    /// Returns the larger of each pair of marks, and this hold.
    #[must_use]
    pub fn raised(self, to: Self) -> Self {
        Self {
            versions: self.versions.max(to.versions),
            entries: self.entries.max(to.entries),
            entries_from: self.entries_from.max(to.entries_from),
            hold: self.hold,
        }
    }

    /// Encodes the marks.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = vec![if self.hold.is_some() { HELD_VERSION } else { VERSION }];
        for mark in [self.versions, self.entries, self.entries_from] {
            bytes.extend(mark.get().to_be_bytes());
        }
        if let Some(Hold { id, renewal }) = self.hold {
            bytes.extend(id.to_be_bytes());
            bytes.extend(renewal.to_be_bytes());
        }
        bytes.into()
    }

    /// Decodes marks.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a version that this program does not know; `Corrupted` if the bytes are
    /// not marks.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let corrupted = || Error::corrupted("the sweep's marks are damaged");
        let (&version, marks) = bytes.split_first().ok_or_else(corrupted)?;
        let numbers = marks.as_chunks::<8>();
        let (versions, entries, entries_from, hold) = match (version, numbers) {
            (VERSION, (&[versions, entries, from], [])) => (versions, entries, from, None),
            (HELD_VERSION, (&[versions, entries, from, id, renewal], [])) => {
                let [id, renewal] = [id, renewal].map(u64::from_be_bytes);
                (versions, entries, from, Some(Hold { id, renewal }))
            }
            (VERSION | HELD_VERSION, _) => return Err(corrupted()),
            _ => {
                return Err(Error::unsupported(format!(
                    "the sweep's marks have version {version}, \
                                                       which this program does not know"
                )));
            }
        };
        let mark = |bytes| Timestamp::new(u64::from_be_bytes(bytes)).ok_or_else(corrupted);
        Ok(Self {
            versions: mark(versions)?,
            entries: mark(entries)?,
            entries_from: mark(entries_from)?,
            hold,
        })
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{ErrorKind, Rng, SeededRng};

    use super::*;

    fn marks() -> Marks {
        let at = |number| Timestamp::new(number).unwrap();
        Marks { versions: at(9), entries: at(7), entries_from: at(3), hold: None }
    }

    fn held() -> Marks {
        Marks { hold: Some(Hold { id: 0xfeed, renewal: 3 }), ..marks() }
    }

    #[test]
    fn marks_round_trip_and_damage_is_rejected() {
        for marks in [marks(), held()] {
            assert_eq!(Marks::decode(&marks.encode()).unwrap(), marks);
        }
        assert_eq!(held().raised(marks()), held(), "a hold is kept");
        let good = held().encode();
        let newer = [&[3], &good[1..]].concat();
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
