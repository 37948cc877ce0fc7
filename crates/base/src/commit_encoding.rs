//! Encodings of the commit table: the place and the value of a transaction's outcome.
//!
//! A commit table maps a transaction's start timestamp to its [`CommitEntry`]. Its place is a
//! [`CommitCell`], a row and a column of a table that may be hashed by row. Two of the three
//! encodings come from AtlasDB, byte for byte:
//!
//! * [`v1`]: one row per transaction.
//! * [`v2`], *tickets*: 16 rows per 25 million timestamps, spread over the ring; a column of one
//!   to three bytes; the value is the commit timestamp less the start.
//! * [`v3`]: the same cells, tagged values. The default.
//!
//! `testdata/commit_table_vectors.json` and `commit_table_v3_vectors.json` hold golden vectors. An
//! entry is written once and never changed; a cell without a value is a transaction in progress.
//!
//! An [`EncodingMap`] gives the encoding for each range of starts.
//!
//! The decoders reject a commit timestamp that is not above its start: the encoders never write
//! one.

mod encoding;
mod map;
pub mod v1;
pub mod v2;
pub mod v3;

use bytes::Bytes;
pub use encoding::Encoding;
pub use map::EncodingMap;

use crate::error::{Error, Result};
use crate::ids::Timestamp;

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitEntry {
    /// It committed at this timestamp, which is above its start.
    Committed(Timestamp),
    /// It did not and will not commit.
    Aborted,
}

/// The place of a transaction's entry in a commit table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitCell {
    /// Row, that is, the partition key.
    pub row: Bytes,
    /// Column, that is, the clustering key.
    pub column: Bytes,
}

fn check_order(start: Timestamp, commit: Timestamp) -> Result<()> {
    if start < commit {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a commit entry: the commit timestamp {commit} is not above the start timestamp {start}"
    )))
}

fn not_above(start: Timestamp) -> Error {
    Error::corrupted(format!(
        "a commit entry: the commit timestamp of start {start} is not above it"
    ))
}

#[cfg(test)]
mod tests;
