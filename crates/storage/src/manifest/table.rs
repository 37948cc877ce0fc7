//! Description of a table's file in the manifest, available without opening the file.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Error, Result, Timestamp};

use super::level::LEVELS;
use super::range::{FlatRange, after};
use crate::cache::Cache;
use crate::disk::Disk;
use crate::sstable::{Statistics, Table};

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
    /// Number of versions that compaction drops once the GC watermark has passed them: all but the
    /// newest of each key in this file, and versions that
    /// [pass](crate::compaction::merge::GcHook::passes).
    pub overwritten: u64,
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

    /// Describes an adopted table of level 0, whose versions have one commit, from the file alone.
    #[must_use]
    pub fn adopted(table: &Table, commit: Timestamp) -> Self {
        let Statistics { versions, tombstones, first, last, .. } = table.statistics();
        let contents = Contents {
            cells: *versions,
            tombstones: *tombstones,
            commit_min: commit,
            commit_max: commit,
            ..Contents::default()
        };
        let range = FlatRange { lower: first.clone(), upper: after(last) };
        Self { number: table.number(), level: 0, bytes: table.bytes(), range, contents }
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
        let Contents { cells, overwritten, tombstones, range_tombstones, expiring, .. } =
            self.contents;
        let Contents { expiry_min, expiry_max, commit_min, commit_max, .. } = self.contents;
        let wrong = if usize::from(self.level) >= LEVELS {
            "the level does not exist"
        } else if self.range.is_empty() {
            "its range is empty"
        } else if commit_min > commit_max || expiry_min > expiry_max {
            "a minimum is above its maximum"
        } else if cells == 0 && range_tombstones == 0 {
            "it holds nothing"
        } else if overwritten.max(tombstones).max(expiring) > cells {
            "a count of some versions exceeds the count of all"
        } else if self.number == 0 {
            "file numbers begin at 1"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("table {} at level {}: {wrong}", self.number, self.level)))
    }

    /// Estimates the number of versions that compaction could drop at the GC watermark `mark`, if
    /// versions that expired by the second `wall` count as deleted.
    ///
    /// Assumes that expiries are uniformly distributed between the first and the last one.
    #[must_use]
    pub fn garbage(&self, mark: Timestamp, wall: Option<u64>) -> u64 {
        let contents = &self.contents;
        if contents.commit_max > mark {
            return 0;
        }
        let expired = match wall {
            Some(wall) if contents.expiring > 0 && wall >= contents.expiry_min => {
                let passed = u128::from(wall.min(contents.expiry_max) - contents.expiry_min) + 1;
                let span = u128::from(contents.expiry_max - contents.expiry_min) + 1;
                let expired = u128::from(contents.expiring) * passed / span;
                u64::try_from(expired).unwrap_or(contents.expiring)
            }
            _ => 0,
        };
        let sum = contents.overwritten.saturating_add(contents.tombstones).saturating_add(expired);
        sum.min(contents.cells)
    }
}

/// Counts a file's contents while it is written.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    contents: Contents,
    commits: Option<(Timestamp, Timestamp)>,
    lower: Option<Bytes>,
    last_key: Vec<u8>,
    /// Greatest upper bound of a range tombstone.
    upper: Option<Bytes>,
}

