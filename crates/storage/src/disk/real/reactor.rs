//! Reactor: the thread that drives an io_uring.
//!
//! Any thread queues reads under a short mutex. The reactor takes the reads for which the device has
//! room, by service level, submits them with one system call, which also waits for completions, and
//! wakes the tasks:
//!
//! ```text
//!  read ──► ReadQueue ──► reactor: submit and wait ──► completed ──► promise ──► waker
//!             └─ rings, if it sleeps ─┘
//! ```
//!
//! Callers do not use the ring. The kernel completes a read on the thread that submitted it, so it
//! would interrupt a submitting caller, and cancel the read when the caller's thread ends.
//!
//! The reactor is a [`Worker`] that sleeps on its [`Signal`] while no read is in flight. Otherwise
//! it waits in the kernel, where the [`Alarm`] wakes it.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use carnet_base::{Signal, Spawn, Step, Worker};

use super::request::Request;
use super::uring::{Alarm, IN_FLIGHT_MAX, Ring};
use crate::io::{ReadLimits, ReadQueue};
use crate::lock::lock;

/// Maximum numbers of reads in the device. By docs/design/0014-io-scheduler.md#figures, 64 reads
/// keep a device busy.
const LIMITS: ReadLimits = ReadLimits { alone: IN_FLIGHT_MAX, shared: 64 };

pub(super) struct Reactor {
    shared: Arc<Shared>,
    spawn: Arc<dyn Spawn>,
}

struct Shared {
    state: Mutex<ReactorState>,
    /// Whether a further read has to wait for others; a copy of the queue's, for readers.
    is_busy: AtomicBool,
    signal: Signal,
    alarm: Alarm,
}

struct ReactorState {
    queue: ReadQueue<Request>,
    thread: Thread,
    closed: bool,
}

/// State of the reactor's thread, which determines how to wake it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// It was not started.
    NotStarted,
    /// It checks the queue before it waits.
    Awake,
    /// It sleeps until its signal rings.
    Asleep,
    /// It waits for completions or the alarm.
    InKernel,
}

impl Reactor {
    /// Makes a reactor if the kernel permits it; otherwise returns the kernel's error.
    pub(super) fn new(spawn: Arc<dyn Spawn>) -> io::Result<Self> {
        let alarm = Alarm::new()?;
        Ring::new(alarm.clone())?.probe()?;
        let state = ReactorState {
            queue: ReadQueue::new(LIMITS),
            thread: Thread::NotStarted,
            closed: false,
        };
        let (state, is_busy) = (Mutex::new(state), AtomicBool::new(false));
        let shared = Shared { state, is_busy, signal: Signal::new(), alarm };
        Ok(Self { shared: Arc::new(shared), spawn })
    }

    pub(super) fn submit(&self, requests: impl IntoIterator<Item = Request>) {
        let mut state = lock(&self.shared.state);
        for request in requests {
            state.queue.push(request.level(), request.missing(), request);
        }
        self.shared.is_busy.store(state.queue.is_busy(), Ordering::Relaxed);
        let thread = std::mem::replace(&mut state.thread, Thread::Awake);
        drop(state);
        match thread {
            Thread::Awake => {}
            Thread::Asleep => self.shared.signal.ring(),
            Thread::InKernel => self.shared.alarm.ring(),
            Thread::NotStarted => {
                let loops = Loop {
                    shared: Arc::clone(&self.shared),
                    taken: VecDeque::new(),
                    ended: Vec::new(),
                    ring: None,
                    refused: false,
                };
                let signal = self.shared.signal.clone();
                // Not joined: it ends by itself, and may be the thread that drops the last file.
                drop(self.spawn.spawn("carnet-ring", signal, Box::new(loops)));
            }
        }
    }
}

impl Reactor {
    /// Returns `true` if a further read has to wait for others.
    pub(super) fn is_busy(&self) -> bool {
        self.shared.is_busy.load(Ordering::Relaxed)
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
    /// Requests taken from the queue that are not in the ring.
    taken: VecDeque<Request>,
    /// Ids of the levels of requests that have ended.
    ended: Vec<u64>,
    /// Created by its thread at the first step.
    ring: Option<Ring>,
    /// Whether the kernel refused another ring; then reads are served without one.
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
            && let Some(request) = self.taken.pop_front()
        {
            if request.is_cancelled() {
                self.ended.push(request.level().id);
            } else {
                ring.push(request);
            }
        }
        if ring.is_idle() {
            return Step::Again;
        }
        if let Err(error) = ring.wait() {
            tracing::error!(%error, "io_uring failed and is replaced; reads in flight end with this error");
            if let Some(ring) = self.ring.take() {
                self.ended.extend(ring.abandon(&error));
            }
            return Step::Again;
        }
        lock(&self.shared.state).thread = Thread::Awake;
        while let Some((request, attempt)) = ring.completed() {
            let level = request.level().id;
            match request.advance(attempt) {
                Some(request) => self.taken.push_back(request),
                None => self.ended.push(level),
            }
        }
        Step::Again
    }
}

impl Loop {
    /// Takes requests from the queue, and sets how the thread will wait; returns a step if there is
    /// nothing to do.
    fn take(&mut self) -> Option<Step> {
        let mut state = lock(&self.shared.state);
        self.ended.drain(..).for_each(|level| state.queue.end(level));
        self.taken.extend(std::iter::from_fn(|| state.queue.pop()).map(|(_, request)| request));
        self.shared.is_busy.store(state.queue.is_busy(), Ordering::Relaxed);
        if self.taken.is_empty() && self.ring.as_ref().is_none_or(Ring::is_idle) {
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
        for request in self.taken.drain(..) {
            self.ended.push(request.level().id);
            if !request.is_cancelled() {
                request.serve();
            }
        }
        Step::Again
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{Stepped, block_on};

    use super::*;
    use crate::disk::promise::promise;

    #[test]
    fn reactor_serves_reads_without_a_ring() {
        let Ok(reactor) = Reactor::new(Arc::new(Stepped::default())) else { return };
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"bytes", 0).unwrap();
        let shared = Arc::clone(&reactor.shared);
        let (taken, ended) = (VecDeque::new(), Vec::new());
        let mut refused = Loop { shared, taken, ended, ring: None, refused: true };
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
