//! The engine: combines log, memtables and tables into one ordered store of versions.
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
//! One short critical section under the *order* lock runs the caller's decision, reserves the
//! record's position in the log, opens its slot in the commit pipeline (`publication`), and gets
//! the active memtable. The rest happens without a shared lock: the caller writes the record's
//! header, passes the record to the log, inserts its cells into the memtable, and completes its
//! slot. With [`Durability::Always`] a separate thread writes and syncs the log. Otherwise any
//! caller that finds the log writer unlocked writes all pending records, including those of other
//! callers, and no caller waits for it.
//!
//! # A read
//!
//! ```text
//!  view ── active memtable ─ sealed memtables ─ level 0, newest first ─ level 1 ─ … ─ level 6
//!          └ the first with a version of the cell at the snapshot decides
//! ```
//!
//! # Invariants
//!
//! 1. LSNs, slots and commit timestamps have the same order: that of the order lock.
//! 2. For any cell, all versions in one source of a view are newer than those in the sources after
//!    it: memtables are sealed at one position of that order, and compaction merges only neighbors.
//!    So the first source with a version of a cell, or with a range tombstone over it, has its
//!    newest version.
//! 3. Every commit ≤ [`Engine::published`] is inserted, and visible in any view that a reader gets
//!    after it has read `published`: views are replaced atomically. A reader at R ≤ `published`
//!    sees each commit ≤ R and no other.
//! 4. Memtables are flushed oldest first, and only when all their records are published. Log
//!    segments are removed only when the manifest with the flushed table is durable, and tables
//!    only when the durable manifest does not contain them.
//! 5. Each reservation is inserted, or the store stops: a drop guard ensures this. Another one does
//!    the same for the workers.
//! 6. When a write or a sync fails, the store stops: no later commit is acknowledged, no later
//!    record is written, and reads continue. The next recovery determines what the disk holds. Only
//!    a create or a write that found no space is retried (see `space`).
//! 7. A failed read stops nothing. Compaction does not use a table any more that it could not read
//!    (see `quarantine`).
//!
//! # Order of locks
//!
//! syncing → writer → rotations; order → sealed, rotations, watched; order → slot → observer;
//! flushing → manifest → view; compacting → manifest; compacting → divided → parts. No thread holds
//! one of them while it waits for the work of another thread. A manual compaction holds
//! *compacting* for long, but waits only for its own work.

mod append;
pub(crate) mod checkpoint;
mod compact;
mod compactor;
mod conditional;
mod flush;
mod groups;
mod health;
mod io;
mod log;
#[cfg(test)]
#[cfg(shuttle)]
mod models;
mod open;
mod permits;
mod publication;
mod quarantine;
mod range;
mod space;
mod spill;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
mod throttle;
mod view;
mod watch;
mod watermark;

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use arc_swap::ArcSwap;
use bytes::Bytes;
use carnet_base::{
    CellKey, CellKeyRef, Clock, Result, Signal, Timestamp, Version, WorkerHandle, for_many,
};

pub use append::{AppendError, Appended, Prepared};
pub use conditional::PutUnlessExists;
pub use publication::Publish;
pub use range::{Page, PageLimit};
pub use spill::{Merged, Spill, SpilledCell};

use crate::cache::Cache;
use crate::compaction::merge::GcHook;
use crate::compaction::policy::State;
use crate::disk::{DirectoryLock, Disk};
use crate::io::{Class, ClassTotals};
use crate::manifest::{Edit, Manifest};
use crate::memory::Budget;
use crate::memtable::{self, Chunks, Memtable};
use crate::metrics::{Counters, Metrics};
use crate::options::{Durability, Options};
use crate::sstable::{Found, ReadOptions, Table};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};
use crate::wal::Tail;
use checkpoint::Removals;
use flush::SealedQueue;
use groups::Groups;
use io::Io;
use log::Log;
use permits::Permits;
use publication::Publication;
use quarantine::Quarantine;
use space::Space;
use throttle::Throttle;
use view::View;
use watch::Watches;

/// Encodes a start and its commit as the cell that records them, which is written when their
/// memtable is flushed. The layer above provides it, so that storage is independent of the
/// encoding.
///
/// Distinct starts must have distinct cells, which are not written otherwise. An error stops the
/// store, because the entry could not be found.
pub type EntryCell = Arc<dyn Fn(Timestamp, Timestamp) -> Result<(CellKey, Bytes)> + Send + Sync>;

/// A log-structured store of versions of cells in one directory.
///
/// Methods take `&self`: share it in an [`Arc`]. Dropping it does the same as [`Engine::close`],
/// but logs errors.
pub struct Engine {
    core: Arc<Core>,
    /// `None` after the engine was shut down.
    workers: Mutex<Option<Vec<WorkerHandle>>>,
    /// Last field, so it is dropped last.
    _directory: DirectoryLock,
}

