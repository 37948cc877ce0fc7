//! The plan: draws transactions from a seed. Pure.

use anyhow::{Result, bail};
use carnet_base::{Rng, SeededRng};
use carnet_checker::{Key, Op};

use super::bank::BankOperation;
use super::transaction::{Condition, SEATS, Transaction, doctor, flight};
use super::workload::Workload;

/// Number of objects in use at a time; small, so that transactions conflict.
const KEYS: i64 = 8;
/// Number of writes after which an object is replaced by a new one, so that lists stay short.
const WRITES_PER_KEY: i64 = 64;
/// Maximum number of operations per transaction.
const OPS_MAX: u64 = 5;
/// Number of pairs of doctors, and of flights that are booked at a time.
const PAIRS: u64 = 3;
const FLIGHTS: u64 = 2;
/// Number of bookings after which a flight is replaced by a new one: by then it is full.
const BOOKINGS_PER_FLIGHT: usize = 3 * SEATS;
/// Number of objects that one of the final transactions reads.
const LAST_KEYS: usize = 16;

/// Transaction of a workload.
pub(super) enum Work {
    /// A transaction that the checker judges.
    Judged(Transaction),
    /// An operation on the bank, judged by the accounts' total.
    Bank(BankOperation),
}

/// Source of transactions.
///
/// Each value is written to an object at most once, as the checker requires. Objects are replaced
/// one by one after their last write.
pub(super) struct Plan {
    seed: u64,
    rng: SeededRng,
    workloads: Vec<Workload>,
    /// Objects in use, with their numbers of writes.
    keys: Vec<(i64, i64)>,
    next_key: i64,
    /// Flights in use, with their numbers of bookings.
    flights: Vec<(i64, usize)>,
    next_flight: i64,
    /// The next unique value: names passengers and doctors' changes.
    next_value: i64,
}

impl Plan {
    /// Draws each transaction from one of the workloads.
    ///
    /// # Errors
    ///
    /// No workload is given, or the workloads cannot share a history.
    pub(super) fn new(seed: u64, workloads: &[Workload]) -> Result<Self> {
        let kinds = workloads.iter().filter_map(|workload| workload.history());
        if kinds.clone().zip(kinds.skip(1)).any(|(one, other)| one != other) {
            bail!(
                "a history holds lists or registers, not both: give list-append and phantom, or \
                 register and write-skew, with the bank if you like"
            );
        }
        if workloads.is_empty() {
            bail!("give a workload");
        }
        let keys = (0..KEYS).map(|key| (key, 0)).collect();
        let flights: Vec<_> = (0..).zip((0..FLIGHTS).map(|_| 0)).collect();
        Ok(Self {
            seed,
            rng: SeededRng::new(seed),
            workloads: workloads.to_vec(),
            keys,
            next_key: KEYS,
            next_flight: FLIGHTS.cast_signed(),
            flights,
            next_value: 1,
        })
    }

    /// Draws the next transaction.
    pub(super) fn transaction(&mut self) -> Work {
        let drawn = self.below(self.workloads.len());
        let workload = self.workloads[drawn];
        Work::Judged(match workload {
            Workload::Bank => return Work::Bank(BankOperation::draw(&mut self.rng)),
            Workload::WriteSkew => self.shift(),
            Workload::Phantom => self.booking(),
            Workload::ListAppend | Workload::Register => {
                let ops = 1 + self.rng.below(OPS_MAX);
                Transaction::new(workload, (0..ops).map(|_| self.op(workload)).collect())
            }
        })
    }

    /// Reads all objects that were ever used.
    pub(super) fn reads(&self) -> Vec<Transaction> {
        let mut reads = Vec::new();
        for workload in &self.workloads {
            let keys: Vec<Key> = match workload {
                Workload::Bank => continue,
                Workload::ListAppend | Workload::Register => {
                    (0..self.next_key).map(Key::Int).collect()
                }
                Workload::WriteSkew => (0..PAIRS.cast_signed())
                    .flat_map(|pair| [0, 1].map(|n| doctor(pair, n)))
                    .collect(),
                Workload::Phantom => (0..self.next_flight).map(flight).collect(),
            };
            reads.extend(keys.chunks(LAST_KEYS).map(|keys| {
                let ops = keys.iter().map(|key| read(*workload, key.clone()));
                Transaction::new(*workload, ops.collect())
            }));
        }
        reads
    }

    /// Returns `true` if a workload is among those drawn.
    pub(super) fn has(&self, workload: Workload) -> bool {
        self.workloads.contains(&workload)
    }

