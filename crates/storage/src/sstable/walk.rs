//! Bounds, snapshot and direction of a scan.

use bytes::Bytes;
use carnet_base::Timestamp;

use super::options::ReadOptions;

/// Range and options of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Lower bound, inclusive.
    pub lower: Bytes,
    /// Upper bound, exclusive; `None` for the table's end.
    pub upper: Option<Bytes>,
    /// Snapshot timestamp: versions that committed later are not visible.
    pub read: Timestamp,
    /// Whether the scan goes from the last key to the first.
    pub reverse: bool,
    /// Approximate number of wanted cells, if known; limits read-ahead in each table.
    pub cells_wanted: Option<usize>,
    /// How the scan uses the cache.
    pub reads: ReadOptions,
}
