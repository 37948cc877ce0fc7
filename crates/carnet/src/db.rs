//! The database: opening it, and the ways to run a transaction.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carnet_base::{
    Clock, Error, ErrorKind, Result, SeededRng, Signal, Spawn, SystemClock, ThreadSpawn,
    ThreadTimer, Timer, Timestamp, WallTime, block_on,
};
use carnet_storage::TableOptionsOf;
use carnet_storage::disk::{Disk, RealDisk};
use carnet_store::{BeginKind, CommitLog, CommitOrder, Context, Life, MemoryStore, Outcome};
use carnet_store_local::LocalStore;
use carnet_txn::{Backoff, Isolation, Sequencer, Transaction};

use crate::catalog::SchemaCache;
use crate::stores::AnyStore;
use crate::tx::{Snapshot, SyncTx, Tx};

pub use carnet_storage::{CompactionStyle, Durability, FilterKind, Metrics, TableOptions};

/// For how long what was visible can be read again, unless told otherwise.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(600);

/// Filters over cells: a raw table is one partition, and filters over partitions say nothing of
/// its keys.
const LAYOUT: TableOptions = TableOptions {
    block_bytes: 4 << 10,
    index_page_bytes: 4 << 10,
    compression: carnet_storage::Compression::Lz4,
    bloom_fp_chance: 0.01,
    filter: FilterKind::Cells,
};

/// How often a transaction runs at most, the first time included, unless told otherwise.
pub const DEFAULT_ATTEMPTS_MAX: u32 = 64;

/// A database. Cheap to clone: clones are handles of the same one, which is closed when the last
/// is dropped.
///
/// ```
/// # fn main() -> carnet::Result<()> {
/// # let dir = tempfile::tempdir().expect("a temporary directory");
/// # let path = dir.path().join("data");
/// use carnet::{Db, abort};
///
/// let db = Db::open(&path)?;
/// let stock = db.raw("stock")?;
/// db.transact(|tx| {
///     stock.put(tx, "apples", "3")?;
///     stock.put(tx, "pears", "5")
/// })?;
///
/// // A transaction that is given up leaves nothing behind.
/// let refused = db.transact(|tx| -> carnet::Result<()> {
///     stock.delete(tx, "apples")?;
///     Err(abort!("no, keep them"))
/// });
/// assert!(refused.is_err());
///
/// let snapshot = db.snapshot()?;
/// assert_eq!(stock.get(&snapshot, "apples")?.as_deref(), Some(&b"3"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<AnyStore>,
    clock: Arc<dyn Clock>,
    timer: ThreadTimer,
    rng: Mutex<SeededRng>,
    schemas: Arc<SchemaCache>,
    isolation: Isolation,
    attempts_max: u32,
}

/// Settings of a database, and the components it is made of.
pub struct Builder {
    isolation: Isolation,
    attempts_max: u32,
    storage: carnet_storage::Options,
    retention: Duration,
    clock: Arc<dyn Clock>,
    spawn: Arc<dyn Spawn>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            isolation: Isolation::default(),
            attempts_max: DEFAULT_ATTEMPTS_MAX,
            storage: carnet_storage::Options {
                table_options: TableOptionsOf::all(LAYOUT),
                ..carnet_storage::Options::default()
            },
            retention: DEFAULT_RETENTION,
            clock: Arc::new(SystemClock),
            spawn: Arc::new(ThreadSpawn),
        }
    }
}

