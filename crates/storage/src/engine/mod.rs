//! The engine: log, memtables and tables joined into one ordered store of versions.
//!
//! # A write
//!
//! ```text
//!  caller ── prepare ──┐ order lock ┌── insert (own thread) ──┐
//!                      │ decide → C │                         ├─ published when both are done
//!                      │ reserve    │                         │  for it and all before it
//!  flusher ────────────┴────────────┴── write, sync together ─┘
//! ```
//!
//! One short critical section, under the *order* lock, runs the caller's decision, gives the
//! record its place in the log, opens its slot in the `publication`, and pins the active
//! memtable. Everything else happens outside of it. With [`Durability::Always`] a thread of its
//! own writes and syncs; otherwise whoever finds the log's writer free writes everything that is
//! pending, others' records too, and nobody waits for the writer.
//!
//! # Invariants
//!
//! 1. Places in the log, slots and commit timestamps have one order: that of the order lock.
//! 2. Memtables and tables hold disjoint, ascending spans of commits: a seal happens at one place
//!    of that order. So the newest source in which a cell is found has its newest version.
//! 3. Every commit ≤ [`Engine::published`] is inserted, and in whatever view a reader takes
//!    after it learned of that: the view changes at once, by a pointer. A reader at R ≤ published
//!    sees each commit ≤ R and no other.
//! 4. A memtable is flushed only when all its records are published, oldest first; its log
//!    segments are removed only when the manifest that names its table is durable.
//! 5. A reservation ends inserted, or the store stops: a drop guard sees to it, as another does
//!    for the workers.
//! 6. When a write or a sync fails the store stops: nothing is acknowledged after it, nothing
//!    that follows in the log either, and reads go on. What the disk really holds is found out by
//!    recovery, not guessed.
//!
//! # Order of locks
//!
//! syncing → writer → order → sealed → publication → observer; order → view; flushing → manifest.
//! None is held while its holder waits for work that another thread has yet to do.
//!
//! Absent on purpose, for now: reads that do not block the caller's thread while the disk works,
//! compaction (tables only become more), and a memory budget beyond
//! [`Options::memtables_waiting_max`](crate::Options::memtables_waiting_max).

mod append;
mod flush;
mod log;
mod open;
mod publication;
mod range;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use carnet_base::{CellKey, Clock, Result, Signal, Timestamp, Version, WorkerHandle};

pub use append::{AppendError, Appended, Prepared};
pub use publication::Publish;
pub use range::{Page, PageLimit};

use crate::disk::{DirectoryLock, Disk};
use crate::lock::lock;
use crate::manifest::Manifest;
use crate::memtable::Memtable;
use crate::metrics::{Counters, Metrics};
use crate::options::{Durability, Options};
use crate::sstable::Cache;
use crate::wal::Tail;
use flush::SealedQueue;
use log::Log;
use publication::Publication;
use view::View;

/// Turns a start and its commit into the cell that records them, written when their memtable is
/// flushed. It comes from above, so that storage knows no encoding.
///
/// Different starts must give different cells, and none that is written otherwise.
pub type EntryCell = Arc<dyn Fn(Timestamp, Timestamp) -> (CellKey, Bytes) + Send + Sync>;

/// A log-structured store of versions of cells in one directory.
///
/// Methods take `&self`: share it behind an [`Arc`]. Dropping it does what [`Engine::close`]
/// does, but keeps errors to the log.
pub struct Engine {
    core: Arc<Core>,
    workers: Vec<WorkerHandle>,
    closed: bool,
    /// Released last: fields are dropped in their order.
    _directory: DirectoryLock,
}

/// What the engine and its workers share.
struct Core {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    options: Options,
    entry_cell: EntryCell,
    counters: Arc<Counters>,
    cache: Arc<Cache>,
    order: Mutex<Order>,
    log: Log,
    publication: Arc<Publication>,
    view: Mutex<Arc<View>>,
    sealed: Mutex<SealedQueue>,
    flush_signal: Signal,
    flushing: Mutex<()>,
    manifest: Mutex<Manifest>,
    closing: AtomicBool,
}

