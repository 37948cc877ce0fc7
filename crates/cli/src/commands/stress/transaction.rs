//! A transaction that the checker judges: what it does, and what has to hold for it to write.
//!
//! ```text
//!   write-skew   read a, read b;          if b > 0 then write a      a pair of registers, each
//!                                                                    above 0 (on call) or below
//!   phantom      read passengers of f;    if < SEATS then append     a list with a row for each
//!                                                                    element, under its own key
//! ```
//!
//! The database itself looks whether the condition holds, within the transaction. Whoever asked
//! finds out by what was read.

use carnet_checker::{Key, Op, invariant};

use super::Workload;

/// How many seats a flight has.
pub(super) const SEATS: usize = 8;

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    /// Which tables it uses, and what it must not see.
    pub(super) workload: Workload,
    /// What it does. Where it writes on a condition, reads come first.
    pub(super) ops: Vec<Op>,
    pub(super) only_if: Option<Condition>,
}

/// What has to hold for a transaction to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// A register holds more than zero.
    IsPositive(Key),
    /// A list has fewer elements.
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
    pub(super) const fn of(workload: Workload, ops: Vec<Op>) -> Self {
        Self { workload, ops, only_if: None }
    }

    /// Tells whether it writes, having read that.
    pub(super) fn writes_after(&self, read: &[Op]) -> bool {
        self.only_if.as_ref().is_none_or(|condition| condition.holds(read))
    }

    /// Leaves out writes that did not happen, of operations whose reads are filled in.
    pub(super) fn carried_out(&self, mut ops: Vec<Op>) -> Vec<Op> {
        if !self.writes_after(&ops) {
            ops.retain(Op::is_read);
        }
        ops
    }

    /// Judges what it read once it has committed.
    ///
    /// # Errors
    ///
    /// What no transaction may see, in words.
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

/// Names a doctor of a pair. Names of the plain workloads are not negative.
pub(super) const fn doctor(pair: i64, which: i64) -> Key {
    Key::Int(-1 - 2 * pair - which)
}

/// Names a flight.
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
    fn a_doctor_goes_while_the_other_is_on_call() {
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
    fn what_must_not_be_seen_is_seen() {
        let pair = |a, b| vec![register(doctor(2, 0), a), register(doctor(2, 1), b)];
        let skew = Transaction::of(Workload::WriteSkew, pair(0, 0));
        assert_eq!(skew.judge(&pair(-1, 2)), Ok(()));
        assert!(skew.judge(&pair(-1, -2)).unwrap_err().contains("no doctor of pair 2"));
        let read = |count| vec![Op::ReadList { key: flight(4), list: vec![1; count] }];
        let phantom = Transaction::of(Workload::Phantom, read(0));
        assert_eq!(phantom.judge(&read(SEATS)), Ok(()));
        assert!(phantom.judge(&read(SEATS + 1)).unwrap_err().contains("flight 4 has 9"));
    }
}
