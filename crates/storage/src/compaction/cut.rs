//! Where one output file ends and the next begins.

use bytes::Bytes;

use super::policy::Plan;
use crate::manifest::{FlatRange, LEVELS, Levels};

/// Watches the keys of a compaction's output pass by.
///
/// A file ends when it is long enough. It also ends, shorter, where it has come to overlap too
/// much of the level behind its own (the *grandparents* of what is compacted): else a file with
/// a few keys spread over everything would drag the whole of that level into its own compaction
/// one day. And a file that is half as long as it may be ends where a grandparent does, since
/// two files of that level then do not share one of the next.
///
/// Only places between cells, or between range tombstones, are looked at: a single range tombstone
/// without cells is not cut, however much it overlaps.
#[derive(Clone, Debug)]
pub struct Cutter {
    cut_bytes: u64,
    overlap_bytes_max: u64,
    /// Ends and lengths of the grandparents, ascending.
    grandparents: Vec<(Bytes, u64)>,
    /// How many of them end at or before the last key.
    passed: usize,
    /// How many bytes of grandparents ended since the file began.
    overlap_bytes: u64,
}

impl Cutter {
    /// Makes the cutter of what comes out of a part of a compaction.
    #[must_use]
    pub fn new(plan: &Plan, part: &FlatRange, levels: &Levels) -> Self {
        let behind = usize::from(plan.output_level) + 1;
        let mut grandparents = Vec::new();
        // Tables of level 0 overlap and are never behind anything; that level is not cut so.
        if plan.output_level > 0 && behind < LEVELS {
            let tables = levels.overlapping(behind, part);
            grandparents.extend(tables.map(|table| (table.range.upper.clone(), table.bytes)));
        }
        Self {
            cut_bytes: plan.cut_bytes,
            overlap_bytes_max: plan.grandparent_bytes,
            grandparents,
            passed: 0,
            overlap_bytes: 0,
        }
    }

    /// Tells whether the file, now `bytes` long, should end before `key`. Keys ascend.
    pub fn ends_before(&mut self, key: &[u8], bytes: u64) -> bool {
        let passed = self.passed;
        while let Some((upper, len)) = self.grandparents.get(self.passed)
            && *upper <= *key
        {
            self.overlap_bytes = self.overlap_bytes.saturating_add(*len);
            self.passed += 1;
        }
        let at_end = self.passed > passed && bytes >= self.cut_bytes / 2;
        bytes > 0
            && (bytes >= self.cut_bytes || self.overlap_bytes > self.overlap_bytes_max || at_end)
    }

    /// Learns that a new file begins.
    pub const fn begin_file(&mut self) {
        self.overlap_bytes = 0;
    }
}
