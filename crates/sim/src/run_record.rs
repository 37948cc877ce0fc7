//! The record of a run: each transaction as its client saw it, with the database's timestamps.
//!
//! The order of records *is* real time: `invoked` is taken before a transaction begins, `answered`
//! after the client has its answer.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use carnet_base::Timestamp;
use carnet_checker::Op;

/// Part of the mixed workload that a transaction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// List-append, also judged as a history of clients.
    Lists,
    /// Registers, also judged as a history of clients.
    Registers,
    /// Judged by timestamps, and by special invariants.
    Other,
}

/// Result reported to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    /// None yet, and the commit was not requested. If it stays so, the transaction was given up.
    Running,
    /// None, or an unknown outcome; the commit was requested.
    Unknown,
    /// Committed at C or, without writes, at its snapshot.
    Committed(Timestamp),
    /// The transaction was not committed.
    Aborted,
}

/// A version as a read found it: the start of its writer.
pub(crate) type Found = Option<Timestamp>;

/// A read of data of others, with keys as bytes.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    Point { key: Vec<u8>, found: Found },
    Range { from: Vec<u8>, to: Vec<u8>, found: Vec<(Vec<u8>, Timestamp)> },
}

/// Transaction of a run.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) part: Part,
    pub(crate) process: i64,
    pub(crate) invoked: u64,
    pub(crate) answered: Option<u64>,
    /// Incarnation of the database in which it began.
    pub(crate) incarnation: u32,
    /// R; `None` if it did not begin.
    pub(crate) read: Option<Timestamp>,
    /// S, of a transaction that may write.
    pub(crate) start: Option<Timestamp>,
    pub(crate) looks: Vec<Look>,
    pub(crate) writes: Vec<(Vec<u8>, bool)>,
    pub(crate) ops: Vec<Op>,
    pub(crate) reported: Reported,
    /// Whether the database was asked for its outcome.
    pub(crate) is_settled: bool,
    /// Its commit, as the database reports it then.
    pub(crate) commit: Option<Timestamp>,
    /// Whether its commit, acknowledged or not, was lost with the power, as the durability allows.
    pub(crate) lost: bool,
}

/// The record of a run. Clones are handles of the same one.
#[derive(Clone, Default)]
pub(crate) struct RunRecord(Rc<RefCell<Contents>>);

#[derive(Default)]
struct Contents {
    records: Vec<Record>,
    moments: u64,
    processes: i64,
    incarnation: u32,
    ended: usize,
    expired: usize,
    copies: usize,
    wrong: Vec<String>,
}

/// Id of a transaction in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordId(usize);

impl RunRecord {
    /// Returns the number of a new client.
    pub(crate) fn new_client(&self) -> i64 {
        let mut contents = self.0.borrow_mut();
        contents.processes += 1;
        contents.processes
    }

    /// Begins another incarnation of the database.
    pub(crate) fn begin_incarnation(&self) -> u32 {
        let mut contents = self.0.borrow_mut();
        contents.incarnation += 1;
        contents.incarnation
    }

    pub(crate) fn invoke(&self, part: Part, process: i64) -> RecordId {
        let invoked = self.0.borrow_mut().moment();
        self.invoke_as_of(part, process, invoked)
    }

    /// Records a transaction that sees the same data as if it was invoked at `invoked`.
    pub(crate) fn invoke_as_of(&self, part: Part, process: i64, invoked: u64) -> RecordId {
        let mut contents = self.0.borrow_mut();
        let incarnation = contents.incarnation;
        contents.records.push(Record {
            part,
            process,
            invoked,
            answered: None,
            incarnation,
            read: None,
            start: None,
            looks: Vec::new(),
            writes: Vec::new(),
            ops: Vec::new(),
            reported: Reported::Running,
            is_settled: false,
            commit: None,
            lost: false,
        });
        RecordId(contents.records.len() - 1)
    }

    /// Changes the record of a transaction.
    pub(crate) fn edit<T>(
        &self,
        RecordId(page): RecordId,
        edit: impl FnOnce(&mut Record) -> T,
    ) -> T {
        edit(&mut self.0.borrow_mut().records[page])
    }

    /// Records the result reported to a client, or that there will be none.
    pub(crate) fn end(&self, RecordId(page): RecordId, reported: Reported) {
        let mut contents = self.0.borrow_mut();
        let moment = contents.moment();
        let record = &mut contents.records[page];
        record.reported = reported;
        record.answered = (reported != Reported::Unknown).then_some(moment);
        contents.ended += 1;
    }

    /// Returns the number of transactions that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.0.borrow().ended
    }

    /// Records that a transaction was idle for too long.
    pub(crate) fn expire(&self) {
        self.0.borrow_mut().expired += 1;
    }

    pub(crate) fn expired(&self) -> usize {
        self.0.borrow().expired
    }

    /// Records that a restored copy was read.
    pub(crate) fn read_copy(&self) {
        self.0.borrow_mut().copies += 1;
    }

    pub(crate) fn copies(&self) -> usize {
        self.0.borrow().copies
    }

    /// Records an observation that must never occur.
    pub(crate) fn wrong(&self, what: impl Into<String>) {
        self.0.borrow_mut().wrong.push(what.into());
    }

    /// Returns the first observation that must never occur.
    pub(crate) fn first_wrong(&self) -> Option<String> {
        self.0.borrow().wrong.first().cloned()
    }

    pub(crate) fn records(&self) -> Ref<'_, [Record]> {
        Ref::map(self.0.borrow(), |contents| &contents.records[..])
    }

    /// Changes every record.
    pub(crate) fn for_each(&self, edit: impl FnMut(&mut Record)) {
        self.0.borrow_mut().records.iter_mut().for_each(edit);
    }
}

impl Contents {
    fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }
}
