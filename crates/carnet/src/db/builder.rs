//! Settings of a database, and opening it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{
    Clock, Encoding, Error, Result, SeededRng, Spawn, SystemClock, ThreadSpawn, ThreadTimer,
    block_on,
};
use carnet_storage::disk::{Disk, RealDisk};
use carnet_storage::{
    CompactionStyle, Durability, FilterKind, IoOptions, TableOptions, TableOptionsOf,
};
use carnet_store::{CommitOrder, Life, MemoryStore};
use carnet_store_local::{DEFAULT_ENCODING, LocalStore};
use carnet_txn::{IdleLimits, IdleWatch, Isolation, Limits, Sequencer, VersionOrder};

use super::near::Near;
use super::{Db, Inner};
use crate::admission::{Admission, AdmissionLimits};
use crate::catalog::SchemaCache;
use crate::cluster::ClusterUrl;
use crate::control::Door;
use crate::levels::LevelCache;
use crate::stores::AnyStore;

/// For how long what was visible can be read again, unless told otherwise.
pub const DEFAULT_RETENTION: Duration = Duration::from_secs(600);

/// Filters over cells: a raw table is one partition, and filters over partitions say nothing of
/// its keys.
pub(crate) const LAYOUT: TableOptions = TableOptions {
    block_bytes: 4 << 10,
    index_page_bytes: 4 << 10,
    compression: carnet_storage::Compression::Lz4,
    bloom_fp_chance: 0.01,
    filter: FilterKind::Cells,
};

/// How often a transaction runs at most, the first time included, unless told otherwise.
pub const DEFAULT_ATTEMPTS_MAX: u32 = 64;
/// Settings of a database, and the components it is made of.
pub struct Builder {
    isolation: Isolation,
    attempts_max: u32,
    storage: carnet_storage::Options,
    pub(super) retention: Duration,
    limits: Limits,
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

    /// Sets how flush, compaction and backups share the disk and the processors with reads and writes.
    ///
    /// Default: [`IoOptions::default`].
    #[must_use]
    pub const fn io(mut self, io: IoOptions) -> Self {
        self.storage.io = io;
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

    /// Sets how many threads compact files at most. While one keeps up with the writers, one does;
    /// [`Db::compact`] works on its caller's alone.
    ///
    /// Default: 3.
    #[must_use]
    pub const fn compaction_threads(mut self, threads: usize) -> Self {
        self.storage.compaction_threads = threads;
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

    /// Sets how large a transaction may grow.
    ///
    /// Default: [`TransactionLimits::default`](crate::TransactionLimits::default). All limits are
    /// in `docs/limits.md`.
    #[must_use]
    pub const fn transaction_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long a transaction that may write can be left alone. It is rolled back then, at
    /// most a quarter of that time later, and later calls on it fail with `Timeout`. A call that is
    /// on its way keeps it, however long it takes.
    ///
    /// Default: ten minutes. `Duration::MAX` keeps such transactions for as long as they have a
    /// handle: each keeps in memory what was committed since, as far as there is room.
    #[must_use]
    pub const fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle.writer = timeout;
        self
    }

    /// Sets after how long an open transaction that keeps the sweep from going on is named in a
    /// warning, once.
    ///
    /// Default: ten minutes.
    #[must_use]
    pub const fn sweep_warning(mut self, after: Duration) -> Self {
        self.idle.warning = after;
        self
    }

    /// As [`Builder::idle_timeout`], for transactions that only read. Each keeps versions on disk
    /// that compaction would drop otherwise.
    ///
    /// Default: one hour.
    #[must_use]
    pub const fn snapshot_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle.reader = timeout;
        self
    }

    /// Sets how a new database writes its commit table; one that was there goes on as it did, until
    /// it is told otherwise by [`Db::migrate`].
    ///
    /// Default: [`Encoding::V2`]. [`Encoding::V3`] takes a byte more for each entry, to tell an
    /// abort from a commit; a database in one process writes no aborts.
    #[must_use]
    pub const fn commit_encoding(mut self, encoding: Encoding) -> Self {
        self.commit_encoding = encoding;
        self
    }

    /// Sets whether other programs of this user may ask this process to take a backup, to compact
    /// or to migrate, as `carnet backup` and its like do: by the socket `CONTROL` in the directory.
    ///
    /// Default: no. It takes a thread and a file. [`control`](crate::control) tells more.
    #[must_use]
    pub const fn control(mut self, control: bool) -> Self {
        self.control = control;
        self
    }

