//! The storage engine behind the store's traits: one process, one directory.
//!
//! A commit is one log record, cells and commit entry together:
//!
//! ```text
//!   caller        prepare: encode the cells at S, CRC      (outside every lock)
//!   ── engine's critical section ─────────────────────────────────────────────
//!   rules         decide(request) → C                      conflict, or the next timestamp
//!   engine        reserve the record's place in the log    place = order of commits
//!   ───────────────────────────────────────────────────────────────────────────
//!   caller        insert the cells, stamped C, into the memtable
//!   flusher       write, fsync, publish the contiguous prefix → P
//! ```
//!
//! So every version in the engine is stamped, and readers look nothing up. The entry S → C stays
//! in a map beside the memtable and becomes a row of the commit table, in the tickets encoding,
//! when the memtable is flushed; [`CommitLog::outcome`] finds it in either.
//!
//! Timestamps are handed out below a *bound* that is on disk before it is used. A new life starts
//! at the bound, so that no start is ever used twice, and an unfinished transaction of an earlier
//! life can be told by its start: no entry means aborted.

mod bound;
mod commit_table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carnet_base::{
    CellKey, Clock, Error, ErrorKind, Result, Signal, Spawn, Timestamp, Version, WorkerHandle,
};
use carnet_storage::disk::Disk;
use carnet_storage::{AppendError, Engine, Metrics, Options, Publish};
use carnet_store::{
    At, BeginKind, Begun, CellStore, CommitLog, CommitOrder, CommitRequest, Context, Outcome, Page,
    RangeRequest, check_handed_out,
};

use crate::bound::BoundKeeper;

/// The store on this machine's disk.
pub struct LocalStore {
    engine: Arc<Engine>,
    order: SharedOrder,
    clock: Arc<dyn Clock>,
    bound: BoundWorker,
}

type SharedOrder = Arc<Mutex<Box<dyn CommitOrder>>>;

/// Tells the rules of each commit as the engine publishes it.
struct Observer(SharedOrder);

impl Publish for Observer {
    fn publish(&self, start: Timestamp, commit: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).publish(commit, start);
    }
}

struct BoundWorker {
    signal: Signal,
    handle: Mutex<Option<WorkerHandle>>,
    keeper: Arc<bound::Shared>,
}

impl LocalStore {
    /// Opens the store on a disk, or makes one there.
    ///
    /// `order` makes the rules of order, given the first timestamp of this life, which no earlier
    /// life has handed out.
    ///
    /// # Errors
    ///
    /// `Unavailable` when another process holds the directory or it cannot be read or written;
    /// `Corrupted` when its files are not what was written.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        spawn: &dyn Spawn,
        options: Options,
        order: impl FnOnce(Timestamp) -> Box<dyn CommitOrder>,
    ) -> Result<Self> {
        let engine = Engine::open(
            disk,
            Arc::clone(&clock),
            spawn,
            options,
            Arc::new(commit_table::entry_cell),
        )?;
        let engine = Arc::new(engine);
        let first = engine.timestamp_bound().max(bound::FIRST);
        let mut order = order(first);
        order.extend(bound::raise(&engine, first)?);
        let order: SharedOrder = Arc::new(Mutex::new(order));
        engine.observe(Arc::new(Observer(Arc::clone(&order))));
        let signal = Signal::new();
        let (keeper, shared) = BoundKeeper::new(Arc::clone(&engine), Arc::clone(&order));
        let handle = spawn.spawn("carnet-bound", signal.clone(), Box::new(keeper));
        let bound = BoundWorker { signal, handle: Mutex::new(Some(handle)), keeper: shared };
        Ok(Self { engine, order, clock, bound })
    }

    /// Writes what is gathered in memory to files.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store has stopped.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Returns the engine's counters.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.engine.metrics()
    }

    fn order(&self) -> MutexGuard<'_, Box<dyn CommitOrder>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch_bound(&self, headroom: u64) {
        if headroom < bound::STEP / 2 {
            self.bound.signal.ring();
        }
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        self.bound.keeper.close();
        self.bound.signal.ring();
        let handle = self.bound.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            handle.join();
        }
    }
}

impl CellStore for LocalStore {
    async fn get(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        context.check(self.clock.now())?;
        // Every version is stamped: what is asked for below a start is asked for below its commit.
        self.engine.get(key, at.read).await
    }

    async fn range(&self, context: &Context, request: &RangeRequest) -> Result<Page> {
        context.check(self.clock.now())?;
        let limit = carnet_storage::PageLimit {
            cells: request.limit.cells.max(1),
            bytes: request.limit.bytes,
        };
        let page = self.engine.range(&request.range, request.read, request.reverse, limit).await?;
        Ok(Page { cells: page.cells, resume: page.resume })
    }
}

impl CommitLog for LocalStore {
    async fn begin(&self, context: &Context, kind: BeginKind) -> Result<Begun> {
        context.check(self.clock.now())?;
        let (begun, headroom) = {
            let mut order = self.order();
            (order.begin(kind), order.headroom())
        };
        self.watch_bound(headroom);
        begun
    }

    fn end(&self, begun: Begun) {
        self.order().end(begun);
    }

    async fn commit(&self, context: &Context, request: CommitRequest) -> Result<Timestamp> {
        context.check(self.clock.now())?;
        self.engine.ready().await?;
        let start = request.start;
        let cells = request.writes.iter().map(|write| (write.key.clone(), write.payload.clone()));
        let prepared = self.engine.prepare(start, cells.collect())?;
        let decide = || self.order().decide(&request);
        let appended = match self.engine.append(prepared, decide) {
            Ok(appended) => appended,
            Err(AppendError::Refused(error) | AppendError::Engine(error)) => return Err(error),
        };
        appended.await.map_err(|error| {
            Error::new(
                ErrorKind::Unknown { start },
                format!("the store stopped before the commit of start {start} was acknowledged"),
            )
            .with_source(error)
        })
    }

    async fn outcome(&self, context: &Context, start: Timestamp) -> Result<Outcome> {
        context.check(self.clock.now())?;
        {
            let order = self.order();
            check_handed_out(&**order, start)?;
            if order.is_pending(start) {
                return Ok(Outcome::Pending);
            }
        }
        // Published before it stopped being pending: what is not found now never will be.
        if let Some(commit) = self.engine.commit_of(start) {
            return Ok(Outcome::Committed(commit));
        }
        let cell = commit_table::entry_key(start);
        match self.engine.get(&cell, Timestamp::MAX).await? {
            Some(Version { payload: Some(value), .. }) => {
                Ok(Outcome::Committed(commit_table::decode(start, &value)?))
            }
            _ => Ok(Outcome::Aborted),
        }
    }

    fn published(&self) -> Timestamp {
        self.order().published()
    }
}
