//! What transactions do: decided purely, from a seed.

use carnet::base::{Rng, SeededRng};
use carnet_checker::{Key, Op};

use super::Workload;

/// So many objects are in use at a time: few, so that transactions meet.
const KEYS: i64 = 8;
/// After so many writes an object is left for a new one, so that lists stay short.
const WRITES_PER_KEY: i64 = 64;
/// A transaction has at most so many operations.
const OPS_MAX: u64 = 5;

/// Makes transactions.
///
/// An object is written at most once with each value, as the checker needs it; the objects in use
/// change one by one as they have had their writes.
pub(super) struct Plan {
    seed: u64,
    rng: SeededRng,
    workload: Workload,
    /// Objects in use, with how often each was written.
    keys: Vec<(i64, i64)>,
    next_key: i64,
}

impl Plan {
    pub(super) fn new(seed: u64, workload: Workload) -> Self {
        let keys = (0..KEYS).map(|key| (key, 0)).collect();
        Self { seed, rng: SeededRng::new(seed), workload, keys, next_key: KEYS }
    }

    /// Makes the next transaction.
    pub(super) fn transaction(&mut self) -> Vec<Op> {
        let ops = 1 + self.rng.below(OPS_MAX);
        (0..ops).map(|_| self.op()).collect()
    }

    /// All objects there ever were.
    pub(super) fn keys(&self) -> impl Iterator<Item = i64> + use<> {
        0..self.next_key
    }

    /// Reads objects.
    pub(super) fn read(workload: Workload, key: i64) -> Op {
        match workload {
            Workload::ListAppend => Op::ReadList { key: Key::Int(key), list: Vec::new() },
            Workload::Register => Op::ReadRegister { key: Key::Int(key), value: None },
        }
    }

    /// Makes this plan again.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) const fn workload(&self) -> Workload {
        self.workload
    }

    fn op(&mut self) -> Op {
        let at = usize::try_from(self.rng.below(KEYS.unsigned_abs())).unwrap_or(0);
        let (key, writes) = self.keys[at];
        if self.rng.chance(500) {
            return Self::read(self.workload, key);
        }
        let value = writes + 1;
        self.keys[at].1 = value;
        if value == WRITES_PER_KEY {
            self.keys[at] = (self.next_key, 0);
            self.next_key += 1;
        }
        let key = Key::Int(key);
        match self.workload {
            Workload::ListAppend => Op::Append { key, element: value },
            Workload::Register => Op::Write { key, value },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_object_gets_a_value_twice_and_none_gets_too_many() {
        for workload in [Workload::ListAppend, Workload::Register] {
            let mut plan = Plan::new(1, workload);
            let mut written = HashSet::new();
            for _ in 0..10_000 {
                for op in plan.transaction() {
                    let (Op::Append { key, element: value } | Op::Write { key, value }) = op else {
                        continue;
                    };
                    assert!((1..=WRITES_PER_KEY).contains(&value));
                    assert!(written.insert((key, value)), "{workload:?}");
                }
            }
            let keys: HashSet<Key> = written.into_iter().map(|(key, _)| key).collect();
            assert!(keys.len() > 100 && keys.len() <= plan.keys().count());
        }
    }
}
