//! Waiting without a runtime: one thread that wakes futures when their moment has come.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use carnet_base::{Clock, Moment, Signal, Spawn, Step, Worker, WorkerHandle};

/// Wakes futures at their moment.
pub(crate) struct Timer {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    worker: Mutex<Option<WorkerHandle>>,
    spawn: Arc<dyn Spawn>,
}

struct Shared {
    state: Mutex<State>,
    signal: Signal,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<(Moment, u64), Waker>,
    tickets: u64,
    closed: bool,
}

impl Timer {
    pub(crate) fn new(clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), signal: Signal::new() });
        Self { clock, shared, worker: Mutex::new(None), spawn }
    }

    /// Completes when the time has passed.
    pub(crate) fn wait(&self, wait: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.start();
        let clock = Arc::clone(&self.clock);
        let shared = Arc::clone(&self.shared);
        let until = clock.now().after(wait);
        let mut ticket = None;
        poll_fn(move |context| {
            if clock.now() >= until {
                return Poll::Ready(());
            }
            let mut state = shared.lock();
            let ticket = *ticket.get_or_insert_with(|| {
                state.tickets += 1;
                state.tickets
            });
            state.waiting.insert((until, ticket), context.waker().clone());
            shared.signal.ring();
            Poll::Pending
        })
    }

    /// Most databases never wait: the thread starts with the first wait.
    fn start(&self) {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            let ticker =
                Ticker { clock: Arc::clone(&self.clock), shared: Arc::clone(&self.shared) };
            let signal = self.shared.signal.clone();
            *worker = Some(self.spawn.spawn("carnet-timer", signal, Box::new(ticker)));
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.signal.ring();
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = worker.take() {
            worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Ticker {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
}

impl Worker for Ticker {
    fn step(&mut self) -> Step {
        let now = self.clock.now();
        let mut due = Vec::new();
        let mut state = self.shared.lock();
        if state.closed {
            return Step::Done;
        }
        while let Some(first) = state.waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            due.push(first.remove());
        }
        let next = state.waiting.keys().next().map(|(moment, _)| moment.since(now));
        drop(state);
        due.into_iter().for_each(Waker::wake);
        Step::Idle(next)
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::{SystemClock, ThreadSpawn, block_on};

    use super::*;

    #[test]
    fn waits_end_in_the_order_of_their_moments() {
        let clock = SystemClock;
        let timer = Timer::new(Arc::new(SystemClock), Arc::new(ThreadSpawn));
        let before = clock.now();
        let long = timer.wait(Duration::from_millis(30));
        block_on(timer.wait(Duration::from_millis(10)));
        let between = clock.now();
        block_on(long);
        assert!(between.since(before) >= Duration::from_millis(10));
        assert!(clock.now().since(before) >= Duration::from_millis(30));
    }
}
