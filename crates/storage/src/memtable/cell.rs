//! Cells of a memtable, as they are inserted and read.

use bytes::Bytes;
use carnet_base::Timestamp;

/// A cell to insert.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellRef<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) expiry: Option<u64>,
}

/// Result of a point read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) start: Timestamp,
    pub(crate) commit: Timestamp,
    pub(crate) expiry: Option<u64>,
    /// `None` if the cell is deleted, by itself or by a range tombstone.
    pub(crate) payload: Option<Bytes>,
}

/// A version of a cell in a memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionRef<'a> {
    pub(crate) start: Timestamp,
    pub(crate) commit: Timestamp,
    pub(crate) expiry: Option<u64>,
    pub(crate) payload: Option<&'a [u8]>,
}
