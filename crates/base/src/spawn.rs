//! Threads: the interface that starts them. Background work is a [`Worker`] that is stepped.
//!
//! In production [`ThreadSpawn`] gives each worker its own thread. A test or the simulator keeps
//! the workers and steps them in an order drawn from its seed.

use std::sync::{Arc, PoisonError};
#[cfg(not(shuttle))]
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;
use std::{fmt, thread};

use crate::end_on_panic::EndOnPanic;

#[cfg(shuttle)]
use shuttle::sync::{Condvar, Mutex, MutexGuard};

/// Result of one step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more work now.
    Again,
    /// There is no work until the worker's [`Signal`] rings or the time has passed.
    Idle(Option<Duration>),
    /// The work has ended; the worker is not stepped again.
    Done,
}

/// A piece of background work.
pub trait Worker: Send + 'static {
    /// Does a bounded piece of the work.
    fn step(&mut self) -> Step;

    /// Returns `true` if a panic of the worker stops its store, which then refuses writes and says
    /// why. A panic of any other worker ends the process: see [`EndOnPanic`].
    fn stops_store_on_panic(&self) -> bool {
        false
    }
}

/// Wakes an idle worker. Cheap to clone; two rings before it wakes count once.
#[derive(Clone, Default)]
pub struct Signal(Arc<(Mutex<bool>, Condvar)>);

impl Signal {
    /// Creates a signal that has not rung.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the worker, or keeps it from sleeping next time.
    pub fn ring(&self) {
        let (rung, condvar) = &*self.0;
        let mut rung = rung.lock().unwrap_or_else(PoisonError::into_inner);
        if !*rung {
            *rung = true;
            condvar.notify_one();
        }
    }

    /// Resets the signal; returns `true` if it had rung.
    #[must_use]
    pub fn take(&self) -> bool {
        let (rung, _) = &*self.0;
        std::mem::take(&mut *rung.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the signal rings or the time has passed, and resets it.
    pub fn wait(&self, limit: Option<Duration>) {
        let (lock, condvar) = &*self.0;
        let mut rung = lock.lock().unwrap_or_else(PoisonError::into_inner);
        match limit {
            None => {
                while !*rung {
                    rung = condvar.wait(rung).unwrap_or_else(PoisonError::into_inner);
                }
            }
            Some(limit) => {
                if !*rung {
                    rung =
                        condvar.wait_timeout(rung, limit).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        *rung = false;
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signal")
    }
}

/// Runs workers until they are done.
pub trait Spawn: Send + Sync + 'static {
    /// Takes over a worker; `signal` wakes it when it is idle.
    fn spawn(&self, name: &str, signal: Signal, worker: Box<dyn Worker>) -> WorkerHandle;

    /// Returns `true` if each worker has its own thread, which it may block and whose priority it
    /// may change.
    fn has_threads(&self) -> bool {
        false
    }
}

/// Handle of a worker; joining it waits for the worker's end.
#[derive(Debug)]
pub struct WorkerHandle(Option<thread::JoinHandle<()>>);

impl WorkerHandle {
    /// Creates the handle of a worker that others step: joining it returns at once.
    #[must_use]
    pub const fn detached() -> Self {
        Self(None)
    }

    /// Waits until the worker is done. The caller must have told it to end, and rung its signal.
    pub fn join(mut self) {
        if let Some(thread) = self.0.take() {
            // The last object that a worker drops may be its own joiner.
            if thread.thread().id() == thread::current().id() {
                return;
            }
            // A worker that panicked has stopped its store already, so the result is ignored.
            let _ = thread.join();
        }
    }
}

/// Gives each worker its own thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadSpawn;

impl Spawn for ThreadSpawn {
    fn has_threads(&self) -> bool {
        true
    }

    fn spawn(&self, name: &str, signal: Signal, mut worker: Box<dyn Worker>) -> WorkerHandle {
        let guard = (!worker.stops_store_on_panic()).then(|| EndOnPanic::new(name.to_owned()));
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                let _guard = guard;
                loop {
                    match worker.step() {
                        Step::Again => {}
                        Step::Idle(limit) => signal.wait(limit),
                        Step::Done => return,
                    }
                }
            })
            .expect("the machine can start one more thread");
        WorkerHandle(Some(thread))
    }
}

/// Keeps its workers for a caller that steps them: a test, or a simulator that draws the order of
/// steps from its seed. Clones share the workers.
#[derive(Clone, Default)]
pub struct Stepped(Arc<Mutex<Vec<Box<dyn Worker>>>>);

impl Spawn for Stepped {
    fn spawn(&self, _: &str, _: Signal, worker: Box<dyn Worker>) -> WorkerHandle {
        self.workers().push(worker);
        WorkerHandle::detached()
    }
}

impl Stepped {
    fn workers(&self) -> MutexGuard<'_, Vec<Box<dyn Worker>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps one worker once, by the order in which they were spawned.
    pub fn step(&self, worker: usize) {
        let mut workers = self.workers();
        if worker < workers.len() && workers[worker].step() == Step::Done {
            drop(workers.remove(worker));
        }
    }

    /// Steps all workers until none has work.
    pub fn settle(&self) {
        // Twice, because one worker may create work for another that was idle before it.
        for _ in 0..2 {
            self.workers().retain_mut(|worker| {
                loop {
                    match worker.step() {
                        Step::Again => {}
                        Step::Idle(_) => break true,
                        Step::Done => break false,
                    }
                }
            });
        }
    }
}

impl fmt::Debug for Stepped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stepped({} workers)", self.workers().len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Countdown(Arc<AtomicU32>);

    impl Worker for Countdown {
        fn step(&mut self) -> Step {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => Step::Again,
                1 => Step::Idle(None),
                _ => Step::Done,
            }
        }
    }

    #[test]
    fn stepped_workers_move_when_they_are_stepped() {
        let steps = Arc::new(AtomicU32::new(0));
        let stepped = Stepped::default();
        let worker = Box::new(Countdown(Arc::clone(&steps)));
        stepped.clone().spawn("countdown", Signal::new(), worker).join();
        stepped.step(0);
        stepped.step(7);
        assert_eq!(steps.load(Ordering::SeqCst), 1);
        stepped.settle();
        assert_eq!(
            (steps.load(Ordering::SeqCst), format!("{stepped:?}").as_str()),
            (3, "Stepped(0 workers)")
        );
    }

    #[test]
    fn a_signal_that_was_taken_has_to_ring_again() {
        let signal = Signal::new();
        assert!(!signal.take());
        signal.ring();
        signal.ring();
        assert!(signal.take() && !signal.take());
    }

    #[test]
    fn an_idle_worker_goes_on_when_its_signal_rings() {
        let steps = Arc::new(AtomicU32::new(0));
        let signal = Signal::new();
        let worker = Box::new(Countdown(Arc::clone(&steps)));
        let handle = ThreadSpawn.spawn("countdown", signal.clone(), worker);
        signal.ring();
        handle.join();
        assert_eq!(steps.load(Ordering::SeqCst), 3);
    }
}
