//! The lease: the current leader, and the state that the next leader needs.
//!
//! ```text
//!   0  version      u8, 1
//!   1  epoch        u64, big-endian like all that follow
//!   9  renewal      u64
//!  17  bound        u64
//!  25  fence_from   u64
//!  33  wall at      u64     a timestamp, and the wall time at which it was the latest
//!  41  wall         i64
//!  49  state        u8: 0 held, 1 released, 2 restoring
//!  50  nonce        u64
//!  58  address      UTF-8, to the end
//! ```
//!
//! The lease is always swapped as a whole. A candidate that read an old bound cannot take a lease
//! whose owner has raised the bound since. No value of the lease ever recurs.

use std::fmt;

use carnet_base::{Bytes, Epoch, Error, Result, Timestamp, WallTime};

const VERSION: u8 = 1;
const FRAME_BYTES: usize = 58;
const ADDRESS_BYTES_MAX: usize = 1024;

/// Address at which other processes reach a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(String);

impl Address {
    /// Creates an address.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is longer than 1 KiB.
    pub fn new(address: impl Into<String>) -> Result<Self> {
        let address = address.into();
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the address has {} bytes; at most {ADDRESS_BYTES_MAX} are allowed",
                address.len()
            )));
        }
        Ok(Self(address))
    }

    /// Returns the address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One incarnation of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Random number drawn at start, so that a restarted process counts as a new one.
    pub nonce: u64,
    /// Address of the process.
    pub address: Address,
}

/// Lease of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Number of the term; each new leader increments it.
    pub epoch: Epoch,
    /// Number of writes by the owner; while it grows, the owner is alive.
    pub renewal: u64,
    /// Upper bound of the timestamps that are handed out; the next leader starts at it.
    pub bound: Timestamp,
    /// Lower bound of the starts whose rows the next leader has to fence; the upper one is `bound`.
    pub fence_from: Timestamp,
    /// A timestamp, and the wall time at which it was the latest. Neither ever decreases.
    pub wall: (Timestamp, WallTime),
    /// `true` if the owner has released the lease: it can be taken at once.
    pub released: bool,
    /// `true` while a restore is under way, or after it was cut short: no process leads before it
    /// has completed.
    pub is_restoring: bool,
    /// The process that leads.
    pub owner: Owner,
}

impl Lease {
    /// Encodes the lease.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(FRAME_BYTES + self.owner.address.0.len());
        bytes.push(VERSION);
        bytes.extend(self.epoch.0.to_be_bytes());
        bytes.extend(self.renewal.to_be_bytes());
        bytes.extend(self.bound.get().to_be_bytes());
        bytes.extend(self.fence_from.get().to_be_bytes());
        bytes.extend(self.wall.0.get().to_be_bytes());
        bytes.extend(self.wall.1.0.to_be_bytes());
        bytes.push(match (self.released, self.is_restoring) {
            (false, false) => 0,
            (true, _) => 1,
            (false, true) => 2,
        });
        bytes.extend(self.owner.nonce.to_be_bytes());
        bytes.extend(self.owner.address.0.as_bytes());
        bytes.into()
    }

    /// Decodes a lease.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a version that this program does not know; `Corrupted` if the bytes are
    /// not a lease.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let corrupted = || Error::corrupted(format!("{} bytes are not a valid lease", bytes.len()));
        match bytes.first() {
            Some(&VERSION) => {}
            Some(other) => {
                let what =
                    format!("the lease has version {other}, which this program does not know");
                return Err(Error::unsupported(what));
            }
            None => return Err(corrupted()),
        }
        let (frame, address) = bytes.split_at_checked(FRAME_BYTES).ok_or_else(corrupted)?;
        let number = |at: usize| {
            let field = frame[at..].first_chunk().expect("the frame holds every field");
            u64::from_be_bytes(*field)
        };
        let timestamp = |at| Timestamp::new(number(at)).ok_or_else(corrupted);
        let (released, is_restoring) = match frame[49] {
            0 => (false, false),
            1 => (true, false),
            2 => (false, true),
            _ => return Err(corrupted()),
        };
        let address = String::from_utf8(address.to_vec()).map_err(|_| corrupted())?;
        Ok(Self {
            epoch: Epoch(number(1)),
            renewal: number(9),
            bound: timestamp(17)?,
            fence_from: timestamp(25)?,
            wall: (timestamp(33)?, WallTime(number(41).cast_signed())),
            released,
            is_restoring,
            owner: Owner {
                nonce: number(50),
                address: Address::new(address).map_err(|_| corrupted())?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{ErrorKind, Rng, SeededRng};

    use super::*;

    fn lease() -> Lease {
        let at = |number| Timestamp::new(number).unwrap();
        Lease {
            epoch: Epoch(7),
            renewal: 12,
            bound: at(10_000_001),
            fence_from: at(300),
            wall: (at(299), WallTime(-5)),
            released: true,
            is_restoring: false,
            owner: Owner { nonce: 0xfeed, address: Address::new("10.0.0.1:7000").unwrap() },
        }
    }

    #[test]
    fn address_has_a_maximum_length() {
        let address = |bytes| Address::new("a".repeat(bytes)).map(drop);
        assert!(address(ADDRESS_BYTES_MAX).is_ok());
        let error = address(ADDRESS_BYTES_MAX + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("1025 bytes; at most 1024"), "{error}");
    }

    #[test]
    fn lease_round_trips_through_bytes() {
        let bytes = lease().encode();
        assert_eq!((bytes.len(), bytes[8], bytes[49]), (58 + 13, 7, 1));
        assert_eq!(Lease::decode(&bytes).unwrap(), lease());
        let restoring = Lease { released: false, is_restoring: true, ..lease() };
        assert_eq!(Lease::decode(&restoring.encode()).unwrap(), restoring);
        let newer = [&[2], &bytes[1..]].concat();
        assert_eq!(Lease::decode(&newer).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn bytes_that_are_not_a_lease_are_rejected() {
        let good = lease().encode();
        for seed in 0..10_000 {
            let mut rng = SeededRng::new(seed);
            let mut bytes = good.to_vec();
            bytes.truncate(usize::try_from(rng.below(good.len() as u64 + 1)).unwrap());
            for _ in 0..rng.below(4) {
                let at = usize::try_from(rng.below(bytes.len().max(1) as u64)).unwrap();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
            if let Ok(lease) = Lease::decode(&bytes) {
                assert_eq!(&lease.encode()[..], &bytes[..], "seed {seed}");
            }
        }
        assert!(Lease::decode(&[VERSION; 2000]).is_err());
    }
}
