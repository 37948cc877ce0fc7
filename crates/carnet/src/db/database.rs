//! Handle of a database: its state, outcomes of transactions, and maintenance.

use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;
use std::time::Duration;

use carnet_admission::Admission;
use carnet_base::{
    Call, CellKeyRef, Clock, DurationCounts, ErrorKind, MemoryBudget, Result, SeededRng, Signal,
    Spawn, TableId, ThreadTimer, Timestamp, block_on, block_on_one, lock,
};
use carnet_storage::io::{Class as IoClass, ClassTotals as IoTotals};
use carnet_storage::usage::TableUse;
use carnet_storage::{LevelTotals, Metrics, TableSpace};
use carnet_store::{Context, Outcome, StoreHandle};
use carnet_store_local::{LocalStore, Newest};
use carnet_txn::{Backoff, Contention, IdleWatch, Isolation, Limits, TurnQueue};

use super::builds::Builds;
use crate::commit_counts::CommitOutcome;
use crate::control::ControlServer;
use crate::levels::Levels;
use crate::retry_counts::RetryCause;
use crate::roles::Roles;
use crate::schema::{Cached, SchemaCache, TableSchema};
use crate::stores::AnyStore;
use crate::thread_handles::ThreadHandles;

/// Handle of a database. Cloning is cheap: all clones share one database, which is closed when the
/// last clone is dropped.
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
/// // An aborted transaction has no effect.
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
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    /// Declared before `store`: fields drop in order, and the control socket closes first.
    pub(super) _control: Option<ControlServer>,
    pub(super) store: Arc<AnyStore>,
    /// The same store, for calls without a transaction.
    pub(super) data: StoreHandle,
    pub(super) thread_handles: Box<[Arc<ThreadHandles>]>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timer: Arc<ThreadTimer>,
    pub(super) rng: Mutex<SeededRng>,
    pub(super) contention: Arc<Contention>,
    pub(super) admission: Option<Admission>,
    pub(super) levels: Cached<Levels>,
    pub(super) roles: Cached<Roles>,
    pub(super) isolation: Isolation,
    pub(super) attempts_max: u32,
    pub(super) limits: Limits,
    /// Memory of the read and write sets of all transactions.
    pub(super) transaction_memory: MemoryBudget,
    pub(super) idle: IdleWatch,
    pub(super) spawn: Arc<dyn Spawn>,
    pub(super) builds: Builds,
}

/// Handle that does not keep the database open.
#[derive(Clone)]
pub(crate) struct WeakDb(Weak<Inner>);

impl WeakDb {
    /// Returns the database, unless it was closed.
    pub(crate) fn upgrade(&self) -> Option<Db> {
        self.0.upgrade().map(|inner| Db { inner })
    }
}

/// Right to build the indexes and views of a database. Dropping it, also in a panic, lets another worker have
/// it.
pub(crate) struct Building(WeakDb);

impl Drop for Building {
    fn drop(&mut self) {
        if let Some(db) = self.0.upgrade() {
            db.inner.builds.end();
        }
    }
}

/// Awaits several calls at once; returns their results in order, or the first error.
async fn join_all<T: Unpin>(mut calls: Vec<Call<'_, T>>) -> Result<Vec<T>> {
    let mut done: Vec<Option<T>> = calls.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        let mut is_pending = false;
        for (call, done) in calls.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            match Pin::new(call).poll(context) {
                Poll::Ready(result) => *done = Some(result?),
                Poll::Pending => is_pending = true,
            }
        }
        match is_pending {
            true => Poll::Pending,
            false => Poll::Ready(Ok(done.iter_mut().filter_map(Option::take).collect())),
        }
    })
    .await
}

impl Db {
    /// Returns the admission gate that each statement has to pass, or `None` if
    /// [`Builder::admission`](crate::Builder::admission) was not set.
    #[must_use]
    pub fn admission(&self) -> Option<&Admission> {
        self.inner.admission.as_ref()
    }

    /// Returns the outcome of the transaction with a start timestamp, for example the one that an
    /// `Unknown` error names.
    ///
    /// # Errors
    ///
    /// `Unknown` if the transaction is older than the [retention](crate::Builder::retention) and its
    /// outcome was discarded; `Unavailable`, `Corrupted`.
    pub fn outcome(&self, start: Timestamp) -> Result<Outcome> {
        block_on(self.outcome_async(start))
    }

    /// Async variant of [`Db::outcome`].
    ///
    /// # Errors
    ///
    /// Same as [`Db::outcome`].
    pub async fn outcome_async(&self, start: Timestamp) -> Result<Outcome> {
        self.inner.data.outcome(&Context::unbounded(), start).await
    }

