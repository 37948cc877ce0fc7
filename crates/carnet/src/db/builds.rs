//! State that the worker that builds indexes and views shares with its callers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use carnet_base::Signal;

/// Whether a worker of a database builds, and who asked for it.
#[derive(Default)]
pub(super) struct Builds {
    is_building: AtomicBool,
    /// Number of calls that found a worker.
    asked: AtomicU64,
    signal: Signal,
}

impl Builds {
    /// Returns `true` if no other worker builds. The caller does so until [`Builds::end`].
    pub(super) fn begin(&self) -> bool {
        !self.is_building.swap(true, Ordering::AcqRel)
    }

    pub(super) fn end(&self) {
        self.is_building.store(false, Ordering::Release);
    }

    /// Asks the worker to look again now, also if its last step failed.
    pub(super) fn ask(&self) {
        self.asked.fetch_add(1, Ordering::AcqRel);
        self.signal.ring();
    }

    /// Returns the number of calls of [`Builds::ask`].
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Returns the signal that wakes the worker.
    pub(super) fn signal(&self) -> Signal {
        self.signal.clone()
    }
}
