//! The one thread of a disk that has a ring.
//!
//! Any thread queues reads under a short mutex; the reactor takes all that are queued, submits
//! them with one system call, which also waits for completions, and wakes whoever asked:
//!
//! ```text
//!  read ──► queue ──► reactor: submit and wait ──► completed ──► promise ──► waker
//!             └─ rings, if it sleeps ─┘
//! ```
//!
//! Callers do not touch the ring. The kernel finishes a read on the thread that submitted it, so
//! a caller that submitted itself would be interrupted for it, and its end would cancel it.
//!
//! The reactor is a [`Worker`] that sleeps on its [`Signal`] while nothing is in flight; only
//! while something is does it wait in the kernel, and there the [`Alarm`] reaches it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use carnet_base::{Signal, Spawn, Step, Worker};

use super::request::Request;
use super::uring::{Alarm, Ring};
use crate::lock::lock;

pub(super) struct Reactor {
    shared: Arc<Shared>,
    spawn: Arc<dyn Spawn>,
}

struct Shared {
    state: Mutex<State>,
    signal: Signal,
    alarm: Alarm,
}

struct State {
    queue: VecDeque<Request>,
    thread: Thread,
    closed: bool,
}

/// What the reactor's thread does, and so how to get its attention.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// It was not needed yet.
    Unborn,
    /// It looks at the queue before it waits.
    Awake,
    /// It sleeps until its signal rings.
    Asleep,
    /// It waits for completions, or for the alarm.
    InKernel,
}

impl Reactor {
    /// Makes one if the kernel allows it; the error says what it does not allow.
    pub(super) fn new(spawn: Arc<dyn Spawn>) -> io::Result<Self> {
        let alarm = Alarm::new()?;
        Ring::new(alarm.clone())?.probe()?;
        let state = State { queue: VecDeque::new(), thread: Thread::Unborn, closed: false };
        let shared = Shared { state: Mutex::new(state), signal: Signal::new(), alarm };
        Ok(Self { shared: Arc::new(shared), spawn })
    }

    pub(super) fn submit(&self, requests: impl IntoIterator<Item = Request>) {
        let mut state = lock(&self.shared.state);
        state.queue.extend(requests);
        let thread = std::mem::replace(&mut state.thread, Thread::Awake);
        drop(state);
        match thread {
            Thread::Awake => {}
            Thread::Asleep => self.shared.signal.ring(),
            Thread::InKernel => self.shared.alarm.ring(),
            Thread::Unborn => {
                let loops = Loop {
                    shared: Arc::clone(&self.shared),
                    backlog: VecDeque::new(),
                    ring: None,
                    refused: false,
                };
                let signal = self.shared.signal.clone();
                // Nobody joins it: it ends by itself, and may be the one that drops the last file.
                drop(self.spawn.spawn("carnet-ring", signal, Box::new(loops)));
            }
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared.signal.ring();
        self.shared.alarm.ring();
    }
}

struct Loop {
    shared: Arc<Shared>,
    /// What was taken from the queue but did not fit into the ring.
    backlog: VecDeque<Request>,
    /// Made by the thread that uses it, at its first step.
    ring: Option<Ring>,
    /// The kernel gave a ring when the disk was opened and none later; it is not asked again.
    refused: bool,
}

impl Worker for Loop {
    fn step(&mut self) -> Step {
        if let Some(rest) = self.take() {
            return rest;
        }
        self.ensure_ring();
        let Some(ring) = &mut self.ring else { return self.serve() };
        while !ring.is_full()
            && let Some(request) = self.backlog.pop_front()
        {
            if !request.given_up() {
                ring.push(request);
            }
        }
        if ring.is_idle() {
            return Step::Again;
        }
        if let Err(error) = ring.wait() {
            tracing::error!(%error, "io_uring failed and is replaced; reads in flight end with this error");
            if let Some(ring) = self.ring.take() {
                ring.abandon(&error);
            }
            return Step::Again;
        }
        lock(&self.shared.state).thread = Thread::Awake;
        while let Some((request, attempt)) = ring.completed() {
            self.backlog.extend(request.advance(attempt));
        }
        Step::Again
    }
}

impl Loop {
    /// Takes the queue over and says how the thread will wait; a step where there is nothing.
    fn take(&mut self) -> Option<Step> {
        let mut state = lock(&self.shared.state);
        self.backlog.append(&mut state.queue);
        if self.backlog.is_empty() && self.ring.as_ref().is_none_or(Ring::is_idle) {
            state.thread = Thread::Asleep;
            return Some(if state.closed { Step::Done } else { Step::Idle(None) });
        }
        state.thread = Thread::InKernel;
        None
    }

    fn ensure_ring(&mut self) {
        if self.ring.is_none() && !self.refused {
            match Ring::new(self.shared.alarm.clone()) {
                Ok(ring) => self.ring = Some(ring),
                Err(error) => {
                    self.refused = true;
                    tracing::warn!(
                        %error,
                        "io_uring has no ring to give any more: until the disk is opened again, \
                         its reads wait for the device one by one"
                    );
                }
            }
        }
    }

    /// Reads without a ring.
    fn serve(&mut self) -> Step {
        lock(&self.shared.state).thread = Thread::Awake;
        self.backlog.drain(..).filter(|request| !request.given_up()).for_each(Request::serve);
        Step::Again
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Stepped, block_on};

    use super::*;
    use crate::disk::promise::promise;

    #[test]
    fn a_kernel_that_refuses_a_ring_later_costs_speed_only() {
        let Ok(reactor) = Reactor::new(Arc::new(Stepped::default())) else { return };
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"bytes", 0).unwrap();
        let shared = Arc::clone(&reactor.shared);
        let mut refused = Loop { shared, backlog: VecDeque::new(), ring: None, refused: true };
        assert_eq!(refused.step(), Step::Idle(None));
        let (promise, awaited) = promise();
        reactor.submit([Request::new(Arc::new(file), 1, vec![0; 3], 0, promise)]);
        assert_eq!(refused.step(), Step::Again);
        assert_eq!(block_on(awaited).unwrap(), "yte");
        assert_eq!(refused.step(), Step::Idle(None));
        drop(reactor);
        assert_eq!(refused.step(), Step::Done);
    }
}
