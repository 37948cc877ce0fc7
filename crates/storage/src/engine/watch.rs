//! Conditional-write tracking: detects writes to cells between a read and a dependent write.
//!
//! ```text
//!  watcher   begin ──► order lock: get the last slot ──► read ──► order lock: touched? → write
//!              │                                                       ▲
//!  filter      ├ a count for each of 2^14 hashes                       │
//!  watched     └ whole hash → watches                                  │ touched
//!                                                                      │
//!  writer                     order lock: any watch? filter? watched? ─┘
//! ```
//!
//! Tracking costs other writers little. Without watches, a writer loads one number; otherwise it
//! hashes its keys before it takes the order lock, and looks each up in the filter under the lock.
//! Only for a key in the filter it locks the map. A false alarm, from equal hashes or a range
//! deletion, costs the watcher another read.

use std::collections::HashMap;
use std::sync::Arc;

use crate::batch::Change;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// Number of filter buckets, a power of two: 64 KiB of counts.
const FILTER: usize = 1 << 14;

/// Watches of all cells.
pub(super) struct Watches {
    /// Number of watches.
    count: AtomicUsize,
    /// Number of watched hashes in each bucket.
    filter: Box<[AtomicU32]>,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    of: HashMap<u32, Vec<Arc<AtomicBool>>>,
    all: Vec<Arc<AtomicBool>>,
}

/// Cells that a record writes, as hashes.
#[derive(Debug, Default)]
pub(super) struct Written {
    hashes: Vec<u32>,
    /// Whether a range is deleted; all cells count as written then.
    any_range: bool,
}

impl Written {
    /// Counts as a write of all cells.
    pub(super) const fn anything() -> Self {
        Self { hashes: Vec::new(), any_range: true }
    }

    pub(super) fn of<'a>(changes: impl Iterator<Item = Change<'a>>) -> Self {
        let mut written = Self::default();
        for change in changes {
            match change {
                Change::Cell { key, .. } => written.hashes.push(hash(key)),
                Change::Range { .. } => written.any_range = true,
            }
        }
        written
    }
}

/// Watches some cells until it is dropped.
pub(super) struct Watch<'a> {
    watches: &'a Watches,
    hashes: Vec<u32>,
    touched: Arc<AtomicBool>,
}

impl Watches {
    pub(super) fn new() -> Self {
        let filter = (0..FILTER).map(|_| AtomicU32::new(0)).collect();
        Self { count: AtomicUsize::new(0), filter, watched: Mutex::default() }
    }

    /// Returns `true` if there is any watch. Outside the order lock this is only a hint.
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Starts a watch. A writer that takes the order lock *after* the watcher has held it once sees
    /// the watch; the lock orders the relaxed counts.
    pub(super) fn begin<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Watch<'_> {
        let hashes: Vec<u32> = keys.map(hash).collect();
        let touched = Arc::new(AtomicBool::new(false));
        let mut watched = lock(&self.watched);
        for &hash in &hashes {
            watched.of.entry(hash).or_default().push(Arc::clone(&touched));
            self.bucket(hash).fetch_add(1, Ordering::Relaxed);
        }
        watched.all.push(Arc::clone(&touched));
        self.count.fetch_add(1, Ordering::Relaxed);
        drop(watched);
        Watch { watches: self, hashes, touched }
    }

    /// Marks the watches of written cells as touched. Called under the order lock after the
    /// decision to write; `own` is the writer's own watch of exactly these cells.
    pub(super) fn touch(&self, written: &Written, own: Option<&Watch<'_>>) {
        if written.any_range {
            for touched in &lock(&self.watched).all {
                touched.store(true, Ordering::SeqCst);
            }
        }
        for &hash in &written.hashes {
            if self.bucket(hash).load(Ordering::Relaxed) > u32::from(own.is_some()) {
                let watched = lock(&self.watched);
                for touched in watched.of.get(&hash).into_iter().flatten() {
                    touched.store(true, Ordering::SeqCst);
                }
            }
        }
    }

    fn bucket(&self, hash: u32) -> &AtomicU32 {
        &self.filter[hash as usize % FILTER]
    }
}

impl Watch<'_> {
    /// Returns `true` if a writer that has released the order lock wrote one of the cells.
    pub(super) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::SeqCst)
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut watched = lock(&self.watches.watched);
        let is_own = |other: &Arc<AtomicBool>| Arc::ptr_eq(other, &self.touched);
        for hash in &self.hashes {
            self.watches.bucket(*hash).fetch_sub(1, Ordering::Relaxed);
            if let Some(of) = watched.of.get_mut(hash) {
                of.retain(|other| !is_own(other));
                if of.is_empty() {
                    watched.of.remove(hash);
                }
            }
        }
        watched.all.retain(|other| !is_own(other));
        self.watches.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Hashes a key. 32 bits suffice: with a thousand watched cells and a hundred written ones, one in
/// 40,000 records causes a false alarm.
fn hash(key: &[u8]) -> u32 {
    crc32c::crc32c(key)
}
