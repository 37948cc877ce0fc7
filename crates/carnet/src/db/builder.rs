//! Settings of a database, and opening it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_admission::{Admission, AdmissionLimits};
use carnet_base::{
    Clock, Encoding, Error, MemoryBudget, Result, SeededRng, Spawn, SystemClock, ThreadSpawn,
    ThreadTimer, block_on,
};
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::{CompactionStyle, Durability, IoOptions, TableOptions, TableOptionsOf};
use carnet_store::{CommitOrder, LogStart, MemoryStore};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};
use carnet_txn::{
    CONFLICT_BYTES_MAX, CommitChecker, IdleLimits, IdleWatch, Isolation, Limits, VersionOrder,
};

use super::building;
use super::builds::Builds;
use super::database::{Db, Inner};
use crate::catalog;
use crate::cluster::ClusterUrl;
use crate::control::ControlServer;
use crate::layout::LAYOUT;
use crate::row_memory::RowMemory;
use crate::schema::{Cached, SchemaCache};
use crate::stores::AnyStore;
use crate::thread_handles::ThreadHandles;

/// Default time for which past states stay readable.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(600);

/// Default maximum number of attempts of a transaction, the first one included.
pub const DEFAULT_ATTEMPTS_MAX: u32 = 64;

impl Db {
    /// Opens the database in a directory with default settings, and creates it if it does not
    /// exist.
    ///
    /// # Errors
    ///
    /// Same as [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// Returns a builder with the default settings.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// Settings of a database, and the components it is made of.
pub struct Builder {
    isolation: Isolation,
    attempts_max: u32,
    storage: carnet_storage::Options,
    pub(super) retention: Duration,
    limits: Limits,
    transaction_memory_bytes: Option<usize>,
    idle: IdleLimits,
    commit_encoding: Encoding,
    control: bool,
    admission: Option<AdmissionLimits>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) spawn: Arc<dyn Spawn>,
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
            limits: Limits::default(),
            transaction_memory_bytes: None,
            idle: IdleLimits::default(),
            commit_encoding: DEFAULT_ENCODING,
            control: false,
            admission: None,
            clock: Arc::new(SystemClock),
            spawn: Arc::new(ThreadSpawn),
        }
    }
}

