//! Compares the checker with brute force: on small histories it agrees exactly with the
//! definitions.

use std::collections::BTreeMap;
use std::env;

use carnet_base::{Rng, SeededRng};
use carnet_checker::{History, Model, Moment, Op, Options, Outcome, Transaction, check};

use crate::support;

/// Returns the seeds to try: a long edition sets `CARNET_HISTORIES`.
fn seeds(usual: u64) -> Box<dyn Iterator<Item = u64>> {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse().unwrap());
    match number("CARNET_SEED") {
        Some(seed) => Box::new(std::iter::once(seed)),
        None => Box::new(0..number("CARNET_HISTORIES").unwrap_or(usual)),
    }
}

struct Shape {
    transactions_max: u64,
    keys: u64,
    /// Whether the last transaction reads everything, after all others.
    reads_all_back: bool,
    lists: bool,
}

/// Generates a history from an order of transactions, and then alters some of it.
struct Maker<'s> {
    rng: SeededRng,
    shape: &'s Shape,
    next_value: i64,
}

impl Maker<'_> {
    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn history(mut self) -> History {
        let count = 2 + self.rng.below(self.shape.transactions_max - 1);
        let mut transactions = self.schedule(count);
        for transaction in &mut transactions {
            transaction.ops = self.ops();
        }
        if self.shape.reads_all_back {
            let last = transactions.iter().flat_map(|t| t.completed).map(|at| at.index).max();
            let index = last.unwrap_or(0).max(2 * count) + 1;
            let end = if self.chance(80) { index } else { 0 };
            transactions.iter_mut().for_each(|t| t.invoked.index += 2);
            transactions.iter_mut().flat_map(|t| &mut t.completed).for_each(|at| at.index += 2);
            let at = |index| Moment { index, nanos: 0 };
            let (invoked, completed) = if end == 0 { (0, 1) } else { (index + 2, index + 3) };
            transactions.push(Transaction {
                process: 99,
                invoked: at(invoked),
                completed: Some(at(completed)),
                outcome: Outcome::Committed,
                ops: (0..self.shape.keys).map(|key| self.read(key)).collect(),
            });
        }
        self.answer(&mut transactions);
        History::new(transactions).unwrap()
    }

    /// Lets three clients send requests and get answers in turns.
    fn schedule(&mut self, count: u64) -> Vec<Transaction> {
        let mut transactions: Vec<Transaction> = Vec::new();
        let mut busy: BTreeMap<i64, usize> = BTreeMap::new();
        let mut index = 0;
        while (transactions.len() as u64) < count || !busy.is_empty() {
            let process = i64::try_from(self.rng.below(3)).unwrap();
            index += 1;
            let moment = Moment { index, nanos: 0 };
            if let Some(number) = busy.remove(&process) {
                transactions[number].completed = Some(moment);
            } else if (transactions.len() as u64) < count {
                let outcome = match self.rng.below(12) {
                    0 => Outcome::Aborted,
                    1 => Outcome::Unknown,
                    _ => Outcome::Committed,
                };
                busy.insert(process, transactions.len());
                let (completed, ops) = (None, Vec::new());
                transactions.push(Transaction {
                    process,
                    invoked: moment,
                    completed,
                    outcome,
                    ops,
                });
            }
        }
        transactions
    }

    fn read(&self, key: u64) -> Op {
        let key = i64::try_from(key).unwrap().into();
        if self.shape.lists {
            Op::ReadList { key, list: Vec::new() }
        } else {
            Op::ReadRegister { key, value: None }
        }
    }

    fn ops(&mut self) -> Vec<Op> {
        let count = 1 + self.rng.below(4);
        let mut ops = Vec::new();
        for _ in 0..count {
            let key = self.rng.below(self.shape.keys);
            let name = i64::try_from(key).unwrap().into();
            self.next_value += 1;
            let value = self.next_value;
            ops.push(match (self.chance(50), self.shape.lists) {
                (true, _) => self.read(key),
                (false, true) => Op::Append { key: name, element: value },
                (false, false) => Op::Write { key: name, value },
            });
        }
        ops
    }

    /// Fills in the reads: usually like in one order of the transactions, sometimes differently.
    fn answer(&mut self, transactions: &mut [Transaction]) {
        // Approximately the order of time, more or less shuffled.
        let noise = [1, 4, 30][usize::try_from(self.rng.below(3)).unwrap()];
        let mut order: Vec<(u64, usize)> = (0..transactions.len())
            .map(|n| (2 * transactions[n].invoked.index + self.rng.below(noise), n))
            .collect();
        order.sort_unstable();
        // For each key its versions, with the position in `order` of the writer.
        let mut versions: BTreeMap<String, Vec<(usize, i64)>> = BTreeMap::new();
        for (place, &(_, number)) in order.iter().enumerate() {
            let transaction = &transactions[number];
            let happens = match transaction.outcome {
                Outcome::Committed => true,
                Outcome::Unknown => self.chance(50),
                Outcome::Aborted => self.chance(4),
            };
            for op in transaction.ops.iter().filter(|_| happens) {
                if let Op::Append { element: value, .. } | Op::Write { value, .. } = op {
                    versions.entry(op.key().to_string()).or_default().push((place, *value));
                }
            }
        }
        if self.chance(4)
            && let Some(list) = versions.values_mut().find(|list| list.len() > 1)
        {
            let at = usize::try_from(self.rng.below(list.len() as u64 - 1)).unwrap();
            list.swap(at, at + 1);
        }
        let lies = [0, 10, 40][usize::try_from(self.rng.below(3)).unwrap()];
        for (place, &(_, number)) in order.iter().enumerate() {
            let is_last = self.shape.reads_all_back && transactions[number].process == 99;
            // All reads of a transaction see one snapshot, or each a separate one.
            let mut snapshot = if self.chance(lies) { self.rng.below(8) } else { place as u64 };
            let mut own: BTreeMap<String, Vec<i64>> = BTreeMap::new();
            for op in &mut transactions[number].ops {
                let name = op.key().to_string();
                let all = versions.get(&name).map_or(&[][..], Vec::as_slice);
                let is_torn = self.chance(lies / 4);
                if is_torn {
                    snapshot = self.rng.below(8);
                }
                let limit = usize::try_from(snapshot).unwrap();
                let mut until = all.partition_point(|(place, _)| *place < limit);
                if is_last {
                    until = all.len();
                } else if self.chance(lies / 10) {
                    until = usize::try_from(self.rng.below(all.len() as u64 + 1)).unwrap();
                }
                let mut seen: Vec<i64> = all[..until].iter().map(|(_, value)| *value).collect();
                let mine = own.entry(name).or_default();
                if !self.chance(lies / 10) {
                    seen.retain(|value| !mine.contains(value));
                    seen.extend(mine.iter());
                }
                match op {
                    Op::Append { element: value, .. } | Op::Write { value, .. } => {
                        mine.push(*value);
                    }
                    Op::ReadList { list, .. } => *list = seen,
                    Op::ReadRegister { value, .. } => *value = seen.last().copied(),
                }
            }
        }
    }
}