/// State shared by the engine and its workers.
struct Core {
    disk: Arc<dyn Disk>,
    io: Io,
    clock: Arc<dyn Clock>,
    options: Options,
    budget: Budget,
    permits: Permits,
    entry_cell: EntryCell,
    counters: Arc<Counters>,
    cache: Arc<Cache>,
    /// Memory of flushed memtables, for reuse.
    chunks: Chunks,
    order: Mutex<Order>,
    log: Log,
    /// Only for [`WritePath::Grouped`](crate::options::WritePath::Grouped).
    groups: Option<Groups>,
    watches: Watches,
    publication: Arc<Publication>,
    view: ArcSwap<View>,
    /// Number of the current view, or of its pending replacement.
    view_number: AtomicU64,
    /// Held while the view is replaced.
    changing_view: Mutex<()>,
    sealed: Mutex<SealedQueue>,
    flush_signal: Signal,
    flushing: Mutex<()>,
    /// One signal per compaction worker.
    compact_signals: Vec<Signal>,
    /// Running compactions, shared by these workers.
    divided: compactor::Divided,
    /// Whether more than one of them should work.
    compaction_wants_help: AtomicBool,
    /// State of the compaction policy.
    compacting: Mutex<State>,
    space: Space,
    /// Tables that compaction cannot read.
    quarantine: Arc<Quarantine>,
    /// Number of pending manual compactions; background compaction pauses while it is not zero.
    manual_compactions: AtomicUsize,
    /// Throttles writers while compaction is behind.
    compaction_throttle: Throttle,
    /// [`State::taken_permille`] at the start of the last compaction.
    taken_permille: AtomicU64,
    /// Throttles writers while memtables wait for their flush.
    flush_throttle: Throttle,
    /// Whether recovered commits of large transactions may be completed.
    adopts_recovered: AtomicBool,
    /// Watermark up to which compaction may have dropped versions.
    forgotten: AtomicU64,
    gc: OnceLock<Arc<dyn GcHook + Send + Sync>>,
    removals: Mutex<Removals>,
    /// Number of the next table.
    next_file: AtomicU64,
    manifest: Mutex<Manifest>,
    closing: AtomicBool,
}

/// State guarded by the order lock.
struct Order {
    tail: Tail,
    active: Arc<Memtable>,
    last_commit: Timestamp,
    closed: bool,
}

impl Engine {
    /// Sets the observer that is notified of published commits, in commit order. Call it before the
    /// first append. Returns `false` without effect if one is already set.
    pub fn observe(&self, observer: Arc<dyn Publish>) -> bool {
        self.core.publication.observe(observer)
    }

    /// Returns the bound below which timestamps may have been assigned before; zero in a new
    /// database.
    #[must_use]
    pub fn timestamp_bound(&self) -> Timestamp {
        lock(&self.core.manifest).bound
    }

    /// Raises the bound durably. A lower bound has no effect.
    ///
    /// Timestamps at or above the bound must not be used.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails or the store has stopped; then the bound may or may not be
    /// raised, and the store has stopped writing.
    pub fn raise_bound(&self, bound: Timestamp) -> Result<()> {
        let mut manifest = lock(&self.core.manifest);
        if bound <= manifest.bound {
            return Ok(());
        }
        self.core.edit(&mut manifest, &Edit { bound: Some(bound), ..Edit::default() })
    }

    /// Returns the opaque notes of the layer above.
    #[must_use]
    pub fn notes(&self) -> Bytes {
        lock(&self.core.manifest).notes.clone()
    }

    /// Raises the bound and replaces the notes, atomically and durably. A lower bound leaves the
    /// bound unchanged.
    ///
    /// # Errors
    ///
    /// Like [`Engine::raise_bound`]; `Invalid` for notes longer than
    /// [`NOTES_BYTES_MAX`](crate::manifest::NOTES_BYTES_MAX).
    pub fn note(&self, bound: Timestamp, notes: Bytes) -> Result<()> {
        let mut manifest = lock(&self.core.manifest);
        let bound = Some(bound.max(manifest.bound));
        let edit = Edit { bound, notes: Some(notes), ..Edit::default() };
        manifest.edited(&edit)?;
        self.core.edit(&mut manifest, &edit)
    }

    /// Returns the last published commit: it and all earlier ones are visible, and as durable as
    /// the setting requires. After opening, the last recovered commit.
    #[must_use]
    pub fn published(&self) -> Timestamp {
        self.core.publication.published()
    }

    /// Returns the commit timestamp of a start whose record is not flushed yet.
    ///
    /// The commit may not be published yet: compare it with [`Engine::published`]. If this returns
    /// `None`, read the entry's cell next; in this order, no commit is missed.
    #[must_use]
    pub fn commit_of(&self, start: Timestamp) -> Option<Timestamp> {
        self.core.view().memtables().find_map(|memtable| memtable.commit_of(start))
    }

