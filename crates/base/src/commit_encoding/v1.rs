//! The first encoding: one row per transaction.
//!
//! ```text
//! row      VAR_LONG(start)
//! column   74                      the letter t
//! value    VAR_LONG(commit)        committed
//!          VAR_LONG(-1)            aborted
//! ```
//!
//! Rows of neighbouring transactions are neighbours: under an ordered partitioner all writers use
//! the same node. Kept for reading and migrating old tables.

use bytes::Bytes;

use super::entry::{CommitCell, CommitEntry, check_order, not_above};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::var_long;

const COLUMN: &[u8] = b"t";
const ABORTED: i64 = -1;

/// Returns the cell of a transaction.
#[must_use]
pub fn cell(start: Timestamp) -> CommitCell {
    CommitCell {
        row: Bytes::from(var_long::encode(start.get().cast_signed())),
        column: Bytes::from_static(COLUMN),
    }
}

/// Returns the transaction of a cell.
///
/// # Errors
///
/// `Corrupted` if no transaction has that cell.
pub fn start_of(row: &[u8], column: &[u8]) -> Result<Timestamp> {
    if column != COLUMN {
        return Err(Error::corrupted("a commit table of version 1: an unknown column"));
    }
    u64::try_from(var_long::decode(row)?)
        .ok()
        .and_then(Timestamp::new)
        .ok_or_else(|| Error::corrupted("a commit table of version 1: a negative start timestamp"))
}

/// Returns the value of a transaction's entry.
///
/// # Errors
///
/// `Invalid` if the commit timestamp is not above the start timestamp.
pub fn encode(start: Timestamp, entry: CommitEntry) -> Result<Bytes> {
    let number = match entry {
        CommitEntry::Aborted => ABORTED,
        CommitEntry::Committed(commit) => {
            check_order(start, commit)?;
            commit.get().cast_signed()
        }
    };
    Ok(Bytes::from(var_long::encode(number)))
}

/// Decodes the value of a transaction's entry.
///
/// # Errors
///
/// `Corrupted` if [`encode`] does not write such a value.
pub fn decode(start: Timestamp, value: &[u8]) -> Result<CommitEntry> {
    match var_long::decode(value)? {
        ABORTED => Ok(CommitEntry::Aborted),
        number => u64::try_from(number)
            .ok()
            .and_then(Timestamp::new)
            .filter(|commit| *commit > start)
            .map(CommitEntry::Committed)
            .ok_or_else(|| not_above(start)),
    }
}
