//! Transactions: for asynchronous code, for synchronous code, and read-only snapshots.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use carnet_admission::Permit;
use carnet_admission::diagnosis::Why;
use carnet_base::{
    BytePermit, Bytes, CellBuilder, CellHash, CellKey, CellPage, ErrorKind, KeyRange, Result,
    TableId, TimeSlice, Timestamp, WallTime, YieldNow, block_on, lock,
};
use carnet_data::RowDelta;
use carnet_store::{Context, PageLimit};
use carnet_txn::{Contention, Entry, Isolation, Transaction, Turns};

use crate::schema::{SchemaAt, SchemaCache, TableKind, TableSchema};
use crate::thread_handles::ThreadHandles;

/// Error of the wall time of a moment in the past, see [`crate::Db::timestamp_at`].
const MOMENT_ERROR: Duration = Duration::from_secs(2);

/// Difference between the clocks of two servers of a cluster.
const CLOCK_ERROR: Duration = Duration::from_secs(60);

/// Transaction for asynchronous code. Cloning is cheap: all clones share one transaction.
///
/// The transaction is rolled back when its last handle is dropped without a commit.
#[derive(Clone)]
pub struct Tx {
    transaction: Transaction,
    shared: Arc<Shared>,
    yield_now: Option<YieldNow>,
    /// Admission permit of the statement that the calls through this handle are made for.
    permit: Option<Arc<Permit>>,
}

struct Shared {
    handles: Arc<ThreadHandles>,
    changes_schema: AtomicBool,
    /// Tables that the transaction creates.
    created: Mutex<Vec<TableId>>,
    /// The last retryable error of a call, even if the body has ignored it.
    retryable: Mutex<Option<ErrorKind>>,
    /// Commit timestamp, once committed.
    committed: OnceLock<Timestamp>,
    /// Wall time by which columns expire: of a client, or of a moment in the past.
    given_wall: OnceLock<WallTime>,
    /// The same of other transactions, once it is needed.
    read_wall: OnceLock<WallTime>,
    /// Number of deleted cells that were read over.
    deleted_read: AtomicU64,
}

impl Tx {
    pub(crate) fn new(
        transaction: Transaction,
        handles: Arc<ThreadHandles>,
        yield_now: Option<YieldNow>,
        permit: Option<Arc<Permit>>,
    ) -> Self {
        let shared = Arc::new(Shared {
            handles,
            changes_schema: AtomicBool::new(false),
            created: Mutex::default(),
            retryable: Mutex::default(),
            committed: OnceLock::new(),
            given_wall: OnceLock::new(),
            read_wall: OnceLock::new(),
            deleted_read: AtomicU64::new(0),
        });
        Self { transaction, shared, yield_now, permit }
    }

    /// Returns a handle of the same transaction for the calls of another statement.
    pub(crate) fn with(
        &self,
        context: Context,
        permit: Option<Arc<Permit>>,
        yield_now: Option<YieldNow>,
    ) -> Self {
        let transaction = self.transaction.with_context(context);
        Self { transaction, shared: Arc::clone(&self.shared), yield_now, permit }
    }

