//! Encodings by number.

use std::fmt;

use bytes::Bytes;

use super::entry::{CommitCell, CommitEntry};
use super::{v1, v2, v3};
use crate::error::Result;
use crate::ids::Timestamp;

/// An encoding of the commit table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// One row for each transaction: [`v1`].
    V1,
    /// Tickets: [`v2`].
    V2,
    /// Tickets with tagged values: [`v3`].
    #[default]
    V3,
}

impl Encoding {
    /// Returns the encoding's number.
    #[must_use]
    pub const fn version(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    /// Returns the encoding with a number.
    #[must_use]
    pub const fn of_version(version: u8) -> Option<Self> {
        match version {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            3 => Some(Self::V3),
            _ => None,
        }
    }

    /// Returns the cell of a transaction.
    #[must_use]
    pub fn cell(self, start: Timestamp) -> CommitCell {
        match self {
            Self::V1 => v1::cell(start),
            Self::V2 => v2::cell(start),
            Self::V3 => v3::cell(start),
        }
    }

    /// Returns the transaction of a cell.
    ///
    /// # Errors
    ///
    /// `Corrupted` if no transaction has that cell.
    pub fn start_of(self, row: &[u8], column: &[u8]) -> Result<Timestamp> {
        match self {
            Self::V1 => v1::start_of(row, column),
            Self::V2 => v2::start_of(row, column),
            Self::V3 => v3::start_of(row, column),
        }
    }

    /// Returns the value of a transaction's entry.
    ///
    /// # Errors
    ///
    /// `Invalid` if the commit timestamp is not above the start timestamp.
    pub fn encode(self, start: Timestamp, entry: CommitEntry) -> Result<Bytes> {
        match self {
            Self::V1 => v1::encode(start, entry),
            Self::V2 => v2::encode(start, entry),
            Self::V3 => v3::encode(start, entry),
        }
    }

    /// Decodes the value of a transaction's entry.
    ///
    /// # Errors
    ///
    /// `Corrupted` if [`Encoding::encode`] does not write such a value.
    pub fn decode(self, start: Timestamp, value: &[u8]) -> Result<CommitEntry> {
        match self {
            Self::V1 => v1::decode(start, value),
            Self::V2 => v2::decode(start, value),
            Self::V3 => v3::decode(start, value),
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.version())
    }
}