impl Builder {
    /// Sets the default isolation level of transactions.
    ///
    /// Default: [`Isolation::StrictSerializable`].
    #[must_use]
    pub const fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Sets when a commit is acknowledged.
    ///
    /// Default: [`Durability::Always`]. The other levels are faster, and may lose the last commits
    /// when the machine (not only the process) crashes: always whole commits, and never an earlier
    /// one without the later ones. [`Durability::Memory`], which has no log, loses all commits since
    /// the last flush when the process crashes, too.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.storage.durability = durability;
        self
    }

    /// Sets how flush, compaction and backups share disk and processors with reads and writes.
    ///
    /// Default: [`IoOptions::default`].
    #[must_use]
    pub const fn io(mut self, io: IoOptions) -> Self {
        self.storage.io = io;
        self
    }

    /// Sets the maximum number of attempts of a transaction, the first one included.
    ///
    /// Default: [`DEFAULT_ATTEMPTS_MAX`].
    #[must_use]
    pub const fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max;
        self
    }

    /// Sets the memory budget of the storage engine in bytes: memtables, cache and reads from disk
    /// together.
    ///
    /// Default: 512 MiB. `docs/memory.md` shows how it is divided.
    #[must_use]
    pub const fn memory_bytes(mut self, memory_bytes: usize) -> Self {
        self.storage.memory_bytes = memory_bytes;
        self
    }

    /// Sets the size in bytes at which a memtable is flushed to a file.
    ///
    /// Default: a part of [`Builder::memory_bytes`], 64 MiB of the default.
    #[must_use]
    pub const fn flush_bytes(mut self, flush_bytes: usize) -> Self {
        self.storage.flush_bytes = flush_bytes;
        self
    }

    /// Sets the size in bytes of the cache of blocks, index pages and filters.
    ///
    /// Default: a part of [`Builder::memory_bytes`], 64 MiB of the default.
    #[must_use]
    pub const fn cache_bytes(mut self, cache_bytes: usize) -> Self {
        self.storage.cache_bytes = cache_bytes;
        self
    }

    /// Sets the layout of cells in table files that are written from now on, for all tables.
    #[must_use]
    pub fn table_options(mut self, options: TableOptions) -> Self {
        self.storage.table_options = TableOptionsOf::all(options);
        self
    }

    /// Sets the compaction style.
    ///
    /// Default: leveled.
    #[must_use]
    pub const fn compaction_style(mut self, style: CompactionStyle) -> Self {
        self.storage.compaction_style = style;
        self
    }

    /// Sets the maximum number of compaction threads. Only one works while it keeps up with the
    /// writers; [`Db::compact`] works on its caller's thread.
    ///
    /// Default: 3.
    #[must_use]
    pub const fn compaction_threads(mut self, threads: usize) -> Self {
        self.storage.compaction_threads = threads;
        self
    }

    /// Sets for how long past states stay readable, for example for the next page of a read.
    /// Compaction drops older versions unless an open snapshot can see them.
    ///
    /// Default: [`DEFAULT_RETENTION`].
    #[must_use]
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Sets the maximum size of a transaction.
    ///
    /// Default: [`TransactionLimits::default`](crate::TransactionLimits::default). All limits are
    /// in `docs/limits.md`.
    #[must_use]
    pub const fn transaction_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the memory in bytes that all transactions share beside the storage engine: a half, at most 64 MiB, for
    /// recent commits, which commits are checked against, and the rest for read and write sets of more than 64 KiB.
    /// Where none is left, write sets go to files, and transactions with large read sets fail with `Overloaded`.
    ///
    /// Default: a quarter of [`Builder::memory_bytes`].
    #[must_use]
    pub const fn transaction_memory_bytes(mut self, bytes: usize) -> Self {
        self.transaction_memory_bytes = Some(bytes);
        self
    }

    /// Sets the idle timeout of transactions that may write. An idle transaction is rolled back,
    /// at most a quarter of the timeout late, and later calls on it fail with `Timeout`. A call
    /// that is in progress keeps the transaction alive, however long it takes.
    ///
    /// Default: ten minutes. `Duration::MAX` keeps such transactions until their last handle is
    /// dropped: each keeps the later commits in memory, as far as there is room.
    #[must_use]
    pub const fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle.writer = timeout;
        self
    }

    /// Sets the age at which an open transaction that blocks garbage collection is reported in a
    /// warning, once.
    ///
    /// Default: ten minutes.
    #[must_use]
    pub const fn sweep_warning(mut self, after: Duration) -> Self {
        self.idle.warning = after;
        self
    }

    /// Like [`Builder::idle_timeout`], but for read-only transactions. Each keeps versions on disk
    /// that compaction would drop otherwise.
    ///
    /// Default: one hour.
    #[must_use]
    pub const fn snapshot_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle.reader = timeout;
        self
    }

    /// Sets the commit-table encoding of a new database. An existing database keeps its encoding
    /// until [`Db::migrate`] changes it.
    ///
    /// Default: [`Encoding::V2`]. [`Encoding::V3`] takes one byte more per entry, to distinguish
    /// aborts from commits; a database in one process writes no aborts.
    #[must_use]
    pub const fn commit_encoding(mut self, encoding: Encoding) -> Self {
        self.commit_encoding = encoding;
        self
    }

    /// Sets whether other programs of this user can send commands such as `carnet backup` to this
    /// process by the socket `CONTROL` in the directory: backup, compact, migrate.
    ///
    /// Default: no. The socket needs a thread and a file. See [`control`](crate::control).
    #[must_use]
    pub const fn control(mut self, control: bool) -> Self {
        self.control = control;
        self
    }

    /// Sets whether the database is opened read-only, for example from a full disk or a read-only
    /// mount. It must exist; none of its files is changed, and commits that write fail with
    /// `Invalid`. Data that recovery would write to files stays in memory, at most about twice the
    /// log.
    ///
    /// Default: no. A database over a cluster cannot be opened read-only.
    #[must_use]
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.storage.read_only = read_only;
        self
    }

    /// Limits the number of statements that run at a time. Callers such as `carnet serve` then ask
    /// [`Db::admission`] for each statement. Transactions of the Rust API are not counted.
    ///
    /// Default: no limits.
    #[must_use]
    pub const fn admission(mut self, limits: AdmissionLimits) -> Self {
        self.admission = Some(limits);
        self
    }

    /// Replaces the clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Replaces the spawner of background work.
    #[must_use]
    pub fn spawn(mut self, spawn: Arc<dyn Spawn>) -> Self {
        self.spawn = spawn;
        self
    }

    /// Opens the database in a directory, and creates it if it does not exist. A URL such as
    /// `cassandra://user:password@host1,host2:9042/keyspace?listen=10.0.0.1:9044&secret_file=…`
    /// opens a database over a cluster; its options are [`OPTIONS`](crate::cluster::OPTIONS).
    ///
    /// # Errors
    ///
    /// - `Unavailable` if another process holds the directory, or it cannot be read or written.
    /// - `Corrupted` if its files are damaged.
    /// - `Invalid` for a malformed URL, or if a database to be opened read-only does not exist.
    /// - `Unsupported` for the URL of a store that is not built yet.
    /// - Otherwise the same as [`Builder::open_url`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Db> {
        let path = path.as_ref();
        match path.to_str() {
            Some(url) if ClusterUrl::is_one(url) => {
                return block_on(self.open_url(&ClusterUrl::parse(url)?));
            }
            Some(text) if text.contains("://") => {
                return Err(Error::unsupported(format!(
                    "the store {text} (a path opens the embedded one, cassandra:// a cluster)"
                )));
            }
            _ => {}
        }
        if self.storage.read_only && !path.is_dir() {
            return Err(Error::invalid(format!(
                "there is no directory {}, which was to be opened for reading only",
                path.display()
            )));
        }
        let disk = RealDisk::open(path)?;
        self.open_on(Arc::new(disk))
    }

    /// Opens the database on the caller's disk, such as the simulated one.
    ///
    /// # Errors
    ///
    /// Same as [`Builder::open`].
    pub fn open_on(self, disk: Arc<dyn Disk>) -> Result<Db> {
        let directory = self.control_of(&*disk)?;
        let is_read_only = self.storage.read_only;
        let conflict_bytes = self.transaction_memory().conflicts;
        let store = LocalStore::open(
            disk,
            Arc::clone(&self.clock),
            &*self.spawn,
            self.storage.clone(),
            self.retention,
            self.commit_encoding,
            |life| order(life, conflict_bytes),
        )?;
        let store = Arc::new(AnyStore::Local(Arc::new(store)));
        let control = directory.map(|directory| {
            let owner = Arc::clone(&store) as _;
            ControlServer::open(&directory, &self.spawn, owner)
        });
        let db = self.finish(Arc::clone(&store), control.transpose()?);
        if let Some(store) = store.local() {
            let catalog = async {
                let snapshot = db.snapshot_async().await?;
                let raw = catalog::raw_tables(&snapshot).await?;
                Ok::<_, Error>((raw, building::is_needed(&snapshot).await?))
            };
            match block_on(catalog) {
                Ok((raw, builds_derived)) => {
                    store.row_tables().set_raw(raw);
                    if builds_derived && !is_read_only {
                        db.build_derived();
                    }
                }
                // The tables' files may be whole, and a backup must name the damage.
                Err(error) => tracing::error!(
                    %error,
                    "the catalog cannot be read: no old versions are dropped until it can be"
                ),
            }
        }
        Ok(db)
    }

    /// Creates a database in memory, for tests. Its data is lost when it is dropped.
    #[must_use]
    pub fn in_memory(self) -> Db {
        // The memory store orders versions by their start timestamps.
        let order = CommitChecker::resuming(LogStart::default());
        let store = MemoryStore::with_clock(Box::new(order), Arc::clone(&self.clock));
        store.row_tables().set_raw([]);
        self.finish(Arc::new(AnyStore::Memory(Arc::new(store))), None)
    }

    /// Fails if the database is to be opened read-only but has no files of its own.
    pub(super) fn refuse_read_only(&self) -> Result<()> {
        if self.storage.read_only {
            return Err(Error::unsupported("a database over a cluster, opened for reading only"));
        }
        Ok(())
    }

    /// Returns the directory in which to open the control socket, if there is to be one.
    fn control_of(&self, disk: &dyn Disk) -> Result<Option<PathBuf>> {
        match (self.control && !self.storage.read_only, disk.directory()) {
            (false, _) => Ok(None),
            (true, Some(directory)) => Ok(Some(directory.to_path_buf())),
            (true, None) => Err(Error::unsupported(
                "a control socket of a database that has no directory of the operating system",
            )),
        }
    }

    pub(super) fn transaction_memory(&self) -> TransactionMemory {
        let default = self.storage.memory_bytes / 4;
        TransactionMemory::divide(self.transaction_memory_bytes.unwrap_or(default))
    }

    pub(super) fn finish(self, store: Arc<AnyStore>, control: Option<ControlServer>) -> Db {
        let schemas = Arc::new(SchemaCache::new());
        let admission =
            self.admission.map(|limits| Admission::new(limits, &self.clock, &*self.spawn));
        let timer = Arc::new(ThreadTimer::lazy(Arc::clone(&self.clock), Arc::clone(&self.spawn)));
        let set_bytes = self.transaction_memory().sets;
        let transaction_memory = MemoryBudget::new(set_bytes);
        let row_memory = Arc::new(RowMemory::new(set_bytes, Arc::clone(&timer)));
        let thread_handles = ThreadHandles::for_slots(
            &store,
            &schemas,
            &self.clock,
            &transaction_memory,
            &row_memory,
        );
        let inner = Inner {
            data: store.handle(),
            admission,
            levels: Cached::new(),
            roles: Cached::new(),
            thread_handles,
            _control: control,
            idle: IdleWatch::start(self.idle, Arc::clone(&self.clock), &*self.spawn),
            limits: self.limits,
            transaction_memory,
            timer,
            spawn: self.spawn,
            builds: Builds::default(),
            clock: self.clock,
            rng: Mutex::new(SeededRng::from_entropy()),
            contention: Arc::default(),
            store,
            isolation: self.isolation,
            attempts_max: self.attempts_max,
        };
        Db { inner: Arc::new(inner) }
    }
}

/// Memory of transactions, in bytes.
pub(super) struct TransactionMemory {
    /// Recent commits that commits are checked against.
    pub(super) conflicts: usize,
    /// Read and write sets.
    sets: usize,
}

impl TransactionMemory {
    fn divide(bytes: usize) -> Self {
        let conflicts = (bytes / 2).min(CONFLICT_BYTES_MAX);
        Self { conflicts, sets: bytes - conflicts }
    }
}

/// Makes the commit order of the local store, which orders versions by commit timestamps.
fn order(life: LogStart, conflict_bytes: usize) -> Box<dyn CommitOrder> {
    let checker = CommitChecker::with_conflict_bytes(life, conflict_bytes);
    Box::new(checker.with_version_order(VersionOrder::Commit))
}
