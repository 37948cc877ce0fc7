//! Changes of the manifest.

use carnet_base::{Bytes, Timestamp};

use super::table::TableMeta;

/// What one step of flush, compaction or the clock changes, all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Tables that are there afterwards; their files are durable already.
    pub add: Vec<TableMeta>,
    /// Numbers of tables that are not there afterwards. A table that is moved to another level
    /// is both removed and added.
    pub remove: Vec<u64>,
    /// The oldest segment of the log that is still needed, and its base LSN.
    pub log: Option<(u64, u64)>,
    /// Timestamps below it may have been handed out.
    pub bound: Option<Timestamp>,
    /// What snapshots below it saw may be gone.
    pub swept: Option<Timestamp>,
    /// How far what compaction dropped may reach.
    pub forgotten: Option<Timestamp>,
    /// The last commit that is in the tables.
    pub flushed: Option<Timestamp>,
    /// What the layer above keeps, in the place of what it kept.
    pub notes: Option<Bytes>,
    /// Whether a crash loses commits that were visible.
    pub lossy: Option<bool>,
}
