//! Infers the order of transactions from the observations of clients.
//!
//! Both workloads begin alike: every written value identifies its writer ([`Write`]). A committed
//! transaction's reads are split into values of others and its own. Values of others prove the
//! order of writers.
//!
//! *Soundness*: an edge or an anomaly is added only if it holds in every execution that explains
//! the history and satisfies at least read committed. If there is no such execution, an anomaly
//! that breaks read committed has been added as well. Nothing is inferred where nothing is known:
//! about an unknown transaction that no read shows, or about the order of two blind writes.

pub(crate) mod clients;
pub(crate) mod lists;
pub(crate) mod registers;

use std::collections::HashMap;

use crate::error::{BadHistory, Result};
use crate::graph::id;
use crate::history::{History, Key, Op, Outcome};
use crate::model::AnomalyKind;
use crate::report::Findings;

/// The writer of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) transaction: u32,
    /// Index of the operation in the transaction.
    pub(crate) op: u32,
    /// Whether it is its transaction's last write of the object.
    pub(crate) is_final: bool,
}

/// A history with numbered keys and the writers of values.
#[derive(Debug)]
pub(crate) struct Index<'h> {
    pub(crate) history: &'h History,
    pub(crate) keys: Vec<&'h Key>,
    /// Key of every operation, in the order of transactions and operations.
    op_keys: Vec<u32>,
    first_op: Vec<usize>,
    pub(crate) writes: HashMap<(u32, i64), Write>,
    /// Whether a transaction is known to have happened: it committed, or a read shows its writes.
    pub(crate) happened: Vec<bool>,
}

impl<'h> Index<'h> {
    /// Numbers keys and finds writers.
    ///
    /// # Errors
    ///
    /// If a value is written to an object twice: a read of it would not identify its writer.
    pub(crate) fn new(history: &'h History) -> Result<Self> {
        let transactions = history.transactions();
        let mut numbers: HashMap<&Key, u32> = HashMap::new();
        let mut keys = Vec::new();
        let mut op_keys = Vec::new();
        let mut first_op = Vec::with_capacity(transactions.len());
        for transaction in transactions {
            first_op.push(op_keys.len());
            for op in &transaction.ops {
                op_keys.push(*numbers.entry(op.key()).or_insert_with(|| {
                    keys.push(op.key());
                    id(keys.len() - 1)
                }));
            }
        }
        let happened = transactions.iter().map(|txn| txn.outcome == Outcome::Committed).collect();
        let writes = HashMap::new();
        let mut index = Self { history, keys, op_keys, first_op, writes, happened };
        index.writes = index.find_writers()?;
        Ok(index)
    }

    fn find_writers(&self) -> Result<HashMap<(u32, i64), Write>> {
        let mut writes: HashMap<(u32, i64), Write> = HashMap::new();
        let mut last_write: Vec<Option<(u32, i64)>> = vec![None; self.keys.len()];
        for number in 0..id(self.history.transactions().len()) {
            for (at, key, op) in self.ops_of(number) {
                let (Op::Append { element: value, .. } | Op::Write { value, .. }) = *op else {
                    continue;
                };
                let write = Write { transaction: number, op: at, is_final: true };
                if let Some(other) = writes.insert((key, value), write) {
                    return Err(BadHistory::new(format!(
                        "T{number} and T{} both write {value} to {}: values must be unique for \
                         each key, else a read does not tell whose it saw",
                        other.transaction, self.keys[key as usize]
                    )));
                }
                if let Some((writer, before)) = last_write[key as usize].replace((number, value))
                    && writer == number
                    && let Some(overwritten) = writes.get_mut(&(key, before))
                {
                    overwritten.is_final = false;
                }
            }
        }
        Ok(writes)
    }

    /// Returns a transaction's operations with their indices and keys.
    pub(crate) fn ops_of(
        &self,
        number: u32,
    ) -> impl Iterator<Item = (u32, u32, &'h Op)> + use<'_, 'h> {
        let keys = &self.op_keys[self.first_op[number as usize]..];
        let ops = self.history.transactions()[number as usize].ops.iter().zip(keys);
        ops.enumerate().map(|(at, (op, &key))| (id(at), key, op))
    }

