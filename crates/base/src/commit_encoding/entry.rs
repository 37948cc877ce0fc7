//! Entries of a commit table and their places.

use bytes::Bytes;

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

pub(super) fn check_order(start: Timestamp, commit: Timestamp) -> Result<()> {
    if start < commit {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a commit entry: the commit timestamp {commit} is not above the start timestamp {start}"
    )))
}

pub(super) fn not_above(start: Timestamp) -> Error {
    Error::corrupted(format!(
        "a commit entry: the commit timestamp of start {start} is not above it"
    ))
}
