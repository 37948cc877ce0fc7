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

use super::builder::Builder;
use crate::db::Db;

/// Wait after a failed step.
const RETRY_WAIT: Duration = Duration::from_secs(1);

impl Db {
    /// Starts to build the indexes and views that are not built, in the background. One call is
    /// enough: one created while the builder runs is built too.
    pub fn build_derived(&self) {
        if let Some(building) = self.begin_building() {
            let signal = Signal::new();
            let worker = BuildWorker::new(Builder::new(self, building), signal.clone());
            drop(self.spawner().spawn("carnet-build", signal, Box::new(worker)));
        }
    }
}

/// Builder, as a worker.
pub(super) struct BuildWorker {
    state: State,
    signal: Signal,
}

enum State {
    Ready(Builder),
    Running(Running),
    Ended,
}

/// Step in progress.
struct Running {
    /// Returns the builder with the result of the step.
    step: Pin<Box<dyn Future<Output = (Builder, Result<bool>)> + Send>>,
    wake: Arc<WakeWorker>,
}

impl BuildWorker {
    /// Creates a worker that the signal wakes.
    pub(super) const fn new(builder: Builder, signal: Signal) -> Self {
        Self { state: State::Ready(builder), signal }
    }

    fn begin(&self, mut builder: Builder) -> Running {
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
                self.state = State::Ready(builder);
                Step::Again
            }
            Err(_) => {
                self.state = State::Ready(builder);
                Step::Idle(Some(RETRY_WAIT))
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
