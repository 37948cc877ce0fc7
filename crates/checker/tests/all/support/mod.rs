//! The models by definition: is there *any* execution that explains a small history?
//!
//! This code has no dependencies or cycles. Serializable: try all orders. Snapshot isolation: try
//! all interleavings of starts and commits. Read committed: try all orders, where a read may return
//! any earlier state of the object. Unknown transactions: try with and without.

use std::collections::{BTreeSet, HashSet};

use carnet_checker::{History, Key, Model, Op, Order, Outcome, Transaction};

/// State of the objects: lists, and registers as lists of at most one element.
type State = Vec<Vec<i64>>;

struct Oracle<'h> {
    transactions: &'h [Transaction],
    keys: Vec<&'h Key>,
    /// For each transaction, the bit set of its required predecessors.
    before: Vec<u32>,
    happened: u32,
}

/// Returns `true` if some execution under the model explains the history.
pub(crate) fn explains(history: &History, model: Model) -> bool {
    let transactions = history.transactions();
    assert!(transactions.len() <= 10, "brute force is for small histories");
    let with = |outcome: Outcome| {
        let numbers = (0..transactions.len()).filter(|n| transactions[*n].outcome == outcome);
        numbers.fold(0u32, |set, number| set | 1 << number)
    };
    let (committed, unknown) = (with(Outcome::Committed), with(Outcome::Unknown));
    let keys: BTreeSet<&Key> = transactions.iter().flat_map(|t| &t.ops).map(Op::key).collect();
    let mut oracle = Oracle {
        transactions,
        keys: keys.into_iter().collect(),
        before: before(transactions, order_of(model)),
        happened: 0,
    };
    // All subsets of the unknown transactions.
    let mut subset = unknown;
    loop {
        oracle.happened = committed | subset;
        if oracle.explains(model) {
            return true;
        }
        if subset == 0 {
            return false;
        }
        subset = (subset - 1) & unknown;
    }
}

fn order_of(model: Model) -> Order {
    match model {
        Model::ReadCommitted | Model::SnapshotIsolation | Model::Serializable => Order::Any,
        Model::StrongSessionSnapshotIsolation | Model::StrongSessionSerializable => Order::Session,
        Model::StrongSnapshotIsolation | Model::StrictSerializable => Order::RealTime,
    }
}

fn before(transactions: &[Transaction], order: Order) -> Vec<u32> {
    let precedes = |a: &Transaction, b: &Transaction| {
        let is_answered = a.outcome == Outcome::Committed
            && a.completed.is_some_and(|at| at.index < b.invoked.index);
        is_answered
            && match order {
                Order::Any => false,
                Order::Session => a.process == b.process,
                Order::RealTime => true,
            }
    };
    let set = |b: &Transaction| {
        let numbers = (0..transactions.len()).filter(|n| precedes(&transactions[*n], b));
        numbers.fold(0u32, |set, number| set | 1 << number)
    };
    transactions.iter().map(set).collect()
}

