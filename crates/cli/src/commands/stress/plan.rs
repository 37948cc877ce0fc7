//! What transactions do: decided purely, from a seed.

use anyhow::{Result, bail};
use carnet::base::{Rng, SeededRng};
use carnet_checker::{Key, Op};

use super::Workload;
use super::bank::Errand;

/// So many objects are in use at a time: few, so that transactions meet.
const KEYS: i64 = 8;
/// After so many writes an object is left for a new one, so that lists stay short.
const WRITES_PER_KEY: i64 = 64;
/// A transaction has at most so many operations.
const OPS_MAX: u64 = 5;

/// What a transaction does.
pub(super) enum Work {
    /// What the checker judges.
    Ops(Vec<Op>),
    /// What is judged by the accounts' total.
    Errand(Errand),
}

/// Makes transactions.
///
/// An object is written at most once with each value, as the checker needs it; the objects in use
/// change one by one as they have had their writes.
pub(super) struct Plan {
    seed: u64,
    rng: SeededRng,
    workloads: Vec<Workload>,
    /// Objects in use, with how often each was written.
    keys: Vec<(i64, i64)>,
    next_key: i64,
}

impl Plan {
    /// Draws each transaction from one of the workloads.
    ///
    /// # Errors
    ///
    /// There is none, or they make no history together.
    pub(super) fn new(seed: u64, workloads: &[Workload]) -> Result<Self> {
        if workloads.contains(&Workload::ListAppend) && workloads.contains(&Workload::Register) {
            bail!("a history holds lists or registers, not both: give one of them, with the bank");
        }
        if workloads.is_empty() {
            bail!("give a workload");
        }
        let keys = (0..KEYS).map(|key| (key, 0)).collect();
        let (rng, workloads) = (SeededRng::new(seed), workloads.to_vec());
        Ok(Self { seed, rng, workloads, keys, next_key: KEYS })
    }

    /// Makes the next transaction.
    pub(super) fn transaction(&mut self) -> Work {
        let drawn = self.rng.below(self.workloads.len() as u64);
        let workload = self.workloads[usize::try_from(drawn).unwrap_or(0)];
        if workload == Workload::Bank {
            return Work::Errand(Errand::draw(&mut self.rng));
        }
        let ops = 1 + self.rng.below(OPS_MAX);
        Work::Ops((0..ops).map(|_| self.op(workload)).collect())
    }

    /// Reads all objects there ever were.
    pub(super) fn reads(&self) -> Vec<Op> {
        let of_objects = self.workloads.iter().find(|workload| **workload != Workload::Bank);
        let reads = of_objects.map(|workload| (0..self.next_key).map(|key| read(*workload, key)));
        reads.into_iter().flatten().collect()
    }

    /// Tells whether there are accounts.
    pub(super) fn has_bank(&self) -> bool {
        self.workloads.contains(&Workload::Bank)
    }

    /// Tells whether there is anything for the checker.
    pub(super) fn has_history(&self) -> bool {
        self.workloads.iter().any(|workload| *workload != Workload::Bank)
    }

    /// Makes this plan again.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    fn op(&mut self, workload: Workload) -> Op {
        let at = usize::try_from(self.rng.below(KEYS.unsigned_abs())).unwrap_or(0);
        let (key, writes) = self.keys[at];
        if self.rng.chance(500) {
            return read(workload, key);
        }
        let value = writes + 1;
        self.keys[at].1 = value;
        if value == WRITES_PER_KEY {
            self.keys[at] = (self.next_key, 0);
            self.next_key += 1;
        }
        let key = Key::Int(key);
        match workload {
            Workload::Register => Op::Write { key, value },
            _ => Op::Append { key, element: value },
        }
    }
}

fn read(workload: Workload, key: i64) -> Op {
    let key = Key::Int(key);
    match workload {
        Workload::Register => Op::ReadRegister { key, value: None },
        _ => Op::ReadList { key, list: Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_object_gets_a_value_twice_and_none_gets_too_many() {
        use Workload::{Bank, ListAppend, Register};
        for workloads in [&[ListAppend][..], &[Register], &[ListAppend, Bank]] {
            let mut plan = Plan::new(1, workloads).unwrap();
            let mut written = HashSet::new();
            for _ in 0..10_000 {
                let Work::Ops(ops) = plan.transaction() else { continue };
                for op in ops {
                    let (Op::Append { key, element: value } | Op::Write { key, value }) = op else {
                        continue;
                    };
                    assert!((1..=WRITES_PER_KEY).contains(&value));
                    assert!(written.insert((key, value)), "{workloads:?}");
                }
            }
            let keys: HashSet<Key> = written.into_iter().map(|(key, _)| key).collect();
            assert!(keys.len() > 100 && keys.len() <= plan.reads().len());
        }
    }
}
