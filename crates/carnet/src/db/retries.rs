//! Retries of conflicting transactions.
//!
//! On its first conflict a transaction joins the queue of the cell that it lost
//! ([`carnet_txn::Contention`]), and runs again when its turn comes. A transaction that has its
//! turn can still lose to one outside the queue; then it backs off.
//!
//! Transactions that take the head of a queue table lose another cell each time, because the head
//! moves. After [`LOSSES_MAX`] conflicts a transaction waits in one common queue of repeated
//! losers. One transaction of that queue runs at a time, and competes only with newcomers.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use carnet_admission::Permit;
use carnet_base::{CellHash, Error, ErrorKind, Moment, Timer, before};
use carnet_store::Context;
use carnet_txn::{Backoff, Turns};

use super::database::Db;
use crate::retry_counts::{RetryCause, RetryCounts};
use crate::thread_handles::ThreadHandles;
use crate::tx::Tx;

/// Maximum wait for a turn, if no deadline comes earlier; afterwards the transaction runs out of
/// turn. Without this limit an idle transaction at the head of the queue would block the others.
const TURN_WAIT_MAX: Duration = Duration::from_secs(10);

/// Number of conflicts after which a transaction joins the queue of repeated losers.
const LOSSES_MAX: u32 = 4;

/// Key of the queue of repeated losers. It sorts after the keys of all cells.
const REPEATED_LOSERS: CellHash = CellHash(u64::MAX);

/// Retry state of one transaction.
pub(super) struct Retries<'db> {
    db: &'db Db,
    backoff: Backoff,
    turns: Turns,
    deadline: Option<Moment>,
    /// Number of conflicts so far.
    losses: u32,
    /// Whether the transaction waits for no further turn, because an earlier wait hit its limit.
    is_impatient: bool,
    permit: Option<Arc<Permit>>,
}

/// Outcome of one attempt.
pub(super) enum Finished<T, E> {
    Done(Result<T, E>),
    Retry(Lost<E>),
}

/// A retryable failure of an attempt, with the error that the body made of it.
pub(super) struct Lost<E> {
    kind: ErrorKind,
    cell: Option<CellHash>,
    /// Bytes of the cell's key, if they are known.
    key: Option<Box<[u8]>>,
    /// Whether the commit was skipped because other transactions wait for the cell.
    is_blocked: bool,
    error: E,
}

impl<E: From<Error>> Lost<E> {
    fn new(error: Error) -> Self {
        Self {
            kind: error.kind(),
            cell: error.lost_cell(),
            key: error.lost_key().map(Box::from),
            is_blocked: false,
            error: error.into(),
        }
    }
}

impl<'db> Retries<'db> {
    pub(super) fn new(
        db: &'db Db,
        attempts_max: u32,
        context: &Context,
        permit: Option<Arc<Permit>>,
    ) -> Self {
        Self {
            db,
            backoff: Backoff::attempts(attempts_max),
            turns: Turns::new(Arc::clone(&db.inner.contention)),
            deadline: context.deadline(),
            losses: 0,
            // A transaction with a single attempt does not queue.
            is_impatient: attempts_max <= 1,
            permit,
        }
    }

    /// Commits the attempt if its body succeeded, and rolls it back if the body failed.
    pub(super) async fn finish<T, E: From<Error>>(
        &self,
        tx: &Tx,
        result: Result<T, E>,
    ) -> Finished<T, E> {
        match result {
            // The body may have committed the transaction itself.
            result if tx.is_committed() => Finished::Done(result),
            Ok(value) => {
                if let Some(cell) = self.blocking(tx) {
                    tx.rollback();
                    return Finished::Retry(Lost {
                        is_blocked: true,
                        ..Lost::new(blocked().with_lost_cell(cell))
                    });
                }
                match tx.commit().await {
                    Ok(_) => Finished::Done(Ok(value)),
                    Err(error) if error.kind().is_retryable() => {
                        self.note_lost(error.kind(), error.lost_key());
                        Finished::Retry(Lost::new(error))
                    }
                    // The body may have committed itself, failed, and ignored the error.
                    Err(error) => self.retry_or_fail(tx, error.into()),
                }
            }
            Err(error) => {
                tx.rollback();
                self.retry_or_fail(tx, error)
            }
        }
    }

    fn blocking(&self, tx: &Tx) -> Option<CellHash> {
        if self.is_impatient {
            return None;
        }
        tx.blocking(&self.db.inner.contention, &self.turns)
    }

    /// Waits for a turn at the lost cell; returns how long to back off before the next attempt.
    ///
    /// # Errors
    ///
    /// The error of the last attempt, if no further attempt is allowed; `Aborted` if the statement was
    /// killed.
    pub(super) async fn wait<E: From<Error>>(
        &mut self,
        lost: Lost<E>,
    ) -> Result<Option<Duration>, E> {
        self.check_killed()?;
        let is_new = lost.cell.filter(|cell| !self.is_impatient && !self.turns.holds(*cell));
        if lost.is_blocked {
            self.counts().retry(RetryCause::Turn);
            if let Some(cell) = is_new {
                self.take_turn(cell, None).await;
                self.check_killed()?;
            }
            return Ok(None);
        }
        let cause = RetryCause::of(lost.kind);
        let Some(backoff) = self.backoff(lost.kind) else {
            self.counts().give_up(cause);
            return Err(lost.error);
        };
        self.counts().retry(cause);
        self.losses += 1;
        // To join the queue of a cell, the transaction would have to leave the queue of losers.
        let Some(cell) = is_new.filter(|_| !self.turns.holds(REPEATED_LOSERS)) else {
            return Ok(Some(backoff));
        };
        let (cell, key) = match self.losses < LOSSES_MAX {
            true => (cell, lost.key.as_deref()),
            false => (REPEATED_LOSERS, None),
        };
        let has_turn = self.take_turn(cell, key).await;
        self.check_killed()?;
        Ok((!has_turn).then_some(backoff))
    }