    /// Returns a cell's newest version that committed at or before `read`; a tombstone is a version
    /// without a payload.
    ///
    /// `read` must be at most [`Engine::published`], otherwise newer commits may be visible in
    /// part.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset; `Unavailable` if the disk fails.
    pub async fn get(&self, key: &CellKey, read: Timestamp) -> Result<Option<Version>> {
        self.get_with(key, read, ReadOptions::default()).await
    }

    /// Like [`Engine::get`], with options for the cache.
    ///
    /// # Errors
    ///
    /// Like [`Engine::get`].
    pub async fn get_with(
        &self,
        key: &CellKey,
        read: Timestamp,
        reads: ReadOptions,
    ) -> Result<Option<Version>> {
        let key = key.as_bytes();
        let looked = self.look_in_memory(&self.core.view(), key, read, reads);
        match looked {
            Looked::Found(version) => Ok(version),
            Looked::Unread(tables) => self.read(tables, key, read, reads).await,
        }
    }

    /// Reads a cell at a snapshot that is chosen during the call: `moment` returns the newest
    /// commit that the reader may see. Returns this timestamp and the cell's newest version at it.
    ///
    /// `moment` must return at least every watermark that the hook of [`Engine::set_gc`] has
    /// returned, and at most [`Engine::published`]. The snapshot does not have to be registered
    /// with garbage collection. A view keeps its versions, and no version that is visible at
    /// `moment` has been dropped from it. The view is still current after `moment` was called, so
    /// no commit up to the snapshot is in a memtable outside the view.
    ///
    /// # Errors
    ///
    /// Like [`Engine::get`].
    pub async fn get_newest(
        &self,
        key: CellKeyRef<'_>,
        reads: ReadOptions,
        moment: impl Fn() -> Timestamp + Send,
    ) -> Result<(Timestamp, Option<Version>)> {
        let key = key.as_bytes();
        let (read, looked) = {
            let mut view = self.core.view();
            let read = loop {
                let read = moment();
                if self.core.view_number.load(Ordering::Acquire) == view.number {
                    break read;
                }
                let now = self.core.view();
                if Arc::ptr_eq(&view, &now) {
                    break read;
                }
                view = now;
            };
            (read, self.look_in_memory(&view, key, read, reads))
        };
        // Return directly: an extra future would copy the value.
        match looked {
            Looked::Found(version) => Ok((read, version)),
            Looked::Unread(tables) => Ok((read, self.read(tables, key, read, reads).await?)),
        }
    }

    /// Searches a cell in memory, which usually suffices; then nothing waits.
    fn look_in_memory(
        &self,
        view: &View,
        key: &[u8],
        read: Timestamp,
        reads: ReadOptions,
    ) -> Looked {
        self.core.counters.gets.fetch_add(1, Ordering::Relaxed);
        if let Some(found) = view.memtables().find_map(|memtable| memtable.get(key, read)) {
            let memtable::Found { start, commit, payload, .. } = found;
            return Looked::Found(Some(Version { start, commit: Some(commit), payload }));
        }
        let mut tables = view.tables_of(key);
        while let Some(table) = tables.next() {
            match table.get_cached(key, read, reads) {
                Some(Some(found)) => return Looked::Found(Some(version(found))),
                Some(None) => {}
                None => {
                    let unread = std::iter::once(table).chain(tables);
                    return Looked::Unread(unread.map(Arc::clone).collect());
                }
            }
        }
        Looked::Found(None)
    }

    /// Continues on disk where the search in memory ended.
    async fn read(
        &self,
        tables: Vec<Arc<Table>>,
        key: &[u8],
        read: Timestamp,
        reads: ReadOptions,
    ) -> Result<Option<Version>> {
        let _permit = self.core.permits.take(READ_BYTES).await;
        for table in tables {
            if let Some(found) = table.get(key, read, reads).await? {
                return Ok(Some(version(found)));
            }
        }
        Ok(None)
    }

    /// Reads many cells, with concurrent disk reads. The results are in the order of the keys.
    ///
    /// # Errors
    ///
    /// Like [`Engine::get`].
    pub async fn multi_get(
        &self,
        keys: &[CellKey],
        read: Timestamp,
        reads: ReadOptions,
    ) -> Result<Vec<Option<Version>>> {
        if let [key] = keys {
            return Ok(vec![self.get_with(key, read, reads).await?]);
        }
        let mut found = vec![None; keys.len()];
        // In key order, because adjacent keys share blocks.
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by(|&left, &right| keys[left].cmp(&keys[right]));
        for chunk in order.chunks(READS_MAX) {
            let mut pending: Vec<_> = chunk
                .iter()
                .map(|&at| (at, Box::pin(self.get_with(&keys[at], read, reads))))
                .collect();
            std::future::poll_fn(|context| {
                let mut failed = None;
                let mut poll = |get: Pin<&mut _>| for_many(|| Future::poll(get, context));
                pending.retain_mut(|(at, get)| match poll(get.as_mut()) {
                    Poll::Pending => true,
                    Poll::Ready(Ok(version)) => {
                        found[*at] = version;
                        false
                    }
                    Poll::Ready(Err(error)) => {
                        failed = Some(error);
                        false
                    }
                });
                match failed {
                    Some(error) => Poll::Ready(Err(error)),
                    None if pending.is_empty() => Poll::Ready(Ok(())),
                    None => Poll::Pending,
                }
            })
            .await?;
        }
        Ok(found)
    }

