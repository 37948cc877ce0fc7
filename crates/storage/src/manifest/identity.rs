//! Which database files belong to.

use std::fmt;

use carnet_base::{Rng, SeededRng};

/// 16 random bytes that a database is given when it is made, and keeps.
///
/// A checkpoint has its database's, until it is opened: then it is a database of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity(pub [u8; 16]);

impl Identity {
    /// Of a database that an earlier version has made and this one has not opened yet.
    pub const UNKNOWN: Self = Self([0; 16]);

    /// Draws a new one.
    #[must_use]
    pub fn random() -> Self {
        let half = || u128::from(SeededRng::from_entropy().next_u64());
        Self((half() << 64 | half()).to_be_bytes())
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}