    /// Aborts the transaction with a start timestamp, of any process of a database on a cluster, unless
    /// its commit has been decided. Returns its outcome: `Pending` if its commit is being written.
    ///
    /// The abort is an entry of the commit table, put unless one exists; the process that runs the
    /// transaction learns of it when it commits.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an embedded database, whose transactions end where they were begun; otherwise
    /// same as [`Db::outcome`].
    pub async fn abort_start(&self, start: Timestamp) -> Result<Outcome> {
        self.inner.data.abort(&Context::unbounded(), start).await
    }

    /// Returns the outcomes of several transactions, in the order of their start timestamps.
    ///
    /// # Errors
    ///
    /// Same as [`Db::outcome`], for the first transaction with an error.
    pub fn outcomes(&self, starts: &[Timestamp]) -> Result<Vec<Outcome>> {
        block_on(self.outcomes_async(starts))
    }

    /// Async variant of [`Db::outcomes`]: asks for all of them at once.
    ///
    /// # Errors
    ///
    /// Same as [`Db::outcomes`].
    pub async fn outcomes_async(&self, starts: &[Timestamp]) -> Result<Vec<Outcome>> {
        const AT_ONCE: usize = 32;
        let context = Context::unbounded();
        let mut outcomes = Vec::with_capacity(starts.len());
        for some in starts.chunks(AT_ONCE) {
            let calls = some.iter().map(|start| self.inner.data.outcome(&context, *start));
            outcomes.extend(join_all(calls.collect()).await?);
        }
        Ok(outcomes)
    }

    /// Reads the newest committed version of a cell; `None` if this store needs a snapshot for it.
    pub(crate) fn newest(&self, key: CellKeyRef<'_>) -> Option<Result<Newest>> {
        let store = ThreadHandles::current(&self.inner.thread_handles).any.local()?;
        Some(block_on_one(store.get_newest(&Context::unbounded(), key)))
    }

    /// Returns the schema of a table that a recent transaction of this process used, for messages.
    #[must_use]
    pub fn known_table(&self, id: TableId) -> Option<Arc<TableSchema>> {
        self.schemas().by_id(id)
    }

    pub(crate) fn schemas(&self) -> &SchemaCache {
        &ThreadHandles::current(&self.inner.thread_handles).schemas
    }

    /// Returns the largest timestamp up to which every commit is visible.
    #[must_use]
    pub fn published(&self) -> Timestamp {
        self.inner.data.published()
    }

    /// Returns the embedded store, for the simulator. The simulator must not call anything that
    /// blocks, such as a backup, which waits for its flush.
    #[doc(hidden)]
    #[must_use]
    pub fn local_store(&self) -> Option<&LocalStore> {
        self.inner.store.local()
    }