    /// Returns the metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let view = self.core.view();
        let (reads, bytes, waiting) = self.core.permits.in_use();
        Metrics {
            tables_quarantined: self.core.quarantine.tables().len() as u64,
            disk_full: u64::from(self.core.space.check().is_err()),
            stopped: u64::from(self.core.publication.has_stopped()),
            memory_budget_bytes: self.core.options.memory_bytes as u64,
            reads_on_disk: reads as u64,
            read_bytes: bytes as u64,
            reads_waiting: waiting as u64,
            memtables_waiting: view.sealed.len() as u64,
            tables: view.tables().count() as u64,
            table_bytes: view.tables().map(|open| open.meta.bytes).sum(),
            level0_tables: view.levels[0].len() as u64,
            level0_bytes: view.levels[0].iter().map(|open| open.meta.bytes).sum(),
            table_memory_bytes: view.tables().map(|open| open.table.memory_bytes() as u64).sum(),
            memtable_bytes: view.memtables().map(|memtable| memtable.memory_bytes() as u64).sum(),
            memtable_spare_bytes: self.core.chunks.bytes() as u64,
            cache_bytes: self.core.cache.bytes(),
            ..self.core.counters.snapshot()
        }
    }

    /// Returns the totals of each I/O class since the engine was opened, in the order of
    /// [`Class::NAMES`](crate::io::Class::NAMES); `None` without an [I/O scheduler](crate::io).
    #[must_use]
    pub fn io_totals(&self) -> Option<[ClassTotals; Class::KINDS]> {
        self.core.io.totals()
    }

    /// Returns a disk whose I/O is scheduled as maintenance.
    pub(crate) fn paced_for_maintenance(&self, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        self.core.io.maintenance(disk)
    }

    /// Closes the engine: writes and syncs all pending records, whatever the durability setting,
    /// and unlocks the directory.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store had stopped or stops now; then the next opening recovers all
    /// acknowledged commits, and possibly whole records that were not acknowledged.
    pub fn close(self) -> Result<()> {
        self.shut_down()
    }

    /// Like [`Engine::close`], but for a shared engine: reads continue, writes are refused, and the
    /// directory is unlocked when the last reference is dropped. Calls after the first have no
    /// effect.
    ///
    /// # Errors
    ///
    /// Like [`Engine::close`].
    pub fn shut_down(&self) -> Result<()> {
        let Some(workers) = lock(&self.workers).take() else { return Ok(()) };
        lock(&self.core.order).closed = true;
        let settled = self.core.settle_for_good();
        self.core.closing.store(true, Ordering::Release);
        self.core.io.release();
        self.core.log.signal.ring();
        self.core.flush_signal.ring();
        self.core.ring_compactors();
        workers.into_iter().for_each(WorkerHandle::join);
        settled.and_then(|()| self.core.end_lossy())
    }
}

/// Memory that a read of one table is assumed to hold while it waits: an index page and a block,
/// raw and decoded. Enough for blocks of 12 KiB, three times the default.
const READ_BYTES: usize = 64 << 10;

/// Maximum number of concurrent disk reads of one call.
const READS_MAX: usize = 64;

/// Result of a search in memory.
enum Looked {
    Found(Option<Version>),
    /// The first of these tables has to be read from disk, then the others are searched.
    Unread(Vec<Arc<Table>>),
}

fn version(found: Found) -> Version {
    Version { start: found.start, commit: Some(found.commit), payload: found.payload }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
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
    /// Returns the current view. Hold it for a short time only.
    fn view(&self) -> arc_swap::Guard<Arc<View>> {
        self.view.load()
    }

    fn change_view(&self, change: impl FnOnce(&View) -> View) {
        let _one = lock(&self.changing_view);
        let old = self.view.load();
        let mut changed = change(&old);
        changed.number = old.number + 1;
        // Before the view: a thread that knows of a commit in the new view's memtable must see the
        // new number.
        self.view_number.store(changed.number, Ordering::Release);
        self.view.store(Arc::new(changed));
    }

    fn settles_when_synced(&self) -> bool {
        self.options.durability == Durability::Always
    }
}
