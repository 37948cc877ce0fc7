//! The fingerprints whose executions are counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use carnet_base::{Moment, lock};

use super::figures::{Executed, Figures, Totals};
use crate::system::StatisticsRow;

/// Maximum number of fingerprints.
pub(in crate::exec) const SLOTS_MAX: usize = 500;
/// Part of the fingerprints that give way at once: one in this number.
const ROOM: usize = 8;
/// Minimum time between two times when fingerprints give way: an application with more of them than there is
/// room for would pay for a search at each execution.
const EVICTION_INTERVAL: Duration = Duration::from_secs(1);

/// A fingerprint of statements, with its figures.
#[derive(Debug)]
pub(in crate::exec) struct Slot {
    id: u64,
    table: Box<str>,
    text: Box<str>,
    /// Its figures; `None` while it is not among the kept ones. Prepared statements outlive that.
    figures: ArcSwapOption<Figures>,
    /// Number of executions at the last time when others gave way.
    before: AtomicU64,
}

impl Slot {
    fn new(id: u64, (table, text): (String, String)) -> Self {
        let (table, text) = (table.into(), text.into());
        Self { id, table, text, figures: ArcSwapOption::empty(), before: AtomicU64::new(0) }
    }

    /// Counts an execution; returns `false` if the fingerprint is not among the kept ones.
    fn add(&self, executed: Executed) -> bool {
        self.figures.load().as_deref().map(|figures| figures.add(executed)).is_some()
    }

    fn totals(&self) -> Totals {
        self.figures.load().as_deref().map(Figures::totals).unwrap_or_default()
    }
}

/// Statistics of statements by fingerprint.
#[derive(Default)]
pub(in crate::exec) struct Statistics {
    slots: papaya::HashMap<u64, Arc<Slot>>,
    count: AtomicUsize,
    /// Figures of all other fingerprints.
    others: Figures,
    /// Time of the last eviction. Its lock is held while fingerprints are added.
    evicted: Mutex<Option<Moment>>,
    /// The same in nanoseconds, to be looked at without the lock; 0 before the first one.
    evicted_nanos: AtomicU64,
}

impl Statistics {
    /// Returns the fingerprint of a hash for a statement that keeps it; `name` makes its table and text if
    /// it is new.
    pub(in crate::exec) fn slot(
        &self,
        id: u64,
        name: impl FnOnce() -> (String, String),
    ) -> Arc<Slot> {
        let known = self.slots.pin().get(&id).map(Arc::clone);
        known.unwrap_or_else(|| Arc::new(Slot::new(id, name())))
    }

    /// Counts an execution, at a moment, of a statement that keeps its fingerprint.
    pub(in crate::exec) fn count(&self, slot: &Arc<Slot>, executed: Executed, now: Moment) {
        if !slot.add(executed) {
            self.count_missing(slot.id, || Arc::clone(slot), executed, now);
        }
    }

    /// Counts an execution by the hash of the fingerprint. Threads that run one text share no counter.
    pub(in crate::exec) fn count_id(
        &self,
        id: u64,
        name: impl FnOnce() -> (String, String),
        executed: Executed,
        now: Moment,
    ) {
        if !self.slots.pin().get(&id).is_some_and(|slot| slot.add(executed)) {
            self.count_missing(id, || Arc::new(Slot::new(id, name())), executed, now);
        }
    }

    #[cold]
    fn count_missing(
        &self,
        id: u64,
        slot: impl FnOnce() -> Arc<Slot>,
        executed: Executed,
        now: Moment,
    ) {
        let slots = self.slots.pin();
        let is_counted = slots.get(&id).is_some_and(|known| known.add(executed))
            || (self.has_room(now)
                && self.insert(slot(), now).is_some_and(|slot| slot.add(executed)));
        if !is_counted {
            self.others.add(executed);
        }
    }

    /// Returns `true` if a fingerprint may be added.
    fn has_room(&self, now: Moment) -> bool {
        // Relaxed: the lock decides.
        let last = Duration::from_nanos(self.evicted_nanos.load(Ordering::Relaxed));
        self.count.load(Ordering::Relaxed) < SLOTS_MAX
            || last.is_zero()
            || now.0.saturating_sub(last) >= EVICTION_INTERVAL
    }

    /// Adds a fingerprint unless another thread has; returns the one that is counted, or `None` if there is
    /// no room now.
    fn insert(&self, slot: Arc<Slot>, now: Moment) -> Option<Arc<Slot>> {
        let mut evicted = lock(&self.evicted);
        let slots = self.slots.pin();
        if let Some(known) = slots.get(&slot.id) {
            return Some(Arc::clone(known));
        }
        if slots.len() >= SLOTS_MAX {
            if evicted.is_some_and(|last| now.since(last) < EVICTION_INTERVAL) {
                return None;
            }
            *evicted = Some(now);
            let nanos = u64::try_from(now.0.as_nanos()).unwrap_or(u64::MAX);
            self.evicted_nanos.store(nanos.max(1), Ordering::Relaxed);
            self.evict();
        }
        slot.before.store(0, Ordering::Relaxed);
        slot.figures.store(Some(Arc::default()));
        slots.insert(slot.id, Arc::clone(&slot));
        self.count.store(slots.len(), Ordering::Relaxed);
        Some(slot)
    }

