//! The database: opening it, and the ways to run a transaction.

mod again;
mod backup;
mod builder;
mod cluster;
mod holders;
mod levels;
mod near;
mod options;
mod time;

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carnet_base::{
    CellKeyRef, Clock, ErrorKind, Result, SeededRng, ThreadTimer, Timestamp, block_on, block_on_one,
};
use carnet_store::{CommitLog, Context, Outcome};
use carnet_store_local::{LocalStore, Newest};
use carnet_txn::{Backoff, Contention, IdleWatch, Isolation, Limits};

use crate::admission::Admission;
use crate::catalog::SchemaCache;
use crate::control::Door;
use crate::levels::LevelCache;
use crate::stores::AnyStore;
use crate::tx::{Snapshot, SyncTx, Tx};

pub(crate) use near::Near;

pub(crate) use builder::LAYOUT;
pub use builder::{Builder, DEFAULT_ATTEMPTS_MAX, DEFAULT_RETENTION};
pub use carnet_storage::io::{Class as IoClass, ClassTotals as IoTotals};
pub use carnet_storage::{
    CompactionStyle, Durability, FilterKind, IoOptions, Metrics, TableOptions,
};
pub use holders::Holder;
pub use options::TransactionOptions;
pub use time::AsOf;

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
/// assert_eq!(stock.get(&db, "apples")?.as_deref(), Some(&b"3"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    /// Closed before the store: fields are dropped in their order.
    _door: Option<Door>,
    store: Arc<AnyStore>,
    near: Box<[Arc<Near>]>,
    clock: Arc<dyn Clock>,
    timer: ThreadTimer,
    rng: Mutex<SeededRng>,
    contention: Arc<Contention>,
    admission: Option<Admission>,
    levels: LevelCache,
    isolation: Isolation,
    attempts_max: u32,
    limits: Limits,
    idle: IdleWatch,
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

    /// Returns what statements are to be asked for their admission; `None` where
    /// [`Builder::admission`] did not ask for one.
    #[must_use]
    pub fn admission(&self) -> Option<&Admission> {
        self.inner.admission.as_ref()
    }

    /// Returns the settings of one transaction.
    pub fn transaction(&self) -> TransactionOptions<'_> {
        TransactionOptions::of(self)
    }

    /// Begins a transaction that the caller commits, and runs again where it conflicts. It is rolled
    /// back when nothing is called on it for [`Builder::idle_timeout`].
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn begin(&self) -> Result<SyncTx> {
        self.transaction().begin()
    }

    /// Takes a read-only view of this moment. It is given up when nothing is called on it for
    /// [`Builder::snapshot_idle_timeout`].
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
        self.transaction().snapshot_async(None).await
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
        self.transaction().snapshot_async(Some(read)).await
    }

    /// Tells what became of the transaction that started at a timestamp: the one that an
    /// `Unknown` error names, for instance.
    ///
    /// # Errors
    ///
    /// `Unknown` where that was longer ago than the [retention](Builder::retention), and is not
    /// known any more; `Unavailable`, `Corrupted`.
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

    /// Reads a cell as it was committed last; `None` where that takes a snapshot.
    pub(crate) fn newest(&self, key: CellKeyRef<'_>) -> Option<Result<Newest>> {
        match &*Near::of_thread(&self.inner.near).store {
            AnyStore::Local(store) => {
                Some(block_on_one(store.get_newest(&Context::unbounded(), key)))
            }
            AnyStore::Memory(_) | AnyStore::Cluster(_) => None,
        }
    }

    pub(crate) fn schemas(&self) -> &SchemaCache {
        &Near::of_thread(&self.inner.near).schemas
    }

    /// Returns the largest timestamp such that every commit up to it is visible.
    #[must_use]
    pub fn published(&self) -> Timestamp {
        self.inner.store.published()
    }

    /// Returns the embedded store, for the simulator: nothing in it may block, as a backup does that
    /// waits for its flush.
    #[doc(hidden)]
    #[must_use]
    pub fn local_store(&self) -> Option<&LocalStore> {
        match &*self.inner.store {
            AnyStore::Local(store) => Some(store),
            AnyStore::Memory(_) | AnyStore::Cluster(_) => None,
        }
    }

    /// Writes what is gathered in memory to files.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn flush(&self) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.flush(),
            // Nothing is gathered here.
            AnyStore::Memory(_) | AnyStore::Cluster(_) => Ok(()),
        }
    }

    /// Rewrites all files into as few as there can be, and drops versions that nobody can see
    /// any more. It blocks the calling thread, for long in a large database; reads and writes go
    /// on beside it. Over a cluster, whose files are its own, such versions are deleted, by the
    /// process that leads alone: nothing until it has led for as long as the
    /// [retention](Builder::retention).
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped or another process leads, `Corrupted` where a file
    /// is damaged.
    pub fn compact(&self) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.compact(),
            AnyStore::Memory(_) => Ok(()),
            AnyStore::Cluster(store) => block_on(store.sweep()),
        }
    }

    /// Ends writing: everything pending is written and synced, and every handle refuses writes from
    /// then on. Dropping the last handle does the same, but keeps errors to the log. Only the first
    /// call does anything; over a cluster and in memory there is nothing to end.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped before or stops now: the next opening finds what
    /// was acknowledged.
    pub fn close(&self) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.close(),
            AnyStore::Memory(_) | AnyStore::Cluster(_) => Ok(()),
        }
    }

    /// Checks that the embedded store takes writes. A cluster is not asked.
    ///
    /// # Errors
    ///
    /// `Unavailable` where it does not, with the cause.
    pub fn check_writable(&self) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.check_writable(),
            AnyStore::Memory(_) | AnyStore::Cluster(_) => Ok(()),
        }
    }

    /// Returns what is wrong with the embedded store although it takes reads and writes, a sentence
    /// each: a damaged file that compaction leaves alone, for instance.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.warnings(),
            AnyStore::Memory(_) | AnyStore::Cluster(_) => Vec::new(),
        }
    }

    /// Returns counters of the storage engine; a database in memory or over a cluster has none.
    #[must_use]
    pub fn metrics(&self) -> Option<Metrics> {
        match &*self.inner.store {
            AnyStore::Local(store) => Some(store.metrics()),
            AnyStore::Memory(_) | AnyStore::Cluster(_) => None,
        }
    }

    /// Returns what each class of the I/O scheduler did, in the order of
    /// [`IoClass::NAMES`]; `None` where nothing is scheduled.
    #[must_use]
    pub fn io_totals(&self) -> Option<[IoTotals; IoClass::KINDS]> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.io_totals(),
            AnyStore::Memory(_) | AnyStore::Cluster(_) => None,
        }
    }

    fn draw_wait(&self, backoff: &mut Backoff, kind: ErrorKind) -> Option<Duration> {
        let mut rng = self.inner.rng.lock().unwrap_or_else(PoisonError::into_inner);
        backoff.after(kind, &mut *rng)
    }
}
