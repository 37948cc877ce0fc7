//! Settings of one transaction, and its retry loops.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use carnet_admission::Permit;
use carnet_base::{Error, Moment, Result, Signal, Timer, Timestamp, WallTime, YieldNow, block_on};
use carnet_store::{BeginKind, Context};
use carnet_txn::{Isolation, Label, Terms, Transaction};

use super::database::Db;
use super::retries::{Finished, Retries};
use crate::thread_handles::ThreadHandles;
use crate::tx::{SyncTx, Tx};

/// Settings of one transaction, made by [`Db::transaction`].
#[derive(Clone)]
#[must_use = "settings do nothing until a transaction runs with them"]
pub struct TransactionOptions<'db> {
    db: &'db Db,
    isolation: Isolation,
    attempts_max: u32,
    timeout: Option<Duration>,
    deadline: Option<Moment>,
    bypass_cache: bool,
    label: Option<Label>,
    permit: Option<Arc<Permit>>,
    yield_now: Option<YieldNow>,
    wall_time: Option<WallTime>,
    is_interactive: bool,
}

impl Db {
    /// Returns a builder for the settings of one transaction.
    pub fn transaction(&self) -> TransactionOptions<'_> {
        TransactionOptions::new(self)
    }
}

impl<'db> TransactionOptions<'db> {
    fn new(db: &'db Db) -> Self {
        Self {
            db,
            isolation: db.inner.isolation,
            attempts_max: db.inner.attempts_max,
            timeout: None,
            deadline: None,
            bypass_cache: false,
            label: None,
            permit: None,
            yield_now: None,
            wall_time: None,
            is_interactive: false,
        }
    }

