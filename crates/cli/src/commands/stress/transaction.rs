//! A transaction that the checker judges: its operations, and the condition for its writes.
//!
//! ```text
//!   write-skew   read a, read b;          if b > 0 then write a      a pair of registers, each
//!                                                                    above 0 (on call) or below
//!   phantom      read passengers of f;    if < SEATS then append     a list with a row for each
//!                                                                    element, under its own key
//! ```
//!
//! The database evaluates the condition within the transaction. The client derives the result from
//! the values that were read.

use carnet_checker::{Key, Op, invariant};

use super::workload::Workload;

/// Number of seats per flight.
pub(super) const SEATS: usize = 8;

/// Transaction of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    /// Workload, which determines the tables and the invariant.
    pub(super) workload: Workload,
    /// Operations. In a conditional transaction, reads come first.
    pub(super) ops: Vec<Op>,
    pub(super) only_if: Option<Condition>,
}

/// Condition for a transaction's writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The register is greater than zero.
    IsPositive(Key),
    /// The list has fewer elements than the limit.
    IsShorter(Key, usize),
}

impl Condition {
    fn holds(&self, read: &[Op]) -> bool {
        read.iter().any(|op| match (self, op) {
            (Self::IsPositive(register), Op::ReadRegister { key, value }) => {
                key == register && value.is_some_and(|value| value > 0)
            }
            (Self::IsShorter(list, limit), Op::ReadList { key, list: elements }) => {
                key == list && elements.len() < *limit
            }
            _ => false,
        })
    }
}

impl Transaction {
    pub(super) const fn new(workload: Workload, ops: Vec<Op>) -> Self {
        Self { workload, ops, only_if: None }
    }

    /// Returns `true` if it writes after these reads.
    pub(super) fn writes_after(&self, read: &[Op]) -> bool {
        self.only_if.as_ref().is_none_or(|condition| condition.holds(read))
    }

    /// Removes writes that did not happen from operations whose reads are filled in.
    pub(super) fn carried_out(&self, mut ops: Vec<Op>) -> Vec<Op> {
        if !self.writes_after(&ops) {
            ops.retain(Op::is_read);
        }
        ops
    }

    /// Checks the reads of a committed transaction.
    ///
    /// # Errors
    ///
    /// A description of the violated invariant.
    pub(super) fn judge(&self, ops: &[Op]) -> Result<(), String> {
        match self.workload {
            Workload::WriteSkew => judge_pairs(ops),
            Workload::Phantom => ops.iter().try_for_each(|op| match op {
                Op::ReadList { key: Key::Int(key), list } => {
                    invariant::seated(-1 - key, list.len(), SEATS)
                }
                _ => Ok(()),
            }),
            Workload::ListAppend | Workload::Register | Workload::Bank => Ok(()),
        }
    }
}

fn judge_pairs(ops: &[Op]) -> Result<(), String> {
    let gone = |register: Key| {
        let is_gone = |op: &Op| match op {
            Op::ReadRegister { key, value } => {
                *key == register && value.is_some_and(|value| value < 0)
            }
            _ => false,
        };
        ops.iter().any(is_gone)
    };
    let pair_of = |op: &Op| match op.key() {
        Key::Int(key) => Some((-1 - key) / 2),
        _ => None,
    };
    ops.iter().filter_map(pair_of).try_for_each(|pair| {
        invariant::on_call(pair, [0, 1].map(|which| gone(doctor(pair, which))))
    })
}

/// Returns the name of a doctor of a pair. Names of the plain workloads are not negative.
pub(super) const fn doctor(pair: i64, which: i64) -> Key {
    Key::Int(-1 - 2 * pair - which)
}

/// Returns the name of a flight.
pub(super) const fn flight(number: i64) -> Key {
    Key::Int(-1 - number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(key: Key, value: i64) -> Op {
        Op::ReadRegister { key, value: Some(value) }
    }

    #[test]
    fn doctor_goes_while_the_other_is_on_call() {
        let other = doctor(3, 1);
        let read = Op::ReadRegister { key: other.clone(), value: None };
        let write = Op::Write { key: doctor(3, 0), value: -5 };
        let only_if = Some(Condition::IsPositive(other.clone()));
        let ops = vec![read.clone(), write.clone()];
        let goes = Transaction { workload: Workload::WriteSkew, ops: ops.clone(), only_if };
        assert_eq!(goes.carried_out(ops), [read], "there is nobody else yet");
        for (value, writes) in [(4, true), (-4, false)] {
            let ops = vec![register(other.clone(), value), write.clone()];
            assert_eq!(goes.carried_out(ops).len() == 2, writes, "{value}");
        }
    }

    #[test]
    fn invariant_violations_are_reported() {
        let pair = |a, b| vec![register(doctor(2, 0), a), register(doctor(2, 1), b)];
        let skew = Transaction::new(Workload::WriteSkew, pair(0, 0));
        assert_eq!(skew.judge(&pair(-1, 2)), Ok(()));
        assert!(skew.judge(&pair(-1, -2)).unwrap_err().contains("no doctor of pair 2"));
        let read = |count| vec![Op::ReadList { key: flight(4), list: vec![1; count] }];
        let phantom = Transaction::new(Workload::Phantom, read(0));
        assert_eq!(phantom.judge(&read(SEATS)), Ok(()));
        assert!(phantom.judge(&read(SEATS + 1)).unwrap_err().contains("flight 4 has 9"));
    }
}