impl Builder {
    /// Sets the isolation level of transactions that do not ask for another.
    ///
    /// Default: [`Isolation::StrictSerializable`].
    #[must_use]
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets what an acknowledgement promises.
    ///
    /// Default: [`Durability::Always`]. The others are faster and may lose the last commits, but
    /// never parts of one and never one before another, when the machine (not merely the process)
    /// dies.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.storage.durability = durability;
        self
    }

    /// Sets how often a transaction runs at most, the first time included.
    ///
    /// Default: [`DEFAULT_ATTEMPTS_MAX`].
    #[must_use]
    pub const fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max;
        self
    }

    /// Sets how much memory the storage engine may take for writes that are gathered, for its
    /// cache and for reads from disk, all together.
    ///
    /// Default: 512 MiB. How it is divided: `docs/memory.md`.
    #[must_use]
    pub const fn memory_bytes(mut self, memory_bytes: usize) -> Self {
        self.storage.memory_bytes = memory_bytes;
        self
    }

    /// Sets how many bytes of versions are gathered in memory before they become a file.
    ///
    /// Default: a part of [`Builder::memory_bytes`], 64 MiB of the default.
    #[must_use]
    pub const fn flush_bytes(mut self, flush_bytes: usize) -> Self {
        self.storage.flush_bytes = flush_bytes;
        self
    }

    /// Sets how many bytes of blocks, index pages and filters are kept in memory.
    ///
    /// Default: a part of [`Builder::memory_bytes`], 64 MiB of the default.
    #[must_use]
    pub const fn cache_bytes(mut self, cache_bytes: usize) -> Self {
        self.storage.cache_bytes = cache_bytes;
        self
    }

    /// Sets how the cells of all tables are laid out in files that are written from now on.
    #[must_use]
    pub fn table_options(mut self, options: TableOptions) -> Self {
        self.storage.table_options = TableOptionsOf::all(options);
        self
    }

    /// Sets how files are compacted.
    ///
    /// Default: leveled.
    #[must_use]
    pub const fn compaction_style(mut self, style: CompactionStyle) -> Self {
        self.storage.compaction_style = style;
        self
    }

    /// Sets for how long what was visible can be read again, by the next page of a read for
    /// instance. Older versions are dropped when files are compacted, unless a snapshot that is
    /// still in use can see them.
    ///
    /// Default: [`DEFAULT_RETENTION`].
    #[must_use]
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Replaces the clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces what runs background work.
    #[must_use]
    pub fn spawn(mut self, spawn: Arc<dyn Spawn>) -> Self {
        self.spawn = spawn;
        self
    }

    /// Opens the database in a directory, or makes one there.
    ///
    /// # Errors
    ///
    /// `Unavailable` when another process holds the directory or it cannot be read or written,
    /// `Corrupted` when its files are not what was written, `Invalid` for a URL of a store that
    /// is not built yet.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        if let Some((scheme, _)) = path.to_str().and_then(|path| path.split_once("://")) {
            return Err(Error::unsupported(format!(
                "stores of kind {scheme}:// (a path opens the embedded store)"
            )));
        }
        let disk = RealDisk::open(path)?;
        self.open_on(Arc::new(disk))
    }

    /// Opens the database on a disk of the caller's, such as the simulated one.
    ///
    /// # Errors
    ///
    /// As [`Builder::open`].
    pub fn open_on(self, disk: Arc<dyn Disk>) -> Result<Db> {
        let store = LocalStore::open(
            disk,
            Arc::clone(&self.clock),
            &*self.spawn,
            self.storage.clone(),
            self.retention,
            order,
        )?;
        Ok(self.finish(AnyStore::Local(store)))
    }

    /// Makes a database in memory. Nothing survives it; it is for tests.
    #[must_use]
    pub fn in_memory(self) -> Db {
        let store = MemoryStore::new(order(Life::default()));
        self.finish(AnyStore::Memory(store))
    }

    fn finish(self, store: AnyStore) -> Db {
        let schemas = Arc::new(SchemaCache::opened_at(store.published()));
        let inner = Inner {
            store: Arc::new(store),
            timer: ThreadTimer::lazy(Arc::clone(&self.clock), self.spawn),
            clock: self.clock,
            rng: Mutex::new(SeededRng::from_entropy()),
            schemas,
            isolation: self.isolation,
            attempts_max: self.attempts_max,
        };
        Db { inner: Arc::new(inner) }
    }
}

fn order(life: Life) -> Box<dyn CommitOrder> {
    Box::new(Sequencer::resuming(life))
}

