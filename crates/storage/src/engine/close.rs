//! Closing an engine.

use carnet_base::{Result, WorkerHandle};

use super::core::Engine;
use crate::sync::atomic::Ordering;
use crate::sync::lock;

impl Engine {
    /// Closes the engine: writes and syncs all pending records, whatever the durability setting,
    /// and unlocks the directory.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store had stopped or stops now; then the next opening recovers all
    /// acknowledged commits, and possibly whole records that were not acknowledged.
    pub fn close(self) -> Result<()> {
        self.shut_down()
    }

    /// Like [`Engine::close`], but for a shared engine: reads continue, writes are refused, and the
    /// directory is unlocked when the last reference is dropped. Calls after the first have no
    /// effect.
    ///
    /// # Errors
    ///
    /// Like [`Engine::close`].
    pub fn shut_down(&self) -> Result<()> {
        let Some(workers) = lock(&self.workers).take() else { return Ok(()) };
        lock(&self.core.order).closed = true;
        let settled = self.core.settle_for_good();
        self.core.closing.store(true, Ordering::Release);
        self.core.io.release();
        self.core.log.signal.ring();
        self.core.flushes.signal.ring();
        self.core.ring_compactors();
        workers.into_iter().for_each(WorkerHandle::join);
        settled.and_then(|()| self.core.end_lossy())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            tracing::error!(%error, "the engine could not be closed cleanly");
        }
    }
}
