//! The counters of all tables, found by table without a lock.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use carnet_base::{CellPage, Clock, Moment, TableId, Version};

use super::limits::{SAMPLE, TABLES_MAX};
use super::table_use::{Counts, TableUse};
use crate::batch::Change;
use crate::manifest::table_of;

/// Number of slots; more than tables, so that searches are short.
const SLOTS: usize = 2048;
/// Maximum number of slots that are searched for a table.
const PROBES_MAX: usize = 16;

const _: () = assert!(TABLES_MAX < SLOTS);

/// Counters of all tables.
pub(crate) struct Usage {
    slots: Box<[Slot]>,
    /// Number of slots that are used.
    used: AtomicU64,
    /// Counters of the tables without a slot.
    others: Counts,
    /// Begin of the counting.
    begun: Moment,
}

#[derive(Default)]
struct Slot {
    /// Table id plus one; 0 is free.
    tag: AtomicU64,
    counts: OnceLock<Box<Counts>>,
}

impl Slot {
    fn counts(&self) -> &Counts {
        self.counts.get_or_init(|| Box::new(Counts::new()))
    }
}

impl Usage {
    pub(crate) fn new(begun: Moment) -> Self {
        let slots = std::iter::repeat_with(Slot::default).take(SLOTS).collect();
        Self { slots, used: AtomicU64::new(0), others: Counts::new(), begun }
    }

    /// Returns the time since the counting began.
    pub(crate) fn counted_for(&self, now: Moment) -> Duration {
        now.since(self.begun)
    }

    /// Returns the counters of a table.
    pub(crate) fn of(&self, table: TableId) -> &Counts {
        let tag = u64::from(table.0) + 1;
        let first = table.0.wrapping_mul(0x9E37_79B1) as usize >> 7;
        for probe in 0..PROBES_MAX {
            let slot = &self.slots[(first + probe) % SLOTS];
            let found = slot.tag.load(Ordering::Acquire);
            if found == tag || (found == 0 && self.claim(slot, tag)) {
                return slot.counts();
            }
        }
        &self.others
    }

    /// Takes a free slot for a table; returns whether the slot is the table's.
    #[cold]
    fn claim(&self, slot: &Slot, tag: u64) -> bool {
        if self.used.load(Ordering::Relaxed) >= TABLES_MAX as u64 {
            return false;
        }
        match slot.tag.compare_exchange(0, tag, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.used.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(found) => found == tag,
        }
    }

    fn of_key(&self, key: &[u8]) -> &Counts {
        table_of(key).map_or(&self.others, |table| self.of(table))
    }

    /// Counts a point read, and returns the handle that counts its end.
    pub(crate) fn get(&self, key: &[u8], clock: &dyn Clock) -> Reading<'_> {
        let counts = self.of_key(key);
        let before = counts.stripe().gets.fetch_add(1, Ordering::Relaxed);
        Reading { counts, begun: before.is_multiple_of(SAMPLE).then(|| clock.now()) }
    }

    /// Counts a page, and returns the handle that counts its end.
    pub(crate) fn page(&self, table: TableId, clock: &dyn Clock) -> Reading<'_> {
        let counts = self.of(table);
        let before = counts.stripe().pages.fetch_add(1, Ordering::Relaxed);
        Reading { counts, begun: before.is_multiple_of(SAMPLE).then(|| clock.now()) }
    }

    /// Counts the changes of a commit.
    pub(crate) fn commit<'a>(&self, changes: impl Iterator<Item = Change<'a>>) {
        let mut sums = Sums::default();
        for change in changes {
            let (Change::Cell { key, .. } | Change::Range { lower: key, .. }) = change;
            let table = table_of(key);
            if sums.table != table {
                self.add(&sums);
                sums = Sums { table, ..Sums::default() };
            }
            match change {
                Change::Cell { key, payload, .. } => sums.cell(key, payload),
                Change::Range { .. } => sums.ranges += 1,
            }
        }
        self.add(&sums);
    }

    /// Counts changes of one table in one commit.
    pub(crate) fn add(&self, sums: &Sums) {
        let Some(table) = sums.table else { return };
        let stripe = self.of(table).stripe();
        for (counter, count) in [
            (&stripe.commits, 1),
            (&stripe.cells_written, sums.cells),
            (&stripe.cells_deleted, sums.deleted),
            (&stripe.ranges_deleted, sums.ranges),
            (&stripe.bytes_written, sums.bytes),
        ] {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Returns the numbers of point reads and pages of all tables.
    pub(crate) fn reads(&self) -> (u64, u64) {
        let all = self.slots.iter().filter_map(|slot| slot.counts.get().map(Box::as_ref));
        all.chain([&self.others]).map(Counts::reads).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// Returns the counters of every table that was used, by its id, and of all others together.
    pub(crate) fn snapshot(&self) -> Vec<TableUse> {
        let mut all = Vec::new();
        for slot in &self.slots {
            let tag = slot.tag.load(Ordering::Acquire);
            let table = tag.checked_sub(1).and_then(|table| u32::try_from(table).ok());
            if let (Some(table), Some(counts)) = (table, slot.counts.get()) {
                all.push(counts.snapshot(Some(TableId(table))));
            }
        }
        all.sort_by_key(|usage| usage.table);
        let others = self.others.snapshot(None);
        if others.gets + others.pages + others.commits > 0 {
            all.push(others);
        }
        all
    }
}

/// Changes of one table in one commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) table: Option<TableId>,
    pub(crate) cells: u64,
    pub(crate) deleted: u64,
    pub(crate) ranges: u64,
    pub(crate) bytes: u64,
}

impl Sums {
    fn cell(&mut self, key: &[u8], payload: Option<&[u8]>) {
        self.cells += 1;
        self.deleted += u64::from(payload.is_none());
        self.bytes += (key.len() + payload.map_or(0, <[u8]>::len)) as u64;
    }

    /// Adds a cell to the sums of its table. Cells come in the order of their keys.
    pub(crate) fn add_cell(all: &mut Vec<Self>, key: &[u8], payload: Option<&[u8]>) {
        let table = table_of(key);
        if all.last().is_none_or(|last| last.table != table) {
            all.push(Self { table, ..Self::default() });
        }
        if let Some(last) = all.last_mut() {
            last.cell(key, payload);
        }
    }
}

/// A read in progress.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    counts: &'a Counts,
    /// Begin of the read, if it is in the sample.
    begun: Option<Moment>,
}