impl Db {
    /// Opens the database in a directory, or makes one there, with default settings.
    ///
    /// # Errors
    ///
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// Returns the settings to open a database with.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Runs a transaction, again as long as it conflicts, and commits it.
    ///
    /// The closure may run several times: it should have no effect but through the transaction.
    /// When it fails, the transaction is rolled back and the error returned; [`abort!`](crate::abort)
    /// makes an error for that. For errors of the caller's own there is
    /// [`TransactionOptions::try_transact`].
    ///
    /// # Errors
    ///
    /// The closure's, or those of [`Tx::commit`].
    pub fn transact<T>(&self, body: impl Fn(&SyncTx) -> Result<T>) -> Result<T> {
        self.transaction().try_transact(body)
    }

    /// As [`Db::transact`], for asynchronous code.
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
    /// As [`Db::transact`].
    pub async fn run<T, F>(&self, body: impl Fn(Tx) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.transaction().try_run(body).await
    }

    /// Returns the settings of one transaction.
    pub fn transaction(&self) -> TransactionOptions<'_> {
        TransactionOptions {
            db: self,
            isolation: self.inner.isolation,
            attempts_max: self.inner.attempts_max,
            timeout: None,
            bypass_cache: false,
        }
    }

    /// Begins a transaction that the caller commits, and runs again where it conflicts.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn begin(&self) -> Result<SyncTx> {
        self.transaction().begin()
    }

    /// Takes a read-only view of this moment.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn snapshot(&self) -> Result<Snapshot> {
        block_on(self.snapshot_async()).map(Snapshot::new)
    }

    /// As [`Db::snapshot`], for asynchronous code: the transaction refuses writes.
    ///
    /// # Errors
    ///
    /// As [`Db::snapshot`].
    pub async fn snapshot_async(&self) -> Result<Tx> {
        self.transaction().begin_kind(BeginKind::ReadOnly).await
    }

    /// Takes up a read-only view again that was taken before, by [`Tx::read_timestamp`]: for the
    /// next page of a read that spans several calls, for instance.
    ///
    /// # Errors
    ///
    /// `Invalid` for a timestamp ahead of the last commit; `TooOld` where the retention is over, or
    /// the database has ended otherwise than by closing it since, with a durability other than
    /// [`Durability::Always`]; else as [`Db::snapshot`].
    pub async fn snapshot_at(&self, read: Timestamp) -> Result<Tx> {
        self.transaction().begin_kind(BeginKind::ReadOnlyAt(read)).await
    }

    /// Tells what became of the transaction that started at a timestamp: the one that an
    /// `Unknown` error names, for instance.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Corrupted`.
    pub fn outcome(&self, start: Timestamp) -> Result<Outcome> {
        block_on(self.outcome_async(start))
    }

    /// As [`Db::outcome`], for asynchronous code.
    ///
    /// # Errors
    ///
    /// As [`Db::outcome`].
    pub async fn outcome_async(&self, start: Timestamp) -> Result<Outcome> {
        self.inner.store.outcome(&Context::unbounded(), start).await
    }

    /// Returns the largest timestamp such that every commit up to it is visible.
    #[must_use]
    pub fn published(&self) -> Timestamp {
        self.inner.store.published()
    }

    /// Reads the wall clock of the database.
    #[must_use]
    pub fn wall_time(&self) -> WallTime {
        self.inner.clock.wall()
    }

    /// Writes what is gathered in memory to files.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn flush(&self) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.flush(),
            AnyStore::Memory(_) => Ok(()),
        }
    }

    /// Rewrites all files into as few as there can be, and drops versions that nobody can see
    /// any more. It blocks the calling thread, for long in a large database; reads and writes go
    /// on beside it.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped, `Corrupted` where a file is damaged.
    pub fn compact(&self) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.compact(),
            AnyStore::Memory(_) => Ok(()),
        }
    }

    /// Returns counters of the storage engine; a database in memory has none.
    #[must_use]
    pub fn metrics(&self) -> Option<Metrics> {
        match &*self.inner.store {
            AnyStore::Local(store) => Some(store.metrics()),
            AnyStore::Memory(_) => None,
        }
    }

    fn draw_wait(&self, backoff: &mut Backoff, kind: ErrorKind) -> Option<Duration> {
        let mut rng = self.inner.rng.lock().unwrap_or_else(PoisonError::into_inner);
        backoff.after(kind, &mut *rng)
    }
}

