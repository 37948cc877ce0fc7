//! Cached service levels of a process.

use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use carnet_base::{Timestamp, lock};

use super::set::Levels;
use crate::catalog::SchemaAt;

/// The service levels as of the newest snapshot at which they were read or changed.
pub(crate) struct LevelCache {
    levels: ArcSwap<Levels>,
    /// Timestamp of that snapshot; `None` before the first read.
    known: Mutex<Option<Timestamp>>,
}

impl LevelCache {
    pub(crate) fn new() -> Self {
        Self { levels: ArcSwap::default(), known: Mutex::new(None) }
    }

    pub(crate) fn get(&self) -> Arc<Levels> {
        self.levels.load_full()
    }

    /// Returns `true` if the cached levels are current at a snapshot.
    pub(crate) fn is_current(&self, at: SchemaAt) -> bool {
        let known = *lock(&self.known);
        known.is_some_and(|known| at.read <= known || at.changed <= known)
    }

    /// Stores the levels of a snapshot, unless those of a later one are cached.
    pub(crate) fn offer(&self, at: Timestamp, levels: Levels) {
        let mut known = lock(&self.known);
        if known.is_none_or(|known| known <= at) {
            *known = Some(at);
            self.levels.store(Arc::new(levels));
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
        let cache = LevelCache::new();
        let mut newer = Levels::default();
        newer.create("gold", &[]).unwrap();
        cache.offer(at(5), newer.clone());
        cache.offer(at(4), Levels::default());
        assert_eq!(*cache.get(), newer);
    }

    #[test]
    fn levels_are_read_again_after_a_change() {
        let cache = LevelCache::new();
        assert!(!cache.is_current(snapshot(1, 1)), "nothing was read yet");
        cache.offer(at(5), Levels::default());
        assert!(cache.is_current(snapshot(9, 5)));
        assert!(cache.is_current(snapshot(4, 9)), "it is older than what is known");
        assert!(!cache.is_current(snapshot(9, 6)));
    }
}
