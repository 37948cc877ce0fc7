//! A write of a cell.

use carnet_base::{Bytes, CellKey};

/// A write of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Key of the cell.
    pub key: CellKey,
    /// Row image or byte string; `None` is a tombstone.
    pub payload: Option<Bytes>,
}
