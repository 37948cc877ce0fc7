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
//! memtable. Everything else happens outside of it, and without a lock that is common to all: the
//! caller fills in the record's header and hands its bytes to the log, inserts into the part of
//! the memtable where its keys lie, and moves its slot on. With [`Durability::Always`] a thread
//! of its own writes and syncs; otherwise whoever finds the log's writer free writes everything
//! that is pending, others' records too, and nobody waits for the writer.
//!
//! # A read
//!
//! ```text
//!  view ── active memtable ─ sealed memtables ─ level 0, newest first ─ level 1 ─ … ─ level 6
//!          └ the first that knows anything of a cell at the snapshot decides
//! ```
//!
//! # Invariants
//!
//! 1. Places in the log, slots and commit timestamps have one order: that of the order lock.
//! 2. Of a cell, whatever one source of a view knows is newer than all that the sources behind
//!    it know: memtables are sealed at one place of that order, and compaction takes neighbours
//!    only. So the first source in which a cell, or a range tombstone around it, is found has its
//!    newest version.
//! 3. Every commit ≤ [`Engine::published`] is inserted, and in whatever view a reader takes
//!    after it learned of that: the view changes at once, by a pointer. A reader at R ≤ published
//!    sees each commit ≤ R and no other.
//! 4. A memtable is flushed only when all its records are published, oldest first; its log
//!    segments are removed only when the manifest that names its table is durable. So are tables
//!    only when the manifest no longer names them.
//! 5. A reservation ends inserted, or the store stops: a drop guard sees to it, as another does
//!    for the workers.
//! 6. When a write or a sync fails the store stops: nothing is acknowledged after it, nothing
//!    that follows in the log either, and reads go on. What the disk really holds is found out by
//!    recovery, not guessed.
//!    Only a create or a write that found no space is tried again (see `space`).
//! 7. A failed read stops nothing. A table that a compaction cannot read is left alone from then on
//!    (see `quarantine`).
//!
//! # Order of locks
//!
//! syncing → writer → rotations; order → sealed, rotations, watched; order → slot → observer; flushing →
//! manifest → view; compacting → manifest; compacting → divided → parts. None is held while its holder
//! waits for work that another thread has yet to do, but for *compacting*, which waits for nobody's
//! work but its own.

mod append;
mod brake;
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
mod swept;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
mod view;
mod watch;

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
use brake::Brake;
use checkpoint::Removals;
use flush::SealedQueue;
use groups::Groups;
use io::Io;
use log::Log;
use permits::Permits;
use publication::Publication;
use quarantine::Quarantine;
use space::Space;
use view::View;
use watch::Watches;

/// Turns a start and its commit into the cell that records them, written when their memtable is
/// flushed. It comes from above, so that storage knows no encoding.
///
/// Different starts must give different cells, and none that is written otherwise. An error stops
/// the store: nobody knows where the entry would be looked for.
pub type EntryCell = Arc<dyn Fn(Timestamp, Timestamp) -> Result<(CellKey, Bytes)> + Send + Sync>;

/// A log-structured store of versions of cells in one directory.
///
/// Methods take `&self`: share it behind an [`Arc`]. Dropping it does what [`Engine::close`]
/// does, but keeps errors to the log.
pub struct Engine {
    core: Arc<Core>,
    /// `None` once the engine is shut down.
    workers: Mutex<Option<Vec<WorkerHandle>>>,
    /// Released last: fields are dropped in their order.
    _directory: DirectoryLock,
}

/// What the engine and its workers share.
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
    /// What flushed memtables leave for the next ones.
    chunks: Chunks,
    order: Mutex<Order>,
    log: Log,
    /// Set where writers form groups.
    groups: Option<Groups>,
    watches: Watches,
    publication: Arc<Publication>,
    view: ArcSwap<View>,
    /// The number of the newest view, or of the one that is about to take its place.
    view_number: AtomicU64,
    /// Held while the view is changed.
    changing_view: Mutex<()>,
    sealed: Mutex<SealedQueue>,
    flush_signal: Signal,
    flushing: Mutex<()>,
    /// Of each worker that compacts.
    compact_signals: Vec<Signal>,
    /// Compactions that they share.
    divided: compactor::Divided,
    /// Whether more than one of them should work.
    compaction_wants_help: AtomicBool,
    /// Which compactions are under way.
    compacting: Mutex<State>,
    space: Space,
    /// Tables that no compaction can read.
    quarantine: Arc<Quarantine>,
    /// So many wait to compact everything; the compactors begin nothing before they have.
    compacting_by_hand: AtomicUsize,
    /// Slows writers while compaction is behind.
    brake: Brake,
    /// As [`State::taken_permille`] of the compaction that began last.
    taken_permille: AtomicU64,
    /// Slows writers while memtables wait for their flush.
    flush_brake: Brake,
    /// Whether commits that name tables, and were found in the log, may be completed.
    adopts_recovered: AtomicBool,
    /// What lies above it compaction has not forgotten.
    forgotten: AtomicU64,
    gc: OnceLock<Arc<dyn GcHook + Send + Sync>>,
    removals: Mutex<Removals>,
    /// The number of the next table that is begun.
    next_file: AtomicU64,
    manifest: Mutex<Manifest>,
    closing: AtomicBool,
}

/// What the one critical section guards.
struct Order {
    tail: Tail,
    active: Arc<Memtable>,
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
    /// `Unavailable` where the disk fails or the store had stopped; then the bound may or may not
    /// be raised, and the store has stopped writing.
    pub fn raise_bound(&self, bound: Timestamp) -> Result<()> {
        let mut manifest = lock(&self.core.manifest);
        if bound <= manifest.bound {
            return Ok(());
        }
        self.core.edit(&mut manifest, &Edit { bound: Some(bound), ..Edit::default() })
    }

