//! Retries of work that found no space; see [`space`](super::space).

use carnet_base::Result;

use super::core::Core;
use super::space::Work;
use crate::disk::found_no_space;
use crate::sync::lock;

impl Core {
    /// Records the outcome of work. An error because of a full disk is returned as an inner error.
    ///
    /// # Errors
    ///
    /// Any other error.
    pub(super) fn spaced<T>(&self, work: Work, outcome: Result<T>) -> Result<Result<T>> {
        match outcome {
            Ok(done) => {
                if self.space.unblock(work) {
                    tracing::info!(?work, "there is space on the disk again");
                    self.flushes.signal.ring();
                    self.ring_compactors();
                }
                Ok(Ok(done))
            }
            Err(error) if found_no_space(&error) => {
                if self.space.block(work, &error, self.clock.now()) {
                    tracing::error!(%error, ?work, "the disk is full; trying again until there is space");
                    self.wake_writers();
                }
                if work == Work::Compaction {
                    self.compactions.throttle.deactivate();
                }
                Ok(Err(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Wakes all waiting writers to check again.
    pub(super) fn wake_writers(&self) {
        Self::wake_waiting(lock(&self.flushes.sealed));
        self.publication.wake_waiters();
        self.flushes.throttle.wake();
        self.compactions.throttle.wake();
    }
}
