//! Cells that a process keeps: read without asking the cluster, and never stale.
//!
//! # The problem
//!
//! A read over a cluster is a round trip and the larger part of a node's work, even where the cell
//! has not changed since this process read or wrote it a moment ago. A cache would know the cell,
//! but not whether it still is what a snapshot sees: somebody else may have written it. Times to
//! live guess. Here one place decides every commit, so that it can tell what has changed:
//!
//! ```text
//!   process                                    leader
//!   known W = 40                               commits: 38 {a}  41 {b}  44 {a c}  47 {d}
//!   begin, known: 40 ───────────────────────▶  R = 45
//!                    ◀──────────────────────── R = 45, changed: b@41 a@44 c@44
//!   forgets b, a, c; W = 45
//!   d, which it has of 30, is what 45 sees: read from memory
//! ```
//!
//! # What is kept
//!
//! A cell's version is kept with a span `[from, through]` of snapshots that see it. `from` is its
//! commit. `through` is where it was seen: the snapshot of whoever read it, or its commit, of who
//! wrote it. While no change is told the span reaches to W.
//!
//! # Invariants
//!
//! * Every commit of `(floor, W]` that changed a cell is known, and the cell's last one is found in
//!   [`Recent`]. So what a slow read brings, as of a snapshot below W, is kept only if the cell has
//!   not changed since.
//! * A cell is told as changed up to R with the very answer that releases R. A transaction never
//!   has a snapshot above its process's W.
//! * Where a leader does not know everything since W, because it came to lead later or has
//!   forgotten, nothing is kept. Timestamps of a term are an interval that no other term has
//!   commits in: so a leader knows what changed since its first timestamp, or that it does not.
//! * An answer that comes late, with an R at or below W, changes nothing. What it tells is known.
//!
//! A read that is answered from here is remembered by its transaction as any other, and checked at
//! the commit. Read-only transactions rely on the spans alone.
//!
//! # Deliberately absent
//!
//! Ranges: what would have to be known is that nothing came to lie between two cells. Older versions
//! of a cell: a snapshot that needs one asks the cluster. Messages of their own for changes: who
//! begins nothing needs to know nothing.

mod changes;
mod recent;
#[cfg(test)]
mod tests;

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::sync::Mutex;

use carnet_base::{Bytes, CellHash, CellKey, Timestamp, Version};
use quick_cache::Weighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

pub use changes::Changes;
pub(crate) use changes::{ChangeLog, TOLD_MAX};
use recent::Recent;

use crate::oneshot::lock;

/// What a cell takes beside its key and payload: both allocations, the entry and its place in the
/// table. Estimated.
const OVERHEAD_BYTES: usize = 256;
/// A cell that takes more than this part of the whole is not kept.
const PART_MAX: usize = 16;

/// The hashes are hashes of whole keys already, and the same in every run.
pub(crate) type ByHash = BuildHasherDefault<DefaultHasher>;

/// The cells that a process keeps.
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
    /// `None` where there was none.
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
    // What is remembered of cells that went takes as much as they did, without their payloads.
    let (cells, hasher) = (bytes_max / (4 * OVERHEAD_BYTES), ByHash::default());
    Cache::with(cells, bytes_max as u64, ByBytes, hasher, DefaultLifecycle::default())
}

impl CellCache {
    /// Makes a cache of at most so many bytes.
    pub(crate) fn of(bytes_max: usize) -> Self {
        let cells = no_cells(bytes_max);
        Self { kept: Mutex::new(Kept { known: None, recent: Recent::default(), cells }), bytes_max }
    }

    /// Returns W: a snapshot that is asked for comes with what has changed since.
    pub(crate) fn known(&self) -> Option<Timestamp> {
        lock(&self.kept).known
    }

    /// Tells whether a snapshot was released to this process: another may be none at all, and nothing
    /// would ever end what is kept of it.
    pub(crate) fn knows(&self, read: Timestamp) -> bool {
        lock(&self.kept).known.is_some_and(|known| read <= known)
    }

    /// Learns what changed up to a snapshot that was released.
    pub(crate) fn told(&self, changes: &Changes, read: Timestamp) {
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
        // There may be a hundred thousand, and others want to read meanwhile.
        drop(forgotten);
    }

    /// Returns what a snapshot sees of a cell: `Some(None)` where it is known not to be there, `None`
    /// where that is not known. The snapshot was told to this cache. Whoever `passes_by` leaves what is
    /// kept for how long as it is.
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

    /// Keeps what all snapshots of `[from, through]` see of a cell.
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
        // Copies: neither a whole answer of the cluster nor a whole transaction is to be held by one
        // cell of it.
        let key = CellKey::from_bytes(Bytes::copy_from_slice(key.as_bytes()))
            .expect("the bytes of a key are a key");
        let version = version.map(|version| Version {
            payload: version.payload.as_deref().map(Bytes::copy_from_slice),
            ..version.clone()
        });
        kept.cells.insert(hash, Cell { key, version, from, through });
    }
}
