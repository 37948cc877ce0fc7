//! State of an open engine, shared by its callers and its workers.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use carnet_base::{BytePermits, CellKey, Clock, Result, Timestamp, WorkerHandle};

use super::compactions::Compactions;
use super::flushes::Flushes;
use super::io::Io;
use super::open_log::Log;
use super::publication::{Publication, Publish};
use super::removals::Removals;
use super::shortages::Shortages;
use super::view::View;
use crate::compaction::merge::GcHook;
use crate::disk::{DirectoryLock, Disk};
use crate::manifest::Manifest;
use crate::memory::Budget;
use crate::memtable::Memtable;
use crate::merge_operator::Deltas;
use crate::metrics::Counters;
use crate::options::{Durability, Options};
use crate::sstable::cache::Cache;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, lock};
use crate::usage::Usage;
use crate::wal::Tail;

/// Encodes a start and its commit as the cell that records them, which is written when their
/// memtable is flushed. The layer above provides it, so that storage is independent of the
/// encoding.
///
/// Distinct starts must have distinct cells, and nothing else may write these cells. An error stops
/// the store, because the entry could not be found later.
pub type EntryCell = Arc<dyn Fn(Timestamp, Timestamp) -> Result<(CellKey, Bytes)> + Send + Sync>;

/// Memory that a read of one table is assumed to hold while it waits: an index page and a block,
/// raw and decoded. Enough for blocks of 12 KiB, three times the default.
pub(super) const READ_BYTES: usize = 64 << 10;

/// A log-structured store of versions of cells in one directory.
///
/// Methods take `&self`: share it in an [`Arc`]. Dropping it does the same as [`Engine::close`],
/// but logs errors.
pub struct Engine {
    pub(super) core: Arc<Core>,
    /// `None` after the engine was shut down.
    pub(super) workers: Mutex<Option<Vec<WorkerHandle>>>,
    /// Last field, so it is dropped last.
    pub(super) _directory: DirectoryLock,
}

/// State shared by the engine and its workers.
pub(super) struct Core {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) io: Io,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: Options,
    pub(super) budget: Budget,
    /// Limit the reads that wait for the disk, and their memory. A read that is answered by memtables
    /// and cache needs no permit, and completes at its first poll.
    pub(super) permits: BytePermits,
    pub(super) entry_cell: EntryCell,
    pub(super) counters: Arc<Counters>,
    pub(super) usage: Arc<Usage>,
    pub(super) cache: Arc<Cache>,
    pub(super) order: Mutex<Order>,
    pub(super) log: Log,
    pub(super) publication: Arc<Publication>,
    pub(super) view: ArcSwap<View>,
    /// Number of the current view, or of its pending replacement.
    pub(super) view_number: AtomicU64,
    /// Held while the view is replaced.
    pub(super) changing_view: Mutex<()>,
    pub(super) flushes: Flushes,
    pub(super) compactions: Compactions,
    pub(super) shortages: Shortages,
    /// Whether recovered commits of large transactions may be completed.
    pub(super) adopts_recovered: AtomicBool,
    /// Watermark up to which compaction may have dropped versions.
    pub(super) forgotten: AtomicU64,
    pub(super) gc: OnceLock<Arc<dyn GcHook + Send + Sync>>,
    /// Merge operator. If there is one, it is set before the GC hook.
    pub(super) deltas: OnceLock<Deltas>,
    pub(super) removals: Mutex<Removals>,
    /// Number of the next table.
    pub(super) next_file: AtomicU64,
    pub(super) manifest: Mutex<Manifest>,
    pub(super) closing: AtomicBool,
}

/// State guarded by the order lock.
pub(super) struct Order {
    pub(super) tail: Tail,
    pub(super) active: Arc<Memtable>,
    pub(super) last_commit: Timestamp,
    pub(super) closed: bool,
}

impl Core {
    /// Returns the current view. Hold it for a short time only.
    pub(super) fn view(&self) -> arc_swap::Guard<Arc<View>> {
        self.view.load()
    }

    pub(super) fn change_view(&self, change: impl FnOnce(&View) -> View) {
        let _one = lock(&self.changing_view);
        let old = self.view.load();
        let mut changed = change(&old);
        changed.number = old.number + 1;
        // A thread that knows of a commit in the new view's memtable must see the new number. It does:
        // such a commit is reserved under the order lock, which the sealing thread holds meanwhile.
        self.view_number.store(changed.number, Ordering::Release);
        self.view.store(Arc::new(changed));
    }

    pub(super) fn settles_when_synced(&self) -> bool {
        self.options.durability == Durability::Always
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

impl Engine {
    /// Sets the observer that is notified of published commits, in commit order. Call it before the
    /// first append. Returns `false` without effect if one is already set.
    pub fn observe(&self, observer: Arc<dyn Publish>) -> bool {
        self.core.publication.observe(observer)
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

    /// Returns the starts and commits of records that are not flushed yet, in any order. Some may
    /// not be published yet.
    #[must_use]
    pub fn unflushed_commits(&self) -> Vec<(Timestamp, Timestamp)> {
        let view = Arc::clone(&self.core.view());
        view.memtables().flat_map(|memtable| memtable.entries()).collect()
    }

    /// Returns a disk whose I/O is scheduled as maintenance.
    pub(crate) fn paced_for_maintenance(&self, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        self.core.io.maintenance(disk)
    }
}
