//! The commit log: the order of commits.

use std::sync::Arc;

use carnet_base::{Call, CellKey, Error, Result, Timestamp, WallTime};

use crate::begun::{BeginKind, Begun};
use crate::commit_request::{Claim, CommitRequest};
use crate::context::Context;
use crate::spill::Spill;

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Committed at C.
    Committed(Timestamp),
    /// Not committed, and never will be.
    Aborted,
    /// Still running, or its commit is in flight.
    Pending,
}

/// Rejects a start that was not handed out yet: its outcome is open.
///
/// # Errors
///
/// `Invalid`.
pub fn check_handed_out(order: &dyn CommitOrder, start: Timestamp) -> Result<()> {
    if start <= order.latest() {
        return Ok(());
    }
    Err(Error::invalid(format!("start {start} was not handed out yet, so it has no outcome")))
}

/// Keeps the order of commits. The trait is object-safe, see [`Store`](crate::Store).
///
/// Every promise is a test in `conformance`.
pub trait CommitLog: Send + Sync + 'static {
    /// Hands out a snapshot, registered as active, and a new start for a writer.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the log has stopped, `Overloaded` if it is temporarily out of timestamps,
    /// `Invalid` for a snapshot that was not handed out yet.
    fn begin<'a>(&'a self, context: &'a Context, kind: BeginKind) -> Call<'a, Begun>;

    /// Returns `true` if the next version of a cell may be a delta: the store merges it with older
    /// versions when it reads. A store takes none if a cell has too many already.
    fn takes_delta(&self, key: &CellKey) -> bool {
        let _ = key;
        false
    }

    /// Gives a snapshot back. This aborts a start that was not committed.
    fn end(&self, begun: Begun);

    /// Decides a transaction and, if it may commit, makes it durable and visible atomically.
    ///
    /// Returns C once every commit ≤ C is published. Dropping the future does not undo a decided
    /// commit.
    ///
    /// # Errors
    ///
    /// `Conflict` or `TooOld`: nothing was written. `Unknown`: the log stopped during the commit.
    fn commit<'a>(&'a self, context: &'a Context, request: CommitRequest) -> Call<'a, Timestamp>;

    /// Creates a spill for writes that do not fit into memory, of the transaction that started at
    /// S; `None` if this log has none.
    fn spill(&self, start: Timestamp) -> Option<Arc<dyn Spill>> {
        let _ = start;
        None
    }

    /// Returns the outcome of the transaction that started at S.
    ///
    /// # Errors
    ///
    /// `Invalid` for a start that was not handed out yet; `Unknown` for a start below the sweep
    /// mark, whose entry may have been deleted; `Unavailable`, `Corrupted`.
    fn outcome<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome>;

    /// Aborts the transaction that started at S, of whatever process, unless its commit has been
    /// decided. Returns its outcome: `Pending` if its commit is being written.
    ///
    /// # Errors
    ///
    /// See [`CommitLog::outcome`]; `Unsupported` for a log in which a transaction is ended where it
    /// was begun.
    fn abort<'a>(&'a self, context: &'a Context, start: Timestamp) -> Call<'a, Outcome> {
        let _ = (context, start);
        Call::ready(Err(Error::unsupported(
            "this store aborts transactions of its own process only, by their ids",
        )))
    }

    /// Like [`CommitLog::outcome`], for a reader at a snapshot that this log handed out.
    ///
    /// It promises less, so that it may cost less: it is certain whether the transaction committed
    /// at or before the snapshot. For any other transaction the answer may be arbitrary.
    ///
    /// # Errors
    ///
    /// See [`CommitLog::outcome`].
    fn outcome_for_reader<'a>(
        &'a self,
        context: &'a Context,
        start: Timestamp,
        read: Timestamp,
    ) -> Call<'a, Outcome> {
        let _ = read;
        self.outcome(context, start)
    }

    /// Looks up the outcomes of several transactions at once, for a reader at a snapshot that this
    /// log handed out, so that [`CommitLog::outcome_for_reader`] answers from memory. A log that
    /// answers from memory anyway does nothing.
    ///
    /// # Errors
    ///
    /// See [`CommitLog::outcome`].
    fn look_up_outcomes<'a>(
        &'a self,
        context: &'a Context,
        starts: &'a [Timestamp],
        read: Timestamp,
    ) -> Call<'a, ()> {
        let _ = (context, starts, read);
        Call::ready(Ok(()))
    }

    /// Returns P: the largest timestamp such that every commit ≤ P is resolved.
    fn published(&self) -> Timestamp;

    /// Returns the newest commit that was published at a wall time, with the accuracy of
    /// [`WallTimes`](crate::WallTimes).
    ///
    /// # Errors
    ///
    /// `Invalid` for a time ahead of the log's clock; `TooOld` if no commit that old is known;
    /// `Unsupported` if the log keeps no wall times.
    fn timestamp_at<'a>(&'a self, context: &'a Context, wall: WallTime) -> Call<'a, Timestamp> {
        let _ = (context, wall);
        Call::ready(Err(no_wall_times()))
    }

    /// Returns the wall time at which a commit was published. It is never late, and at most about a
    /// second early, or more for an old commit.
    ///
    /// # Errors
    ///
    /// `Invalid` for a timestamp ahead of P; `TooOld` if no commit that old is known; `Unsupported`
    /// if the log keeps no wall times.
    fn wall_time_of<'a>(&'a self, context: &'a Context, commit: Timestamp) -> Call<'a, WallTime> {
        let _ = (context, commit);
        Call::ready(Err(no_wall_times()))
    }

    /// Returns the current wall time, by which columns expire. It never decreases, and is not before
    /// the [`CommitLog::wall_time_of`] of any commit. `None` if the log keeps no wall times.
    fn wall_time(&self) -> Option<WallTime> {
        None
    }

    /// Returns the sweep mark: snapshots at or above it are complete, older ones are refused.
    ///
    /// # Errors
    ///
    /// `Unavailable`; `Unsupported` if the log has none.
    fn swept<'a>(&'a self, context: &'a Context) -> Call<'a, Timestamp> {
        let _ = context;
        Call::ready(Err(Error::unsupported("this store has no sweep mark")))
    }
}

