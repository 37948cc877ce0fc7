//! The second encoding, tickets: few rows, spread over the ring, filled side by side.
//!
//! Timestamps are cut into *quanta* of [`PARTITIONING_QUANTUM`]; each quantum has
//! [`ROWS_PER_QUANTUM`] rows, and neighbouring timestamps go to different ones:
//!
//! ```text
//! offset   = start % PQ                       position within the quantum
//! number   = (start / PQ) × NP + offset % NP  row
//! row      = the 64 bits of number, reversed, big-endian
//! column   = VAR_LONG(offset / NP)
//! value    = VAR_LONG(commit − start)         committed
//!            no bytes                         aborted
//! ```
//!
//! For example start 25 000 000, the first of the second quantum: row number 16, which is
//! `0800000000000000` reversed, column `00`. Committed 130 later its value is `8082`.
//!
//! Reversing the bits spreads rows evenly even under an ordered partitioner, where a scan of
//! entries by start timestamp visits the 16 rows of each quantum ([`rows_of_quantum`]).
//!
//! The two constants are part of the format: with other values, every stored entry would be
//! elsewhere.

use bytes::Bytes;

use super::entry::{CommitCell, CommitEntry, check_order, not_above};
use crate::error::{Error, Result};
use crate::ids::Timestamp;
use crate::var_long;

/// Number of timestamps that share a set of rows, PQ.
pub const PARTITIONING_QUANTUM: u64 = 25_000_000;
/// Number of rows of a quantum, NP.
pub const ROWS_PER_QUANTUM: u64 = ROWS as u64;

const ROWS: usize = 16;

/// Returns the quantum of a timestamp.
#[must_use]
pub const fn quantum_of(start: Timestamp) -> u64 {
    start.get() / PARTITIONING_QUANTUM
}

/// Returns the cell of a transaction.
#[must_use]
pub fn cell(start: Timestamp) -> CommitCell {
    let offset = start.get() % PARTITIONING_QUANTUM;
    let number = quantum_of(start) * ROWS_PER_QUANTUM + offset % ROWS_PER_QUANTUM;
    let column = (offset / ROWS_PER_QUANTUM).cast_signed();
    CommitCell { row: row(number), column: Bytes::from(var_long::encode(column)) }
}

/// Returns the rows that hold all entries of a quantum.
///
/// The rows of a quantum above the last, [`quantum_of`] of [`Timestamp::MAX`], hold no entry.
#[must_use]
pub fn rows_of_quantum(quantum: u64) -> [Bytes; ROWS] {
    let first = quantum.saturating_mul(ROWS_PER_QUANTUM);
    std::array::from_fn(|residue| row(first.saturating_add(residue as u64)))
}

fn row(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.reverse_bits().to_be_bytes())
}

/// Returns the transaction of a cell.
///
/// # Errors
///
/// `Corrupted` if no transaction has that cell.
pub fn start_of(row: &[u8], column: &[u8]) -> Result<Timestamp> {
    let wrong = || Error::corrupted("a commit table of version 2: a cell of no transaction");
    let number = u64::from_be_bytes(row.try_into().map_err(|_| wrong())?).reverse_bits();
    let column = u64::try_from(var_long::decode(column)?).map_err(|_| wrong())?;
    if column >= PARTITIONING_QUANTUM / ROWS_PER_QUANTUM {
        return Err(wrong());
    }
    let offset = column * ROWS_PER_QUANTUM + number % ROWS_PER_QUANTUM;
    (number / ROWS_PER_QUANTUM)
        .checked_mul(PARTITIONING_QUANTUM)
        .and_then(|first| first.checked_add(offset))
        .and_then(Timestamp::new)
        .ok_or_else(wrong)
}

/// Returns the value of a transaction's entry.
///
/// # Errors
///
/// `Invalid` if the commit timestamp is not above the start timestamp.
pub fn encode(start: Timestamp, entry: CommitEntry) -> Result<Bytes> {
    match entry {
        CommitEntry::Aborted => Ok(Bytes::new()),
        CommitEntry::Committed(commit) => {
            check_order(start, commit)?;
            let distance = (commit.get() - start.get()).cast_signed();
            Ok(Bytes::from(var_long::encode(distance)))
        }
    }
}

/// Decodes the value of a transaction's entry.
///
/// # Errors
///
/// `Corrupted` if [`encode`] does not write such a value.
pub fn decode(start: Timestamp, value: &[u8]) -> Result<CommitEntry> {
    if value.is_empty() {
        return Ok(CommitEntry::Aborted);
    }
    u64::try_from(var_long::decode(value)?)
        .ok()
        .and_then(|distance| start.checked_add(distance))
        .filter(|commit| *commit > start)
        .map(CommitEntry::Committed)
        .ok_or_else(|| not_above(start))
}
