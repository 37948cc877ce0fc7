//! Histories: requests of clients and their answers.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use crate::error::{BadHistory, Result};

/// Name of an object: a list or a register.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A whole number.
    Int(i64),
    /// A string of characters.
    Text(Arc<str>),
    /// An EDN keyword, without its colon. JSON has none and represents it as a string.
    Keyword(Arc<str>),
}

impl From<i64> for Key {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Keyword(name) => write!(f, ":{name}"),
        }
    }
}

/// One operation on one object, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Adds an element at the end of a list.
    Append {
        /// Key of the list.
        key: Key,
        /// Element, which no other append to this list has.
        element: i64,
    },
    /// Reads a whole list.
    ReadList {
        /// Key of the list.
        key: Key,
        /// Elements of the list; used only if the transaction committed.
        list: Vec<i64>,
    },
    /// Sets a register.
    Write {
        /// Key of the register.
        key: Key,
        /// Value, which no other write to this register has.
        value: i64,
    },
    /// Reads a register.
    ReadRegister {
        /// Key of the register.
        key: Key,
        /// Value of the register, `None` if it was never set; used only if the transaction
        /// committed.
        value: Option<i64>,
    },
}

impl Op {
    /// Returns the object of the operation.
    #[must_use]
    pub const fn key(&self) -> &Key {
        match self {
            Self::Append { key, .. }
            | Self::ReadList { key, .. }
            | Self::Write { key, .. }
            | Self::ReadRegister { key, .. } => key,
        }
    }

    /// Returns `true` if the operation reads.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        matches!(self, Self::ReadList { .. } | Self::ReadRegister { .. })
    }

    const fn workload(&self) -> Workload {
        match self {
            Self::Append { .. } | Self::ReadList { .. } => Workload::ListAppend,
            Self::Write { .. } | Self::ReadRegister { .. } => Workload::Register,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append { key, element } => write!(f, "append({key}, {element})"),
            Self::ReadList { key, list } => write!(f, "r({key}) = {}", ShownList(list)),
            Self::Write { key, value } => write!(f, "w({key}, {value})"),
            Self::ReadRegister { key, value: Some(value) } => write!(f, "r({key}) = {value}"),
            Self::ReadRegister { key, value: None } => write!(f, "r({key}) = nil"),
        }
    }
}

/// A list for people: a long one without its middle.
pub(crate) struct ShownList<'l>(pub(crate) &'l [i64]);

impl fmt::Display for ShownList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ENDS: usize = 6;
        let all = |list: &[i64]| list.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
        let Self(list) = self;
        if list.len() <= 2 * ENDS {
            return write!(f, "[{}]", all(list));
        }
        let (first, last) = (&list[..ENDS], &list[list.len() - ENDS..]);
        let left_out = list.len() - 2 * ENDS;
        write!(f, "[{} …{left_out} more… {}]", all(first), all(last))
    }
}

/// Kind of operations in a history: lists or registers, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// [`Op::Append`] and [`Op::ReadList`].
    ListAppend,
    /// [`Op::Write`] and [`Op::ReadRegister`].
    Register,
}

/// Result reported to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The transaction took effect (`:ok`).
    Committed,
    /// The transaction did not take effect, and never will (`:fail`).
    Aborted,
    /// The outcome is unknown (`:info`): the transaction may have taken effect, or may at any later
    /// time.
    Unknown,
}

/// A point in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// Position in the history. Only these positions define the real-time order.
    pub index: u64,
    /// Time on the client's clock in nanoseconds. Only displayed, never compared.
    pub nanos: i64,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The single-threaded client, which has one transaction at a time.
    pub process: i64,
    /// Moment of the request.
    pub invoked: Moment,
    /// Moment of the answer; `None` if there was none.
    pub completed: Option<Moment>,
    /// Result in the answer.
    pub outcome: Outcome,
    /// Operations in their order; read values count only if the transaction committed.
    pub ops: Vec<Op>,
}

/// All transactions of a run, in the order of their invocations.
///
/// The database is assumed to have been empty before: lists without elements, registers unset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    workload: Workload,
    transactions: Vec<Transaction>,
}

/// Maximum number of transactions, and of operations, in a history: they have 32-bit numbers.
pub const HISTORY_OPS_MAX: usize = 1 << 30;