    /// Returns the number of calls that changed the transaction's writes: it stays the same while the transaction only
    /// reads.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.transaction.changes()
    }

    /// Returns `true` if the transaction is large, and memory for other transactions is short; see
    /// [`Transaction::crowds_memory`].
    #[must_use]
    pub(crate) fn crowds_memory(&self) -> bool {
        self.transaction.crowds_memory()
    }

    /// Returns `true` if the transaction has ended: by a commit, a rollback, or because it was idle.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.transaction.has_ended()
    }

    /// Begins a time slice for work that may never wait; `None` if
    /// [`TransactionOptions::yield_now`](crate::TransactionOptions::yield_now) is not set.
    #[must_use]
    pub fn time_slice(&self) -> Option<TimeSlice<'_>> {
        Some(TimeSlice::begin(&*self.shared.handles.clock, self.yield_now?))
    }

    /// Returns the snapshot timestamp: the transaction sees exactly the commits up to it.
    #[must_use]
    pub fn read_timestamp(&self) -> Timestamp {
        self.transaction.read_timestamp()
    }

    /// Returns the start timestamp, which identifies the transaction for [`crate::Db::outcome`];
    /// `None` for a read-only transaction.
    #[must_use]
    pub fn start_timestamp(&self) -> Option<Timestamp> {
        self.transaction.start_timestamp()
    }

    /// Returns the wall time of the transaction, by which columns expire. It is the same for all its
    /// reads: the time of the first call, or of the snapshot's moment in the past.
    #[must_use]
    pub fn wall_time(&self) -> WallTime {
        let Shared { given_wall, read_wall, .. } = &*self.shared;
        match given_wall.get() {
            Some(given) => *given,
            None => *read_wall.get_or_init(|| self.database_time()),
        }
    }

    /// Returns the second from which the time to live of values counts that are written now: that of the
    /// client's clock if it was given, and otherwise the current one, whatever moment the transaction
    /// reads at.
    #[must_use]
    pub fn write_seconds(&self) -> i64 {
        let given = self.shared.given_wall.get().copied();
        given.unwrap_or_else(|| self.database_time()).0.div_euclid(1_000_000)
    }

    /// Returns the current wall time of the database.
    fn database_time(&self) -> WallTime {
        let handles = &self.shared.handles;
        handles.store.wall_time().unwrap_or_else(|| handles.clock.wall())
    }

    /// Returns the second of the latest expiry that has passed for every reader of a version written
    /// now.
    ///
    /// Parts of rows that expired later stay: a client may read with a clock of its own, and servers
    /// over a cluster each have one.
    pub(crate) fn expired_second(&self) -> i64 {
        let handles = &self.shared.handles;
        let (now, margin) = match handles.store.wall_time() {
            Some(steady) => (steady, MOMENT_ERROR),
            None => (handles.clock.wall(), CLOCK_ERROR),
        };
        let margin = i64::try_from(margin.as_micros()).unwrap_or(i64::MAX);
        now.0.saturating_sub(margin).div_euclid(1_000_000)
    }

    /// Returns [`Tx::wall_time`] in seconds since 1970-01-01 UTC, the unit of expiries.
    #[must_use]
    pub fn wall_seconds(&self) -> i64 {
        self.wall_time().0.div_euclid(1_000_000)
    }

    /// Sets the wall time of a new transaction.
    pub(crate) fn set_wall_time(&self, wall: WallTime) {
        // Once set, it stays.
        let _ = self.shared.given_wall.set(wall);
    }

    /// Returns the isolation level.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.transaction.isolation()
    }

    /// Returns a permit to hold a decoded row of `bytes` bytes, or `None` while other statements hold
    /// such rows and the caller has to wait for [`Tx::row_memory`].
    #[must_use]
    pub fn try_row_memory(&self, bytes: usize) -> Option<BytePermit<'_>> {
        self.shared.handles.row_memory.try_take(bytes)
    }

    /// Waits for a permit to hold a decoded row of `bytes` bytes. Decoded rows together may hold as
    /// much as the sets of all transactions, and a longer one is held alone.
    ///
    /// The caller waits for nothing but reads of the store while it holds the permit: it neither takes
    /// another one nor commits.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline of the transaction; `Aborted` if the statement is killed meanwhile.
    pub async fn row_memory(&self, bytes: usize) -> Result<BytePermit<'_>> {
        let (context, admitted) = (self.transaction.context(), self.permit.as_deref());
        self.shared.handles.row_memory.take(bytes, context, admitted).await
    }

    /// Reads a cell. Most callers use a [`crate::Table`] or a [`crate::RawTable`] instead.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended; `Unavailable` or `Corrupted` from the store.
    pub async fn get_cell(&self, key: &CellKey) -> Result<Option<Entry>> {
        let found = self.note(self.read(pin!(self.transaction.get(key))).await)?;
        self.count_read(Some(key.table()), || {
            let bytes = |entry: &Entry| key.as_bytes().len() + entry.payload.len();
            (usize::from(found.is_some()), found.as_ref().map_or(0, bytes))
        });
        Ok(found)
    }

    /// Reads several cells, and returns them in the order of the keys. Needs few requests over a
    /// cluster.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::get_cell`].
    pub async fn get_cells(&self, keys: &[CellKey]) -> Result<Vec<Option<Entry>>> {
        self.get_first_cells(keys, usize::MAX).await
    }

    /// Like [`Tx::get_cells`], but may return only the first cells, at least one: the embedded store reads no further
    /// cell once values of `bytes_max` bytes have been read.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::get_cell`].
    pub async fn get_first_cells(
        &self,
        keys: &[CellKey],
        bytes_max: usize,
    ) -> Result<Vec<Option<Entry>>> {
        let reading = pin!(self.transaction.get_many(keys, bytes_max));
        let found = self.note(self.read(reading).await)?;
        self.count_read(keys.first().map(CellKey::table), || {
            let entries = keys.iter().zip(&found);
            let found = entries.filter_map(|(key, entry)| {
                entry.as_ref().map(|entry| key.as_bytes().len() + entry.payload.len())
            });
            found.fold((0, 0), |(rows, sum), bytes| (rows + 1, sum + bytes))
        });
        Ok(found)
    }

    /// Reads a page of a range of cells.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::get_cell`].
    pub async fn range_cells(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<CellPage> {
        let reading = pin!(self.transaction.range(range, reverse, limit));
        let page = self.note(self.read(reading).await)?;
        let table = page.cells.last().map(|cell| cell.key.table());
        self.count_read(table, || (page.cells.len(), page.cells.bytes()));
        if page.deleted > 0 {
            self.shared.deleted_read.fetch_add(page.deleted as u64, Ordering::Relaxed);
        }
        Ok(page)
    }

    /// Returns the number of deleted cells that [`Tx::range_cells`] has read over.
    #[must_use]
    pub fn deleted_read(&self) -> u64 {
        self.shared.deleted_read.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the keys and values that the transaction has written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.transaction.written_bytes()
    }

    /// Removes the end of a page from the read set, for a caller of [`Tx::range_cells`] that looked
    /// at no cell after `last`. `range` and `resume` are the range of that call and the rest that
    /// it returned.
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

    /// Removes the last cells of a [`Tx::get_cells`] from the read set, for a caller that did not
    /// look at them.
    ///
    /// # Errors
    ///
    /// `Invalid` when the transaction has ended.
    pub fn forget_cells(&self, keys: &[CellKey]) -> Result<()> {
        self.transaction.forget_cells(keys)
    }

    /// Writes a cell.
    ///
    /// # Errors
    ///
    /// `Invalid` if the transaction has ended, is read-only, or has grown too large.
    pub fn put_cell(&self, key: CellKey, payload: Bytes) -> Result<()> {
        self.note_schema(key.table());
        self.transaction.put(key, payload)
    }

    /// Changes a part of a row without reading it. Returns `false` without effect if the row has to
    /// be read and written as a whole: over a cluster, in a database in memory, or in a transaction
    /// with many writes.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::put_cell`].
    pub fn change_cell(&self, key: &CellKey, delta: &RowDelta) -> Result<bool> {
        self.transaction.change(key, delta)
    }

    /// Like [`Tx::put_cell`], but copies the cell, and makes the commit depend on another cell,
    /// given by its hash.
    pub(crate) fn put_guarded(&self, guarded: CellHash, cell: &CellBuilder) -> Result<()> {
        self.note_schema(cell.key().table());
        self.transaction.put_guarded(guarded, cell.key(), cell.value())
    }

    /// Deletes a cell.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::put_cell`].
    pub fn delete_cell(&self, key: CellKey) -> Result<()> {
        self.note_schema(key.table());
        self.transaction.delete(key)
    }

    /// Deletes all cells of a table that the transaction drops from the catalog.
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

    /// Commits, and returns the timestamp at which the writes become visible.
    ///
    /// Dropping the future does not undo a commit that was decided.
    ///
    /// # Errors
    ///
    /// `Conflict` or `TooOld`: nothing was written; run the transaction again. `Aborted`: its statement
    /// was killed before; nothing was written. `Unknown`: call [`crate::Db::outcome`] for the outcome.
    pub async fn commit(&self) -> Result<Timestamp> {
        if let Some(permit) = &self.permit {
            permit.progress().check()?;
        }
        if self.changes_schema() {
            // Create tables first: a transaction that finds one in the catalog uses it at once.
            let created = self.created();
            self.note(Box::pin(self.shared.handles.any.create_tables(&created)).await)?;
        }
        let clock = &self.shared.handles.clock;
        let begun = (self.transaction.changes() > 0).then(|| clock.now());
        let committing = pin!(self.transaction.commit());
        let committed = match &self.permit {
            // Over a cluster a commit is work of this process and of the cluster's.
            Some(permit) if !self.is_over_cluster() => permit.wait_for_log(committing).await,
            _ => self.wait_for(Why::Log, committing).await,
        };
        let took = begun.map(|begun| clock.now().since(begun));
        self.shared.handles.commits.count(&committed, took);
        let committed = self.note(committed)?;
        Ok(*self.shared.committed.get_or_init(|| committed))
    }

    /// Rolls the transaction back.
    pub fn rollback(&self) {
        self.transaction.rollback();
    }

    /// Returns the snapshot as a key of the schema cache.
    pub(crate) fn schema_at(&self) -> SchemaAt {
        SchemaAt { read: self.read_timestamp(), changed: self.transaction.schema_timestamp() }
    }

    pub(crate) fn is_over_cluster(&self) -> bool {
        self.shared.handles.any.cluster().is_some()
    }

    pub(crate) fn schemas(&self) -> &SchemaCache {
        &self.shared.handles.schemas
    }

    /// Returns `true` if the transaction has written to the catalog.
    pub(crate) fn changes_schema(&self) -> bool {
        self.shared.changes_schema.load(Ordering::Acquire)
    }

    /// Records that the transaction creates a table.
    pub(crate) fn creates_table(&self, schema: &TableSchema) {
        self.note_kind(schema);
        self.creates_cells(schema.id);
    }

    /// Records the kind of a table that the transaction uses, which another process may have created.
    pub(crate) fn note_kind(&self, schema: &TableSchema) {
        if schema.kind == TableKind::Raw {
            self.shared.handles.any.add_raw(schema.id);
        }
    }

    /// Records that the transaction creates a table of cells.
    pub(crate) fn creates_cells(&self, table: TableId) {
        lock(&self.shared.created).push(table);
    }

    fn created(&self) -> Vec<TableId> {
        lock(&self.shared.created).clone()
    }

    fn note_schema(&self, written: TableId) {
        if written.is_system() {
            self.shared.changes_schema.store(true, Ordering::Release);
        }
    }

    /// Like [`Tx::guard_cell`], for a cell given by its hash.
    pub(crate) fn guard_hash(&self, cell: CellHash) -> Result<()> {
        self.transaction.guard_hash(cell)
    }

    /// Returns the commit timestamp, if the transaction has committed.
    pub(crate) fn committed(&self) -> Option<Timestamp> {
        self.shared.committed.get().copied()
    }

    /// Returns `true` if the transaction has committed.
    pub(crate) fn is_committed(&self) -> bool {
        self.shared.committed.get().is_some()
    }

    /// Returns a cell that the commit would change or depend on and that other transactions wait
    /// for.
    pub(crate) fn blocking(&self, contention: &Contention, turns: &Turns) -> Option<CellHash> {
        if contention.places() == 0 {
            return None;
        }
        self.transaction.with_cells(|cells| contention.blocking(turns, cells))
    }

    /// Returns the kind of the last retryable error of a call, if any.
    pub(crate) fn retryable(&self) -> Option<ErrorKind> {
        *lock(&self.shared.retryable)
    }

    /// Reads from the store unless the statement is killed.
    async fn read<T>(
        &self,
        reading: Pin<&mut (impl Future<Output = Result<T>> + ?Sized)>,
    ) -> Result<T> {
        match &self.permit {
            Some(permit) => permit.read(Why::Disk, reading).await,
            None => reading.await,
        }
    }

    /// Counts rows and bytes of a read to the statement that the transaction runs for. Cells of the
    /// catalog are no rows.
    fn count_read(&self, table: Option<TableId>, rows_and_bytes: impl FnOnce() -> (usize, usize)) {
        if let Some(permit) = &self.permit
            && table.is_some_and(|table| !table.is_system())
        {
            let (rows, bytes) = rows_and_bytes();
            permit.progress().read(rows, bytes);
        }
    }

    /// Waits for the store, and accounts the wait to the statement that the transaction runs for.
    /// Awaits a future that the caller has pinned: here it would be copied, and kept twice.
    async fn wait_for<T>(
        &self,
        why: Why,
        future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> T {
        match &self.permit {
            Some(permit) => permit.wait_for(why, future).await,
            None => future.await,
        }
    }

    fn note<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind().is_retryable()
        {
            let mut retryable = lock(&self.shared.retryable);
            *retryable = Some(error.kind());
        }
        result
    }
}

/// Transaction for synchronous code. Its calls block the calling thread.
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
    /// Same as [`Tx::commit`].
    pub fn commit(&self) -> Result<Timestamp> {
        block_on(self.0.commit())
    }

    /// Rolls the transaction back.
    pub fn rollback(&self) {
        self.0.rollback();
    }

    /// Returns the same transaction for asynchronous code.
    #[must_use]
    pub const fn as_async(&self) -> &Tx {
        &self.0
    }
}

/// Read-only snapshot. It never blocks writers, aborts or retries.
#[derive(Clone)]
pub struct Snapshot(Tx);

impl Snapshot {
    pub(crate) const fn new(tx: Tx) -> Self {
        Self(tx)
    }

    /// Returns the snapshot timestamp: exactly the commits up to it are visible.
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
