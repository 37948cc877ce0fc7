//! Cells as a transaction reads them.

use carnet_base::{Bytes, Timestamp, Version};

/// A cell that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Start of the transaction that wrote the version, maybe of this one.
    pub start: Timestamp,
    /// Row image or byte string.
    pub payload: Bytes,
}

impl Entry {
    /// Returns the entry of a version; a tombstone has none.
    #[must_use]
    pub fn from_version(version: Version) -> Option<Self> {
        version.payload.map(|payload| Self { start: version.start, payload })
    }
}