impl History {
    /// Creates a history from transactions in any order.
    ///
    /// # Errors
    ///
    /// If a position is used twice, an answer precedes its request or lacks its moment, lists are
    /// mixed with registers, or there are more than [`HISTORY_OPS_MAX`].
    pub fn new(mut transactions: Vec<Transaction>) -> Result<Self> {
        transactions.sort_by_key(|transaction| transaction.invoked.index);
        let ops: usize = transactions.iter().map(|transaction| transaction.ops.len()).sum();
        if ops.max(transactions.len()) > HISTORY_OPS_MAX {
            return Err(BadHistory::new(format!(
                "{} transactions with {ops} operations are more than the {HISTORY_OPS_MAX} that \
                 can be checked: split the history by keys",
                transactions.len()
            )));
        }
        let mut places = HashSet::with_capacity(2 * transactions.len());
        let mut workload = None;
        for transaction in &transactions {
            check(transaction, &mut places).map_err(|bad| {
                bad.at(format_args!("the transaction invoked at {}", transaction.invoked.index))
            })?;
            for op in &transaction.ops {
                if *workload.get_or_insert(op.workload()) != op.workload() {
                    return Err(BadHistory::new(format!(
                        "{op} follows operations of the other kind: a history holds lists or \
                         registers, not both"
                    )));
                }
            }
        }
        Ok(Self { workload: workload.unwrap_or(Workload::ListAppend), transactions })
    }

    /// Returns the kind of its operations.
    #[must_use]
    pub const fn workload(&self) -> Workload {
        self.workload
    }

    /// Returns the transactions in the order of their invocations.
    #[must_use]
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }
}

fn check(transaction: &Transaction, places: &mut HashSet<u64>) -> Result<()> {
    let ends = [Some(transaction.invoked), transaction.completed];
    for moment in ends.into_iter().flatten() {
        if !places.insert(moment.index) {
            return Err(BadHistory::new(format!("place {} is used twice", moment.index)));
        }
    }
    match transaction.completed {
        Some(completed) if completed.index < transaction.invoked.index => {
            Err(BadHistory::new("it was answered before it was asked for"))
        }
        None if transaction.outcome != Outcome::Unknown => Err(BadHistory::new(
            "its outcome is known, but not when the answer came: give `completed`",
        )),
        _ => Ok(()),
    }
}

/// An invoked transaction, until its answer arrives.
#[derive(Debug, PartialEq, Eq)]
pub struct Call(usize);

/// Records a history during a test.
///
/// The order of the calls *is* the real-time order: call [`Recorder::invoke`] before the request is
/// sent, and [`Recorder::complete`] after the answer came, under one lock if there are threads.
///
/// ```
/// use carnet_checker::{Op, Outcome, Recorder, check};
///
/// let mut recorder = Recorder::default();
/// let call = recorder.invoke(0, 10, vec![Op::Append { key: "x".into(), element: 1 }]);
/// recorder.complete(call, 20, Outcome::Committed, None);
/// let call = recorder.invoke(0, 30, vec![Op::ReadList { key: "x".into(), list: vec![] }]);
/// let read = vec![Op::ReadList { key: "x".into(), list: vec![] }];
/// recorder.complete(call, 40, Outcome::Committed, Some(read));
/// let report = check(&recorder.finish()?, &Default::default())?;
/// assert!(!report.is_strictly_serializable());
/// # Ok::<(), carnet_checker::BadHistory>(())
/// ```
#[derive(Debug, Default)]
pub struct Recorder {
    transactions: Vec<Transaction>,
    next_index: u64,
}

impl Recorder {
    /// Records that a client requests a transaction now, at `nanos` on its clock.
    pub fn invoke(&mut self, process: i64, nanos: i64, ops: Vec<Op>) -> Call {
        let invoked = self.moment(nanos);
        let outcome = Outcome::Unknown;
        self.transactions.push(Transaction { process, invoked, completed: None, outcome, ops });
        Call(self.transactions.len() - 1)
    }

    /// Records the answer, with the operations as executed (`None`: as requested).
    pub fn complete(
        &mut self,
        Call(number): Call,
        nanos: i64,
        outcome: Outcome,
        ops: Option<Vec<Op>>,
    ) {
        let completed = self.moment(nanos);
        let transaction = &mut self.transactions[number];
        transaction.completed = Some(completed);
        transaction.outcome = outcome;
        if let Some(ops) = ops {
            transaction.ops = ops;
        }
    }

    /// Ends the recording; unanswered transactions stay [`Outcome::Unknown`].
    ///
    /// # Errors
    ///
    /// See [`History::new`].
    pub fn finish(self) -> Result<History> {
        History::new(self.transactions)
    }

    fn moment(&mut self, nanos: i64) -> Moment {
        let index = self.next_index;
        self.next_index += 1;
        Moment { index, nanos }
    }
}
