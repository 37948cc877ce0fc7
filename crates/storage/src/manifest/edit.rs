//! Edits of the manifest.

use carnet_base::{Bytes, Timestamp};

use super::table::TableMeta;

/// Changes of one flush, compaction or raise of the timestamp bound, applied atomically.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Tables to add; their files are durable already.
    pub add: Vec<TableMeta>,
    /// Numbers of tables to remove. A table that moves to another level is both removed and added.
    pub remove: Vec<u64>,
    /// Number and base LSN of the oldest log segment that is still needed.
    pub log: Option<(u64, u64)>,
    /// Timestamps below this bound may have been assigned.
    pub bound: Option<Timestamp>,
    /// GC watermark: snapshots below it may have lost versions.
    pub swept: Option<Timestamp>,
    /// Watermark up to which compaction may have dropped versions.
    pub forgotten: Option<Timestamp>,
    /// Last commit that is in the tables.
    pub flushed: Option<Timestamp>,
    /// Opaque notes of the layer above, which replace the previous ones.
    pub notes: Option<Bytes>,
    /// Whether a backup begins in the current incarnation.
    pub begins_backup: bool,
    /// Whether a crash loses visible commits.
    pub lossy: Option<bool>,
    /// Whether there is no log.
    pub unlogged: Option<bool>,
}
