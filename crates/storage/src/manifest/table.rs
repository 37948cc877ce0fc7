//! Description of a table's file in the manifest, available without opening the file.

use std::sync::Arc;

use carnet_base::{Error, Result, Timestamp};

use super::level::LEVELS;
use super::range::FlatRange;
use crate::disk::Disk;
use crate::sstable::Table;
use crate::sstable::cache::Cache;

/// Description of a table's file: number, level, and the statistics that compaction uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// Number in the file's name; never reused.
    pub number: u64,
    /// Level of the table; 0 for flushed tables.
    pub level: u8,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Range of keys that contains every cell and range tombstone of the file.
    pub range: FlatRange,
    /// Statistics of the file's contents.
    pub contents: Contents,
}

/// Counts and bounds of a file's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of versions, including tombstones.
    pub cells: u64,
    /// Number of versions that compaction drops in any level once the GC watermark has passed them:
    /// versions that a newer version in this file hides or is merged with, and versions that
    /// [pass](crate::compaction::merge::GcHook::passes).
    pub overwritten: u64,
    /// Number of further versions that compaction drops where no older data of their keys exists:
    /// tombstones that hide nothing in this file, and deltas above no other version.
    pub bottom_garbage: u64,
    /// Number of versions that are tombstones.
    pub tombstones: u64,
    /// Number of range tombstones; a fragment with *n* versions counts *n* times.
    pub range_tombstones: u64,
    /// Number of versions that expire, without tombstones.
    pub expiring: u64,
    /// Earliest expiry, in seconds since 1970; 0 if no version expires.
    pub expiry_min: u64,
    /// Latest expiry; 0 if no version expires.
    pub expiry_max: u64,
    /// Least commit of versions and range tombstones.
    pub commit_min: Timestamp,
    /// Greatest commit of versions and range tombstones.
    pub commit_max: Timestamp,
}

impl TableMeta {
    /// Returns the commit of the table's versions, if all have the same. It overrides the commits
    /// in the file, which may have been written before its commit was assigned.
    #[must_use]
    pub fn stamp(&self) -> Option<Timestamp> {
        let Contents { commit_min, commit_max, .. } = self.contents;
        (commit_min == commit_max).then_some(commit_min)
    }

    /// Returns the description with the commit of all versions set to `commit`.
    #[must_use]
    pub fn stamped(&self, commit: Timestamp) -> Self {
        let contents = Contents { commit_min: commit, commit_max: commit, ..self.contents };
        Self { contents, ..self.clone() }
    }

    /// Opens the table's file.
    ///
    /// # Errors
    ///
    /// Like [`Table::open`].
    pub fn open(&self, disk: Arc<dyn Disk>, cache: Arc<Cache>) -> Result<Table> {
        let table = Table::open(disk, self.number, self.bytes, cache)?;
        Ok(match self.stamp() {
            Some(commit) => table.stamped(commit),
            None => table,
        })
    }

    /// Returns an error if no file can match this description.
    pub(super) fn check(&self) -> Result<()> {
        let Contents { cells, overwritten, bottom_garbage, tombstones, .. } = self.contents;
        let Contents { range_tombstones, expiring, .. } = self.contents;
        let Contents { expiry_min, expiry_max, commit_min, commit_max, .. } = self.contents;
        let wrong = if usize::from(self.level) >= LEVELS {
            "the level does not exist"
        } else if self.range.is_empty() {
            "its range is empty"
        } else if commit_min > commit_max || expiry_min > expiry_max {
            "a minimum is above its maximum"
        } else if cells == 0 && range_tombstones == 0 {
            "it holds nothing"
        } else if overwritten.max(bottom_garbage).max(tombstones).max(expiring) > cells {
            "a count of some versions exceeds the count of all"
        } else if self.number == 0 {
            "file numbers begin at 1"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("table {} at level {}: {wrong}", self.number, self.level)))
    }

    /// Estimates the number of versions that compaction drops at the GC watermark `mark` if no older
    /// data exists, and versions that expired by the second `wall` count as deleted. If it is not
    /// zero, compaction drops at least one.
    #[must_use]
    pub fn garbage(&self, mark: Timestamp, wall: Option<u64>) -> u64 {
        if self.contents.commit_max > mark {
            return 0;
        }
        let sum = self.garbage_anywhere(mark, wall).saturating_add(self.contents.bottom_garbage);
        sum.min(self.contents.cells)
    }

    /// Like [`TableMeta::garbage`], but without what compaction drops only if no older data exists.
    /// Expired versions count, although a tombstone takes their place above older data.
    #[must_use]
    pub fn garbage_anywhere(&self, mark: Timestamp, wall: Option<u64>) -> u64 {
        if self.contents.commit_max > mark {
            return 0;
        }
        self.contents.overwritten.saturating_add(self.expired(wall)).min(self.contents.cells)
    }

    /// Estimates the number of versions that expired by a second.
    ///
    /// Assumes that expiries are uniformly distributed between the first and the last one.
    fn expired(&self, wall: Option<u64>) -> u64 {
        let Contents { expiring, expiry_min, expiry_max, .. } = self.contents;
        let Some(wall) = wall.filter(|wall| expiring > 0 && *wall >= expiry_min) else { return 0 };
        let passed = u128::from(wall.min(expiry_max) - expiry_min) + 1;
        let span = u128::from(expiry_max - expiry_min) + 1;
        let expired = u128::from(expiring) * passed / span;
        u64::try_from(expired).unwrap_or(expiring)
    }
}
