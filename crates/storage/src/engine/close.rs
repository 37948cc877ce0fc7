//! Closing an engine.

use carnet_base::{Error, Result, Signal, WorkerHandle};

use super::compact::LOOK_AGAIN;
use super::core::{Core, Engine};
use super::shortages::Work;
use crate::sync::atomic::Ordering;
use crate::sync::lock;

impl Engine {
    /// Closes the engine: publishes all decided commits, writes and syncs their records, whatever
    /// the durability setting (without a log, flushes them), and unlocks the directory.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the store had stopped or stops now; then the next opening recovers all
    /// acknowledged commits (with [`Durability::Memory`](crate::Durability::Memory) the flushed
    /// ones), and possibly whole records that were not acknowledged. Every
    /// [`Appended`](super::Appended) that is not published gets an error.
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
        let settled = self.core.resolve_all().and_then(|()| self.core.settle_for_good());
        self.core.closing.store(true, Ordering::Release);
        self.core.io.release();
        self.core.log.signal.ring();
        self.core.flushes.signal.ring();
        self.core.ring_compactors();
        workers.into_iter().for_each(WorkerHandle::join);
        if self.core.publication.resolved() < self.core.publication.opened() {
            self.core.publication.stop("the database was closed");
        }
        // Writers that waited for a flush or a compaction get an error.
        self.core.wake_writers();
        settled.and_then(|()| self.core.end_lossy())
    }
}

impl Core {
    /// Publishes every decided commit. The order is closed, so no other one follows.
    ///
    /// The owner of a slot may be between its reservation and its insertion on another thread, and
    /// an adopted table waits for the flush of the memtables before it.
    fn resolve_all(&self) -> Result<()> {
        let opened = self.publication.opened();
        let resolved = Signal::new();
        self.publication.mark(opened, resolved.clone());
        while self.publication.resolved() < opened {
            self.write_or_stop()?;
            self.flush_adopted()?;
            if self.publication.resolved() < opened {
                resolved.wait(Some(LOOK_AGAIN));
            }
            self.publication.check()?;
        }
        Ok(())
    }

    /// Flushes the memtables before adopted tables. An error stops the store, because nothing
    /// repeats the flush later.
    fn flush_adopted(&self) -> Result<()> {
        let has_adopted = || lock(&self.flushes.sealed).has_adopted();
        while has_adopted() {
            if !self.or_stop(self.with_grace(Work::Flush, || self.flush_oldest()))? {
                break;
            }
        }
        Ok(())
    }

    /// Checks that the engine has not been closed.
    ///
    /// # Errors
    ///
    /// `Unavailable`.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) { Err(closed()) } else { Ok(()) }
    }
}

/// Returns the error of a write to a closed engine.
pub(super) fn closed() -> Error {
    Error::unavailable("the database was closed; open it again")
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            tracing::error!(%error, "the engine could not be closed cleanly");
        }
    }
}
