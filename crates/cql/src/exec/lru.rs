//! A cache with a limit in bytes and eviction of the least recently used entry.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Entries whose bytes, as given by the caller, stay within a limit.
///
/// Evicted values are returned, so that the caller can drop them after it has released its lock.
pub(super) struct Lru<K, V> {
    bytes_max: usize,
    bytes: usize,
    entries: HashMap<K, Entry<V>>,
    /// Keys by the time of their last use.
    by_use: BTreeMap<u64, K>,
    /// Time of the last use: a counter.
    now: u64,
}

struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

impl<K: Copy + Eq + Hash, V: Clone> Lru<K, V> {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, entries: HashMap::new(), by_use: BTreeMap::new(), now: 0 }
    }

    pub(super) const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Changes the limit, and returns the evicted values.
    pub(super) fn set_bytes_max(&mut self, bytes_max: usize) -> Vec<V> {
        self.bytes_max = bytes_max;
        self.evict()
    }

    /// Inserts an entry, or replaces the one with its key. Returns the evicted values, including
    /// the new one if it alone exceeds the limit.
    pub(super) fn insert(&mut self, key: K, value: V, bytes: usize) -> Vec<V> {
        let replaced = self.remove(&key);
        self.now += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries.insert(key, Entry { value, bytes, used: self.now });
        self.by_use.insert(self.now, key);
        let mut gone = self.evict();
        gone.extend(replaced);
        gone
    }

    /// Returns the value of a key, and makes it the most recently used.
    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.get_mut(key)?;
        // Fast path for one busy statement, which is the newest already.
        if entry.used != self.now {
            self.now += 1;
            self.by_use.remove(&entry.used);
            self.by_use.insert(self.now, *key);
            entry.used = self.now;
        }
        Some(entry.value.clone())
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry.value)
    }

    fn evict(&mut self) -> Vec<V> {
        let mut gone = Vec::new();
        while self.bytes > self.bytes_max {
            let Some((_, key)) = self.by_use.first_key_value() else { break };
            let key = *key;
            gone.extend(self.remove(&key));
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;

    #[test]
    fn least_recently_used_is_evicted_first() {
        let mut lru = Lru::new(100);
        assert!(lru.insert('a', 1, 40).is_empty());
        assert!(lru.insert('b', 2, 40).is_empty());
        assert_eq!(lru.get(&'a'), Some(1));
        assert_eq!(lru.insert('c', 3, 40), [2]);
        assert_eq!((lru.get(&'b'), lru.bytes(), lru.len()), (None, 80, 2));
        assert_eq!(lru.insert('d', 4, 100), [1, 3]);
        assert_eq!(lru.set_bytes_max(99), [4]);
        assert_eq!((lru.bytes(), lru.len()), (0, 0));
    }

    #[test]
    fn oversized_entry_is_not_kept() {
        let mut lru = Lru::new(100);
        assert_eq!(lru.insert('a', 1, 101), [1]);
        assert_eq!((lru.get(&'a'), lru.bytes()), (None, 0));
    }

    #[test]
    fn replaced_entry_is_charged_once() {
        let mut lru = Lru::new(100);
        assert!(lru.insert('a', 1, 60).is_empty());
        assert_eq!(lru.insert('a', 2, 70), [1]);
        assert_eq!((lru.get(&'a'), lru.bytes(), lru.len()), (Some(2), 70, 1));
        assert_eq!(lru.remove(&'a'), Some(2));
        assert_eq!(lru.bytes(), 0);
    }

    #[test]
    fn random_operations_match_a_list() {
        for seed in 0..200 {
            let mut rng = SeededRng::new(seed);
            let mut lru = Lru::new(50);
            // From the least to the most recently used.
            let mut model: Vec<(u64, usize)> = Vec::new();
            for _ in 0..200 {
                let key = rng.below(12);
                let found = model.iter().position(|(known, _)| *known == key);
                match rng.below(3) {
                    0 => {
                        let bytes = usize::try_from(rng.below(30)).unwrap();
                        lru.insert(key, key, bytes);
                        found.map(|at| model.remove(at));
                        model.push((key, bytes));
                        while model.iter().map(|(_, bytes)| bytes).sum::<usize>() > 50 {
                            model.remove(0);
                        }
                    }
                    1 => {
                        assert_eq!(lru.get(&key), found.map(|_| key), "seed {seed}");
                        if let Some(at) = found {
                            let used = model.remove(at);
                            model.push(used);
                        }
                    }
                    _ => {
                        lru.remove(&key);
                        found.map(|at| model.remove(at));
                    }
                }
                let bytes: usize = model.iter().map(|(_, bytes)| bytes).sum();
                assert_eq!((lru.len(), lru.bytes()), (model.len(), bytes), "seed {seed}");
                assert_eq!(lru.by_use.len(), model.len(), "seed {seed}");
            }
        }
    }
}