    /// Lets the fingerprints give way that were executed least since the last time.
    fn evict(&self) {
        let slots = self.slots.pin();
        let mut by_use: Vec<(u64, Arc<Slot>)> = slots
            .values()
            .map(|slot| {
                let count = slot.totals().durations.count();
                (count - slot.before.swap(count, Ordering::Relaxed).min(count), Arc::clone(slot))
            })
            .collect();
        by_use.sort_unstable_by_key(|(used, slot)| (*used, slot.id));
        by_use.truncate(SLOTS_MAX / ROOM);
        for (_, slot) in &by_use {
            slots.remove(&slot.id);
            if let Some(figures) = slot.figures.swap(None) {
                self.others.add_totals(&figures.totals());
            }
        }
    }

    /// Returns a row for each fingerprint, the largest total time first, and one for all others.
    pub(in crate::exec) fn rows(&self) -> Vec<StatisticsRow> {
        let slots = self.slots.pin();
        let mut rows: Vec<StatisticsRow> = slots
            .values()
            .map(|slot| row(Some(slot.id), &slot.table, &slot.text, &slot.totals()))
            .filter(|row| row.count > 0)
            .collect();
        drop(slots);
        rows.sort_by(|a, b| b.total.cmp(&a.total).then(a.fingerprint.cmp(&b.fingerprint)));
        let others = self.others.totals();
        if others.durations.count() > 0 {
            rows.push(row(None, "", "all others", &others));
        }
        rows
    }
}

fn row(fingerprint: Option<u64>, table: &str, text: &str, totals: &Totals) -> StatisticsRow {
    let count = totals.durations.count();
    StatisticsRow {
        fingerprint,
        table: table.to_owned(),
        statement: text.to_owned(),
        count,
        errors: totals.errors,
        conflicts: totals.conflicts,
        rows_read: totals.rows_read,
        rows_returned: totals.rows_returned,
        total: totals.took,
        longest: totals.longest,
        // The middle of a bucket may lie behind all that is in it.
        quantiles: [0.5, 0.95, 0.99]
            .map(|part| totals.durations.quantile(part).min(totals.longest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(micros: u64) -> Executed {
        Executed { took: Duration::from_micros(micros), rows_read: 2, ..Executed::default() }
    }

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn run(statistics: &Statistics, id: u64, seconds: u64) {
        let name = || (String::new(), format!("statement {id}"));
        statistics.count_id(id, name, executed(100), at(seconds));
    }

    fn prepare(statistics: &Statistics, id: u64) -> Arc<Slot> {
        statistics.slot(id, || (String::new(), "prepared".to_owned()))
    }

    fn count(statistics: &Statistics, id: Option<u64>) -> Option<u64> {
        let rows = statistics.rows();
        rows.iter().find(|row| row.fingerprint == id).map(|row| row.count)
    }

    #[test]
    fn slowest_in_total_comes_first() {
        let statistics = Statistics::default();
        run(&statistics, 7, 1);
        (0..3).for_each(|_| run(&statistics, 8, 1));
        statistics.count(&prepare(&statistics, 7), executed(1), at(1));
        let rows = statistics.rows();
        let found: Vec<_> = rows.iter().map(|row| (row.fingerprint, row.count)).collect();
        assert_eq!(found, [(Some(8), 3), (Some(7), 2)], "prepared or not");
        assert_eq!((rows[0].rows_read, rows[0].total), (6, Duration::from_micros(300)));
        let [median, .., p99] = rows[0].quantiles;
        assert!((90..=100).contains(&median.as_micros()) && p99 <= rows[0].longest, "{median:?}");
    }

    #[test]
    fn seldom_used_fingerprints_give_way_and_are_counted_together() {
        let statistics = Statistics::default();
        let kept = prepare(&statistics, u64::MAX);
        let many = 3 * SLOTS_MAX as u64;
        for id in 0..many {
            statistics.count(&kept, executed(1), at(id));
            run(&statistics, id, id);
        }
        let rows = statistics.rows();
        assert!(rows.len() <= SLOTS_MAX + 1, "{} fingerprints", rows.len());
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), 2 * many);
        assert_eq!(count(&statistics, Some(u64::MAX)), Some(many), "the most used one stays");
        assert!(count(&statistics, None) >= Some(many - SLOTS_MAX as u64));
    }

    /// Each execution would otherwise search for the least used fingerprint.
    #[test]
    fn full_table_gives_way_once_in_an_interval() {
        let statistics = Statistics::default();
        let many = 10 * SLOTS_MAX as u64;
        (0..many).for_each(|id| run(&statistics, id, 5));
        let gave_way = (SLOTS_MAX / ROOM) as u64;
        assert_eq!(count(&statistics, None), Some(many - SLOTS_MAX as u64));
        let first = (0..SLOTS_MAX as u64).filter(|id| count(&statistics, Some(*id)).is_some());
        assert_eq!(first.count() as u64, SLOTS_MAX as u64 - gave_way);
    }

    /// A prepared statement keeps its fingerprint, whose figures are freed.
    #[test]
    fn fingerprint_that_gave_way_comes_back() {
        let statistics = Statistics::default();
        let kept = prepare(&statistics, u64::MAX);
        statistics.count(&kept, executed(1), at(0));
        for id in 0..2 * SLOTS_MAX as u64 {
            run(&statistics, id, id);
            run(&statistics, id, id);
        }
        assert_eq!(count(&statistics, Some(u64::MAX)), None);
        assert!(kept.figures.load().is_none());
        let later = at(10 * SLOTS_MAX as u64);
        statistics.count(&kept, executed(1), later);
        statistics.count(&kept, executed(1), later);
        assert_eq!(count(&statistics, Some(u64::MAX)), Some(2));
    }
}