    /// Returns `true` if some workload has a history for the checker.
    pub(super) fn has_history(&self) -> bool {
        self.workloads.iter().any(|workload| workload.history().is_some())
    }

    /// Returns the seed, which reproduces this plan.
    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.rng.below(limit as u64)).unwrap_or(0)
    }

    fn fresh(&mut self) -> i64 {
        self.next_value += 1;
        self.next_value - 1
    }

    fn op(&mut self, workload: Workload) -> Op {
        let at = self.below(self.keys.len());
        let (key, writes) = self.keys[at];
        if self.rng.chance(500) {
            return read(workload, Key::Int(key));
        }
        let value = writes + 1;
        self.keys[at].1 = value;
        if value == WRITES_PER_KEY {
            self.keys[at] = (self.next_key, 0);
            self.next_key += 1;
        }
        let key = Key::Int(key);
        match workload.history() {
            Some(carnet_checker::Workload::Register) => Op::Write { key, value },
            _ => Op::Append { key, element: value },
        }
    }

    /// A doctor reads both registers, and goes off call if the other is on call, or comes on call.
    fn shift(&mut self) -> Transaction {
        let pair = self.rng.below(PAIRS).cast_signed();
        let me = self.rng.below(2).cast_signed();
        let (key, other) = (doctor(pair, me), doctor(pair, 1 - me));
        let both = [key.clone(), other.clone()];
        let mut ops: Vec<Op> = both.map(|key| read(Workload::WriteSkew, key)).into();
        let value = self.fresh();
        let only_if = match self.rng.below(100) {
            0..50 => {
                ops.push(Op::Write { key, value: -value });
                Some(Condition::IsPositive(other))
            }
            50..90 => {
                ops.push(Op::Write { key, value });
                None
            }
            _ => None,
        };
        Transaction { workload: Workload::WriteSkew, ops, only_if }
    }

    /// A passenger counts the passengers and takes a seat if one is free, or a transaction only
    /// reads.
    fn booking(&mut self) -> Transaction {
        let at = self.below(self.flights.len());
        let (number, bookings) = self.flights[at];
        let key = flight(number);
        let mut ops = vec![read(Workload::Phantom, key.clone())];
        if self.rng.chance(250) {
            return Transaction::new(Workload::Phantom, ops);
        }
        self.flights[at].1 = bookings + 1;
        if bookings + 1 == BOOKINGS_PER_FLIGHT {
            self.flights[at] = (self.next_flight, 0);
            self.next_flight += 1;
        }
        ops.push(Op::Append { key: key.clone(), element: self.fresh() });
        let only_if = Some(Condition::IsShorter(key, SEATS));
        Transaction { workload: Workload::Phantom, ops, only_if }
    }
}

fn read(workload: Workload, key: Key) -> Op {
    match workload.history() {
        Some(carnet_checker::Workload::Register) => Op::ReadRegister { key, value: None },
        _ => Op::ReadList { key, list: Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn values_are_unique_and_objects_are_replaced() {
        use Workload::{Bank, ListAppend, Phantom, Register, WriteSkew};
        for workloads in
            [&[ListAppend][..], &[Register, WriteSkew], &[ListAppend, Phantom], &[Phantom, Bank]]
        {
            let mut plan = Plan::new(1, workloads).unwrap();
            let (mut written, mut wanted) = (HashSet::new(), HashMap::<Key, i64>::new());
            for _ in 0..10_000 {
                let Work::Judged(Transaction { ops, .. }) = plan.transaction() else { continue };
                for op in ops {
                    let (Op::Append { key, element: value } | Op::Write { key, value }) = op else {
                        continue;
                    };
                    *wanted.entry(key.clone()).or_default() += 1;
                    assert!(written.insert((key, value)), "{workloads:?}");
                }
            }
            let read: HashSet<Key> =
                plan.reads().iter().flat_map(|all| &all.ops).map(|op| op.key().clone()).collect();
            for (key, wanted) in &wanted {
                assert!(read.contains(key), "{key} is not read in the end");
                let is_short = matches!(key, Key::Int(key) if *key >= 0);
                assert!(*wanted <= WRITES_PER_KEY || !is_short, "{key} has {wanted} writes");
            }
            assert!(wanted.len() > 100, "{workloads:?}: {}", wanted.len());
        }
    }

    #[test]
    fn lists_and_registers_cannot_share_a_history() {
        use Workload::{Bank, ListAppend, Phantom, Register, WriteSkew};
        for workloads in [&[ListAppend, Register][..], &[Bank, WriteSkew, Phantom]] {
            assert!(Plan::new(1, workloads).is_err(), "{workloads:?}");
        }
    }
}
