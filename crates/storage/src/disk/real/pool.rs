//! Thread pool for reads, for systems without io_uring.
//!
//! A read starts a thread if none is idle, up to [`THREADS_MAX`]. Threads sleep on their own
//! signals when there is nothing to read, and end when the disk and its files are dropped.

use std::sync::{Arc, Mutex};

use carnet_base::{Signal, Spawn, Step, Worker};

use super::request::Request;
use crate::io::{ReadLimits, ReadQueue};
use crate::lock::lock;

/// Maximum number of concurrent reads of the device.
const THREADS_MAX: usize = 16;

pub(super) struct Pool {
    shared: Arc<Mutex<PoolState>>,
    spawn: Arc<dyn Spawn>,
}

struct PoolState {
    queue: ReadQueue<Request>,
    /// Signals of sleeping threads; the last one to sleep is woken first, because its stack is
    /// cached.
    idle: Vec<Signal>,
    threads: usize,
    closed: bool,
}

struct PoolReader {
    shared: Arc<Mutex<PoolState>>,
    signal: Signal,
}

impl Pool {
    pub(super) fn new(spawn: Arc<dyn Spawn>) -> Self {
        let limits = ReadLimits { alone: THREADS_MAX, shared: THREADS_MAX };
        let queue = ReadQueue::new(limits);
        let state = PoolState { queue, idle: Vec::new(), threads: 0, closed: false };
        Self { shared: Arc::new(Mutex::new(state)), spawn }
    }

    pub(super) fn submit(&self, requests: impl IntoIterator<Item = Request>) {
        let mut woken = Vec::new();
        let mut missing = 0;
        {
            let mut state = lock(&self.shared);
            for request in requests {
                state.queue.push(request.level(), request.missing(), request);
                if let Some(signal) = state.idle.pop() {
                    woken.push(signal);
                } else if state.threads < THREADS_MAX {
                    state.threads += 1;
                    missing += 1;
                }
            }
        }
        woken.iter().for_each(Signal::ring);
        for _ in 0..missing {
            let signal = Signal::new();
            let reader = PoolReader { shared: Arc::clone(&self.shared), signal: signal.clone() };
            // Not joined: it ends by itself, and may be the thread that drops the last file.
            drop(self.spawn.spawn("carnet-read", signal, Box::new(reader)));
        }
    }
}

impl Pool {
    /// Returns `true` if a further read has to wait for others.
    pub(super) fn is_busy(&self) -> bool {
        // No copy outside the lock: the pool serves systems without io_uring, with few threads.
        lock(&self.shared).queue.is_busy()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = lock(&self.shared);
        state.closed = true;
        state.idle.drain(..).for_each(|signal| signal.ring());
    }
}

impl Worker for PoolReader {
    fn step(&mut self) -> Step {
        let (level, request) = {
            let mut state = lock(&self.shared);
            match state.queue.pop() {
                Some(next) => next,
                None if state.closed => return Step::Done,
                None => {
                    state.idle.push(self.signal.clone());
                    return Step::Idle(None);
                }
            }
        };
        if !request.is_cancelled() {
            request.serve();
        }
        lock(&self.shared).queue.end(level);
        Step::Again
    }
}