/// Compares the checker with the oracle, and returns the number of histories that each model
/// allowed.
fn compare(shape: &Shape, usual: u64, is_exact: bool) -> (u64, BTreeMap<Model, u64>) {
    let mut allowed: BTreeMap<Model, u64> = BTreeMap::new();
    let (mut count, mut missed) = (0, 0);
    for seed in seeds(usual) {
        count += 1;
        let maker = Maker { rng: SeededRng::new(seed), shape, next_value: 0 };
        let history = maker.history();
        let report = check(&history, &Options::default()).unwrap();
        for model in Model::ALL {
            let (says, is) = (report.allows(model), support::explains(&history, model));
            assert_eq!(says, report.counterexample(model).is_none(), "CARNET_SEED={seed}");
            *allowed.entry(model).or_default() += u64::from(is);
            missed += u64::from(says && !is);
            let agrees = says == is || !is_exact && says;
            assert!(
                agrees,
                "{model}: the checker {}, the definition {}; again with CARNET_SEED={seed}\n{:#?}\n{}",
                if says { "allows it" } else { "forbids it" },
                if is { "allows it" } else { "forbids it" },
                history.transactions().iter().map(|t| format!("{t:?}")).collect::<Vec<_>>(),
                report.explain(&history)
            );
        }
    }
    println!("{count} histories, {missed} violations missed, allowed: {allowed:?}");
    (count, allowed)
}

/// Asserts that both answers occurred; otherwise the comparison would prove nothing.
fn assert_both_answers((count, allowed): &(u64, BTreeMap<Model, u64>)) {
    if *count < 1000 {
        return;
    }
    for (model, &allowed) in allowed {
        assert!(
            allowed > count / 20 && allowed < count - count / 20,
            "{model}: {allowed} of {count}"
        );
    }
}

#[test]
fn lists_read_back_whole_are_judged_exactly() {
    let shape = Shape { transactions_max: 5, keys: 2, reads_all_back: true, lists: true };
    assert_both_answers(&compare(&shape, 5_000, true));
    let shape = Shape { transactions_max: 6, keys: 3, reads_all_back: true, lists: true };
    assert_both_answers(&compare(&shape, 2_000, true));
}

#[test]
fn lists_are_never_accused_wrongly() {
    let shape = Shape { transactions_max: 6, keys: 2, reads_all_back: false, lists: true };
    assert_both_answers(&compare(&shape, 5_000, false));
}

#[test]
fn registers_are_never_accused_wrongly() {
    let shape = Shape { transactions_max: 5, keys: 2, reads_all_back: false, lists: false };
    assert_both_answers(&compare(&shape, 3_000, false));
    let shape = Shape { transactions_max: 5, keys: 1, reads_all_back: true, lists: false };
    assert_both_answers(&compare(&shape, 3_000, false));
}
