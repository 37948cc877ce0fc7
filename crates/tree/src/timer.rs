//! The door through which waiting enters: a future that completes when its time has passed.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use carnet_base::{Clock, Moment, Signal, Spawn, Step, Worker, WorkerHandle};

/// A wait on its way. Dropping it gives the wait up.
pub type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time and waits. A runtime, a simulator, or a thread stands behind it.
pub trait Timer: Send + Sync + 'static {
    /// Reads the monotonic clock.
    fn now(&self) -> Moment;
    /// Completes when the time has passed.
    fn wait(&self, wait: Duration) -> Wait;
}

/// A timer that has a thread of its own, for whoever has no runtime.
pub struct ThreadTimer {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    worker: Option<WorkerHandle>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    signal: Signal,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<(Moment, u64), Waker>,
    tickets: u64,
    is_closed: bool,
}

impl ThreadTimer {
    /// Starts the thread.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, spawn: &dyn Spawn) -> Self {
        let shared = Arc::new(Shared::default());
        let ticker = Ticker { clock: Arc::clone(&clock), shared: Arc::clone(&shared) };
        let worker = spawn.spawn("carnet-tree-timer", shared.signal.clone(), Box::new(ticker));
        Self { clock, shared, worker: Some(worker) }
    }
}

impl Timer for ThreadTimer {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn wait(&self, wait: Duration) -> Wait {
        let clock = Arc::clone(&self.clock);
        let shared = Arc::clone(&self.shared);
        let until = clock.now().after(wait);
        let mut ticket = None;
        Box::pin(poll_fn(move |context| {
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
        }))
    }
}

impl Drop for ThreadTimer {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.signal.ring();
        if let Some(worker) = self.worker.take() {
            worker.join();
        }
    }
}

impl fmt::Debug for ThreadTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadTimer")
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
        if state.is_closed {
            return Step::Done;
        }
        while let Some(first) = state.waiting.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        let next = state.waiting.keys().next().map(|(moment, _)| moment.since(now));
        drop(state);
        due.into_iter().for_each(Waker::wake);
        Step::Idle(next)
    }
}
