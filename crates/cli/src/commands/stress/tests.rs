//! Databases that make an occasional mistake; the checks must find it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use carnet_base::lock;
use carnet_checker::{Key, Op};

use super::target::TransactionOutcome;
use super::transaction::Transaction;
use super::*;

/// Fault of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// It loses an acknowledged write.
    Loses,
    /// It commits a transaction beside another one whose writes it did not see.
    Overlaps,
}

/// A database in memory; every N-th write or transaction is faulty.
struct Memory {
    state: Mutex<State>,
    mistake: Mistake,
    every: u64,
}

#[derive(Default)]
struct State {
    lists: BTreeMap<Key, Vec<i64>>,
    registers: BTreeMap<Key, i64>,
    accounts: Vec<i64>,
    count: u64,
    /// Writes of the previous transaction, which this one has not seen.
    late: Vec<Op>,
}

impl State {
    fn write(&mut self, op: &Op) {
        match op {
            Op::Append { key, element } => {
                self.lists.entry(key.clone()).or_default().push(*element);
            }
            Op::Write { key, value } => drop(self.registers.insert(key.clone(), *value)),
            Op::ReadList { .. } | Op::ReadRegister { .. } => {}
        }
    }

    fn read(&self, op: &Op) -> Op {
        match op {
            Op::ReadList { key, .. } => {
                let list = self.lists.get(key).cloned().unwrap_or_default();
                Op::ReadList { key: key.clone(), list }
            }
            Op::ReadRegister { key, .. } => {
                Op::ReadRegister { key: key.clone(), value: self.registers.get(key).copied() }
            }
            Op::Append { .. } | Op::Write { .. } => op.clone(),
        }
    }
}

impl Memory {
    /// Counts an operation; returns `true` if it is to fail.
    fn errs(&self, state: &mut State, mistake: Mistake) -> bool {
        if self.mistake != mistake {
            return false;
        }
        state.count += 1;
        state.count.is_multiple_of(self.every)
    }
}

impl Target for Memory {
    fn run(&self, transaction: &Transaction) -> Result<TransactionOutcome<Vec<Op>>> {
        let state = &mut *lock(&self.state);
        let (late, is_late) =
            (std::mem::take(&mut state.late), self.errs(state, Mistake::Overlaps));
        let mut done = Vec::new();
        for op in &transaction.ops {
            if op.is_read() {
                done.push(state.read(op));
                continue;
            }
            if !transaction.writes_after(&done) {
                continue;
            }
            done.push(op.clone());
            if is_late {
                state.late.push(op.clone());
            } else if !self.errs(state, Mistake::Loses) {
                state.write(op);
            }
        }
        late.iter().for_each(|op| state.write(op));
        Ok(TransactionOutcome::Committed(done))
    }

    fn transfer(&self, from: i64, to: i64, amount: i64) -> Result<TransactionOutcome<()>> {
        let state = &mut *lock(&self.state);
        let (from, to) = (usize::try_from(from)?, usize::try_from(to)?);
        if state.accounts[from] >= amount {
            state.accounts[from] -= amount;
            if !self.errs(state, Mistake::Loses) {
                state.accounts[to] += amount;
            }
        }
        Ok(TransactionOutcome::Committed(()))
    }

    fn balances(&self) -> Result<TransactionOutcome<Vec<i64>>> {
        Ok(TransactionOutcome::Committed(lock(&self.state).accounts.clone()))
    }
}

fn verdict(workload: Workload, mistake: Mistake, every: u64) -> Result<()> {
    let stress = Stress {
        dir: None,
        store: None,
        server: Vec::new(),
        tls: ServerTls::default(),
        servers: None,
        workload: vec![Chosen::Checked(workload)],
        clients: 3,
        seconds: 1,
        kill_every: None,
        pause_every: None,
        rate: Some(2_000),
        history: None,
        seed: Some(1),
        load: LoadOptions {
            group: 20,
            rows: 1000,
            value_bytes: 100,
            writes: 50,
            json: false,
            hdr: None,
        },
    };
    let accounts = vec![bank::BALANCE; usize::try_from(bank::ACCOUNTS)?];
    let state = Mutex::new(State { accounts, ..State::default() });
    let plan = Plan::new(1, &stress.checked())?;
    let targets = [Memory { state, mistake, every }];
    stress.drive(plan, &targets, &AtomicBool::new(false), |_| Ok(()))
}

/// Asserts that a workload passes without faults, and reports `says` with them.
fn assert_finds(workload: Workload, mistake: Mistake, every: u64, says: &str) {
    verdict(workload, mistake, u64::MAX).unwrap();
    let error = verdict(workload, mistake, every).unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn single_lost_append_is_found() {
    assert_finds(Workload::ListAppend, Mistake::Loses, 500, "not strictly serializable");
}

#[test]
fn lost_register_write_is_found() {
    assert_finds(Workload::Register, Mistake::Loses, 50, "not strictly serializable");
}

#[test]
fn lost_money_is_found() {
    assert_finds(Workload::Bank, Mistake::Loses, 1_000, "of 1000");
}

#[test]
fn write_skew_of_two_doctors_is_found() {
    assert_finds(Workload::WriteSkew, Mistake::Overlaps, 10, "is on call");
}

#[test]
fn double_booking_is_found() {
    assert_finds(Workload::Phantom, Mistake::Overlaps, 3, "on 8 seats");
}
