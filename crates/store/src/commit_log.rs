//! Where the order of commits is kept.

use std::future::{Future, ready};
use std::sync::Arc;

use carnet_base::{
    Bytes, CellHash, CellKey, Error, KeyRange, Result, TableId, Timestamp, WallTime,
};

use crate::cells::Cells;
use crate::context::Context;
use crate::spill::Spill;
use crate::writes::Writes;

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

/// Where the log's owner keeps an active snapshot. It means something to the owner alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// A transaction's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The snapshot R: every commit ≤ R is visible, and no later commit gets a timestamp ≤ R.
    pub read: Timestamp,
    /// The start S, drawn after R; a transaction that only reads has none.
    pub start: Option<Timestamp>,
    /// To be handed back with it.
    pub slot: Slot,
    /// No commit in `(schema, read]` wrote to a table of the system: what was read there at a
    /// snapshot from here on need not be read again. It may lie above `read`, and says nothing then.
    pub schema: Timestamp,
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
    pub points: Vec<CellHash>,
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
    /// Where its snapshot is kept.
    pub slot: Slot,
    /// What it relies on. Its own writes are always checked and need not be listed.
    pub reads: ReadSet,
    /// What it writes.
    pub writes: Writes,
    /// `true` if the cells that it writes must not have been written by others since R, although
    /// the read set does not name them. A transaction that read nothing, or whose read set names
    /// all that it read, can be placed at any C.
    pub checks_writes: bool,
    /// Tables that are dropped: every cell committed before is deleted.
    ///
    /// Nothing is checked for these cells. Whoever uses a table has to rely on a cell that its
    /// drop writes, and a dropped table's id is never used again.
    pub drops: Vec<TableId>,
}

impl CommitRequest {
    /// Asks for the commit of a transaction that drops no table.
    #[must_use]
    pub fn new(begun: Begun, start: Timestamp, reads: ReadSet, writes: impl Into<Writes>) -> Self {
        Self {
            read: begun.read,
            start,
            slot: begun.slot,
            reads,
            writes: writes.into(),
            checks_writes: true,
            drops: Vec::new(),
        }
    }

    /// Returns what the decision is made of, and gives up the payloads.
    ///
    /// It is made before the decision's turn comes, because all commits wait for each other there.
    #[must_use]
    pub fn into_claim(self) -> Claim {
        self.into_parts().0
    }

    /// As [`CommitRequest::into_claim`], and keeps what is written.
    #[must_use]
    pub fn into_parts(self) -> (Claim, Writes) {
        let Self { read, start, slot, reads, writes, checks_writes, drops } = self;
        let cells = Cells::of(writes.iter().map(|(key, _)| key));
        let beyond = Vec::new();
        (Claim { read, start, slot, reads, cells, checks_writes, drops, beyond }, writes)
    }
}

/// What a transaction asks to have written, and to have relied on.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The snapshot R that the transaction read at.
    pub read: Timestamp,
    /// The start S that names its versions.
    pub start: Timestamp,
    /// Where its snapshot is kept.
    pub slot: Slot,
    /// What it relies on, beside the cells that it writes.
    pub reads: ReadSet,
    /// The cells that it writes.
    pub cells: Cells,
    /// See [`CommitRequest::checks_writes`]. A log whose versions are ordered by S checks them
    /// always.
    pub checks_writes: bool,
    /// Tables that it drops, see [`CommitRequest::drops`].
    pub drops: Vec<TableId>,
    /// Cells that it writes beside those, by their hashes alone, sorted: too many to be listed.
    /// Whoever began before such a commit cannot be checked against it.
    pub beyond: Vec<CellHash>,
}

impl Claim {
    /// Tells whether `cells` are all that it changes.
    #[must_use]
    pub const fn names_all(&self) -> bool {
        self.beyond.is_empty() && self.drops.is_empty()
    }

    /// Tells whether it may write to a table of the system.
    #[must_use]
    pub fn changes_schema(&self) -> bool {
        !self.beyond.is_empty() || self.cells.first_table().is_some_and(TableId::is_system)
    }
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

    /// Makes a place for more writes of the transaction that started at S than fit into memory;
    /// `None` where this log has none.
    fn spill(&self, start: Timestamp) -> Option<Arc<dyn Spill>> {
        let _ = start;
        None
    }

    /// Tells what became of the transaction that started at S.
    ///
    /// # Errors
    ///
    /// `Invalid` for a start that was not handed out yet; `Unknown` for one below the sweep mark,
    /// whose entry may have been deleted; `Unavailable`, `Corrupted`.
    fn outcome(
        &self,
        context: &Context,
        start: Timestamp,
    ) -> impl Future<Output = Result<Outcome>> + Send;

    /// As [`CommitLog::outcome`], for a reader at a snapshot that this log handed out.
    ///
    /// It promises less, so that it may cost less: whether the transaction committed at or before
    /// the snapshot is certain. Of one that did not, anything else may be said.
    ///
    /// # Errors
    ///
    /// As [`CommitLog::outcome`].
    fn outcome_for_reader(
        &self,
        context: &Context,
        start: Timestamp,
        read: Timestamp,
    ) -> impl Future<Output = Result<Outcome>> + Send {
        let _ = read;
        self.outcome(context, start)
    }

