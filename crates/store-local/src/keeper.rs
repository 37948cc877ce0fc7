//! Keeps the bound of timestamps ahead of the clock, wall times beside commits, and compaction at
//! the sweep.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carnet_base::{Moment, Result, Signal, Spawn, Step, Worker, WorkerHandle};
use carnet_storage::Engine;

use crate::SharedOrder;
use crate::bound::STEP;
use crate::encodings::Encodings;
use crate::times::Times;

/// Within a retention compaction is told to look for garbage so often, within these bounds.
const SWEEPS: u32 = 4;
const SWEEP_PAUSE_MIN: Duration = Duration::from_secs(1);
const SWEEP_PAUSE_MAX: Duration = Duration::from_secs(300);

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
        retention: Duration,
        encodings: &Arc<Encodings>,
        spawn: &dyn Spawn,
        signal: Signal,
    ) -> Self {
        let closed = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            engine: Arc::clone(engine),
            order: Arc::clone(order),
            times: Arc::clone(times),
            encodings: Arc::clone(encodings),
            closed: Arc::clone(&closed),
            retention,
            looked_at: times.now(),
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
    encodings: Arc<Encodings>,
    closed: Arc<AtomicBool>,
    retention: Duration,
    /// When compaction was told to look for garbage.
    looked_at: Moment,
}

impl Keeper {
    fn keep_bound(&self) -> Result<()> {
        if self.order.headroom() < STEP / 2 {
            let bound = self.encodings.raise_bound(&self.engine, self.engine.timestamp_bound())?;
            self.order.extend(bound);
        }
        Ok(())
    }
}

impl Keeper {
    /// Has compaction look for garbage as the retention goes on, also where nothing is written any
    /// more that would make it look. Returns when it may be time again; `None` once all is swept.
    fn sweep(&mut self) -> Option<Duration> {
        let (now, swept) = (self.times.now(), self.engine.swept());
        let pause = (self.retention / SWEEPS).clamp(SWEEP_PAUSE_MIN, SWEEP_PAUSE_MAX);
        let is_due = now.since(self.looked_at) >= pause;
        if is_due && self.times.newest_before(self.retention) > swept {
            self.looked_at = now;
            self.engine.look_for_garbage();
        }
        (self.times.newest_known() > swept).then_some(pause)
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
        let tick = self.times.tick(|| self.order.published());
        let sweep = self.sweep();
        Step::Idle(tick.into_iter().chain(sweep).min())
    }
}