fn no_wall_times() -> Error {
    Error::unsupported("this store keeps no wall times of commits")
}

/// Starting point of a new incarnation of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStart {
    /// Above every timestamp that an earlier incarnation handed out.
    pub first: Timestamp,
    /// Snapshots of earlier incarnations at or above this one are complete.
    pub swept: Timestamp,
}

/// The rules of the commit order, without I/O or a wall clock.
///
/// The log's owner calls [`CommitOrder::decide`] in the critical section in which it also reserves
/// the commit's place in the log, so that the order of places and the order of commit timestamps
/// are the same. All other methods may be called from any thread at any time.
pub trait CommitOrder: Send + Sync + 'static {
    /// Registers a snapshot, at P unless the kind names one, and then draws the start of a writer.
    ///
    /// # Errors
    ///
    /// `Overloaded` if the next timestamp would reach the bound; `Invalid` for a snapshot ahead of
    /// P; `TooOld` for a snapshot below the sweep mark.
    fn begin(&self, kind: BeginKind) -> Result<Begun>;

    /// Removes a snapshot, and its start if that has not been decided.
    fn end(&self, begun: Begun);

    /// Returns the error with which a transaction would be refused, as far as is known. It changes
    /// nothing and promises nothing: it saves the caller from writing cells of a transaction that
    /// would be aborted.
    ///
    /// # Errors
    ///
    /// See [`CommitOrder::decide`].
    fn check(&self, claim: &Claim) -> Result<()> {
        let _ = claim;
        Ok(())
    }

    /// Checks a transaction against all commits after its snapshot, and assigns C.
    ///
    /// It may take the claim's cells.
    ///
    /// # Errors
    ///
    /// `Conflict`, `TooOld`, or `Overloaded` if the next timestamp would reach the bound.
    fn decide(&self, claim: &mut Claim) -> Result<Timestamp>;

    /// Moves P to a commit: that commit and all before it are resolved. The owner calls it with
    /// rising commits, and may skip all but the last of several.
    fn publish(&self, commit: Timestamp);

    /// Returns the published timestamp P.
    fn published(&self) -> Timestamp;

    /// Returns a valid [`Begun::schema`] for every P that was read before this call: it includes
    /// all schema changes up to there.
    fn schema(&self) -> Timestamp;

    /// Returns the largest timestamp that was handed out.
    fn latest(&self) -> Timestamp;

    /// Returns `true` if a start was begun and not ended. A commit in flight whose caller has gone
    /// is known only to the log's owner.
    fn is_running(&self, start: Timestamp) -> bool;

    /// Raises the sweep mark to `wanted`, or to the oldest snapshot in use or P if those are
    /// smaller, and returns it. No later read needs the versions hidden below it.
    fn raise_mark(&self, wanted: Timestamp) -> Timestamp;

    /// Returns the sweep mark: older snapshots are not taken up again. It may be ahead of the
    /// sweep.
    fn mark(&self) -> Timestamp;

    /// Returns the number of timestamps left below the bound.
    fn headroom(&self) -> u64;

    /// Allows timestamps up to a bound that the owner has made durable. It never lowers the bound.
    fn extend(&self, bound: Timestamp);

    /// Hands out no timestamp below `first` from now on. The bound must be above it.
    fn skip_to(&self, first: Timestamp);
}
