//! Transactions as the façade hands them out: one handle for asynchronous code, one for
//! synchronous code, and a read-only snapshot.
//!
//! Every call that touches data is written once, against [`Handle`]: on a [`Tx`] it returns a
//! future, on a [`SyncTx`] or a [`Snapshot`] the result itself. A read of one row is written against
//! [`PointHandle`]: a [`Db`] is one as well.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use carnet_base::{
    Bytes, CellBuilder, CellHash, CellKey, CellPage, ErrorKind, KeyRange, Result, TableId,
    TimeSlice, Timestamp, YieldNow, block_on, block_on_one,
};
use carnet_store::PageLimit;
use carnet_txn::{Contention, Entry, Isolation, Transaction, TransactionPage, Turns};

use crate::admission::Permit;
use crate::catalog::{SchemaAt, SchemaCache};
use crate::db::{Db, Near};
use crate::diagnosis::Why;
use crate::stores::AnyStore;

/// A transaction for asynchronous code. Cheap to clone: clones are handles of the same one.
///
/// When the last handle is dropped before a commit, the transaction is rolled back.
#[derive(Clone)]
pub struct Tx {
    transaction: Transaction<AnyStore>,
    shared: Arc<Shared>,
}

struct Shared {
    near: Arc<Near>,
    yield_now: Option<YieldNow>,
    /// What its statement runs by.
    permit: Option<Arc<Permit>>,
    changes_schema: AtomicBool,
    /// Tables that it creates.
    created: Mutex<Vec<TableId>>,
    /// The last error that running the transaction again would get over, whatever its code made
    /// of it.
    retryable: Mutex<Option<ErrorKind>>,
    /// When it committed, if it did.
    committed: OnceLock<Timestamp>,
}

impl Tx {
    pub(crate) fn new(
        transaction: Transaction<AnyStore>,
        near: Arc<Near>,
        yield_now: Option<YieldNow>,
        permit: Option<Arc<Permit>>,
    ) -> Self {
        let shared = Arc::new(Shared {
            near,
            yield_now,
            permit,
            changes_schema: AtomicBool::new(false),
            created: Mutex::default(),
            retryable: Mutex::default(),
            committed: OnceLock::new(),
        });
        Self { transaction, shared }
    }

