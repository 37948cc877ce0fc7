//! Records of the catalog that a process keeps in memory as a whole: service levels, roles.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use carnet_base::{Timestamp, lock};

use super::cache::SchemaAt;

/// Records as of the newest snapshot at which they were read or changed.
pub(crate) struct Cached<T> {
    records: ArcSwap<T>,
    /// Number of changes that this process has seen.
    version: AtomicU64,
    /// Timestamp of that snapshot; `None` before the first read.
    known: Mutex<Option<Timestamp>>,
}

impl<T: Default + PartialEq> Cached<T> {
    pub(crate) fn new() -> Self {
        Self { records: ArcSwap::default(), version: AtomicU64::new(0), known: Mutex::new(None) }
    }

    pub(crate) fn get(&self) -> Arc<T> {
        self.records.load_full()
    }

    /// Returns a number that changes with the records. Records that are read after it are as new.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns `true` if the records are current at a snapshot.
    pub(crate) fn is_current(&self, at: SchemaAt) -> bool {
        let known = *lock(&self.known);
        known.is_some_and(|known| at.read <= known || at.changed <= known)
    }

    /// Stores the records of a snapshot, unless a later snapshot is known.
    pub(crate) fn offer(&self, at: Timestamp, records: T) {
        let mut known = lock(&self.known);
        if known.is_some_and(|known| known > at) {
            return;
        }
        *known = Some(at);
        if records != **self.records.load() {
            self.records.store(Arc::new(records));
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Records that a snapshot has the known records, if they are `records`.
    pub(crate) fn confirm(&self, at: Timestamp, records: &Arc<T>) {
        let mut known = lock(&self.known);
        if known.is_some_and(|known| known < at) && Arc::ptr_eq(&self.get(), records) {
            *known = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Timestamp {
        Timestamp::new(n).unwrap()
    }

    fn snapshot(read: u64, changed: u64) -> SchemaAt {
        SchemaAt { read: at(read), changed: at(changed) }
    }

    #[test]
    fn older_snapshot_does_not_replace_a_newer_one() {
        let cached = Cached::new();
        cached.offer(at(5), 7);
        cached.offer(at(4), 0);
        assert_eq!((*cached.get(), cached.version()), (7, 1));
    }

    #[test]
    fn records_are_read_again_after_a_change() {
        let cached = Cached::<u32>::new();
        assert!(!cached.is_current(snapshot(1, 1)), "nothing was read yet");
        cached.offer(at(5), 0);
        assert!(cached.is_current(snapshot(9, 5)));
        assert!(cached.is_current(snapshot(4, 9)), "it is older than the known one");
        assert!(!cached.is_current(snapshot(9, 6)));
    }

    #[test]
    fn version_counts_changes_of_the_records_only() {
        let cached = Cached::new();
        cached.offer(at(5), 0);
        assert_eq!(cached.version(), 0);
        cached.offer(at(6), 7);
        cached.offer(at(7), 7);
        assert_eq!(cached.version(), 1, "another change of the catalog came in between");
        assert!(cached.is_current(snapshot(9, 7)) && !cached.is_current(snapshot(9, 8)));
    }

    #[test]
    fn known_records_are_confirmed_and_no_others() {
        let cached = Cached::new();
        cached.offer(at(5), 7);
        let earlier = cached.get();
        cached.confirm(at(8), &earlier);
        assert!(cached.is_current(snapshot(9, 8)));
        cached.offer(at(9), 8);
        cached.confirm(at(12), &earlier);
        assert!(!cached.is_current(snapshot(13, 12)));
    }
}