    /// Returns what the layer above keeps beside the bound.
    #[must_use]
    pub fn notes(&self) -> Bytes {
        lock(&self.core.manifest).notes.clone()
    }

    /// Raises the bound and replaces the notes, in one step that is durable before it returns. A
    /// lower bound leaves the bound as it is.
    ///
    /// # Errors
    ///
    /// As [`Engine::raise_bound`]; `Invalid` for notes of more than
    /// [`NOTES_BYTES_MAX`](crate::manifest::NOTES_BYTES_MAX).
    pub fn note(&self, bound: Timestamp, notes: Bytes) -> Result<()> {
        let mut manifest = lock(&self.core.manifest);
        let bound = Some(bound.max(manifest.bound));
        let edit = Edit { bound, notes: Some(notes), ..Edit::default() };
        manifest.edited(&edit)?;
        self.core.edit(&mut manifest, &edit)
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
    pub async fn get(&self, key: &CellKey, read: Timestamp) -> Result<Option<Version>> {
        self.get_with(key, read, ReadOptions::default()).await
    }

    /// As [`Engine::get`], saying how the cache is treated.
    ///
    /// # Errors
    ///
    /// As [`Engine::get`].
    pub async fn get_with(
        &self,
        key: &CellKey,
        read: Timestamp,
        reads: ReadOptions,
    ) -> Result<Option<Version>> {
        let key = key.as_bytes();
        let looked = self.look_in_memory(&self.core.view(), key, read, reads);
        match looked {
            Looked::Settled(version) => Ok(version),
            Looked::Unread(tables) => self.read(tables, key, read, reads).await,
        }
    }

    /// Reads a cell at a moment of this call's own: where that lies `moment` says, the newest commit
    /// that the reader may see. Returns it, and the cell's newest version that committed until then.
    ///
    /// `moment` returns at least every mark that the hook of [`Engine::set_gc`] has named, and at most
    /// [`Engine::published`]. Nothing has to hold that moment's versions back. A view keeps what it shows, and nothing was
    /// taken out of this one that a moment after it could see; and since it is still the view after
    /// the moment, no commit until then lies in a memtable that it does not know.
    ///
    /// # Errors
    ///
    /// As [`Engine::get`].
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
        // A call for what is settled would be a future of its own, into which it is moved.
        match looked {
            Looked::Settled(version) => Ok((read, version)),
            Looked::Unread(tables) => Ok((read, self.read(tables, key, read, reads).await?)),
        }
    }

    /// Looks for a cell in memory. Mostly the answer is there: then nothing waits, and nothing is kept.
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
            return Looked::Settled(Some(Version { start, commit: Some(commit), payload }));
        }
        let mut tables = view.tables_of(key);
        while let Some(table) = tables.next() {
            match table.get_cached(key, read, reads) {
                Some(Some(found)) => return Looked::Settled(Some(version(found))),
                Some(None) => {}
                None => {
                    let unread = std::iter::once(table).chain(tables);
                    return Looked::Unread(unread.map(Arc::clone).collect());
                }
            }
        }
        Looked::Settled(None)
    }

    /// Reads on from where a look at memory has come to.
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

    /// Reads many cells at once: what has to come from disk is read at the same time. The answers
    /// are in the order of the keys.
    ///
    /// # Errors
    ///
    /// As [`Engine::get`].
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
        // Neighbours share blocks: in the order of keys each is read once.
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

    /// Returns the counters.
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

    /// Returns what each kind of class of the [I/O scheduler](crate::io) did since the engine was opened, in
    /// the order of [`Class::NAMES`](crate::io::Class::NAMES); `None` where nothing is scheduled.
    #[must_use]
    pub fn io_totals(&self) -> Option<[ClassTotals; Class::KINDS]> {
        self.core.io.totals()
    }

    /// Returns a disk whose files take turns as maintenance does.
    pub(crate) fn paced_for_maintenance(&self, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        self.core.io.maintenance(disk)
    }

    /// Ends the engine: what is pending is written, synced whatever the durability setting says,
    /// and the directory is given back.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the store had stopped or stops now; then the next opening finds
    /// exactly what was acknowledged, and perhaps whole records that were not.
    pub fn close(self) -> Result<()> {
        self.shut_down()
    }

    /// Like [`Engine::close`], but for an engine that others hold: their reads go on, their writes
    /// are refused, and the directory is given back when the last of them drops it. Only the first
    /// call does anything.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::close`].
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

/// What a read is taken to hold of one table while it waits: an index page and a block, as they
/// come from the disk and decoded. It is enough for blocks of 12 KiB, three times the default.
const READ_BYTES: usize = 64 << 10;

/// So many cells are read from disk at the same time by one call.
const READS_MAX: usize = 64;

/// What is known of a cell without a read.
enum Looked {
    Settled(Option<Version>),
    /// What these tables know comes next; the first of them has to be read from.
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
    /// What there is to read, at this moment. Held for a short time only.
    fn view(&self) -> arc_swap::Guard<Arc<View>> {
        self.view.load()
    }

    fn change_view(&self, change: impl FnOnce(&View) -> View) {
        let _one = lock(&self.changing_view);
        let old = self.view.load();
        let mut changed = change(&old);
        changed.number = old.number + 1;
        // First: whoever is told of a commit into the new view's memtable sees that there is one.
        self.view_number.store(changed.number, Ordering::Release);
        self.view.store(Arc::new(changed));
    }

    fn settles_when_synced(&self) -> bool {
        self.options.durability == Durability::Always
    }
}
