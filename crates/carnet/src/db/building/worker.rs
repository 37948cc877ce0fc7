//! Background worker that builds indexes and views.
//!
//! The worker polls a step and never blocks: a simulated process has one thread for all its workers,
//! and a step waits for other workers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use carnet_base::{Result, Signal, Step, Worker};

use super::builder::DerivedBuilder;
use crate::db::database::Db;

/// Wait after a failed step. It doubles with each further one: a database at rest must not be busy with a
/// build that fails again and again.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// Maximum wait after a failed step.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(60);

impl Db {
    /// Starts to build the indexes and views that are not built, in the background. One call is
    /// enough: one created while the builder runs is built too.
    pub fn build_derived(&self) {
        let Some(building) = self.begin_building() else { return self.ask_builder() };
        let worker = BuildWorker::new(self, DerivedBuilder::new(self, building));
        drop(self.spawner().spawn("carnet-build", self.build_signal(), Box::new(worker)));
    }
}

/// Builder, as a worker.
pub(super) struct BuildWorker {
    state: State,
    signal: Signal,
    retries: RetryWaits,
}

/// Waits after failed steps.
struct RetryWaits {
    wait: Duration,
    /// Number of calls that asked for a build before the last failed step.
    asked: u64,
}

impl RetryWaits {
    /// Returns the wait after a failed step, before which `asked` calls had asked for a build: the shortest
    /// one for a new call.
    fn next(&mut self, asked: u64) -> Duration {
        if asked != self.asked {
            *self = Self { wait: RETRY_WAIT, asked };
        }
        let wait = self.wait;
        self.wait = (2 * wait).min(RETRY_WAIT_MAX);
        wait
    }
}

enum State {
    Ready(DerivedBuilder),
    Running(Running),
    Ended,
}

/// Step in progress.
struct Running {
    /// Returns the builder with the result of the step.
    step: Pin<Box<dyn Future<Output = (DerivedBuilder, Result<bool>)> + Send>>,
    wake: Arc<WakeWorker>,
}

impl BuildWorker {
    pub(super) fn new(db: &Db, builder: DerivedBuilder) -> Self {
        let retries = RetryWaits { wait: RETRY_WAIT, asked: db.asked_to_build() };
        Self { state: State::Ready(builder), signal: db.build_signal(), retries }
    }

    fn begin(&self, mut builder: DerivedBuilder) -> Running {
        let wake = WakeWorker { signal: self.signal.clone(), has_ended: AtomicBool::new(false) };
        let step = Box::pin(async move {
            let advanced = builder.advance().await;
            (builder, advanced)
        });
        Running { step, wake: Arc::new(wake) }
    }
}

impl Worker for BuildWorker {
    fn step(&mut self) -> Step {
        let mut running = match std::mem::replace(&mut self.state, State::Ended) {
            State::Ready(builder) => self.begin(builder),
            State::Running(running) => running,
            State::Ended => return Step::Done,
        };
        let waker = Waker::from(Arc::clone(&running.wake));
        let Poll::Ready((builder, advanced)) =
            running.step.as_mut().poll(&mut Context::from_waker(&waker))
        else {
            self.state = State::Running(running);
            return Step::Idle(None);
        };
        running.wake.end();
        match advanced {
            Ok(false) => Step::Done,
            Ok(true) => {
                self.retries.wait = RETRY_WAIT;
                self.state = State::Ready(builder);
                Step::Again
            }
            Err(_) => {
                let wait = self.retries.next(builder.asked());
                self.state = State::Ready(builder);
                Step::Idle(Some(wait))
            }
        }
    }
}

/// Wakes the worker for a step.
struct WakeWorker {
    signal: Signal,
    /// Whether the step has ended: a late wake must not shorten the wait for the next one.
    has_ended: AtomicBool,
}

impl WakeWorker {
    fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        let _ = self.signal.take();
    }
}

impl Wake for WakeWorker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.has_ended.load(Ordering::Acquire) {
            self.signal.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_build_is_tried_less_and_less_until_it_is_asked_for() {
        let mut retries = RetryWaits { wait: RETRY_WAIT, asked: 7 };
        let waits: Vec<_> = (0..8).map(|_| retries.next(7).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(retries.next(8), RETRY_WAIT);
    }

    #[test]
    fn call_during_a_build_wakes_its_worker() {
        let db = Db::builder().in_memory();
        let _building = db.begin_building().unwrap();
        db.build_derived();
        assert!(db.build_signal().take());
        assert_eq!(db.asked_to_build(), 1);
    }

    #[test]
    fn late_wake_leaves_the_wait_alone() {
        let signal = Signal::new();
        let wake =
            Arc::new(WakeWorker { signal: signal.clone(), has_ended: AtomicBool::new(false) });
        wake.wake_by_ref();
        assert!(signal.take());
        wake.wake_by_ref();
        wake.end();
        wake.wake_by_ref();
        assert!(!signal.take());
    }
}
