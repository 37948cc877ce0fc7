//! The right to build indexes and views: one worker of a database has it at a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use carnet_base::Signal;

use super::database::{Db, WeakDb};

/// State that the builder of a database shares with its callers.
#[derive(Default)]
pub(super) struct Builds {
    is_building: AtomicBool,
    /// Number of calls that found a builder at work.
    asked: AtomicU64,
    /// Wakes the builder.
    signal: Signal,
}

/// The right to build, until it is dropped.
pub(crate) struct Building(WeakDb);

impl Drop for Building {
    fn drop(&mut self) {
        if let Some(db) = self.0.upgrade() {
            db.inner.builds.is_building.store(false, Ordering::Release);
        }
    }
}

impl Db {
    /// Returns the right to build the indexes and views; `None` while another worker has it.
    pub(crate) fn begin_building(&self) -> Option<Building> {
        let was_building = self.inner.builds.is_building.swap(true, Ordering::AcqRel);
        (!was_building).then(|| Building(self.downgrade()))
    }

    /// Asks the worker that builds to look again now, also if its last step failed.
    pub(crate) fn ask_builder(&self) {
        let builds = &self.inner.builds;
        builds.asked.fetch_add(1, Ordering::AcqRel);
        builds.signal.ring();
    }

    /// Returns how often [`Db::ask_builder`] was called.
    pub(crate) fn asked_to_build(&self) -> u64 {
        self.inner.builds.asked.load(Ordering::Acquire)
    }

    /// Returns the signal of the worker that builds.
    pub(crate) fn build_signal(&self) -> Signal {
        self.inner.builds.signal.clone()
    }
}
