//! Bound of timestamps: only timestamps below it are assigned.

use carnet_base::{Error, Result, Timestamp};

/// Step by which one write raises the bound. A restart skips at most this many timestamps of 2⁶³: a
/// restart every second would exhaust them in 29,000 years.
pub(crate) const STEP: u64 = 10_000_000;

/// First timestamp of a new database.
pub(crate) const FIRST: Timestamp = match Timestamp::new(1) {
    Some(first) => first,
    None => Timestamp::ZERO,
};

/// Returns a bound that is `step` above another one.
pub(crate) fn above(from: Timestamp, step: u64) -> Result<Timestamp> {
    from.checked_add(step).ok_or_else(|| {
        Error::unavailable("the database has used up its 2⁶³ timestamps; export and import it")
    })
}
