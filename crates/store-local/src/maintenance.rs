//! Maintenance worker: keeps the bound of timestamps ahead, records wall times of commits and of
//! readers, and starts garbage collection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Moment, Result, Signal, Spawn, Step, Worker, WorkerHandle};
use carnet_storage::Engine;

use crate::bound::STEP;
use crate::encodings::Encodings;
use crate::order::SharedOrder;
use crate::wall_clock::WallClockMap;

/// Number of checks for garbage per retention, and the limits of the interval.
const SWEEPS: u32 = 4;
const SWEEP_PAUSE_MIN: Duration = Duration::from_secs(1);
const SWEEP_PAUSE_MAX: Duration = Duration::from_secs(300);

/// Handle of the maintenance worker.
pub(crate) struct MaintenanceHandle {
    signal: Signal,
    closed: Arc<AtomicBool>,
    handle: Mutex<Option<WorkerHandle>>,
}

impl MaintenanceHandle {
    /// Starts the worker.
    pub(crate) fn start(
        engine: &Arc<Engine>,
        order: &SharedOrder,
        wall_clock: &Arc<WallClockMap>,
        retention: Duration,
        encodings: &Arc<Encodings>,
        spawn: &dyn Spawn,
        signal: Signal,
    ) -> Self {
        let closed = Arc::new(AtomicBool::new(false));
        let worker = MaintenanceWorker {
            engine: Arc::clone(engine),
            order: Arc::clone(order),
            wall_clock: Arc::clone(wall_clock),
            encodings: Arc::clone(encodings),
            closed: Arc::clone(&closed),
            retention,
            checked_at: wall_clock.now(),
        };
        let handle = spawn.spawn("carnet-maint", signal.clone(), Box::new(worker));
        Self { signal, closed, handle: Mutex::new(Some(handle)) }
    }

    /// Wakes the worker if the bound is near.
    pub(crate) fn watch_bound(&self, headroom: u64) {
        if headroom < STEP / 2 {
            self.signal.ring();
        }
    }

    /// Ends the worker, and waits for it.
    pub(crate) fn end(&self) {
        self.closed.store(true, Ordering::Release);
        self.signal.ring();
        let handle = lock(&self.handle).take();
        if let Some(handle) = handle {
            handle.join();
        }
    }
}

/// Raises the bound when half of the timestamps below it are used, records wall times, and makes
/// compaction check for garbage.
struct MaintenanceWorker {
    engine: Arc<Engine>,
    order: SharedOrder,
    wall_clock: Arc<WallClockMap>,
    encodings: Arc<Encodings>,
    closed: Arc<AtomicBool>,
    retention: Duration,
    /// Time of the last check for garbage.
    checked_at: Moment,
}

impl MaintenanceWorker {
    fn keep_bound(&self) -> Result<()> {
        if self.order.headroom() < STEP / 2 {
            let bound = self.encodings.raise_bound(&self.engine, self.engine.timestamp_bound())?;
            self.order.extend(bound);
        }
        Ok(())
    }
}

impl MaintenanceWorker {
    /// Makes compaction check for garbage as the retention advances, even if no writes trigger a
    /// check. Returns the time until the next check; `None` if nothing remains.
    fn sweep(&mut self) -> Option<Duration> {
        let (now, swept) = (self.wall_clock.now(), self.engine.swept());
        let pause = (self.retention / SWEEPS).clamp(SWEEP_PAUSE_MIN, SWEEP_PAUSE_MAX);
        let is_due = now.since(self.checked_at) >= pause;
        if is_due && self.wall_clock.newest_before(self.retention) > swept {
            self.checked_at = now;
            self.engine.look_for_garbage();
        }
        (self.wall_clock.newest_known() > swept).then_some(pause)
    }
}

impl Worker for MaintenanceWorker {
    fn step(&mut self) -> Step {
        if self.closed.load(Ordering::Acquire) {
            return Step::Done;
        }
        if let Err(error) = self.keep_bound() {
            // Begins and commits return `Overloaded` when the timestamps are used up; by then the
            // engine reports why it cannot write its manifest.
            tracing::error!(%error, "cannot raise the bound of timestamps");
        }
        self.wall_clock.store_due();
        let tick = self.wall_clock.tick(|| self.order.published());
        let sweep = self.sweep();
        Step::Idle(tick.into_iter().chain(sweep).min())
    }
}
