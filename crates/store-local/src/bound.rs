//! Keeps the bound of timestamps ahead of the clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use carnet_base::{Error, Result, Step, Timestamp, Worker};
use carnet_storage::Engine;

use crate::SharedOrder;

/// How far one write moves the bound. A restart skips at most this many timestamps, and the clock
/// has 2⁶³: a restart every second would use it up in 29,000 years.
pub(crate) const STEP: u64 = 10_000_000;

/// A new database's first timestamp.
pub(crate) const FIRST: Timestamp = match Timestamp::new(1) {
    Some(first) => first,
    None => Timestamp::ZERO,
};

/// Makes a bound durable that lies a step above `from`, and returns it.
pub(crate) fn raise(engine: &Engine, from: Timestamp) -> Result<Timestamp> {
    let bound = from.checked_add(STEP).ok_or_else(|| {
        Error::unavailable("the database has used up its 2⁶³ timestamps; export and import it")
    })?;
    engine.raise_bound(bound)?;
    Ok(bound)
}

/// What ends the keeper.
#[derive(Default)]
pub(crate) struct Shared {
    closed: AtomicBool,
}

impl Shared {
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// Raises the bound when half of the timestamps below it are used.
pub(crate) struct BoundKeeper {
    engine: Arc<Engine>,
    order: SharedOrder,
    shared: Arc<Shared>,
}

impl BoundKeeper {
    pub(crate) fn new(engine: Arc<Engine>, order: SharedOrder) -> (Self, Arc<Shared>) {
        let shared = Arc::new(Shared::default());
        (Self { engine, order, shared: Arc::clone(&shared) }, shared)
    }

    fn keep(&self) -> Result<()> {
        let headroom = self.order.headroom();
        if headroom < STEP / 2 {
            let bound = raise(&self.engine, self.engine.timestamp_bound())?;
            self.order.extend(bound);
        }
        Ok(())
    }
}

impl Worker for BoundKeeper {
    fn step(&mut self) -> Step {
        if self.shared.closed.load(Ordering::Acquire) {
            return Step::Done;
        }
        if let Err(error) = self.keep() {
            // Begins and commits say `Overloaded` once the rest is used up; the engine that
            // cannot write its manifest says why by then.
            tracing::error!(%error, "cannot raise the bound of timestamps");
        }
        Step::Idle(None)
    }
}