    /// Begins a time slice for work in the transaction that may never wait; `None` where
    /// [`TransactionOptions::yield_now`](crate::TransactionOptions::yield_now) said nothing.
    #[must_use]
    pub fn time_slice(&self) -> Option<TimeSlice<'_>> {
        let Shared { near, yield_now, .. } = &*self.shared;
        Some(TimeSlice::begin(&*near.clock, (*yield_now)?))
    }

    /// Returns the snapshot: the transaction sees every commit up to here, and none after.
    #[must_use]
    pub fn read_timestamp(&self) -> Timestamp {
        self.transaction.read_timestamp()
    }

    /// Returns the start, which names the transaction for [`crate::Db::outcome`]; a read-only
    /// one has none.
    #[must_use]
    pub fn start_timestamp(&self) -> Option<Timestamp> {
        self.transaction.start_timestamp()
    }

    /// Returns the isolation level.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.transaction.isolation()
    }

    /// Reads a cell. Most callers want a [`crate::Table`] or a [`crate::RawTable`] instead.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended; `Unavailable` or `Corrupted` as the store's.
    pub async fn get_cell(&self, key: &CellKey) -> Result<Option<Entry>> {
        self.note(self.wait_for(Why::Disk, self.transaction.get(key)).await)
    }

    /// Reads many cells, in the order of the keys: over a cluster with few requests.
    ///
    /// # Errors
    ///
    /// As [`Tx::get_cell`].
    pub async fn get_cells(&self, keys: &[CellKey]) -> Result<Vec<Option<Entry>>> {
        self.note(self.wait_for(Why::Disk, self.transaction.get_many(keys)).await)
    }

    /// Reads a page of a range of cells.
    ///
    /// # Errors
    ///
    /// As [`Tx::get_cell`].
    pub async fn range_cells(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<TransactionPage> {
        self.note(self.wait_for(Why::Disk, self.transaction.range(range, reverse, limit)).await)
    }

    /// Takes the end of a page out of the read set: the caller of [`Tx::range_cells`] looked at
    /// nothing behind the cell `last` of the page, which left `resume` of `range`.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended.
    pub fn narrow_range(
        &self,
        range: &KeyRange,
        resume: Option<&KeyRange>,
        reverse: bool,
        last: &CellKey,
    ) -> Result<()> {
        self.transaction.narrow_range(range, resume, reverse, last)
    }

    /// Takes the last cells of a [`Tx::get_cells`] out of the read set: its caller did not look at
    /// them.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended.
    pub fn forget_cells(&self, keys: &[CellKey]) -> Result<()> {
        self.transaction.forget_cells(keys)
    }

    /// As [`Tx::range_cells`], of cells that are lent, where that spares work.
    pub(crate) async fn page(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<Option<CellPage>> {
        self.note(self.wait_for(Why::Disk, self.transaction.page(range, reverse, limit)).await)
    }

    /// Writes a cell.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended, only reads, or has grown too large.
    pub fn put_cell(&self, key: CellKey, payload: Bytes) -> Result<()> {
        self.note_schema(key.table());
        self.transaction.put(key, payload)
    }

    /// As [`Tx::put_cell`], of a cell that is copied, and makes the commit depend on another, whose
    /// hash is known.
    pub(crate) fn put_guarded(&self, guarded: CellHash, cell: &CellBuilder) -> Result<()> {
        self.note_schema(cell.key().table());
        self.transaction.put_guarded(guarded, cell.key(), cell.value())
    }

    /// Deletes a cell.
    ///
    /// # Errors
    ///
    /// As [`Tx::put_cell`].
    pub fn delete_cell(&self, key: CellKey) -> Result<()> {
        self.note_schema(key.table());
        self.transaction.delete(key)
    }

    /// Deletes every cell of a table that the transaction takes out of the catalogue.
    pub(crate) fn drop_cells(&self, table: TableId) -> Result<()> {
        self.transaction.drop_table(table)
    }

    /// Makes the commit depend on a cell at every isolation level.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended.
    pub fn guard_cell(&self, key: &CellKey) -> Result<()> {
        self.transaction.guard_cell(key)
    }

    /// Makes the commit depend on a range of cells at every isolation level.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended.
    pub fn guard_range(&self, range: KeyRange) -> Result<()> {
        self.transaction.guard_range(range)
    }

    /// Commits, and returns the timestamp at which the writes are visible.
    ///
    /// Dropping the future leaves a commit that was decided in force.
    ///
    /// # Errors
    ///
    /// `Conflict` or `TooOld`: nothing was written, run the transaction again. `Unknown`: ask
    /// [`crate::Db::outcome`].
    pub async fn commit(&self) -> Result<Timestamp> {
        if self.changes_schema() {
            // Whoever finds the table in the catalogue can use it at once.
            let created = self.created();
            self.note(self.transaction.store().create_tables(&created).await)?;
        }
        let committed = self.note(self.wait_for(Why::Log, self.transaction.commit()).await)?;
        Ok(*self.shared.committed.get_or_init(|| committed))
    }

    /// Gives the transaction up.
    pub fn rollback(&self) {
        self.transaction.rollback();
    }

    /// The snapshot as the cache of schemas wants to know it.
    pub(crate) fn schema_at(&self) -> SchemaAt {
        SchemaAt { read: self.read_timestamp(), changed: self.transaction.schema_timestamp() }
    }

    pub(crate) fn schemas(&self) -> &SchemaCache {
        &self.shared.near.schemas
    }

    /// Tells whether the transaction has written to the catalogue.
    pub(crate) fn changes_schema(&self) -> bool {
        self.shared.changes_schema.load(Ordering::Acquire)
    }

    /// Notes that the transaction creates a table.
    pub(crate) fn creates_table(&self, table: TableId) {
        self.shared.created.lock().unwrap_or_else(PoisonError::into_inner).push(table);
    }

    fn created(&self) -> Vec<TableId> {
        self.shared.created.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_schema(&self, written: TableId) {
        if written.is_system() {
            self.shared.changes_schema.store(true, Ordering::Release);
        }
    }

    /// As [`Tx::guard_cell`], for a cell whose hash is known.
    pub(crate) fn guard_hash(&self, cell: CellHash) -> Result<()> {
        self.transaction.guard_hash(cell)
    }

    /// Returns when the transaction committed, if it did.
    pub(crate) fn committed(&self) -> Option<Timestamp> {
        self.shared.committed.get().copied()
    }

    /// Tells whether the transaction has committed.
    pub(crate) fn is_committed(&self) -> bool {
        self.shared.committed.get().is_some()
    }

    /// Returns a cell that other transactions wait for, of those that a commit would change or
    /// depend on.
    pub(crate) fn blocking(&self, contention: &Contention, turns: &Turns) -> Option<CellHash> {
        if contention.places() == 0 {
            return None;
        }
        self.transaction.with_cells(|cells| contention.blocking(turns, cells))
    }

    /// Tells whether a call failed in a way that running the transaction again gets over.
    pub(crate) fn retryable(&self) -> Option<ErrorKind> {
        *self.shared.retryable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the store, and counts the time for the statement that the transaction runs for.
    async fn wait_for<T>(&self, why: Why, future: impl Future<Output = T>) -> T {
        match &self.shared.permit {
            Some(permit) => permit.wait_for(why, future).await,
            None => future.await,
        }
    }

    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind().is_retryable()
        {
            let mut retryable =
                self.shared.retryable.lock().unwrap_or_else(PoisonError::into_inner);
            *retryable = Some(error.kind());
        }
        result
    }
}

/// A transaction for synchronous code. Its calls wait on the calling thread.
#[derive(Clone)]
pub struct SyncTx(Tx);

impl SyncTx {
    pub(crate) const fn new(tx: Tx) -> Self {
        Self(tx)
    }

    /// Commits, and returns the timestamp at which the writes are visible.
    ///
    /// # Errors
    ///
    /// As [`Tx::commit`].
    pub fn commit(&self) -> Result<Timestamp> {
        block_on(self.0.commit())
    }

    /// Gives the transaction up.
    pub fn rollback(&self) {
        self.0.rollback();
    }

    /// Returns the same transaction for asynchronous code.
    #[must_use]
    pub const fn as_async(&self) -> &Tx {
        &self.0
    }
}

/// A read-only view of one moment. It never blocks, never aborts and never retries.
#[derive(Clone)]
pub struct Snapshot(Tx);

impl Snapshot {
    pub(crate) const fn new(tx: Tx) -> Self {
        Self(tx)
    }

    /// Returns the moment: every commit up to here is visible, and none after.
    #[must_use]
    pub fn read_timestamp(&self) -> Timestamp {
        self.0.read_timestamp()
    }

    /// Returns the same snapshot for asynchronous code.
    #[must_use]
    pub const fn as_async(&self) -> &Tx {
        &self.0
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Tx {}
    impl Sealed for super::SyncTx {}
    impl Sealed for super::Snapshot {}
    impl Sealed for super::Db {}
}

/// What a single row is read through: a [`Handle`], or a [`Db`] where the read stands by itself.
pub trait PointHandle: sealed::Sealed {
    /// What a call returns: the result itself, or a future of it.
    type Out<'a, T: Send + 'a>;

    /// Returns what is read from.
    #[doc(hidden)]
    fn source(&self) -> Source<'_>;

    /// Runs a call the way this handle does.
    fn run<'a, T: Send + 'a>(call: impl Future<Output = T> + Send + 'a) -> Self::Out<'a, T>;

    /// Makes a call that may need no wait; `None` where it would, and where calls are lazy, which then
    /// is not made.
    #[doc(hidden)]
    fn at_once<'a, T: Send + 'a>(call: impl FnOnce() -> Option<T>) -> Option<Self::Out<'a, T>>;
}

/// What a [`PointHandle`] reads from.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// What a transaction sees.
    Tx(&'a Tx),
    /// What was committed last.
    Db(&'a Db),
}

impl<'a> Source<'a> {
    /// Returns the transaction, or begins a snapshot.
    pub(crate) async fn tx(self) -> Result<Through<'a>> {
        match self {
            Self::Tx(tx) => Ok(Through::Given(tx)),
            Self::Db(db) => db.snapshot_async().await.map(Through::Begun),
        }
    }
}

/// The transaction that a single row is read through.
pub(crate) enum Through<'a> {
    Given(&'a Tx),
    Begun(Tx),
}

impl Deref for Through<'_> {
    type Target = Tx;

    fn deref(&self) -> &Tx {
        match self {
            Self::Given(tx) => tx,
            Self::Begun(tx) => tx,
        }
    }
}

/// What data is read through: a [`Tx`], a [`SyncTx`] or a [`Snapshot`].
pub trait Handle: PointHandle + Clone {
    /// Returns the transaction.
    fn tx(&self) -> &Tx;
}

/// What data is written through: a [`Tx`] or a [`SyncTx`].
pub trait WriteHandle: Handle {}

impl PointHandle for Tx {
    type Out<'a, T: Send + 'a> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

    fn source(&self) -> Source<'_> {
        Source::Tx(self)
    }

    fn run<'a, T: Send + 'a>(call: impl Future<Output = T> + Send + 'a) -> Self::Out<'a, T> {
        Box::pin(call)
    }

    fn at_once<'a, T: Send + 'a>(_: impl FnOnce() -> Option<T>) -> Option<Self::Out<'a, T>> {
        None
    }
}

/// A synchronous handle: its calls wait on the calling thread.
macro_rules! waits {
    ($handle:ty, $self:ident => $source:expr) => {
        impl PointHandle for $handle {
            type Out<'a, T: Send + 'a> = T;

            fn source(&$self) -> Source<'_> {
                $source
            }

            fn run<'a, T: Send + 'a>(call: impl Future<Output = T> + Send + 'a) -> T {
                block_on_one(call)
            }

            fn at_once<'a, T: Send + 'a>(call: impl FnOnce() -> Option<T>) -> Option<T> {
                call()
            }
        }
    };
}

waits!(SyncTx, self => Source::Tx(&self.0));
waits!(Snapshot, self => Source::Tx(&self.0));
waits!(Db, self => Source::Db(self));

impl Handle for Tx {
    fn tx(&self) -> &Tx {
        self
    }
}

impl Handle for SyncTx {
    fn tx(&self) -> &Tx {
        &self.0
    }
}

impl Handle for Snapshot {
    fn tx(&self) -> &Tx {
        &self.0
    }
}

impl WriteHandle for Tx {}

impl WriteHandle for SyncTx {}