    /// Draws the wait before the next attempt; `None` if no attempt or no time is left. An
    /// admitted statement is not retried while the store is overloaded: such retries would form a
    /// queue behind the admission gate that the gate cannot see.
    fn backoff(&mut self, kind: ErrorKind) -> Option<Duration> {
        if self.permit.is_some() && matches!(kind, ErrorKind::Overloaded { .. }) {
            return None;
        }
        let wait = self.db.draw_wait(&mut self.backoff, kind)?;
        let now = self.db.inner.clock.now();
        self.deadline.is_none_or(|deadline| deadline.since(now) > wait).then_some(wait)
    }

    fn retry_or_fail<T, E>(&self, tx: &Tx, error: E) -> Finished<T, E> {
        let Some(kind) = tx.retryable() else { return Finished::Done(Err(error)) };
        self.note_lost(kind, None);
        Finished::Retry(Lost { kind, cell: None, key: None, is_blocked: false, error })
    }

    /// Counts a lost attempt to the statement.
    fn note_lost(&self, kind: ErrorKind, key: Option<&[u8]>) {
        if let Some(permit) = self.permit.as_deref().filter(|_| kind == ErrorKind::Conflict) {
            permit.progress().lost(key);
        }
    }

    fn counts(&self) -> &RetryCounts {
        &ThreadHandles::current(&self.db.inner.thread_handles).retries
    }

    fn check_killed(&self) -> Result<(), Error> {
        self.permit.as_ref().map_or(Ok(()), |permit| permit.progress().check())
    }

    /// Waits for a turn; returns `false` if the wait hits its limit, or if the statement is killed.
    async fn take_turn(&mut self, cell: CellHash, key: Option<&[u8]>) -> bool {
        if let Some(permit) = &self.permit {
            permit.progress().queue_as(self.turns.ticket());
        }
        let _paused = self.permit.as_deref().map(Permit::pause);
        let left = self.deadline.map(|deadline| deadline.since(self.db.inner.clock.now()));
        let limit =
            self.db.inner.timer.wait(left.map_or(TURN_WAIT_MAX, |left| left.min(TURN_WAIT_MAX)));
        let waiting = before(limit, self.turns.take(cell, key));
        let has_turn = match self.permit.as_deref() {
            Some(permit) => permit.progress().unless_killed(pin!(waiting)).await.flatten(),
            None => waiting.await,
        };
        let has_turn = has_turn.unwrap_or(false);
        if !has_turn {
            self.is_impatient = true;
            self.turns.leave();
        }
        has_turn
    }
}

fn blocked() -> Error {
    Error::conflict(
        "other transactions wait for a cell that this one changes or depends on; nothing was \
         written, run the transaction again",
    )
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;
    use crate::testing::admitted;
    use carnet_admission::AdmissionLimits;

    const OVERLOADED: ErrorKind = ErrorKind::Overloaded { retry_after: Duration::from_millis(50) };

    fn permit(db: &Db) -> Arc<Permit> {
        Arc::new(admitted(db))
    }

    #[test]
    fn admitted_statement_does_not_wait_for_room() {
        let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
        let context = Context::unbounded();
        let mut admitted = Retries::new(&db, 64, &context, Some(permit(&db)));
        assert_eq!(admitted.backoff(OVERLOADED), None);
        assert!(admitted.backoff(ErrorKind::Conflict).is_some());
        let mut other = Retries::new(&db, 64, &context, None);
        assert!(other.backoff(OVERLOADED) >= Some(Duration::from_millis(50)));
    }

    #[test]
    fn no_attempt_begins_behind_the_deadline() {
        let db = Db::builder().in_memory();
        let at = |millis| db.inner.clock.now().after(Duration::from_millis(millis));
        let mut late = Retries::new(&db, 64, &Context::until(at(40)), None);
        assert_eq!(late.backoff(OVERLOADED), None);
        let mut early = Retries::new(&db, 64, &Context::until(at(60_000)), None);
        assert!(early.backoff(OVERLOADED).is_some());
    }

    /// The holder of the turn may keep it for as long as its limit.
    #[test]
    fn killed_statement_leaves_its_wait_for_a_turn() {
        let db = Db::builder().admission(AdmissionLimits::of_server(1)).in_memory();
        let context = Context::unbounded();
        let lost = || Lost::<Error>::new(Error::conflict("lost").with_lost_cell(CellHash(7)));
        let mut holder = Retries::new(&db, 64, &context, None);
        assert!(carnet_base::block_on(holder.wait(lost())).unwrap().is_none(), "it has the turn");
        let permit = permit(&db);
        let mut waiting = Retries::new(&db, 64, &context, Some(Arc::clone(&permit)));
        let mut wait = pin!(waiting.wait(lost()));
        let mut task = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(wait.as_mut().poll(&mut task).is_pending());
        permit.progress().kill();
        let Poll::Ready(Err(error)) = wait.as_mut().poll(&mut task) else { panic!("it waits on") };
        assert_eq!(error.kind(), ErrorKind::Aborted);
    }
}
