//! Timers: the interface for waiting, which tests and the simulator replace.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{Clock, Moment, Signal, Spawn, Step, Worker, WorkerHandle, lock};

/// A wait in progress. Dropping it cancels the wait.
pub type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Reads the clock and waits. Implemented by a runtime, a simulator, or a thread.
pub trait Timer: Send + Sync + 'static {
    /// Reads the monotonic clock.
    fn now(&self) -> Moment;
    /// Completes when the time has passed.
    fn wait(&self, wait: Duration) -> Wait;
}

/// Returns the output of a future, or `None` if the limit completes first.
pub async fn before<T>(
    limit: impl Future<Output = ()>,
    future: impl Future<Output = T>,
) -> Option<T> {
    let (mut limit, mut future) = (pin!(limit), pin!(future));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => limit.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// A timer with its own thread, for callers without a runtime.
pub struct ThreadTimer {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    thread: Mutex<Thread>,
}

/// State of the thread.
enum Thread {
    /// The first wait starts the thread.
    Later(Arc<dyn Spawn>),
    Started(WorkerHandle),
    Ended,
}

#[derive(Default)]
struct Shared {
    state: Mutex<TimerState>,
    signal: Signal,
}

#[derive(Default)]
struct TimerState {
    waiting: BTreeMap<(Moment, u64), Waker>,
    tickets: u64,
    is_closed: bool,
}

impl ThreadTimer {
    /// Creates a timer and starts its thread.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, spawn: &dyn Spawn) -> Self {
        let shared = Arc::new(Shared::default());
        let thread = Mutex::new(Thread::Started(Ticker::spawn(&clock, &shared, spawn)));
        Self { clock, shared, thread }
    }

    /// Like [`ThreadTimer::new`], but the first wait starts the thread, for callers that mostly
    /// never wait.
    #[must_use]
    pub fn lazy(clock: Arc<dyn Clock>, spawn: Arc<dyn Spawn>) -> Self {
        Self { clock, shared: Arc::default(), thread: Mutex::new(Thread::Later(spawn)) }
    }

    fn thread(&self) -> MutexGuard<'_, Thread> {
        lock(&self.thread)
    }

    fn start(&self) {
        let mut thread = self.thread();
        if let Thread::Later(spawn) = &*thread {
            *thread = Thread::Started(Ticker::spawn(&self.clock, &self.shared, &**spawn));
        }
    }
}

impl Timer for ThreadTimer {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn wait(&self, wait: Duration) -> Wait {
        self.start();
        let clock = Arc::clone(&self.clock);
        let shared = Arc::clone(&self.shared);
        let until = clock.now().after(wait);
        Box::pin(Waiting { clock, shared, until, ticket: None })
    }
}

/// A wait that removes itself when it is dropped: most waits are timeouts of calls that succeed.
struct Waiting {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
    until: Moment,
    ticket: Option<u64>,
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.until {
            return Poll::Ready(());
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let ticket = *self.ticket.get_or_insert_with(|| {
            state.tickets += 1;
            state.tickets
        });
        let key = (self.until, ticket);
        // Drop the waker outside the lock: it may be the last owner of a task.
        let before = state.waiting.insert(key, context.waker().clone());
        let is_next = state.waiting.first_key_value().is_some_and(|(first, _)| *first == key);
        drop(state);
        drop(before);
        if is_next {
            shared.signal.ring();
        }
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.shared.lock();
            let waker = state.waiting.remove(&(self.until, ticket));
            drop(state);
            drop(waker);
        }
    }
}

impl Drop for ThreadTimer {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.signal.ring();
        if let Thread::Started(worker) = std::mem::replace(&mut *self.thread(), Thread::Ended) {
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
    fn lock(&self) -> MutexGuard<'_, TimerState> {
        lock(&self.state)
    }
}

struct Ticker {
    clock: Arc<dyn Clock>,
    shared: Arc<Shared>,
}

impl Ticker {
    fn spawn(clock: &Arc<dyn Clock>, shared: &Arc<Shared>, spawn: &dyn Spawn) -> WorkerHandle {
        let ticker = Self { clock: Arc::clone(clock), shared: Arc::clone(shared) };
        spawn.spawn("carnet-timer", shared.signal.clone(), Box::new(ticker))
    }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Stepped, SystemClock, ThreadSpawn, block_on};

    #[test]
    fn waits_end_in_the_order_of_their_moments() {
        let clock = SystemClock;
        for timer in [
            ThreadTimer::new(Arc::new(SystemClock), &ThreadSpawn),
            ThreadTimer::lazy(Arc::new(SystemClock), Arc::new(ThreadSpawn)),
        ] {
            let before = clock.now();
            let long = timer.wait(Duration::from_millis(30));
            block_on(timer.wait(Duration::from_millis(10)));
            let between = clock.now();
            block_on(long);
            assert!(between.since(before) >= Duration::from_millis(10));
            assert!(clock.now().since(before) >= Duration::from_millis(30));
        }
    }

    #[test]
    fn lazy_timer_starts_its_thread_late() {
        #[derive(Default)]
        struct Counted(Stepped, AtomicUsize);
        impl Spawn for Counted {
            fn spawn(&self, name: &str, signal: Signal, worker: Box<dyn Worker>) -> WorkerHandle {
                self.1.fetch_add(1, Ordering::Relaxed);
                self.0.spawn(name, signal, worker)
            }
        }
        let spawn = Arc::new(Counted::default());
        let timer = ThreadTimer::lazy(Arc::new(SystemClock), Arc::clone(&spawn) as _);
        assert_eq!(spawn.1.load(Ordering::Relaxed), 0);
        drop([timer.wait(Duration::ZERO), timer.wait(Duration::ZERO)]);
        assert_eq!(spawn.1.load(Ordering::Relaxed), 1);
    }
    #[test]
    fn a_wait_that_is_given_up_leaves_nothing_behind() {
        let timer = ThreadTimer::new(Arc::new(SystemClock), &ThreadSpawn);
        for _ in 0..10 {
            let mut wait = timer.wait(Duration::from_secs(3600));
            assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert!(timer.shared.lock().waiting.is_empty());
    }
}
