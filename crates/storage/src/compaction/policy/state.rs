//! What a policy remembers and is told.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use carnet_base::{TableId, Timestamp};

use super::super::merge::Mark;
use super::plan::Plan;
use crate::manifest::{FlatRange, LEVELS, TableMeta};

/// What there is to know beside the tables themselves.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// No reader is older.
    pub oldest: Timestamp,
    /// For every reader, what expires at this second (since 1970) or before is gone.
    pub wall: Option<u64>,
    /// Tables (of the catalogue) into which no reader will look again.
    pub dropped: BTreeSet<TableId>,
    running: Vec<Plan>,
    busy: HashSet<u64>,
    /// Tables that no compaction can read.
    set_aside: HashSet<u64>,
    /// For each level the end of the table that was compacted last.
    cursors: [Bytes; LEVELS],
    taken: Taken,
}

/// What compactions have read lately.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Of these, what they took away from level 0 for good.
    level0_bytes: u64,
    bytes: u64,
}

/// Older compactions than those that read this much hardly count in what is read lately.
const LATELY_BYTES: u64 = 4 << 30;

impl Taken {
    fn add(&mut self, plan: &Plan) {
        if self.bytes > LATELY_BYTES {
            (self.level0_bytes, self.bytes) = (self.level0_bytes / 2, self.bytes / 2);
        }
        for (level, tables) in &plan.inputs {
            let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
            self.bytes = self.bytes.saturating_add(bytes);
            if *level == 0 && plan.output_level > 0 {
                self.level0_bytes = self.level0_bytes.saturating_add(bytes);
            }
        }
    }
}

impl State {
    /// Learns how far the mark has come.
    pub fn observe(&mut self, mark: &Mark) {
        (self.oldest, self.wall) = (mark.oldest(), mark.wall);
    }

    /// Learns that a compaction begins; its inputs are left alone until it ends.
    pub fn begin(&mut self, plan: &Plan) {
        self.busy.extend(plan.numbers());
        if let Some((level, tables)) = plan.inputs.first()
            && let Some(last) = tables.last()
        {
            self.cursors[usize::from(*level)] = last.range.upper.clone();
        }
        self.taken.add(plan);
        self.running.push(plan.clone());
    }

    /// Estimates how many bytes in a thousand that compaction reads it takes away from level 0:
    /// what writers may add in the long run. At least 10.
    #[must_use]
    pub fn taken_permille(&self) -> u64 {
        let Taken { level0_bytes, bytes } = self.taken;
        (level0_bytes.saturating_mul(1000) / bytes.max(1)).clamp(10, 1000)
    }

    /// Learns that a compaction ended, whether it came to anything or not.
    pub fn end(&mut self, plan: &Plan) {
        if let Some(at) = self.running.iter().position(|running| running == plan) {
            self.running.swap_remove(at);
            for number in plan.numbers() {
                self.busy.remove(&number);
            }
        }
    }

    /// Returns how many compactions are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Learns which tables no compaction can read. They count as busy.
    pub fn set_aside(&mut self, tables: impl IntoIterator<Item = u64>) {
        self.set_aside = tables.into_iter().collect();
    }

    /// Returns `true` if no compaction may read a table: because one does, or because none can.
    #[must_use]
    pub fn is_busy(&self, table: &TableMeta) -> bool {
        self.is_read(table) || self.set_aside.contains(&table.number)
    }

    /// Returns `true` if a compaction reads a table.
    #[must_use]
    pub fn is_read(&self, table: &TableMeta) -> bool {
        self.busy.contains(&table.number)
    }

    /// Tells whether a compaction between two levels would get in the way of a running one: both
    /// touch the same keys of the same level. In level 0, which is not ordered by key, only the
    /// tables themselves count.
    #[must_use]
    pub fn is_blocked(&self, (first, last): (usize, usize), hull: &FlatRange) -> bool {
        self.running.iter().any(|running| {
            let (running_first, running_last) = running.levels();
            let shared = first.max(running_first).max(1) <= last.min(running_last);
            shared && running.hull.overlaps(hull)
        })
    }

    /// Tells whether all keys of a range belong to a dropped table.
    #[must_use]
    pub fn is_dropped(&self, range: &FlatRange) -> bool {
        range.only_table().is_some_and(|table| self.dropped.contains(&table))
    }

    /// Where the next compaction of a level goes on.
    pub(super) fn cursor(&self, level: usize) -> &[u8] {
        &self.cursors[level]
    }

    /// Estimates which part in a hundred of a table's cells is garbage.
    pub(super) fn garbage_percent(&self, table: &TableMeta) -> u64 {
        let percent = u128::from(table.garbage(self.oldest, self.wall)) * 100
            / u128::from(table.contents.cells.max(1));
        u64::try_from(percent).unwrap_or(100)
    }
}
