//! One transaction's settings, and running it again where it conflicts.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Error, Moment, Result, Signal, Timer, Timestamp, YieldNow, block_on};
use carnet_store::{BeginKind, Context};
use carnet_txn::{Isolation, Label, Terms, Transaction};

use super::Db;
use super::again::{Again, Finished};
use super::near::Near;
use crate::admission::Permit;
use crate::tx::{SyncTx, Tx};

/// Settings of one transaction. Made by [`Db::transaction`].
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
}

impl<'db> TransactionOptions<'db> {
    pub(super) fn of(db: &'db Db) -> Self {
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
        }
    }

    /// Sets the isolation level.
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets how often the transaction runs at most, the first time included.
    pub const fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max;
        self
    }

    /// Sets how long reads and the commit may take, all attempts together.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the moment until which reads and the commit may take, all attempts together. Beside a
    /// [timeout](Self::timeout) the earlier of the two counts.
    pub fn deadline(mut self, deadline: impl Into<Option<Moment>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Takes the permit that the transaction runs by, so that it can be paused while the transaction
    /// waits for its turn at a hot cell.
    pub fn permit(mut self, permit: impl Into<Option<Arc<Permit>>>) -> Self {
        self.permit = permit.into();
        self
    }

    /// Sets how long work in the transaction yields to other tasks: see [`Tx::time_slice`].
    pub fn yield_now(mut self, yield_now: impl Into<Option<YieldNow>>) -> Self {
        self.yield_now = yield_now.into();
        self
    }

    /// Has the transaction's reads leave the cache as it was: for large scans whose blocks nobody
    /// will ask for again soon.
    pub const fn bypass_cache(mut self, bypass: bool) -> Self {
        self.bypass_cache = bypass;
        self
    }

    /// Says who runs the transaction, for [`Db::holders`] and for the warning that names whoever
    /// holds the sweep back.
    pub fn label(mut self, label: impl Into<Option<Label>>) -> Self {
        self.label = label.into();
        self
    }

    /// As [`Db::snapshot`], and as [`Db::snapshot_at`] with a timestamp.
    ///
    /// # Errors
    ///
    /// As these.
    pub async fn snapshot_async(&self, at: Option<Timestamp>) -> Result<Tx> {
        self.begin_kind(at.map_or(BeginKind::ReadOnly, BeginKind::ReadOnlyAt)).await
    }

    /// Begins a transaction that the caller commits.
    ///
    /// # Errors
    ///
    /// As [`Db::begin`].
    pub fn begin(&self) -> Result<SyncTx> {
        block_on(self.begin_async()).map(SyncTx::new)
    }

    /// As [`TransactionOptions::begin`], for asynchronous code.
    ///
    /// # Errors
    ///
    /// As [`Db::begin`].
    pub async fn begin_async(&self) -> Result<Tx> {
        self.begin_kind(BeginKind::ReadWrite).await
    }

    /// As [`Db::transact`].
    ///
    /// # Errors
    ///
    /// As [`Db::transact`].
    pub fn transact<T>(&self, body: impl Fn(&SyncTx) -> Result<T>) -> Result<T> {
        self.try_transact(body)
    }

    /// As [`Db::run`].
    ///
    /// # Errors
    ///
    /// As [`Db::run`].
    pub async fn run<T, F>(&self, body: impl Fn(Tx) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.try_run(body).await
    }

    /// As [`Db::transact`], with an error type of the caller's own.
    ///
    /// # Errors
    ///
    /// The closure's, or those of [`Tx::commit`].
    pub fn try_transact<T, E: From<Error>>(
        &self,
        body: impl Fn(&SyncTx) -> Result<T, E>,
    ) -> Result<T, E> {
        let context = self.context();
        let mut again = Again::new(self.db, self.attempts_max, &context, self.permit.clone());
        loop {
            let tx = block_on(self.begin_with(BeginKind::ReadWrite, context))?;
            let result = body(&SyncTx::new(tx.clone()));
            let lost = match block_on(again.finish(&tx, result)) {
                Finished::Done(result) => return result,
                Finished::Retry(lost) => lost,
            };
            // Nothing of it may hold the snapshot back while it waits.
            drop(tx);
            if let Some(wait) = block_on(again.wait(lost))? {
                Signal::new().wait(Some(wait));
            }
        }
    }

    /// As [`Db::run`], with an error type of the caller's own.
    ///
    /// # Errors
    ///
    /// The closure's, or those of [`Tx::commit`].
    pub async fn try_run<T, E, F>(&self, body: impl Fn(Tx) -> F) -> Result<T, E>
    where
        E: From<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let context = self.context();
        let mut again = Again::new(self.db, self.attempts_max, &context, self.permit.clone());
        loop {
            let tx = self.begin_with(BeginKind::ReadWrite, context).await?;
            let result = body(tx.clone()).await;
            let lost = match again.finish(&tx, result).await {
                Finished::Done(result) => return result,
                Finished::Retry(lost) => lost,
            };
            // Nothing of it may hold the snapshot back while it waits.
            drop(tx);
            if let Some(wait) = again.wait(lost).await? {
                self.db.inner.timer.wait(wait).await;
            }
        }
    }

    pub(super) const fn db(&self) -> &'db Db {
        self.db
    }

    fn context(&self) -> Context {
        let timeout = self.timeout.map(|timeout| self.db.inner.clock.now().after(timeout));
        let deadline = timeout.into_iter().chain(self.deadline).min();
        let context = deadline.map_or_else(Context::unbounded, Context::until);
        if self.bypass_cache { context.bypassing_cache() } else { context }
    }

    pub(super) async fn begin_kind(&self, kind: BeginKind) -> Result<Tx> {
        self.begin_with(kind, self.context()).await
    }

    async fn begin_with(&self, kind: BeginKind, context: Context) -> Result<Tx> {
        let inner = &self.db.inner;
        let near = Near::of_thread(&inner.near);
        let store = Arc::clone(&near.store);
        let terms =
            Terms { limits: inner.limits, idle: Some(&inner.idle), label: self.label.as_ref() };
        let begun = Transaction::begin_on(store, context, kind, self.isolation, terms);
        let transaction = begun.await?;
        Ok(Tx::new(transaction, Arc::clone(near), self.yield_now, self.permit.clone()))
    }
}