/// Settings of one transaction. Made by [`Db::transaction`].
#[derive(Clone)]
#[must_use = "settings do nothing until a transaction runs with them"]
pub struct TransactionOptions<'db> {
    db: &'db Db,
    isolation: Isolation,
    attempts_max: u32,
    timeout: Option<Duration>,
    bypass_cache: bool,
}

impl TransactionOptions<'_> {
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

    /// Has the transaction's reads leave the cache as it was: for large scans whose blocks nobody
    /// will ask for again soon.
    pub const fn bypass_cache(mut self, bypass: bool) -> Self {
        self.bypass_cache = bypass;
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
        let mut backoff = Backoff::attempts(self.attempts_max);
        loop {
            let tx = block_on(self.begin_with(BeginKind::ReadWrite, context))?;
            let result = body(&SyncTx::new(tx.clone()));
            let (kind, error) = match block_on(finish(&tx, result)) {
                Finished::Done(result) => return result,
                Finished::Retry(kind, error) => (kind, error),
            };
            match self.db.draw_wait(&mut backoff, kind) {
                Some(wait) => Signal::new().wait(Some(wait)),
                None => return Err(error),
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
        let mut backoff = Backoff::attempts(self.attempts_max);
        loop {
            let tx = self.begin_with(BeginKind::ReadWrite, context).await?;
            let result = body(tx.clone()).await;
            let (kind, error) = match finish(&tx, result).await {
                Finished::Done(result) => return result,
                Finished::Retry(kind, error) => (kind, error),
            };
            match self.db.draw_wait(&mut backoff, kind) {
                Some(wait) => self.db.inner.timer.wait(wait).await,
                None => return Err(error),
            }
        }
    }

    fn context(&self) -> Context {
        let context = match self.timeout {
            None => Context::unbounded(),
            Some(timeout) => Context::until(self.db.inner.clock.now().after(timeout)),
        };
        if self.bypass_cache { context.bypassing_cache() } else { context }
    }

    async fn begin_kind(&self, kind: BeginKind) -> Result<Tx> {
        self.begin_with(kind, self.context()).await
    }

    async fn begin_with(&self, kind: BeginKind, context: Context) -> Result<Tx> {
        let inner = &self.db.inner;
        let store = Arc::clone(&inner.store);
        let transaction = Transaction::begin(store, context, kind, self.isolation).await?;
        Ok(Tx::new(transaction, Arc::clone(&inner.schemas)))
    }
}

enum Finished<T, E> {
    Done(Result<T, E>),
    /// It failed in a way that running it again gets over, whatever its body made of that.
    Retry(ErrorKind, E),
}

async fn finish<T, E: From<Error>>(tx: &Tx, result: Result<T, E>) -> Finished<T, E> {
    match result {
        // The body may have committed by itself.
        Ok(value) if tx.is_committed() => Finished::Done(Ok(value)),
        Ok(value) => match tx.commit().await {
            Ok(_) => Finished::Done(Ok(value)),
            Err(error) if error.kind().is_retryable() => {
                Finished::Retry(error.kind(), error.into())
            }
            Err(error) => match tx.retryable() {
                // Its own commit failed, and it went on.
                Some(kind) => Finished::Retry(kind, error.into()),
                None => Finished::Done(Err(error.into())),
            },
        },
        Err(error) if tx.is_committed() => Finished::Done(Err(error)),
        Err(error) => {
            tx.rollback();
            match tx.retryable() {
                Some(kind) => Finished::Retry(kind, error),
                None => Finished::Done(Err(error)),
            }
        }
    }
}
