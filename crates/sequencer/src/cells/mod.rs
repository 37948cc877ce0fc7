//! The cell cache of a process: cells are read without a request to the cluster, and never stale.
//!
//! # The problem
//!
//! A read over a cluster is a round trip and the larger part of a node's work, even if the cell has
//! not changed since this process read or wrote it a moment ago. An ordinary cache knows the cell,
//! but not whether a snapshot still sees that version: another process may have written it, and
//! times to live only guess. Here one leader decides every commit, so it can send the changes:
//!
//! ```text
//!   process                                    leader
//!   known W = 40                               commits: 38 {a}  41 {b}  44 {a c}  47 {d}
//!   begin, known: 40 ───────────────────────▶  R = 45
//!                    ◀──────────────────────── R = 45, changed: b@41 a@44 c@44
//!   forgets b, a, c; W = 45
//!   d, cached at 30, has not changed up to 45: read from memory
//! ```
//!
//! # Spans
//!
//! A cell's version is cached with a span `[from, through]` of snapshots that see it. `from` is its
//! commit. `through` is the latest snapshot known to see it: the reader's snapshot, or the writer's
//! commit. It extends to W as long as no change of the cell arrives.
//!
//! # Invariants
//!
//! * Every commit of `(floor, W]` that changed a cell is known, and the cell's last one is in
//!   [`Recent`]. So the result of a slow read, as of a snapshot below W, is cached only if the cell
//!   has not changed since.
//! * The answer that releases R also carries all changes of cells up to R. A transaction never has
//!   a snapshot above its process's W.
//! * If a leader does not know all changes since W, because it began to lead later or has forgotten
//!   some, the cache is emptied. The timestamps of a term form an interval in which no other term
//!   has commits, so a leader knows whether it has all changes.
//! * An answer that arrives late, with an R at or below W, changes nothing: its changes are known.
//!
//! A transaction records a read that is answered from the cache like any other, and the commit
//! checks it. Read-only transactions rely on the spans alone.
//!
//! # Deliberately absent
//!
//! Ranges: the cache would have to know that no cell was added between two others. Older versions
//! of a cell: a snapshot that needs one reads from the cluster. Separate messages for changes: a
//! process that begins no transaction needs no changes.

mod by_hash;
mod changes;
mod recent;
#[cfg(test)]
mod tests;

use std::sync::Mutex;

use carnet_base::sync::lock;
use carnet_base::{Bytes, CellHash, CellKey, Timestamp, Version};
use quick_cache::Weighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

pub(crate) use by_hash::ByHash;
pub use changes::Changes;
pub(crate) use changes::{CHANGES_MAX, ChangeLog};
use recent::Recent;

/// Estimated memory of a cell in addition to its key and payload: two allocations, the entry and
/// its slot in the table.
const OVERHEAD_BYTES: usize = 256;
/// Largest cacheable cell, as a divisor of the cache size.
const PART_MAX: usize = 16;

/// The cell cache of a process.
pub(crate) struct CellCache {
    kept: Mutex<Kept>,
    bytes_max: usize,
}

struct Kept {
    /// W; `None` before the first snapshot.
    known: Option<Timestamp>,
    recent: Recent,
    cells: Cells,
}

type Cells = Cache<CellHash, Cell, ByBytes, ByHash>;

struct Cell {
    key: CellKey,
    /// `None` if the cell does not exist.
    version: Option<Version>,
    from: Timestamp,
    through: Timestamp,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<CellHash, Cell> for ByBytes {
    fn weight(&self, _: &CellHash, cell: &Cell) -> u64 {
        weight(&cell.key, cell.version.as_ref()) as u64
    }
}

fn weight(key: &CellKey, version: Option<&Version>) -> usize {
    let payload = version.and_then(|version| version.payload.as_ref());
    OVERHEAD_BYTES + key.as_bytes().len() + payload.map_or(0, Bytes::len)
}

fn no_cells(bytes_max: usize) -> Cells {
    // The cache also remembers evicted cells, at about their memory without payloads.
    let (cells, hasher) = (bytes_max / (4 * OVERHEAD_BYTES), ByHash::default());
    Cache::with(cells, bytes_max as u64, ByBytes, hasher, DefaultLifecycle::default())
}

impl CellCache {
    /// Creates a cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let cells = no_cells(bytes_max);
        Self { kept: Mutex::new(Kept { known: None, recent: Recent::default(), cells }), bytes_max }
    }

