//! Cells that somebody has looked at and is about to write if nobody else does so before.
//!
//! ```text
//!  watcher   begin ──► order lock: learn the last slot ──► read ──► order lock: touched? → write
//!              │                                                       ▲
//!  filter      ├ a count for each of 2^14 hashes                       │
//!  watched     └ whole hash → watches                                  │ touched
//!                                                                      │
//!  writer                     order lock: any watch? filter? watched? ─┘
//! ```
//!
//! Watching costs the other writers next to nothing. While nobody watches, a writer loads one
//! number; otherwise it hashes its keys before it takes the order lock and looks each up in the
//! filter under it. Only for a key that the filter knows does it take the lock of the map. A
//! false alarm, from equal hashes or from a deleted range, costs the watcher another look.

use std::collections::HashMap;
use std::sync::Arc;

use crate::batch::Change;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock};

/// A power of two: 64 KiB of counts.
const FILTER: usize = 1 << 14;

/// Who watches what.
pub(super) struct Watches {
    /// How many watches there are.
    count: AtomicUsize,
    /// How many watched hashes there are of each remainder.
    filter: Box<[AtomicU32]>,
    watched: Mutex<Watched>,
}

#[derive(Default)]
struct Watched {
    of: HashMap<u32, Vec<Arc<AtomicBool>>>,
    all: Vec<Arc<AtomicBool>>,
}

/// What a record writes, as far as watches care.
#[derive(Debug, Default)]
pub(super) struct Written {
    hashes: Vec<u32>,
    /// Whatever lies in a range is taken to be written.
    any_range: bool,
}

impl Written {
    /// So much that nobody looks at it one by one.
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

    /// Tells whether anybody watches anything. Asked outside of the order lock it is only a hint.
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Begins to watch. Whoever takes the order lock *after* the watcher has held it once finds
    /// the watch; that lock is what orders the relaxed counts.
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

    /// Tells the watchers of what is written. Called under the order lock by whoever has decided
    /// to write; `own` is a watch of the very cells that he writes.
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
    /// Tells whether one of the cells was written by anybody who has left the order lock.
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

/// 32 bits are enough: what they cost is false alarms, and a thousand watched cells beside a
/// hundred written ones raise one in 40,000 times.
fn hash(key: &[u8]) -> u32 {
    crc32c::crc32c(key)
}
