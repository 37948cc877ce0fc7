//! What is written down while a run goes on: each transaction as its client saw it, and as the
//! database's own timestamps name it.
//!
//! The order in which things are written down *is* real time: `invoked` is taken before a
//! transaction begins, `answered` after the client has its answer.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use carnet_base::Timestamp;
use carnet_checker::Op;

/// Which part of the mixed workload a transaction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// List-append, judged as a history of clients as well.
    Lists,
    /// Registers, judged as a history of clients as well.
    Registers,
    /// Judged by its timestamps, and by invariants of its own.
    Other,
}

/// What the client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing yet; the commit was not asked for. If it stays so, the transaction was given up.
    Running,
    /// Nothing, or that nobody knows; the commit was asked for.
    Unknown,
    /// It committed, at C or, if it wrote nothing, at its snapshot.
    Committed(Timestamp),
    /// It did not.
    Aborted,
}

/// A version as a read found it: named by the start of its writer.
pub(crate) type Found = Option<Timestamp>;

/// What was read of others, keys as bytes.
#[derive(Clone, Debug)]
pub(crate) enum Look {
    Point { key: Vec<u8>, found: Found },
    Range { from: Vec<u8>, to: Vec<u8>, found: Vec<(Vec<u8>, Timestamp)> },
}

/// A transaction.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) part: Part,
    pub(crate) process: i64,
    pub(crate) invoked: u64,
    pub(crate) answered: Option<u64>,
    /// In which life of the database it began.
    pub(crate) life: u32,
    /// R; `None` where it did not even begin.
    pub(crate) read: Option<Timestamp>,
    /// S, of one that may write.
    pub(crate) start: Option<Timestamp>,
    pub(crate) looks: Vec<Look>,
    pub(crate) writes: Vec<(Vec<u8>, bool)>,
    pub(crate) ops: Vec<Op>,
    pub(crate) told: Told,
    /// Whether the database was asked what became of it.
    pub(crate) is_settled: bool,
    /// When it committed, as the database says then.
    pub(crate) commit: Option<Timestamp>,
    /// Whether its commit, acknowledged or not, was lost with the power, as the durability allows.
    pub(crate) lost: bool,
}

/// The book of a run. Clones are handles of the same one.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Rc<RefCell<Book>>);

#[derive(Default)]
struct Book {
    records: Vec<Record>,
    moments: u64,
    processes: i64,
    life: u32,
    ended: usize,
    expired: usize,
    copies: usize,
    wrong: Vec<String>,
}

/// Names a transaction in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page(usize);

impl Ledger {
    /// Returns the number of a client that was not there before.
    pub(crate) fn new_client(&self) -> i64 {
        let mut book = self.0.borrow_mut();
        book.processes += 1;
        book.processes
    }

    /// Begins another life of the database.
    pub(crate) fn begin_life(&self) -> u32 {
        let mut book = self.0.borrow_mut();
        book.life += 1;
        book.life
    }

    pub(crate) fn invoke(&self, part: Part, process: i64) -> Page {
        let invoked = self.0.borrow_mut().moment();
        self.invoke_as_of(part, process, invoked)
    }

    /// Notes a transaction that sees what one would have seen which was invoked at a moment.
    pub(crate) fn invoke_as_of(&self, part: Part, process: i64, invoked: u64) -> Page {
        let mut book = self.0.borrow_mut();
        let life = book.life;
        book.records.push(Record {
            part,
            process,
            invoked,
            answered: None,
            life,
            read: None,
            start: None,
            looks: Vec::new(),
            writes: Vec::new(),
            ops: Vec::new(),
            told: Told::Running,
            is_settled: false,
            commit: None,
            lost: false,
        });
        Page(book.records.len() - 1)
    }

    /// Notes something about a transaction.
    pub(crate) fn edit<T>(&self, Page(page): Page, edit: impl FnOnce(&mut Record) -> T) -> T {
        edit(&mut self.0.borrow_mut().records[page])
    }

    /// Notes what the client was told, or that it never will be.
    pub(crate) fn end(&self, Page(page): Page, told: Told) {
        let mut book = self.0.borrow_mut();
        let moment = book.moment();
        let record = &mut book.records[page];
        record.told = told;
        record.answered = (told != Told::Unknown).then_some(moment);
        book.ended += 1;
    }

    /// How many transactions have ended, one way or another.
    pub(crate) fn ended(&self) -> usize {
        self.0.borrow().ended
    }

    /// Notes that a transaction was left alone for too long.
    pub(crate) fn expire(&self) {
        self.0.borrow_mut().expired += 1;
    }

    pub(crate) fn expired(&self) -> usize {
        self.0.borrow().expired
    }

    /// Notes that a restored copy was read.
    pub(crate) fn read_copy(&self) {
        self.0.borrow_mut().copies += 1;
    }

    pub(crate) fn copies(&self) -> usize {
        self.0.borrow().copies
    }

    /// Notes what should never have been seen.
    pub(crate) fn wrong(&self, what: impl Into<String>) {
        self.0.borrow_mut().wrong.push(what.into());
    }

    /// Returns what should never have been seen, the first of it.
    pub(crate) fn first_wrong(&self) -> Option<String> {
        self.0.borrow().wrong.first().cloned()
    }

    pub(crate) fn records(&self) -> Ref<'_, [Record]> {
        Ref::map(self.0.borrow(), |book| &book.records[..])
    }

    /// Changes every record.
    pub(crate) fn for_each(&self, edit: impl FnMut(&mut Record)) {
        self.0.borrow_mut().records.iter_mut().for_each(edit);
    }
}

impl Book {
    fn moment(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }
}