    /// Returns the estimated memory of the cached cells, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(lock(&self.kept).cells.weight()).unwrap_or(usize::MAX)
    }

    /// Returns the number of cached cells.
    pub(crate) fn len(&self) -> usize {
        lock(&self.kept).cells.len()
    }

    /// Returns W. A request for a snapshot carries it, so that the answer has the changes since.
    pub(crate) fn known(&self) -> Option<Timestamp> {
        lock(&self.kept).known
    }

    /// Returns `true` if a snapshot was released to this process. Any other timestamp may not be a
    /// snapshot at all, and no change would ever end the spans cached for it.
    pub(crate) fn knows(&self, read: Timestamp) -> bool {
        lock(&self.kept).known.is_some_and(|known| read <= known)
    }

    /// Applies the changes up to a snapshot that was released.
    pub(crate) fn apply(&self, changes: &Changes, read: Timestamp) {
        let mut forgotten = None;
        let mut kept = lock(&self.kept);
        let Kept { known, recent, cells } = &mut *kept;
        if known.is_some_and(|known| read <= known) {
            return;
        }
        match (changes, *known) {
            (Changes::Cells(changed), Some(before)) => {
                for (cell, commit) in changed.iter().filter(|(_, commit)| *commit > before) {
                    recent.changed(*cell, *commit);
                    if cells.peek(cell).is_some_and(|kept| kept.through < *commit) {
                        cells.remove(cell);
                    }
                }
                recent.reaches(read);
            }
            (Changes::Unknown, _) | (Changes::Cells(_), None) => {
                forgotten = Some(std::mem::replace(cells, no_cells(self.bytes_max)));
                recent.begin_at(read);
            }
        }
        *known = Some(read);
        drop(kept);
        // Dropped without the lock: there may be a hundred thousand cells, and readers should not
        // wait.
        drop(forgotten);
    }

    /// Returns the version of a cell that a snapshot sees: `Some(None)` if the cell is known not to
    /// exist, `None` if that is not known. The snapshot must have been released to this process.
    /// With `passes_by` the read does not count for eviction.
    pub(crate) fn get(
        &self,
        key: &CellKey,
        read: Timestamp,
        passes_by: bool,
    ) -> Option<Option<Version>> {
        let (hash, kept) = (key.hash(), lock(&self.kept));
        let cell = if passes_by { kept.cells.peek(&hash) } else { kept.cells.get(&hash) }?;
        let through = kept.known?.max(cell.through);
        let is_seen = cell.key == *key && cell.from <= read && read <= through;
        is_seen.then(|| cell.version.clone())
    }

    /// Caches the version of a cell that all snapshots of `[from, through]` see.
    pub(crate) fn keep(
        &self,
        key: &CellKey,
        version: Option<&Version>,
        from: Timestamp,
        through: Timestamp,
    ) {
        if weight(key, version) > self.bytes_max / PART_MAX {
            return;
        }
        let hash = key.hash();
        let mut kept = lock(&self.kept);
        let Some(known) = kept.known else { return };
        if through < known && !kept.recent.is_unchanged(hash, through) {
            return;
        }
        if kept.cells.peek(&hash).is_some_and(|there| there.key == *key && there.from >= from) {
            return;
        }
        // Copies, so that one cached cell does not keep a whole answer of the cluster or a whole
        // transaction in memory.
        let key = CellKey::from_bytes(Bytes::copy_from_slice(key.as_bytes()))
            .expect("the bytes of a key are a key");
        let version = version.map(|version| Version {
            payload: version.payload.as_deref().map(Bytes::copy_from_slice),
            ..version.clone()
        });
        kept.cells.insert(hash, Cell { key, version, from, through });
    }
}
