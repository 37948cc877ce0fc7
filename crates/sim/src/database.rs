//! The interface of workloads to a database of any kind.

use std::future::Future;
use std::sync::Arc;

use carnet::{Db, Tx};
use carnet_base::{Bytes, CellKey, CellPage, KeyRange, Result, Timestamp, WallTime};
use carnet_data::RowDelta;
use carnet_store::{BeginKind, Context, Outcome, PageLimit, Store};
use carnet_txn::{Entry, IdleWatch, Isolation, Limits, Terms, Transaction};

/// Database that clients of the simulation use.
pub(crate) trait Database: Clone + 'static {
    type Tx: Transact;

    fn begin(
        &self,
        kind: BeginKind,
        isolation: Isolation,
    ) -> impl Future<Output = Result<Self::Tx>>;

    fn outcome(&self, start: Timestamp) -> impl Future<Output = Result<Outcome>>;
    fn timestamp_at(&self, wall: WallTime) -> impl Future<Output = Result<Timestamp>>;
    fn wall_time_of(&self, commit: Timestamp) -> impl Future<Output = Result<WallTime>>;
    fn swept(&self) -> impl Future<Output = Result<Timestamp>>;

    /// Returns the database of the `carnet` crate, which builds indexes and views.
    fn facade(&self) -> Option<&Db> {
        None
    }
}

/// A transaction of a database.
pub(crate) trait Transact: Clone + 'static {
    fn read_timestamp(&self) -> Timestamp;
    fn start_timestamp(&self) -> Option<Timestamp>;
    fn get(&self, key: &CellKey) -> impl Future<Output = Result<Option<Entry>>>;
    fn get_many(&self, keys: &[CellKey]) -> impl Future<Output = Result<Vec<Option<Entry>>>>;
    fn range(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> impl Future<Output = Result<CellPage>>;
    fn put(&self, key: CellKey, payload: Bytes) -> Result<()>;
    /// Changes a part of a row without reading it; returns `false` if it has to be read.
    fn change(&self, key: &CellKey, delta: &RowDelta) -> Result<bool>;
    fn delete(&self, key: CellKey) -> Result<()>;
    fn commit(&self) -> impl Future<Output = Result<Timestamp>>;
    fn rollback(&self);

    /// Returns the transaction of the `carnet` crate, which maintains indexes and views.
    fn facade(&self) -> Option<&Tx> {
        None
    }
}

/// Transactions on a store, without the API of the `carnet` crate.
pub(crate) struct Bare<S> {
    pub(crate) store: Arc<S>,
    /// Options of every call.
    pub(crate) context: Context,
    pub(crate) limits: Limits,
    /// Ends idle transactions.
    pub(crate) idle: Option<Arc<IdleWatch>>,
}

impl<S> Clone for Bare<S> {
    fn clone(&self) -> Self {
        let (context, limits) = (self.context, self.limits);
        Self { store: Arc::clone(&self.store), context, limits, idle: self.idle.clone() }
    }
}

impl<S: Store> Database for Bare<S> {
    type Tx = Transaction;

    async fn begin(&self, kind: BeginKind, isolation: Isolation) -> Result<Transaction> {
        let terms = Terms { limits: self.limits, idle: self.idle.as_deref(), ..Terms::default() };
        Transaction::begin_on(Arc::clone(&self.store), self.context, kind, isolation, terms).await
    }

    async fn outcome(&self, start: Timestamp) -> Result<Outcome> {
        self.store.outcome(&self.context, start).await
    }

    async fn timestamp_at(&self, wall: WallTime) -> Result<Timestamp> {
        self.store.timestamp_at(&self.context, wall).await
    }

    async fn wall_time_of(&self, commit: Timestamp) -> Result<WallTime> {
        self.store.wall_time_of(&self.context, commit).await
    }

    async fn swept(&self) -> Result<Timestamp> {
        self.store.swept(&self.context).await
    }
}

impl Transact for Transaction {
    fn read_timestamp(&self) -> Timestamp {
        self.read_timestamp()
    }

    fn start_timestamp(&self) -> Option<Timestamp> {
        self.start_timestamp()
    }

    async fn get(&self, key: &CellKey) -> Result<Option<Entry>> {
        self.get(key).await
    }

    async fn get_many(&self, keys: &[CellKey]) -> Result<Vec<Option<Entry>>> {
        self.get_many(keys, usize::MAX).await
    }

    async fn range(&self, range: &KeyRange, reverse: bool, limit: PageLimit) -> Result<CellPage> {
        self.range(range, reverse, limit).await
    }

    fn put(&self, key: CellKey, payload: Bytes) -> Result<()> {
        self.put(key, payload)
    }

    fn change(&self, key: &CellKey, delta: &RowDelta) -> Result<bool> {
        self.change(key, delta)
    }

    fn delete(&self, key: CellKey) -> Result<()> {
        self.delete(key)
    }

    async fn commit(&self) -> Result<Timestamp> {
        self.commit().await
    }

    fn rollback(&self) {
        self.rollback();
    }
}

impl Database for Db {
    type Tx = Tx;

    async fn begin(&self, kind: BeginKind, isolation: Isolation) -> Result<Tx> {
        match kind {
            BeginKind::ReadOnly => self.snapshot_async().await,
            BeginKind::ReadOnlyAt(read) => self.snapshot_at(read).await,
            BeginKind::ReadWrite => self.transaction().isolation(isolation).begin_async().await,
        }
    }

    async fn outcome(&self, start: Timestamp) -> Result<Outcome> {
        self.outcome_async(start).await
    }

    async fn timestamp_at(&self, wall: WallTime) -> Result<Timestamp> {
        self.timestamp_at_async(wall).await
    }

    async fn wall_time_of(&self, commit: Timestamp) -> Result<WallTime> {
        self.wall_time_of_async(commit).await
    }

    async fn swept(&self) -> Result<Timestamp> {
        Self::swept(self).await
    }

    fn facade(&self) -> Option<&Db> {
        Some(self)
    }
}

impl Transact for Tx {
    fn read_timestamp(&self) -> Timestamp {
        self.read_timestamp()
    }

    fn start_timestamp(&self) -> Option<Timestamp> {
        self.start_timestamp()
    }

    async fn get(&self, key: &CellKey) -> Result<Option<Entry>> {
        self.get_cell(key).await
    }

    async fn get_many(&self, keys: &[CellKey]) -> Result<Vec<Option<Entry>>> {
        self.get_cells(keys).await
    }

    async fn range(&self, range: &KeyRange, reverse: bool, limit: PageLimit) -> Result<CellPage> {
        self.range_cells(range, reverse, limit).await
    }

    fn put(&self, key: CellKey, payload: Bytes) -> Result<()> {
        self.put_cell(key, payload)
    }

    fn change(&self, key: &CellKey, delta: &RowDelta) -> Result<bool> {
        self.change_cell(key, delta)
    }

    fn delete(&self, key: CellKey) -> Result<()> {
        self.delete_cell(key)
    }

    async fn commit(&self) -> Result<Timestamp> {
        self.commit().await
    }

    fn rollback(&self) {
        self.rollback();
    }

    fn facade(&self) -> Option<&Tx> {
        Some(self)
    }
}