    /// Sets the isolation level.
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets the maximum number of attempts, the first one included.
    pub const fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max;
        self
    }

    /// Sets the timeout of reads and the commit, over all attempts together.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the deadline of reads and the commit, over all attempts together. With a
    /// [timeout](Self::timeout) as well, the earlier of the two applies.
    pub fn deadline(mut self, deadline: impl Into<Option<Moment>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Sets the admission permit that the transaction runs by. The permit is paused while the
    /// transaction waits for its turn at a hot cell.
    pub fn permit(mut self, permit: impl Into<Option<Arc<Permit>>>) -> Self {
        self.permit = permit.into();
        self
    }

    /// Sets how long work in the transaction yields to other tasks; see [`Tx::time_slice`].
    pub fn yield_now(mut self, yield_now: impl Into<Option<YieldNow>>) -> Self {
        self.yield_now = yield_now.into();
        self
    }

    /// Sets the wall time by which columns expire, instead of [the default](Tx::wall_time): for
    /// snapshots that continue an earlier one.
    pub fn wall_time(mut self, wall: impl Into<Option<WallTime>>) -> Self {
        self.wall_time = wall.into();
        self
    }

    /// Sets whether the transaction waits for its client between calls: its whole read and write sets are charged to
    /// the memory of transactions, and not only the part of large sets.
    pub const fn interactive(mut self, is_interactive: bool) -> Self {
        self.is_interactive = is_interactive;
        self
    }

    /// Returns a handle of an open transaction for one statement, which runs by the deadline, the permit, the
    /// yielding and the use of the cache of these settings. The other settings are those of the transaction.
    #[must_use]
    pub fn join(&self, tx: &Tx) -> Tx {
        tx.with(self.context(), self.permit.clone(), self.yield_now)
    }

    pub(super) const fn has_wall_time(&self) -> bool {
        self.wall_time.is_some()
    }

    /// Sets whether reads bypass the cache: for large scans whose blocks will not be read again
    /// soon.
    pub const fn bypass_cache(mut self, bypass: bool) -> Self {
        self.bypass_cache = bypass;
        self
    }

    /// Sets a label of the client that runs the transaction, for [`Db::holders`] and for the
    /// warning about transactions that block garbage collection.
    pub fn label(mut self, label: impl Into<Option<Label>>) -> Self {
        self.label = label.into();
        self
    }

    /// Like [`Db::snapshot`], or like [`Db::snapshot_at`] if a timestamp is given.
    ///
    /// # Errors
    ///
    /// Same as those methods.
    pub async fn snapshot_async(&self, at: Option<Timestamp>) -> Result<Tx> {
        self.begin_kind(at.map_or(BeginKind::ReadOnly, BeginKind::ReadOnlyAt)).await
    }

    /// Begins a transaction that the caller commits.
    ///
    /// # Errors
    ///
    /// Same as [`Db::begin`].
    pub fn begin(&self) -> Result<SyncTx> {
        block_on(self.begin_async()).map(SyncTx::new)
    }

    /// Async variant of [`TransactionOptions::begin`].
    ///
    /// # Errors
    ///
    /// Same as [`Db::begin`].
    pub async fn begin_async(&self) -> Result<Tx> {
        self.begin_kind(BeginKind::ReadWrite).await
    }

    /// Like [`Db::transact`], with these settings.
    ///
    /// # Errors
    ///
    /// Same as [`Db::transact`].
    pub fn transact<T>(&self, body: impl Fn(&SyncTx) -> Result<T>) -> Result<T> {
        self.try_transact(body)
    }

    /// Like [`Db::run`], with these settings.
    ///
    /// # Errors
    ///
    /// Same as [`Db::run`].
    pub async fn run<T, F>(&self, body: impl Fn(Tx) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.try_run(body).await
    }

    /// Like [`Db::transact`], but with the caller's own error type.
    ///
    /// # Errors
    ///
    /// The closure's errors, or those of [`Tx::commit`].
    pub fn try_transact<T, E: From<Error>>(
        &self,
        body: impl Fn(&SyncTx) -> Result<T, E>,
    ) -> Result<T, E> {
        let context = self.context();
        let mut retries = Retries::new(self.db, self.attempts_max, &context, self.permit.clone());
        loop {
            let tx = block_on(self.begin_with(BeginKind::ReadWrite, context))?;
            let result = body(&SyncTx::new(tx.clone()));
            let lost = match block_on(retries.finish(&tx, result)) {
                Finished::Done(result) => return result,
                Finished::Retry(lost) => lost,
            };
            // Drop the handle first: it would hold the snapshot open during the wait.
            drop(tx);
            if let Some(wait) = block_on(retries.wait(lost))? {
                Signal::new().wait(Some(wait));
            }
        }
    }

    /// Like [`Db::run`], but with the caller's own error type.
    ///
    /// # Errors
    ///
    /// The closure's errors, or those of [`Tx::commit`].
    pub async fn try_run<T, E, F>(&self, body: impl Fn(Tx) -> F) -> Result<T, E>
    where
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let context = self.context();
        let mut retries = Retries::new(self.db, self.attempts_max, &context, self.permit.clone());
        loop {
            let tx = self.begin_with(BeginKind::ReadWrite, context).await?;
            let result = body(tx.clone()).await;
            let lost = match retries.finish(&tx, result).await {
                Finished::Done(result) => return result,
                Finished::Retry(lost) => lost,
            };
            // Drop the handle first: it would hold the snapshot open during the wait.
            drop(tx);
            if let Some(wait) = retries.wait(lost).await? {
                self.db.inner.timer.wait(wait).await;
            }
        }
    }

    pub(super) const fn db(&self) -> &'db Db {
        self.db
    }

    /// Returns the deadline of a call that begins now.
    pub(super) fn until(&self) -> Option<Moment> {
        let timeout = self.timeout.map(|timeout| self.db.inner.clock.now().after(timeout));
        timeout.into_iter().chain(self.deadline).min()
    }

    pub(super) fn admitted(&self) -> Option<&Permit> {
        self.permit.as_deref()
    }

    fn context(&self) -> Context {
        let context = self.until().map_or_else(Context::unbounded, Context::until);
        if self.bypass_cache { context.bypassing_cache() } else { context }
    }

    pub(super) async fn begin_kind(&self, kind: BeginKind) -> Result<Tx> {
        self.begin_with(kind, self.context()).await
    }

    async fn begin_with(&self, kind: BeginKind, context: Context) -> Result<Tx> {
        let inner = &self.db.inner;
        let handles = ThreadHandles::current(&inner.thread_handles);
        let store = handles.store.clone();
        let terms = Terms {
            limits: inner.limits,
            memory: Some(&handles.memory),
            counts_small_sets: self.is_interactive,
            idle: Some(&inner.idle),
            label: self.label.as_ref(),
        };
        let begun = Transaction::begin_on(store, context, kind, self.isolation, terms);
        let transaction = begun.await?;
        let tx = Tx::new(transaction, Arc::clone(handles), self.yield_now, self.permit.clone());
        if let Some(wall) = self.wall_time {
            tx.set_wall_time(wall);
        }
        Ok(tx)
    }
}