impl Reading<'_> {
    /// Counts a point read that has to wait for the disk.
    pub(crate) fn get_on_disk(&self) {
        self.counts.stripe().gets_on_disk.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a point read.
    pub(crate) fn got(&self, version: Option<&Version>, clock: &dyn Clock) {
        let is_live = version.is_some_and(|version| version.payload.is_some());
        if !is_live {
            let stripe = self.counts.stripe();
            let counter =
                if version.is_some() { &stripe.gets_deleted } else { &stripe.gets_absent };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(begun) = self.begun {
            let deleted = version.is_some() && !is_live;
            self.counts.sample_get(clock.now().since(begun), is_live.into(), deleted.into());
        }
    }

    /// Counts the end of a page.
    pub(crate) fn paged(&self, page: &CellPage, waited: bool, clock: &dyn Clock) {
        let stripe = self.counts.stripe();
        let (rows, tombstones) = (page.cells.len() as u64, page.deleted as u64);
        stripe.page_cells.fetch_add(rows, Ordering::Relaxed);
        if tombstones > 0 {
            stripe.page_tombstones.fetch_add(tombstones, Ordering::Relaxed);
        }
        if waited {
            stripe.pages_on_disk.fetch_add(1, Ordering::Relaxed);
        }
        let Some(begun) = self.begun else { return };
        self.counts.sample_page(clock.now().since(begun), rows, tombstones);
        stripe.page_partitions_sampled.fetch_add(partitions_of(page), Ordering::Relaxed);
    }
}

fn partitions_of(page: &CellPage) -> u64 {
    let (mut count, mut last) = (0, None);
    for cell in page.cells.iter() {
        let key = cell.key.to_key();
        if last.as_ref().is_none_or(|last| !key.same_partition(last)) {
            count += 1;
        }
        last = Some(key);
    }
    count
}

/// A sampled commit whose publication is awaited.
pub(crate) struct Waiting {
    usage: Arc<Usage>,
    clock: Arc<dyn Clock>,
    begun: Moment,
    tables: Vec<TableId>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Waiting {
    /// Begins to time a commit with these changes.
    pub(crate) fn begin<'a>(
        usage: &Arc<Usage>,
        clock: &Arc<dyn Clock>,
        changes: impl Iterator<Item = Change<'a>>,
    ) -> Box<Self> {
        let mut tables: Vec<TableId> = changes
            .filter_map(|change| match change {
                Change::Cell { key, .. } => table_of(key),
                Change::Range { lower, .. } => table_of(lower),
            })
            .collect();
        tables.dedup();
        let (usage, clock) = (Arc::clone(usage), Arc::clone(clock));
        let begun = clock.now();
        Box::new(Self { usage, clock, begun, tables })
    }

    /// Records the latency: the commit is published.
    pub(crate) fn end(&self) {
        let took = self.clock.now().since(self.begun);
        self.tables.iter().for_each(|table| self.usage.of(*table).sample_commit(took));
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::SystemClock;

    use super::*;

    #[test]
    fn tables_beyond_the_maximum_share_counters() {
        let usage = Usage::new(SystemClock.now());
        let tables = u32::try_from(TABLES_MAX).unwrap() + 200;
        for table in 0..tables {
            usage.page(TableId(table), &SystemClock);
        }
        let found = usage.snapshot();
        let others = found.last().unwrap();
        assert_eq!(others.table, None);
        assert!(others.pages >= 200, "{} shared", others.pages);
        let own = found.iter().filter(|table| table.table.is_some());
        assert!(own.clone().count() <= TABLES_MAX && own.clone().count() > TABLES_MAX / 2);
        assert!(own.clone().all(|table| table.pages == 1));
        assert_eq!(usage.reads(), (0, u64::from(tables)));
    }

    #[test]
    fn threads_that_claim_a_slot_share_it() {
        let usage = Usage::new(SystemClock.now());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for table in 0..500 {
                        usage.page(TableId(table), &SystemClock);
                    }
                });
            }
        });
        let found = usage.snapshot();
        assert_eq!(found.iter().map(|table| table.pages).sum::<u64>(), 2000);
        assert!(found.iter().filter(|table| table.pages == 4).count() >= 480);
    }
}
