//! A borrowed version of a key.

use carnet_base::Timestamp;

/// A borrowed version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// Flat key of the cell.
    pub key: &'a [u8],
    /// Commit timestamp of the transaction that wrote it.
    pub commit: Timestamp,
    /// Start timestamp of that transaction.
    pub start: Timestamp,
    /// Expiry, in seconds of wall time; from then on the version counts as deleted.
    pub expiry: Option<u64>,
    /// Row image or byte string; `None` for a tombstone.
    pub payload: Option<&'a [u8]>,
}