    /// Returns the values that a transaction wrote to an object, in order.
    pub(crate) fn written(
        &self,
        number: u32,
        key: u32,
    ) -> impl DoubleEndedIterator<Item = i64> + use<> {
        let ops = self.ops_of(number).filter(move |(_, of, _)| *of == key);
        let values = ops.filter_map(|(_, _, op)| match *op {
            Op::Append { element: value, .. } | Op::Write { value, .. } => Some(value),
            Op::ReadList { .. } | Op::ReadRegister { .. } => None,
        });
        values.collect::<Vec<_>>().into_iter()
    }

    /// Returns, for each object with two or more of them, the transactions that happened and wrote
    /// it. Writes with a known order are omitted.
    pub(crate) fn rivals(&self, is_ordered: impl Fn(u32, i64) -> bool) -> Vec<(u32, Vec<u32>)> {
        let mut writers: Vec<Vec<u32>> = vec![Vec::new(); self.keys.len()];
        let transactions = 0..id(self.history.transactions().len());
        for number in transactions.filter(|&number| self.happened[number as usize]) {
            for (_, key, op) in self.ops_of(number) {
                let (Op::Append { element: value, .. } | Op::Write { value, .. }) = *op else {
                    continue;
                };
                let writers = &mut writers[key as usize];
                if writers.last() != Some(&number) && !is_ordered(key, value) {
                    writers.push(number);
                }
            }
        }
        (0..).zip(writers).filter(|(_, writers)| writers.len() > 1).collect()
    }

    pub(crate) fn outcome(&self, number: u32) -> Outcome {
        self.history.transactions()[number as usize].outcome
    }

    pub(crate) fn is_committed(&self, number: u32) -> bool {
        self.outcome(number) == Outcome::Committed
    }

    /// Records that a committed transaction saw a value. Its writer then happened, unless it
    /// aborted or does not exist.
    pub(crate) fn see(&mut self, reader: u32, key: u32, value: i64, findings: &mut Findings) {
        let name = self.keys[key as usize];
        let Some(write) = self.writes.get(&(key, value)) else {
            findings.add(AnomalyKind::GarbageRead, &[reader], || {
                vec![format!("T{reader} read {value} from {name}, which was never written there")]
            });
            return;
        };
        let writer = write.transaction;
        match self.outcome(writer) {
            Outcome::Committed => {}
            Outcome::Unknown => self.happened[writer as usize] = true,
            Outcome::Aborted => findings.add(AnomalyKind::G1a, &[reader, writer], || {
                vec![format!(
                    "T{reader} read {value} from {name}, which T{writer} wrote; but T{writer} \
                     aborted"
                )]
            }),
        }
    }

    /// Records that a committed transaction read a version as the newest one; returns its writer if
    /// that is another transaction that happened.
    pub(crate) fn read_newest(
        &self,
        reader: u32,
        key: u32,
        value: i64,
        findings: &mut Findings,
    ) -> Option<u32> {
        let write = self.writes.get(&(key, value))?;
        let (writer, name) = (write.transaction, self.keys[key as usize]);
        if writer == reader {
            return None;
        }
        if !write.is_final {
            findings.add(AnomalyKind::G1b, &[reader, writer], || {
                vec![format!(
                    "T{reader} read {name} as of T{writer}'s write of {value}, which was not \
                     T{writer}'s last write of {name}"
                )]
            });
        }
        self.happened[writer as usize].then_some(writer)
    }

    /// Reports groups of transactions that read the same version and wrote the object.
    ///
    /// `updates` has pairs (version, transaction) of one object; versions may have any numbers.
    pub(crate) fn lost_updates(
        &self,
        key: u32,
        updates: &mut Vec<(u32, u32)>,
        version: impl Fn(u32) -> String,
        findings: &mut Findings,
    ) {
        updates.sort_unstable();
        updates.dedup();
        for group in updates.chunk_by(|(a, _), (b, _)| a == b).filter(|group| group.len() > 1) {
            let transactions: Vec<u32> = group.iter().map(|&(_, number)| number).collect();
            let (first, second) = (transactions[0], transactions[1]);
            findings.add(AnomalyKind::LostUpdate, &[first, second], || {
                let name = self.keys[key as usize];
                let others = match transactions.len() - 2 {
                    0 => String::new(),
                    more => format!(" (and {more} more transactions did the same)"),
                };
                vec![format!(
                    "T{first} and T{second} both read {name} as {} and then wrote {name}: one of \
                     them did not see the other's write{others}",
                    version(group[0].0)
                )]
            });
        }
    }
}
