//! Heavy hitters in bounded memory.

use std::sync::Arc;

use super::waits::Waiter;

/// Maximum number of statements in a sketch.
const ENTRIES_MAX: usize = 16;

/// Statements with the longest waits, by the Space-Saving algorithm (Metwally, Agrawal and El
/// Abbadi, 2005): an unknown statement replaces the one with the smallest weight and inherits that
/// weight, which is its uncertainty.
#[derive(Clone, Debug, Default)]
pub(super) struct Sketch(Vec<Entry>);

#[derive(Clone, Debug)]
struct Entry {
    level: Arc<str>,
    waiter: Waiter,
    weight: u64,
    uncertain: u64,
}

impl Sketch {
    pub(super) fn add(&mut self, level: &Arc<str>, waiter: &Waiter, weight: u64) {
        let is_same = |entry: &&mut Entry| entry.level == *level && entry.waiter == *waiter;
        if let Some(entry) = self.0.iter_mut().find(is_same) {
            entry.weight = entry.weight.saturating_add(weight);
            return;
        }
        let (level, waiter) = (Arc::clone(level), waiter.clone());
        if self.0.len() < ENTRIES_MAX {
            return self.0.push(Entry { level, waiter, weight, uncertain: 0 });
        }
        let smallest = self.0.iter_mut().min_by_key(|entry| entry.weight);
        if let Some(entry) = smallest {
            let uncertain = entry.weight;
            *entry = Entry { level, waiter, weight: uncertain.saturating_add(weight), uncertain };
        }
    }

    /// Returns the statements of a level with lower bounds of their weights.
    pub(super) fn of_level(&self, level: &str) -> impl Iterator<Item = (&Waiter, u64)> {
        let of_level = self.0.iter().filter(move |entry| &*entry.level == level);
        of_level.map(|entry| (&entry.waiter, entry.weight - entry.uncertain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::Named;

    #[test]
    fn heavy_statement_outlives_many_light_ones() {
        let (mut sketch, level) = (Sketch::default(), Arc::from("default"));
        let waiter = |text: &str| Waiter { named: Arc::new(Named::new("ks.t", text)), user: None };
        let heavy = waiter("heavy");
        for n in 0..10_000 {
            sketch.add(&level, &waiter(&format!("light {n}")), 10);
            if n % 8 == 0 {
                sketch.add(&level, &heavy, 40);
            }
        }
        let found = sketch.of_level("default").max_by_key(|(_, weight)| *weight).unwrap();
        assert_eq!(*found.0, heavy);
        assert!(found.1 <= 1_250 * 40, "it is no more than was added");
        assert_eq!(sketch.0.len(), ENTRIES_MAX);
        assert_eq!(sketch.of_level("other").count(), 0);
    }
}
