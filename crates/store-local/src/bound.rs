//! The bound below which timestamps are handed out.

use carnet_base::{Error, Result, Timestamp};

/// How far one write moves the bound. A restart skips at most this many timestamps, and the clock
/// has 2⁶³: a restart every second would use it up in 29,000 years.
pub(crate) const STEP: u64 = 10_000_000;

/// A new database's first timestamp.
pub(crate) const FIRST: Timestamp = match Timestamp::new(1) {
    Some(first) => first,
    None => Timestamp::ZERO,
};

/// Returns the bound that lies so far above another one.
pub(crate) fn above(from: Timestamp, step: u64) -> Result<Timestamp> {
    from.checked_add(step).ok_or_else(|| {
        Error::unavailable("the database has used up its 2⁶³ timestamps; export and import it")
    })
}
