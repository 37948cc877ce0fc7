//! A cache with a limit in bytes, whose readers share no lock.
//!
//! Every execution of a prepared statement looks it up, on any thread. A list in the order of use
//! would be written at each lookup, so that all threads wait for one cache line. Here an entry
//! remembers the *period* of its last use, and a period ends when an entry is added: a lookup writes
//! nothing unless it is the first one of its entry in a period. Entries of the oldest period are
//! evicted first, so the order of eviction is that of use, except among entries whose last uses lie
//! between the same two additions.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use carnet_base::lock;

/// Part of the limit that an eviction leaves free: one in this number.
const ROOM: usize = 16;

/// Entries whose bytes, as given by the caller, stay within a limit.
pub(super) struct Recent<K, V> {
    entries: papaya::HashMap<K, Entry<V>>,
    /// The present period: twice the number of additions.
    period: AtomicU64,
    /// Limit and sum. Its lock is held while entries are added or removed.
    sizes: Mutex<Sizes>,
}

struct Sizes {
    bytes_max: usize,
    bytes: usize,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    used: AtomicU64,
}

impl<K: Copy + Eq + Hash, V: Clone> Recent<K, V> {
    pub(super) fn new(bytes_max: usize) -> Self {
        let sizes = Mutex::new(Sizes { bytes_max, bytes: 0 });
        Self { entries: papaya::HashMap::new(), period: AtomicU64::new(0), sizes }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.sizes().bytes_max
    }

    /// Returns the number of entries and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let sizes = self.sizes();
        (self.entries.len(), sizes.bytes)
    }

    /// Changes the limit.
    pub(super) fn set_bytes_max(&self, bytes_max: usize) {
        let mut sizes = self.sizes();
        sizes.bytes_max = bytes_max;
        self.evict(&mut sizes);
    }

    /// Inserts an entry, or replaces the one with its key. An entry that exceeds the limit alone is not kept.
    pub(super) fn insert(&self, key: K, value: V, bytes: usize) {
        let mut sizes = self.sizes();
        if bytes > sizes.bytes_max {
            return self.take(&key, &mut sizes);
        }
        // Relaxed: the period guards no other memory.
        let used = AtomicU64::new(self.period.fetch_add(2, Ordering::Relaxed) + 2);
        let entries = self.entries.pin();
        if let Some(replaced) = entries.insert(key, Entry { value, bytes, used }) {
            sizes.bytes -= replaced.bytes;
        }
        sizes.bytes = sizes.bytes.saturating_add(bytes);
        self.evict(&mut sizes);
    }

    /// Returns the value of a key, and records its use.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.pin();
        let entry = entries.get(key)?;
        // A use comes after the addition that the period began with.
        let now = self.period.load(Ordering::Relaxed) | 1;
        if entry.used.load(Ordering::Relaxed) != now {
            entry.used.store(now, Ordering::Relaxed);
        }
        Some(entry.value.clone())
    }

    pub(super) fn remove(&self, key: &K) {
        let mut sizes = self.sizes();
        self.take(key, &mut sizes);
    }

    fn take(&self, key: &K, sizes: &mut Sizes) {
        if let Some(entry) = self.entries.pin().remove(key) {
            sizes.bytes -= entry.bytes;
        }
    }

    /// If there are too many bytes, removes the entries of the oldest periods until there is room for further ones: all
    /// entries are looked at.
    fn evict(&self, sizes: &mut Sizes) {
        if sizes.bytes <= sizes.bytes_max {
            return;
        }
        let period = |entry: &Entry<V>| entry.used.load(Ordering::Relaxed);
        let entries = self.entries.pin();
        let mut by_use: Vec<(u64, K)> =
            entries.iter().map(|(key, entry)| (period(entry), *key)).collect();
        drop(entries);
        by_use.sort_unstable_by_key(|(used, _)| *used);
        let bytes_after = sizes.bytes_max - sizes.bytes_max / ROOM;
        for (_, key) in by_use {
            if sizes.bytes <= bytes_after {
                return;
            }
            self.take(&key, sizes);
        }
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        lock(&self.sizes)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use carnet_base::{Rng as _, SeededRng};

    use super::*;

    #[test]
    fn entry_that_was_used_longest_ago_is_evicted_first() {
        let recent = Recent::new(100);
        recent.insert('a', 1, 40);
        recent.insert('b', 2, 40);
        assert_eq!(recent.get(&'a'), Some(1));
        recent.insert('c', 3, 40);
        assert_eq!((recent.get(&'a'), recent.get(&'b'), recent.size()), (Some(1), None, (2, 80)));
        recent.insert('d', 4, 90);
        assert_eq!((recent.get(&'d'), recent.size()), (Some(4), (1, 90)));
        recent.set_bytes_max(89);
        assert_eq!(recent.size(), (0, 0));
    }

    #[test]
    fn oversized_entry_evicts_no_other() {
        let recent = Recent::new(100);
        recent.insert('a', 1, 60);
        recent.insert('b', 2, 101);
        assert_eq!((recent.get(&'a'), recent.get(&'b')), (Some(1), None));
        recent.insert('a', 3, 101);
        assert_eq!((recent.get(&'a'), recent.size()), (None, (0, 0)), "the earlier value is gone");
    }

    #[test]
    fn replaced_entry_is_charged_once() {
        let recent = Recent::new(100);
        recent.insert('a', 1, 60);
        recent.insert('a', 2, 70);
        assert_eq!((recent.get(&'a'), recent.size()), (Some(2), (1, 70)));
        recent.remove(&'a');
        recent.remove(&'a');
        assert_eq!(recent.size(), (0, 0));
    }

    /// A lookup would otherwise write to memory that all threads read.
    #[test]
    fn lookup_writes_once_in_a_period() {
        let recent = Recent::new(100);
        recent.insert('a', 1, 10);
        recent.insert('b', 1, 10);
        let used = || recent.entries.pin().get(&'a').unwrap().used.load(Ordering::Relaxed);
        assert_eq!(
            (used(), recent.get(&'a'), used(), recent.get(&'a'), used()),
            (2, Some(1), 5, Some(1), 5)
        );
        assert_eq!(recent.period.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn bytes_are_those_of_the_entries() {
        for seed in 0..200 {
            let mut rng = SeededRng::new(seed);
            let recent = Recent::new(50);
            for _ in 0..200 {
                let key = rng.below(12);
                match rng.below(3) {
                    0 => recent.insert(key, key, usize::try_from(rng.below(60)).unwrap()),
                    1 => assert!(recent.get(&key).is_none_or(|value| value == key)),
                    _ => recent.remove(&key),
                }
                let bytes: usize = recent.entries.pin().values().map(|entry| entry.bytes).sum();
                let (len, counted) = recent.size();
                assert_eq!((len, bytes), (recent.entries.len(), counted), "seed {seed}");
                assert!(bytes <= 50, "seed {seed}");
            }
        }
    }

    #[test]
    fn threads_add_and_look_up_at_once() {
        let recent = &Recent::new(1_000);
        let add = |thread| {
            move || {
                let mut rng = SeededRng::new(thread);
                for _ in 0..2_000 {
                    let key = rng.below(40);
                    match rng.below(4) {
                        0 => recent.insert(key, key, 50),
                        1 => recent.remove(&key),
                        _ => assert!(recent.get(&key).is_none_or(|value| value == key)),
                    }
                }
            }
        };
        thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(add(thread)))));
        let (len, bytes) = recent.size();
        assert_eq!(bytes, 50 * len);
    }
}