    /// Returns P: the largest timestamp such that every commit ≤ P is resolved.
    fn published(&self) -> Timestamp;

    /// Returns the newest commit that was published by a wall time, as exactly as that is
    /// [known](crate::WallTimes).
    ///
    /// # Errors
    ///
    /// `Invalid` for a time ahead of the log's; `TooOld` where nothing is known of one so early;
    /// `Unsupported` where the log keeps no wall times.
    fn timestamp_at(
        &self,
        context: &Context,
        wall: WallTime,
    ) -> impl Future<Output = Result<Timestamp>> + Send {
        let _ = (context, wall);
        ready(Err(no_wall_times()))
    }

    /// Returns when a commit was published: not after it was, and about a second before at most,
    /// or less exactly where it is old.
    ///
    /// # Errors
    ///
    /// `Invalid` for a timestamp ahead of P; `TooOld` where nothing is known of one so old;
    /// `Unsupported` where the log keeps no wall times.
    fn wall_time_of(
        &self,
        context: &Context,
        commit: Timestamp,
    ) -> impl Future<Output = Result<WallTime>> + Send {
        let _ = (context, commit);
        ready(Err(no_wall_times()))
    }

    /// Returns the sweep mark: what a snapshot at or above it sees is all there, an older one is
    /// refused.
    ///
    /// # Errors
    ///
    /// `Unavailable`; `Unsupported` where the log keeps none.
    fn swept(&self, context: &Context) -> impl Future<Output = Result<Timestamp>> + Send {
        let _ = context;
        ready(Err(Error::unsupported("the sweep mark of this store")))
    }
}

fn no_wall_times() -> Error {
    Error::unsupported("wall times of commits on this store")
}

/// Where a new life of a log begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// No earlier life has handed this timestamp out, nor any above it.
    pub first: Timestamp,
    /// What snapshots of earlier lives saw that lie at this or above is all there.
    pub swept: Timestamp,
}

/// The rules of order, without I/O or a clock of the world.
///
/// The log's owner calls [`CommitOrder::decide`] in the critical section in which it also
/// reserves the commit's place in the log: the order of places and the order of commit timestamps
/// are one. Everything else may be called from any thread at any time.
pub trait CommitOrder: Send + Sync + 'static {
    /// Registers a snapshot, at P unless the kind names one, and draws a writer's start after it.
    ///
    /// # Errors
    ///
    /// `Overloaded` when the next timestamp would reach the bound; `Invalid` for a snapshot that
    /// lies ahead of P; `TooOld` for one below the sweep mark.
    fn begin(&self, kind: BeginKind) -> Result<Begun>;

    /// Forgets a snapshot, and its start where that has not been decided.
    fn end(&self, begun: Begun);

    /// Tells whether a transaction would be refused, as far as is known. It promises nothing and
    /// changes nothing: whoever asks spares himself writing what would be aborted.
    ///
    /// # Errors
    ///
    /// As [`CommitOrder::decide`].
    fn check(&self, claim: &Claim) -> Result<()> {
        let _ = claim;
        Ok(())
    }

    /// Checks a transaction against all that committed after its snapshot; assigns C.
    ///
    /// The rules may take the claim's cells over.
    ///
    /// # Errors
    ///
    /// `Conflict`, `TooOld`, or `Overloaded` when the next timestamp would reach the bound.
    fn decide(&self, claim: &mut Claim) -> Result<Timestamp>;

    /// Moves P to a commit: it and everything before it is resolved. The owner calls it with
    /// rising commits, and may leave out all but the last of several.
    fn publish(&self, commit: Timestamp);

    /// Returns P.
    fn published(&self) -> Timestamp;

    /// Returns [`Begun::schema`] of every P that was asked for before: it includes all changes up to
    /// there.
    fn schema(&self) -> Timestamp;

    /// Returns the largest timestamp handed out.
    fn latest(&self) -> Timestamp;

    /// Tells whether a start was begun and not ended. A commit under way whose caller has gone
    /// is known to the log's owner only.
    fn is_running(&self, start: Timestamp) -> bool;

    /// Raises the sweep mark to `wanted`, or to the oldest snapshot in use or P where those are
    /// smaller, and returns it: what lies hidden below it, nobody will ask for again.
    fn raise_mark(&self, wanted: Timestamp) -> Timestamp;

    /// Returns the sweep mark: an older snapshot is not taken up again. It may lie ahead of what has
    /// been swept.
    fn mark(&self) -> Timestamp;

    /// Returns how many timestamps are left below the bound.
    fn headroom(&self) -> u64;

    /// Allows timestamps up to a bound that the owner has made durable. Never lowers it.
    fn extend(&self, bound: Timestamp);

    /// Hands out no timestamp below `first` from now on. The bound lies above it.
    fn skip_to(&self, first: Timestamp);
}