/// What the one critical section guards.
struct Order {
    tail: Tail,
    active: Arc<Memtable>,
    active_bytes: usize,
    last_commit: Timestamp,
    closed: bool,
}

impl Engine {
    /// Names who is told of each commit as it is published, in the order of commits. To be called
    /// once, before the first append; returns false, and changes nothing, the second time.
    pub fn observe(&self, observer: Arc<dyn Publish>) -> bool {
        self.core.publication.observe(observer)
    }

    /// Returns the bound below which timestamps may have been handed out before; zero in a new
    /// database.
    #[must_use]
    pub fn timestamp_bound(&self) -> Timestamp {
        lock(&self.core.manifest).bound
    }

    /// Raises the bound, durably, before it returns. A lower bound changes nothing.
    ///
    /// Nobody may use a timestamp at or above the bound.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk fails; then the bound may or may not be raised.
    pub fn raise_bound(&self, bound: Timestamp) -> Result<()> {
        let mut manifest = lock(&self.core.manifest);
        if bound <= manifest.bound {
            return Ok(());
        }
        let raised = Manifest { bound, ..manifest.clone() };
        raised.store(&*self.core.disk)?;
        *manifest = raised;
        Ok(())
    }

    /// Returns the last commit that is published: it and every earlier one is visible and as
    /// durable as the setting asks. After opening, the last commit that was recovered.
    #[must_use]
    pub fn published(&self) -> Timestamp {
        self.core.publication.published()
    }

    /// Returns when a start committed, where its record has not been flushed yet.
    ///
    /// The commit may still be on its way: compare it with [`Engine::published`]. Where this
    /// returns `None`, the entry's cell is to be read next; asked in this order, no commit is
    /// missed between the two.
    #[must_use]
    pub fn commit_of(&self, start: Timestamp) -> Option<Timestamp> {
        self.core.view().memtables().find_map(|memtable| memtable.commit_of(start))
    }

    /// Returns a cell's newest version that committed at or before `read`; a tombstone is a
    /// version without a payload.
    ///
    /// `read` is at most [`Engine::published`], or newer commits may be seen in part.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the place; `Unavailable` where the disk fails.
    #[expect(clippy::unused_async, reason = "this edition reads the file on the caller's thread")]
    pub async fn get(&self, key: &CellKey, read: Timestamp) -> Result<Option<Version>> {
        self.core.counters.gets.fetch_add(1, Ordering::Relaxed);
        let view = self.core.view();
        if let Some(found) = view.memtables().find_map(|memtable| memtable.get(key, read)) {
            return Ok(Some(found));
        }
        for table in &view.tables {
            if let Some(found) = table.get(key, read)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the counters.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let view = self.core.view();
        Metrics {
            memtables_waiting: view.sealed.len() as u64,
            tables: view.tables.len() as u64,
            table_bytes: view.tables.iter().map(|table| table.built().bytes).sum(),
            ..self.core.counters.snapshot()
        }
    }

    /// Ends the engine: what is pending is written, synced whatever the durability setting says,
    /// and the directory is given back.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the store had stopped or stops now; then the next opening finds
    /// exactly what was acknowledged, and perhaps whole records that were not.
    pub fn close(mut self) -> Result<()> {
        self.shut()
    }

    fn shut(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        lock(&self.core.order).closed = true;
        let settled = self.core.settle_for_good();
        self.core.closing.store(true, Ordering::Release);
        self.core.log.signal.ring();
        self.core.flush_signal.ring();
        for worker in self.workers.drain(..) {
            worker.join();
        }
        settled
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.shut() {
            tracing::error!(%error, "the engine could not be closed cleanly");
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("directory", &self.core.disk.path(""))
            .field("published", &self.published())
            .finish_non_exhaustive()
    }
}

impl Core {
    fn view(&self) -> Arc<View> {
        Arc::clone(&lock(&self.view))
    }

    fn change_view(&self, change: impl FnOnce(&View) -> View) {
        let mut view = lock(&self.view);
        let changed = Arc::new(change(&view));
        *view = changed;
    }

    fn settles_when_synced(&self) -> bool {
        self.options.durability == Durability::Always
    }
}
