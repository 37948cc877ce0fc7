//! Identity of a database.

use std::fmt;

use carnet_base::{Rng, SeededRng};

/// Identity of a database: 16 random bytes, drawn when the database is created.
///
/// A checkpoint has the identity of its database until it is opened; then it gets its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity(pub [u8; 16]);

impl Identity {
    /// Identity of a database of an earlier format version that was not opened since.
    pub const UNKNOWN: Self = Self([0; 16]);

    /// Draws a random identity.
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