    /// Sets whether the database is opened for reading only: from a full disk or a read-only mount for
    /// instance. It has to be there, none of its files is changed, and commits that write are refused
    /// with `Invalid`. What recovery would write takes memory, at most about twice the log.
    ///
    /// Default: no. A database over a cluster cannot be opened so.
    #[must_use]
    pub const fn read_only(mut self, read_only: bool) -> Self {
        self.storage.read_only = read_only;
        self
    }

    /// Limits how many statements run at a time: [`Db::admission`] is asked for each then, as
    /// `carnet serve` does. Transactions of the Rust API are not counted.
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

    /// Replaces what runs background work.
    #[must_use]
    pub fn spawn(mut self, spawn: Arc<dyn Spawn>) -> Self {
        self.spawn = spawn;
        self
    }

    /// Opens the database in a directory, or makes one there; or over a cluster, by a URL such as
    /// `cassandra://user:password@host1,host2:9042/keyspace?listen=10.0.0.1:9044&secret_file=…`,
    /// whose options are [`OPTIONS`](crate::cluster::OPTIONS).
    ///
    /// # Errors
    ///
    /// `Unavailable` when another process holds the directory or it cannot be read or written,
    /// `Corrupted` when its files are not what was written, `Invalid` for a URL that is wrong or where
    /// there is no database to be opened for reading only,
    /// `Unsupported` for one of a store that is not built yet; else as [`Builder::open_url`].
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

    /// Opens the database on a disk of the caller's, such as the simulated one.
    ///
    /// # Errors
    ///
    /// As [`Builder::open`].
    pub fn open_on(self, disk: Arc<dyn Disk>) -> Result<Db> {
        let directory = self.control_of(&*disk)?;
        let store = LocalStore::open(
            disk,
            Arc::clone(&self.clock),
            &*self.spawn,
            self.storage.clone(),
            self.retention,
            self.commit_encoding,
            order,
        )?;
        let store = Arc::new(AnyStore::Local(Arc::new(store)));
        let door = directory.map(|directory| {
            let owner = Arc::clone(&store) as _;
            Door::open(&directory, &self.spawn, owner)
        });
        Ok(self.finish(store, door.transpose()?))
    }

    /// Makes a database in memory. Nothing survives it; it is for tests.
    #[must_use]
    pub fn in_memory(self) -> Db {
        // It keeps versions by their starts.
        let order = Sequencer::resuming(Life::default());
        let store = MemoryStore::with_clock(Box::new(order), Arc::clone(&self.clock));
        self.finish(Arc::new(AnyStore::Memory(Arc::new(store))), None)
    }

    /// Refuses to open a database that has no files of its own for reading only.
    pub(super) fn refuse_read_only(&self) -> Result<()> {
        if self.storage.read_only {
            return Err(Error::unsupported("a database over a cluster, opened for reading only"));
        }
        Ok(())
    }

    /// Returns the directory whose control door is to be opened.
    fn control_of(&self, disk: &dyn Disk) -> Result<Option<PathBuf>> {
        match (self.control && !self.storage.read_only, disk.directory()) {
            (false, _) => Ok(None),
            (true, Some(directory)) => Ok(Some(directory.to_path_buf())),
            (true, None) => Err(Error::unsupported(
                "a control socket of a database that has no directory of the operating system",
            )),
        }
    }

    pub(super) fn finish(self, store: Arc<AnyStore>, door: Option<Door>) -> Db {
        let schemas = Arc::new(SchemaCache::new());
        let admission =
            self.admission.map(|limits| Admission::new(limits, &self.clock, &*self.spawn));
        let near = Near::of_all(&store, &schemas, &self.clock);
        let inner = Inner {
            admission,
            levels: LevelCache::new(),
            near,
            _door: door,
            idle: IdleWatch::start(self.idle, Arc::clone(&self.clock), &*self.spawn),
            limits: self.limits,
            timer: ThreadTimer::lazy(Arc::clone(&self.clock), self.spawn),
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

/// Makes the rules of the local store, whose versions are ordered by their commits.
fn order(life: Life) -> Box<dyn CommitOrder> {
    Box::new(Sequencer::resuming(life).with_version_order(VersionOrder::Commit))
}
