//! Boundaries between a compaction's output files.

use bytes::Bytes;

use super::policy::Plan;
use crate::manifest::{FlatRange, LEVELS, Levels};

/// Decides where an output file ends, from the keys in order.
///
/// A file ends when it has the target size. It also ends, shorter, when it overlaps too much of the
/// level below its own (the *grandparents* of the inputs): otherwise a file with few keys over a
/// wide range would later be compacted with the whole of that level. And a file of at least half
/// the target size ends where a grandparent ends, because then two files do not overlap the same
/// grandparent.
///
/// Files end only between cells or between range tombstones: a single range tombstone without cells
/// is not split, however much it overlaps.
#[derive(Clone, Debug)]
pub struct Cutter {
    cut_bytes: u64,
    overlap_bytes_max: u64,
    /// Upper bounds and sizes of the grandparents, ascending.
    grandparents: Vec<(Bytes, u64)>,
    /// Number of grandparents that end at or before the last key.
    passed: usize,
    /// Bytes of the grandparents that ended since the file began.
    overlap_bytes: u64,
}

impl Cutter {
    /// Makes the cutter for a part of a compaction.
    #[must_use]
    pub fn new(plan: &Plan, part: &FlatRange, levels: &Levels) -> Self {
        let behind = usize::from(plan.output_level) + 1;
        let mut grandparents = Vec::new();
        // Outputs in level 0 are single tables.
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

    /// Returns `true` if the current file of `bytes` bytes should end before `key`. Keys ascend.
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

    /// Starts a new file.
    pub const fn begin_file(&mut self) {
        self.overlap_bytes = 0;
    }
}
