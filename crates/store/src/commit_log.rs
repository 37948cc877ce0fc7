//! Where the order of commits is kept.

use std::future::Future;

use carnet_base::{Bytes, CellKey, Error, KeyRange, Result, Timestamp};

use crate::context::Context;

/// What a transaction is begun for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginKind {
    /// It will only read: it gets a snapshot and no start timestamp.
    ReadOnly,
    /// It will only read, at a snapshot that was handed out before: the next page of a read, for
    /// instance.
    ReadOnlyAt(Timestamp),
    /// It may write.
    ReadWrite,
}

/// A transaction's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The snapshot R: every commit ≤ R is visible, and no later commit gets a timestamp ≤ R.
    pub read: Timestamp,
    /// The start S, drawn after R; a transaction that only reads has none.
    pub start: Option<Timestamp>,
}

/// A cell to be written: its payload, or `None` to delete it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The cell.
    pub key: CellKey,
    /// The row image or byte string; `None` is a tombstone.
    pub payload: Option<Bytes>,
}

/// What must not have been written by others between R and C.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// Single cells, present or not.
    pub points: Vec<CellKey>,
    /// Ranges, every cell that could lie in them included.
    pub ranges: Vec<KeyRange>,
}

/// Asks for a commit. Plain data, so that it can travel to the log's owner.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    /// The snapshot R that the transaction read at.
    pub read: Timestamp,
    /// The start S that names its versions.
    pub start: Timestamp,
    /// What it relies on. Its own writes are always checked and need not be listed.
    pub reads: ReadSet,
    /// What it writes: at most one write for a cell.
    pub writes: Vec<Write>,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It committed at C.
    Committed(Timestamp),
    /// It did not commit and never will.
    Aborted,
    /// It is still running, or its commit is under way.
    Pending,
}

/// Refuses a start that was not handed out yet: what becomes of it is open.
///
/// # Errors
///
/// `Invalid`.
pub fn check_handed_out(order: &dyn CommitOrder, start: Timestamp) -> Result<()> {
    if start <= order.latest() {
        return Ok(());
    }
    Err(Error::invalid(format!("start {start} was not handed out yet: it has no outcome")))
}

/// Keeps the order of commits.
///
/// Every promise is a test in `conformance`.
pub trait CommitLog: Send + Sync + 'static {
    /// Hands out a snapshot, registered as active, and to a writer a fresh start.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the log has stopped, `Overloaded` when it is out of timestamps for a
    /// moment, `Invalid` for a snapshot that was not handed out yet.
    fn begin(
        &self,
        context: &Context,
        kind: BeginKind,
    ) -> impl Future<Output = Result<Begun>> + Send;

    /// Gives a snapshot back. A start that was not committed is aborted by this.
    fn end(&self, begun: Begun);

    /// Decides a transaction and, if it may commit, makes it durable and visible as one.
    ///
    /// Returns C once every commit ≤ C is published. Dropping the future leaves a decided commit
    /// in force.
    ///
    /// # Errors
    ///
    /// `Conflict` or `TooOld`: nothing was written. `Unknown`: the log stopped under way.
    fn commit(
        &self,
        context: &Context,
        request: CommitRequest,
    ) -> impl Future<Output = Result<Timestamp>> + Send;

    /// Tells what became of the transaction that started at S.
    ///
    /// # Errors
    ///
    /// `Invalid` for a start that was not handed out yet; `Unavailable`, `Corrupted`.
    fn outcome(
        &self,
        context: &Context,
        start: Timestamp,
    ) -> impl Future<Output = Result<Outcome>> + Send;

    /// Returns P: the largest timestamp such that every commit ≤ P is resolved.
    fn published(&self) -> Timestamp;
}

/// The rules of order, as a pure structure without I/O or a clock.
///
/// The log's owner keeps it behind its lock and calls [`CommitOrder::decide`] in the critical
/// section in which it also reserves the commit's place in the log: the order of places and the
/// order of commit timestamps are one.
pub trait CommitOrder: Send + 'static {
    /// Registers a snapshot, at P unless the kind names one, and draws a writer's start after it.
    ///
    /// # Errors
    ///
    /// `Overloaded` when the next timestamp would reach the bound; `Invalid` for a snapshot that
    /// lies ahead of P.
    fn begin(&mut self, kind: BeginKind) -> Result<Begun>;

    /// Forgets a snapshot, and its start where that has not been decided.
    fn end(&mut self, begun: Begun);

    /// Checks a transaction against all that committed after its snapshot; assigns C.
    ///
    /// # Errors
    ///
    /// `Conflict`, `TooOld`, or `Overloaded` when the next timestamp would reach the bound.
    fn decide(&mut self, request: &CommitRequest) -> Result<Timestamp>;

    /// Moves P to a commit. The owner calls it in the order of commits, each once it is
    /// resolved; everything before it is resolved too.
    fn publish(&mut self, commit: Timestamp, start: Timestamp);

    /// Returns P.
    fn published(&self) -> Timestamp;

    /// Returns the largest timestamp handed out.
    fn latest(&self) -> Timestamp;

    /// Tells whether a start is running or its commit under way.
    fn is_pending(&self, start: Timestamp) -> bool;

    /// Returns the oldest snapshot still in use, P if there is none: what older versions hide
    /// below it, nobody can see again.
    fn oldest_read(&self) -> Timestamp;

    /// Returns how many timestamps are left below the bound.
    fn headroom(&self) -> u64;

    /// Allows timestamps up to a bound that the owner has made durable. Never lowers it.
    fn extend(&mut self, bound: Timestamp);
}
