//! What the manifest knows of a table's file without opening it.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Error, Result, Timestamp};

use super::levels::LEVELS;
use super::range::{FlatRange, after};
use crate::cache::Cache;
use crate::disk::Disk;
use crate::sstable::{Statistics, Table};

/// A table's file: its name, its place, and what compaction needs to know of its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// The number in the file's name; never given to another file.
    pub number: u64,
    /// 0 for what was flushed; tables of one level from 1 on have disjoint ranges.
    pub level: u8,
    /// Length of the file.
    pub bytes: u64,
    /// Holds every cell and every range tombstone of the file.
    pub range: FlatRange,
    /// What the file holds.
    pub contents: Contents,
}

/// Counts and bounds of a file's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Versions of cells, tombstones among them.
    pub cells: u64,
    /// Versions that go once the mark has come to them: those that are not the newest one of their
    /// key in this file, and those that [pass](crate::compaction::merge::GcHook::passes).
    pub overwritten: u64,
    /// Versions that are tombstones.
    pub tombstones: u64,
    /// Range tombstones, a fragment with *n* versions counted *n* times.
    pub range_tombstones: u64,
    /// Versions that expire, other than tombstones.
    pub expiring: u64,
    /// When the first of those expires, in seconds since 1970; 0 where nothing expires.
    pub expiry_min: u64,
    /// When the last of those expires; 0 where nothing expires.
    pub expiry_max: u64,
    /// The least commit, of versions and range tombstones.
    pub commit_min: Timestamp,
    /// The greatest commit.
    pub commit_max: Timestamp,
}

impl TableMeta {
    /// Returns the commit of all the table's versions, where they have one in common: it counts,
    /// whatever stands in the file. A file may have been written before its commit was decided.
    #[must_use]
    pub fn stamp(&self) -> Option<Timestamp> {
        let Contents { commit_min, commit_max, .. } = self.contents;
        (commit_min == commit_max).then_some(commit_min)
    }

    /// The same table, all of whose versions committed at once.
    #[must_use]
    pub fn stamped(&self, commit: Timestamp) -> Self {
        let contents = Contents { commit_min: commit, commit_max: commit, ..self.contents };
        Self { contents, ..self.clone() }
    }

    /// Describes a table of level 0 whose versions committed at once, from the file alone.
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
    /// As [`Table::open`].
    pub fn open(&self, disk: Arc<dyn Disk>, cache: Arc<Cache>) -> Result<Table> {
        let table = Table::open(disk, self.number, self.bytes, cache)?;
        Ok(match self.stamp() {
            Some(commit) => table.stamped(commit),
            None => table,
        })
    }

    /// Refuses a description that no file can have.
    pub(super) fn check(&self) -> Result<()> {
        let Contents { cells, overwritten, tombstones, range_tombstones, expiring, .. } =
            self.contents;
        let Contents { expiry_min, expiry_max, commit_min, commit_max, .. } = self.contents;
        let wrong = if usize::from(self.level) >= LEVELS {
            "there is no such level"
        } else if self.range.is_empty() {
            "its range is empty"
        } else if commit_min > commit_max || expiry_min > expiry_max {
            "a least value is above the greatest one"
        } else if cells == 0 && range_tombstones == 0 {
            "it holds nothing"
        } else if overwritten.max(tombstones).max(expiring) > cells {
            "a part of its cells is more than all of them"
        } else if self.number == 0 {
            "files are numbered from 1 on"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!("table {} at level {}: {wrong}", self.number, self.level)))
    }

    /// Estimates how many of the file's versions nobody needs once everything at or below `mark`
    /// is one version a key, and what expired by the second `wall` counts as deleted.
    ///
    /// Expiries are taken to be spread evenly between the first and the last one.
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

/// Counts a file's contents while they are written.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    contents: Contents,
    commits: Option<(Timestamp, Timestamp)>,
    lower: Option<Bytes>,
    last_key: Vec<u8>,
    /// The furthest end of a range tombstone.
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

    /// Counts the version that came last, the only one of its key, as one that goes with the mark.
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

    /// Describes the finished file; `None` where nothing was counted.
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
    fn what_is_written_is_counted() {
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
    fn what_goes_with_the_mark_is_garbage_from_then_on() {
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
    fn a_range_tombstone_widens_the_files_range_on_both_sides() {
        let mut tally = Tally::default();
        tally.cell(b"d", at(6), None, false);
        tally.range_tombstone(b"a", b"x", at(9));
        assert_eq!(tally.finish(1, 0, 1).unwrap().range, FlatRange::new(&b"a"[..], &b"x"[..]));
    }

    #[test]
    fn garbage_is_what_nobody_can_see() {
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
