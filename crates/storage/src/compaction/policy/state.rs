//! Input and state of a policy besides the tables.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use carnet_base::{TableId, Timestamp};

use super::super::merge::Mark;
use super::plan::{Plan, Reason};
use crate::manifest::{FlatRange, LEVELS, TableMeta};

/// CompactionState of compaction besides the tables.
#[derive(Clone, Debug, Default)]
pub struct CompactionState {
    /// Oldest timestamp of a reader.
    pub oldest: Timestamp,
    /// For every reader, versions that expire at this second (since 1970) or before are expired.
    pub wall: Option<u64>,
    /// Dropped tables (of the catalog), which no reader reads again.
    pub dropped: BTreeSet<TableId>,
    running: Vec<Running>,
    busy: HashSet<u64>,
    /// Numbers of tables that no compaction can read.
    set_aside: HashSet<u64>,
    /// Numbers of tables whose rewrite dropped nothing at this GC watermark.
    settled: HashSet<u64>,
    /// For each level, the upper bound of the table that was compacted last.
    cursors: [Bytes; LEVELS],
    taken: Taken,
}

/// A running compaction.
#[derive(Clone, Debug)]
struct Running {
    plan: Plan,
    /// GC watermark at its start, see [`CompactionState::observe`].
    mark: (Timestamp, Option<u64>),
}

/// Input bytes of recent compactions.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    /// Bytes moved out of level 0, a part of `bytes`.
    level0_bytes: u64,
    bytes: u64,
}

/// Input bytes after which older compactions lose half their weight.
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

impl CompactionState {
    /// Sets the GC watermark.
    pub fn observe(&mut self, mark: &Mark) {
        if (self.oldest, self.wall) != (mark.oldest(), mark.wall) {
            self.settled.clear();
        }
        (self.oldest, self.wall) = (mark.oldest(), mark.wall);
    }

    /// Records the start of a compaction; its inputs are busy until it ends.
    pub fn begin(&mut self, plan: &Plan) {
        self.busy.extend(plan.numbers());
        if let Some((level, tables)) = plan.inputs.first()
            && let Some(last) = tables.last()
        {
            self.cursors[usize::from(*level)] = last.range.upper.clone();
        }
        self.taken.add(plan);
        self.running.push(Running { plan: plan.clone(), mark: (self.oldest, self.wall) });
    }

    /// Estimates the thousandths of compaction's input by which it reduces level 0: the rate at
    /// which writers may add in the long run. At least 10.
    #[must_use]
    pub fn taken_permille(&self) -> u64 {
        let Taken { level0_bytes, bytes } = self.taken;
        (level0_bytes.saturating_mul(1000) / bytes.max(1)).clamp(10, 1000)
    }

    /// Records the end of a compaction, successful or not.
    pub fn end(&mut self, plan: &Plan) {
        if let Some(at) = self.running.iter().position(|running| running.plan == *plan) {
            self.running.swap_remove(at);
            for number in plan.numbers() {
                self.busy.remove(&number);
            }
        }
    }

    /// Records the tables that a running compaction wrote.
    pub fn wrote(&mut self, plan: &Plan, add: &[TableMeta]) {
        // A tombstone may take the place of an expired version.
        let count = |table: &TableMeta| table.contents.cells + table.contents.expiring;
        let read: u64 = plan.tables().map(|table| count(table)).sum();
        let written: u64 = add.iter().map(count).sum();
        let (first, last) = plan.levels();
        let in_place = plan.reason == Reason::Garbage && first == last;
        let running = self.running.iter().find(|running| running.plan == *plan);
        // At a later watermark the same rewrite may drop something.
        let is_current = running.is_some_and(|it| it.mark == (self.oldest, self.wall));
        if in_place && written >= read && is_current {
            self.settled.extend(add.iter().map(|table| table.number));
        }
    }

    /// Returns `true` if a table was rewritten in its level at this GC watermark, and the rewrite
    /// dropped nothing.
    #[must_use]
    pub fn is_settled(&self, table: &TableMeta) -> bool {
        self.settled.contains(&table.number)
    }

    /// Returns the number of running compactions.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Sets the tables that no compaction can read. They count as busy.
    pub fn set_aside(&mut self, tables: impl IntoIterator<Item = u64>) {
        self.set_aside = tables.into_iter().collect();
    }

    /// Returns `true` if no compaction may read a table, because one reads it or because it was set
    /// aside.
    #[must_use]
    pub fn is_busy(&self, table: &TableMeta) -> bool {
        self.is_read(table) || self.set_aside.contains(&table.number)
    }

    /// Returns `true` if a running compaction reads a table.
    #[must_use]
    pub fn is_read(&self, table: &TableMeta) -> bool {
        self.busy.contains(&table.number)
    }

    /// Returns `true` if a compaction between two levels would conflict with a running one: both
    /// use the same keys of the same level. In level 0, which is not sorted by key, only the tables
    /// themselves conflict.
    #[must_use]
    pub fn is_blocked(&self, (first, last): (usize, usize), hull: &FlatRange) -> bool {
        self.running.iter().any(|Running { plan, .. }| {
            let (running_first, running_last) = plan.levels();
            let shared = first.max(running_first).max(1) <= last.min(running_last);
            shared && plan.hull.overlaps(hull)
        })
    }

    /// Returns `true` if all keys of a range belong to a dropped table.
    #[must_use]
    pub fn is_dropped(&self, range: &FlatRange) -> bool {
        range.only_table().is_some_and(|table| self.dropped.contains(&table))
    }

    /// Returns the key at which the next compaction of a level continues.
    pub(super) fn cursor(&self, level: usize) -> &[u8] {
        &self.cursors[level]
    }

    /// Estimates the percentage of garbage among a table's cells.
    pub(super) fn garbage_percent(&self, table: &TableMeta) -> u64 {
        let percent = u128::from(table.garbage(self.oldest, self.wall)) * 100
            / u128::from(table.contents.cells.max(1));
        u64::try_from(percent).unwrap_or(100)
    }
}