impl Oracle<'_> {
    fn explains(&self, model: Model) -> bool {
        let empty = vec![Vec::new(); self.keys.len()];
        match model {
            Model::ReadCommitted => {
                let history: Vec<_> = empty.iter().map(|state| vec![state.clone()]).collect();
                self.read_committed(0, &empty, &history)
            }
            Model::Serializable | Model::StrongSessionSerializable | Model::StrictSerializable => {
                self.serializable(0, &empty)
            }
            Model::SnapshotIsolation
            | Model::StrongSessionSnapshotIsolation
            | Model::StrongSnapshotIsolation => {
                self.snapshot_isolation(0, 0, &empty, &mut HashSet::new())
            }
        }
    }

    /// Returns the transactions not in `begun` whose predecessors are all in `done`.
    fn ready(&self, begun: u32, done: u32) -> Vec<usize> {
        let happened = |n: &usize| self.happened & (1 << n) != 0 && begun & (1 << n) == 0;
        let is_ready = |n: &usize| (self.before[*n] & self.happened) & !done == 0;
        (0..self.transactions.len()).filter(happened).filter(is_ready).collect()
    }

    fn key(&self, op: &Op) -> usize {
        self.keys.iter().position(|key| *key == op.key()).unwrap()
    }

    fn apply(&self, op: &Op, state: &mut State) {
        let key = self.key(op);
        match op {
            Op::Append { element, .. } => state[key].push(*element),
            Op::Write { value, .. } => state[key] = vec![*value],
            _ => {}
        }
    }

    /// Runs a transaction on a state; `None` if its reads would differ.
    fn run(&self, number: usize, state: &State) -> Option<State> {
        let mut state = state.clone();
        let transaction = &self.transactions[number];
        for op in &transaction.ops {
            if let Some(read) = read(op)
                && transaction.outcome == Outcome::Committed
                && state[self.key(op)] != read
            {
                return None;
            }
            self.apply(op, &mut state);
        }
        Some(state)
    }

    fn serializable(&self, done: u32, state: &State) -> bool {
        done == self.happened
            || self.ready(done, done).into_iter().any(|number| {
                self.run(number, state)
                    .is_some_and(|state| self.serializable(done | 1 << number, &state))
            })
    }

    /// `visited` has the failed combinations of started and committed transactions and state.
    fn snapshot_isolation(
        &self,
        started: u32,
        done: u32,
        state: &State,
        visited: &mut HashSet<(u32, u32, State)>,
    ) -> bool {
        if done == self.happened {
            return true;
        }
        if !visited.insert((started, done, state.clone())) {
            return false;
        }
        let running: Vec<usize> =
            (0..self.transactions.len()).filter(|n| started & !done & (1 << n) != 0).collect();
        let commits = running.iter().any(|&number| {
            // First committer wins: a concurrent writer of the same object could never commit.
            let mine = self.written(number);
            let rivals = running.iter().filter(|other| **other != number);
            if rivals.into_iter().any(|other| !self.written(*other).is_disjoint(&mine)) {
                return false;
            }
            let mut state = state.clone();
            self.transactions[number].ops.iter().for_each(|op| self.apply(op, &mut state));
            self.snapshot_isolation(started, done | 1 << number, &state, visited)
        });
        commits
            || self.ready(started, done).into_iter().any(|number| {
                self.run(number, state).is_some()
                    && self.snapshot_isolation(started | 1 << number, done, state, visited)
            })
    }

    fn written(&self, number: usize) -> BTreeSet<usize> {
        let ops = self.transactions[number].ops.iter().filter(|op| !op.is_read());
        ops.map(|op| self.key(op)).collect()
    }

    /// `history` has the states of each object at the ends of transactions.
    fn read_committed(&self, done: u32, state: &State, history: &[Vec<Vec<i64>>]) -> bool {
        done == self.happened
            || self.ready(done, done).into_iter().any(|number| {
                if !self.reads_committed(number, history) {
                    return false;
                }
                let mut state = state.clone();
                self.transactions[number].ops.iter().for_each(|op| self.apply(op, &mut state));
                let mut history = history.to_vec();
                for (states, now) in history.iter_mut().zip(&state) {
                    states.push(now.clone());
                }
                self.read_committed(done | 1 << number, &state, &history)
            })
    }

    /// A transaction may or may not see its own writes; the values that it sees of others are
    /// committed. A list with own appends is a version: the newest one with these appends.
    fn reads_committed(&self, number: usize, history: &[Vec<Vec<i64>>]) -> bool {
        let transaction = &self.transactions[number];
        if transaction.outcome != Outcome::Committed {
            return true;
        }
        let mut own: Vec<(usize, i64)> = Vec::new();
        for op in &transaction.ops {
            let key = self.key(op);
            match op {
                Op::Append { element: value, .. } | Op::Write { value, .. } => {
                    own.push((key, *value));
                }
                Op::ReadList { list, .. } => {
                    let mine = own.iter().filter(|(of, _)| *of == key).map(|(_, value)| *value);
                    let mine: Vec<i64> = mine.collect();
                    let newest = history[key].last().unwrap();
                    let is_version = match list.last().filter(|last| mine.contains(last)) {
                        Some(_) => list
                            .strip_prefix(&newest[..])
                            .is_some_and(|rest| mine.starts_with(rest)),
                        None => history[key].contains(list),
                    };
                    if !is_version {
                        return false;
                    }
                }
                Op::ReadRegister { value, .. } => {
                    let is_own = value.is_some_and(|value| own.contains(&(key, value)));
                    if !is_own && !history[key].contains(&value.iter().copied().collect()) {
                        return false;
                    }
                }
            }
        }
        true
    }
}

fn read(op: &Op) -> Option<Vec<i64>> {
    match op {
        Op::ReadList { list, .. } => Some(list.clone()),
        Op::ReadRegister { value, .. } => Some(value.iter().copied().collect()),
        _ => None,
    }
}
