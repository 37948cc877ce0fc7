//! The ways to run a transaction with default settings.

use std::future::Future;

use carnet_base::{Result, Timestamp, block_on};

use super::database::Db;
use crate::tx::{Snapshot, SyncTx, Tx};

impl Db {
    /// Runs a transaction and commits it; retries it when it conflicts.
    ///
    /// The closure may run several times: it must have no effects except through the transaction.
    /// If it returns an error, the transaction is rolled back and the error is returned;
    /// [`abort!`](crate::abort) makes an error for this purpose. For the caller's own error type,
    /// use [`TransactionOptions::try_transact`](crate::TransactionOptions::try_transact).
    ///
    /// # Errors
    ///
    /// The closure's errors, or those of [`Tx::commit`].
    pub fn transact<T>(&self, body: impl Fn(&SyncTx) -> Result<T>) -> Result<T> {
        self.transaction().try_transact(body)
    }

    /// Async variant of [`Db::transact`].
    ///
    /// ```
    /// # fn main() -> carnet::Result<()> {
    /// # let db = carnet::Db::builder().in_memory();
    /// # carnet::block_on(async move {
    /// let counters = db.raw("counters")?;
    /// db.run(|tx| {
    ///     let counters = counters.clone();
    ///     async move {
    ///         let seen = counters.get(&tx, "seen").await?.map_or(0, |bytes| bytes[0]);
    ///         counters.put(&tx, "seen", [seen + 1]).await
    ///     }
    /// })
    /// .await
    /// # })
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`Db::transact`].
    pub async fn run<T, F>(&self, body: impl Fn(Tx) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.transaction().try_run(body).await
    }

    /// Begins a transaction. The caller commits it, and retries it when it conflicts. The
    /// transaction is rolled back after [`Builder::idle_timeout`](crate::Builder::idle_timeout) without a call.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn begin(&self) -> Result<SyncTx> {
        self.transaction().begin()
    }

    /// Takes a read-only snapshot of the current state. It is released after
    /// [`Builder::snapshot_idle_timeout`](crate::Builder::snapshot_idle_timeout) without a call.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        block_on(self.snapshot_async()).map(Snapshot::new)
    }

    /// Async variant of [`Db::snapshot`]: the transaction refuses writes.
    ///
    /// # Errors
    ///
    /// Same as [`Db::snapshot`].
    pub async fn snapshot_async(&self) -> Result<Tx> {
        self.transaction().snapshot_async(None).await
    }

    /// Reopens an earlier snapshot by its [`Tx::read_timestamp`], for example to read the next
    /// page of a read that spans several calls.
    ///
    /// # Errors
    ///
    /// - `Invalid` for a timestamp above the last commit.
    /// - `TooOld` if the retention of the timestamp is over, or if the database has crashed since,
    ///   with a durability other than [`Durability::Always`](crate::Durability::Always).
    /// - Otherwise the same as [`Db::snapshot`].
    pub async fn snapshot_at(&self, read: Timestamp) -> Result<Tx> {
        self.transaction().snapshot_async(Some(read)).await
    }
}
