//! The third encoding: the cells of the second, with tagged values.
//!
//! ```text
//! row      as in v2
//! column   as in v2
//! value    43 VAR_LONG(commit − start)    committed: the letter C
//!          41                             aborted: the letter A
//! ```
//!
//! For example start 25 000 000 committed at 25 000 130 is `438082`. The tag distinguishes an
//! abort, a commit and any later addition. In v2 an abort is the empty value, and a store that does
//! not distinguish empty from absent values takes it for a transaction in progress.
//!
//! On a cluster an entry is written twice: first conditionally, and once that is settled, the same
//! value in another column. A reader that finds the second value knows that it is final.

use bytes::Bytes;

use super::entry::{CommitCell, CommitEntry};
use super::v2;
use crate::error::{Error, Result};
use crate::ids::Timestamp;

const COMMITTED: u8 = b'C';
const ABORTED: &[u8] = b"A";

/// Returns the cell of a transaction.
#[must_use]
pub fn cell(start: Timestamp) -> CommitCell {
    v2::cell(start)
}

/// Returns the transaction of a cell.
///
/// # Errors
///
/// See [`v2::start_of`].
pub fn start_of(row: &[u8], column: &[u8]) -> Result<Timestamp> {
    v2::start_of(row, column)
}

/// Returns the value of a transaction's entry.
///
/// # Errors
///
/// `Invalid` if the commit timestamp is not above the start timestamp.
pub fn encode(start: Timestamp, entry: CommitEntry) -> Result<Bytes> {
    if entry == CommitEntry::Aborted {
        return Ok(Bytes::from_static(ABORTED));
    }
    let delta = v2::encode(start, entry)?;
    Ok([&[COMMITTED], &delta[..]].concat().into())
}

/// Decodes the value of a transaction's entry.
///
/// # Errors
///
/// `Corrupted` if [`encode`] does not write such a value.
pub fn decode(start: Timestamp, value: &[u8]) -> Result<CommitEntry> {
    match value {
        ABORTED => Ok(CommitEntry::Aborted),
        [COMMITTED, delta @ ..] if !delta.is_empty() => v2::decode(start, delta),
        _ => Err(Error::corrupted("a commit table of version 3: a value without a known tag")),
    }
}
