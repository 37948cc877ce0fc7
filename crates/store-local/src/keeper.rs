//! Keeps the bound of timestamps ahead of the clock, and wall times beside commits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use carnet_base::{Result, Signal, Spawn, Step, Worker, WorkerHandle};
use carnet_storage::Engine;

use crate::SharedOrder;
use crate::bound::{self, STEP};
use crate::times::Times;

/// The keeper as the store has it.
pub(crate) struct Keeping {
    signal: Signal,
    closed: Arc<AtomicBool>,
    handle: Mutex<Option<WorkerHandle>>,
}

impl Keeping {
    /// Starts the keeper.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        order: &SharedOrder,
        times: &Arc<Times>,
        spawn: &dyn Spawn,
        signal: Signal,
    ) -> Self {
        let closed = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            engine: Arc::clone(engine),
            order: Arc::clone(order),
            times: Arc::clone(times),
            closed: Arc::clone(&closed),
        };
        let handle = spawn.spawn("carnet-keeper", signal.clone(), Box::new(keeper));
        Self { signal, closed, handle: Mutex::new(Some(handle)) }
    }

    /// Wakes the keeper where the bound is near.
    pub(crate) fn watch_bound(&self, headroom: u64) {
        if headroom < STEP / 2 {
            self.signal.ring();
        }
    }

    /// Ends the keeper, and waits for it.
    pub(crate) fn end(&self) {
        self.closed.store(true, Ordering::Release);
        self.signal.ring();
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            handle.join();
        }
    }
}

/// Raises the bound when half of the timestamps below it are used, and says when it is time for
/// another wall time.
struct Keeper {
    engine: Arc<Engine>,
    order: SharedOrder,
    times: Arc<Times>,
    closed: Arc<AtomicBool>,
}

impl Keeper {
    fn keep_bound(&self) -> Result<()> {
        if self.order.headroom() < STEP / 2 {
            let bound = bound::raise(&self.engine, self.engine.timestamp_bound())?;
            self.order.extend(bound);
        }
        Ok(())
    }
}

impl Worker for Keeper {
    fn step(&mut self) -> Step {
        if self.closed.load(Ordering::Acquire) {
            return Step::Done;
        }
        if let Err(error) = self.keep_bound() {
            // Begins and commits say `Overloaded` once the rest is used up; the engine that
            // cannot write its manifest says why by then.
            tracing::error!(%error, "cannot raise the bound of timestamps");
        }
        Step::Idle(self.times.tick(|| self.order.published()))
    }
}