    /// Flushes the memtables to files.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn flush(&self) -> Result<()> {
        // Other stores have no memtables.
        self.inner.store.local().map_or(Ok(()), LocalStore::flush)
    }

    /// Runs a full compaction: rewrites all files into as few as possible, and drops versions that
    /// no snapshot can see. It blocks the calling thread, for a long time in a large database;
    /// reads and writes continue. Over a cluster, which owns its files, the leader deletes such
    /// versions instead, and deletes none before it has led for the
    /// [retention](crate::Builder::retention).
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped or another process leads, `Corrupted` if a file is
    /// damaged.
    pub fn compact(&self) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Local(store) => store.compact(),
            AnyStore::Memory(_) => Ok(()),
            AnyStore::Cluster { store, .. } => block_on(store.sweep()),
        }
    }

    /// Stops writing: all pending writes are written and synced, and every handle refuses later
    /// writes. Dropping the last handle does the same, but only logs errors. Only the first call
    /// has an effect; over a cluster and in memory the call has none.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store has stopped already or stops during the call: the next opening
    /// recovers all acknowledged commits.
    pub fn close(&self) -> Result<()> {
        self.inner.store.local().map_or(Ok(()), LocalStore::close)
    }

    /// Checks that the store accepts writes. A cluster is not asked: it counts as away if it has
    /// answered none of this process's requests for 5 s.
    ///
    /// # Errors
    ///
    /// `Unavailable` with the cause, if the store refuses them or is away.
    pub fn check_writable(&self) -> Result<()> {
        match &*self.inner.store {
            AnyStore::Cluster { requests: Some(requests), .. } => {
                requests.check(self.inner.clock.now())
            }
            store => store.local().map_or(Ok(()), LocalStore::check_writable),
        }
    }

    /// Returns problems that do not stop reads and writes, one sentence each: for example a
    /// damaged file that compaction skips.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.inner.store.local().map_or_else(Vec::new, LocalStore::warnings)
    }

    /// Returns the metrics of the storage engine; `None` for a database in memory or over a
    /// cluster.
    #[must_use]
    pub fn metrics(&self) -> Option<Metrics> {
        self.inner.store.local().map(LocalStore::metrics)
    }

    /// Returns the reads and writes of each table since the database was opened; `None` for a
    /// database in memory or over a cluster.
    #[must_use]
    pub fn table_use(&self) -> Option<Vec<TableUse>> {
        self.inner.store.local().map(LocalStore::table_use)
    }

    /// Returns the time for which [`Db::table_use`] has counted.
    #[must_use]
    pub fn counted_for(&self) -> Option<Duration> {
        self.inner.store.local().map(LocalStore::counted_for)
    }

    /// Returns the space that a table takes in files; none for a database in memory or over a
    /// cluster.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub async fn table_space(&self, table: TableId) -> Result<TableSpace> {
        match self.inner.store.local() {
            Some(store) => store.space_of(table).await,
            None => Ok(TableSpace::default()),
        }
    }

    /// Returns the durations of the syncs of the log since the database was opened; `None` for a
    /// database in memory or over a cluster.
    #[must_use]
    pub fn log_sync_durations(&self) -> Option<DurationCounts> {
        self.inner.store.local().map(LocalStore::log_sync_durations)
    }

    /// Returns the durations of commits with writes that took effect, since the database was opened.
    #[must_use]
    pub fn commit_durations(&self) -> DurationCounts {
        let mut sum = DurationCounts::default();
        for handles in &self.inner.thread_handles {
            sum.add(&handles.commits.durations());
        }
        sum
    }

    /// Returns the number of attempts of transactions that were lost for a cause and repeated, and of
    /// transactions that failed after their last attempt, since the database was opened. Transactions that their caller
    /// commits are not repeated, and count in [`Db::commits`] only.
    #[must_use]
    pub fn retries(&self, cause: RetryCause) -> (u64, u64) {
        let all = self.inner.thread_handles.iter().map(|handles| handles.retries.get(cause));
        all.fold((0, 0), |(retried, given_up), (one, other)| (retried + one, given_up + other))
    }

    /// Returns the number of commits with an outcome, since the database was opened.
    #[must_use]
    pub fn commits(&self, outcome: CommitOutcome) -> u64 {
        self.inner.thread_handles.iter().map(|handles| handles.commits.get(outcome)).sum()
    }

    /// Returns the longest queues of transactions that take turns at a cell which they lost, at most
    /// `queues_max`, the longest first. Only queues of this process are listed.
    #[must_use]
    pub fn turn_queues(&self, queues_max: usize) -> Vec<TurnQueue> {
        self.inner.contention.longest(queues_max)
    }

    /// Returns the memory in bytes that large read and write sets of open transactions hold.
    #[must_use]
    pub fn transaction_memory_bytes(&self) -> usize {
        self.inner.transaction_memory.used()
    }

    /// Returns the totals of each class of the I/O scheduler, in the order of [`IoClass::NAMES`];
    /// `None` if the store has no I/O scheduler.
    #[must_use]
    pub fn io_totals(&self) -> Option<[IoTotals; IoClass::KINDS]> {
        self.inner.store.local().and_then(LocalStore::io_totals)
    }

    /// Returns the tables of each level of the storage engine, from level 0 on; `None` for a database without a
    /// directory.
    #[must_use]
    pub fn level_totals(&self) -> Option<Vec<LevelTotals>> {
        self.inner.store.local().map(LocalStore::level_totals)
    }

    pub(crate) fn downgrade(&self) -> WeakDb {
        WeakDb(Arc::downgrade(&self.inner))
    }

    pub(crate) fn spawner(&self) -> &dyn Spawn {
        &*self.inner.spawn
    }

    /// Returns the right to build the indexes and views; `None` while another worker has it.
    pub(crate) fn begin_building(&self) -> Option<Building> {
        self.inner.builds.begin().then(|| Building(self.downgrade()))
    }

    /// Asks the worker that builds to look again now, also if its last step failed.
    pub(crate) fn ask_builder(&self) {
        self.inner.builds.ask();
    }

    /// Returns how often [`Db::ask_builder`] was called.
    pub(crate) fn asked_to_build(&self) -> u64 {
        self.inner.builds.asked()
    }

    /// Returns the signal of the worker that builds.
    pub(crate) fn build_signal(&self) -> Signal {
        self.inner.builds.signal()
    }

    pub(super) fn draw_wait(&self, backoff: &mut Backoff, kind: ErrorKind) -> Option<Duration> {
        let mut rng = lock(&self.inner.rng);
        backoff.after(kind, &mut *rng)
    }
}
