//! Retries of work after an error that passes; see [`shortages`](super::shortages).

use carnet_base::{Error, Result, Signal};

use super::core::Core;
use super::shortages::{Block, Work};
use crate::disk::{Shortage, shortage};
use crate::sync::atomic::Ordering;
use crate::sync::lock;

impl Core {
    /// Records the outcome of work. An error that passes is returned as an inner error.
    ///
    /// # Errors
    ///
    /// Any other error.
    pub(super) fn unless_passing<T>(&self, work: Work, outcome: Result<T>) -> Result<Result<T>> {
        match outcome {
            Ok(done) => {
                self.note_success(work);
                Ok(Ok(done))
            }
            Err(error) => match shortage(&error) {
                Some(shortage) => {
                    self.note_shortage(work, shortage, &error);
                    Ok(Err(error))
                }
                None => Err(error),
            },
        }
    }

    /// Records that work succeeded.
    pub(super) fn note_success(&self, work: Work) {
        if self.shortages.unblock(work) {
            tracing::info!(?work, "work that was short of a resource has succeeded");
            self.flushes.signal.ring();
            self.ring_compactors();
        }
    }

    /// Records that work is to be retried.
    pub(super) fn note_shortage(&self, work: Work, shortage: Shortage, error: &Error) {
        let counter = match shortage {
            Shortage::Space => &self.counters.retries_space,
            Shortage::Descriptors => &self.counters.retries_descriptors,
            Shortage::Memory => &self.counters.retries_memory,
            Shortage::Interrupted => &self.counters.retries_interrupted,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let Block { is_first, refuses_now } =
            self.shortages.block(work, shortage, error, self.clock.now());
        if is_first {
            tracing::warn!(%error, ?work, ?shortage, "work is retried until the shortage ends");
        }
        if refuses_now {
            tracing::error!(%error, ?work, ?shortage, "writes are refused until the shortage ends");
            self.wake_writers();
        }
        if work == Work::Compaction {
            self.compactions.throttle.deactivate();
        }
    }

    /// Repeats work on the calling thread, as long as its shortage does not refuse writes.
    pub(super) fn with_grace<T>(
        &self,
        work: Work,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            self.shortages.retry_now(work);
            let outcome = attempt();
            match self.shortages.grace(work) {
                Some(pause) => Signal::new().wait(Some(pause)),
                // Another thread has just succeeded with the same work.
                None if passes(&outcome) && !self.shortages.is_blocked(work) => {}
                None => return outcome,
            }
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

fn passes<T>(outcome: &Result<T>) -> bool {
    outcome.as_ref().err().and_then(shortage).is_some()
}