impl Tally {
    /// Counts a version. Versions come in order.
    pub fn cell(&mut self, key: &[u8], commit: Timestamp, expiry: Option<u64>, tombstone: bool) {
        let first = self.contents.cells == 0;
        if first {
            self.begin_at(key);
        }
        let contents = &mut self.contents;
        if !first && key == self.last_key {
            contents.overwritten += 1;
        } else {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        contents.cells += 1;
        contents.tombstones += u64::from(tombstone);
        if let Some(expiry) = expiry.filter(|_| !tombstone) {
            let least = if contents.expiring == 0 { expiry } else { contents.expiry_min };
            contents.expiry_min = least.min(expiry);
            contents.expiry_max = contents.expiry_max.max(expiry);
            contents.expiring += 1;
        }
        self.commit(commit);
    }

    /// Records that compaction drops the last version counted, the only one of its key, once
    /// the GC watermark has passed it.
    pub fn will_pass(&mut self) {
        let contents = &mut self.contents;
        contents.overwritten = (contents.overwritten + 1).min(contents.cells);
    }

    /// Counts one version of a fragment of range tombstones.
    pub fn range_tombstone(&mut self, lower: &[u8], upper: &[u8], commit: Timestamp) {
        self.begin_at(lower);
        if self.upper.as_ref().is_none_or(|furthest| upper > *furthest) {
            self.upper = Some(Bytes::copy_from_slice(upper));
        }
        self.contents.range_tombstones += 1;
        self.commit(commit);
    }

    fn begin_at(&mut self, key: &[u8]) {
        if self.lower.as_ref().is_none_or(|lower| key < *lower) {
            self.lower = Some(Bytes::copy_from_slice(key));
        }
    }

    fn commit(&mut self, commit: Timestamp) {
        let (least, greatest) = self.commits.unwrap_or((commit, commit));
        self.commits = Some((least.min(commit), greatest.max(commit)));
    }

    /// Returns the key of the last version; empty before the first.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Describes the finished file; `None` if nothing was counted.
    #[must_use]
    pub fn finish(self, number: u64, level: u8, bytes: u64) -> Option<TableMeta> {
        let (commit_min, commit_max) = self.commits?;
        let contents = Contents { commit_min, commit_max, ..self.contents };
        let mut range = FlatRange { lower: self.lower?, upper: self.upper.unwrap_or_default() };
        if contents.cells > 0 && range.upper <= self.last_key {
            range.upper = after(&self.last_key);
        }
        Some(TableMeta { number, level, bytes, range, contents })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(commit: u64) -> Timestamp {
        Timestamp::new(commit).unwrap()
    }

    #[test]
    fn tally_counts_written_versions() {
        let mut tally = Tally::default();
        tally.range_tombstone(b"b", b"c", at(9));
        tally.cell(b"b", at(8), Some(70), false);
        tally.cell(b"b", at(5), Some(20), true);
        tally.cell(b"d", at(6), Some(50), false);
        let meta = tally.finish(3, 2, 100).unwrap();
        assert_eq!(meta.range, FlatRange::new(&b"b"[..], &b"d\0"[..]));
        let contents = Contents {
            cells: 3,
            overwritten: 1,
            tombstones: 1,
            range_tombstones: 1,
            expiring: 2,
            expiry_min: 50,
            expiry_max: 70,
            commit_min: at(5),
            commit_max: at(9),
        };
        assert_eq!((meta.number, meta.level, meta.bytes, meta.contents), (3, 2, 100, contents));
        assert_eq!(Tally::default().finish(1, 0, 0), None);
    }

    #[test]
    fn passing_versions_are_garbage_below_the_watermark() {
        let mut tally = Tally::default();
        for key in 0..10_u8 {
            tally.cell(&[key], at(5), None, false);
            if key < 4 {
                tally.will_pass();
            }
        }
        let meta = tally.finish(1, 0, 1).unwrap();
        assert_eq!((meta.garbage(at(4), None), meta.garbage(at(5), None)), (0, 4));
    }

    #[test]
    fn range_tombstone_widens_file_range() {
        let mut tally = Tally::default();
        tally.cell(b"d", at(6), None, false);
        tally.range_tombstone(b"a", b"x", at(9));
        assert_eq!(tally.finish(1, 0, 1).unwrap().range, FlatRange::new(&b"a"[..], &b"x"[..]));
    }

    #[test]
    fn garbage_counts_invisible_versions() {
        let mut tally = Tally::default();
        for key in 0..10_u8 {
            tally.cell(&[key], at(5), Some(100 + u64::from(key)), key == 0);
        }
        let meta = tally.finish(1, 0, 1).unwrap();
        assert_eq!(meta.garbage(at(4), Some(1000)), 0, "a reader may still need all of it");
        assert_eq!(meta.garbage(at(5), None), 1);
        assert_eq!(meta.garbage(at(5), Some(104)), 1 + 4);
        assert_eq!(meta.garbage(at(5), Some(1000)), 10);
    }
}
