//! Deterministic simulation for tests: virtual time for a [`Timer`], and tasks in an order from a
//! seed. A run takes no real time, and the same seed gives the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Moment, Rng, SeededRng, Timer, Wait};

/// Virtual time; it does not advance while a task is ready.
#[derive(Clone, Default)]
pub struct SimTimer(Arc<Mutex<Time>>);

#[derive(Default)]
struct Time {
    now: Moment,
    waiting: BTreeMap<(Moment, u64), Waker>,
    tickets: u64,
}

impl SimTimer {
    /// Advances to the next moment that a task waits for. Returns `false` if no task waits.
    fn advance(&self) -> bool {
        let mut time = lock(&self.0);
        let Some(((moment, _), waker)) = time.waiting.pop_first() else { return false };
        time.now = time.now.max(moment);
        drop(time);
        waker.wake();
        true
    }
}

impl Timer for SimTimer {
    fn now(&self) -> Moment {
        lock(&self.0).now
    }

    fn wait(&self, wait: Duration) -> Wait {
        let time = Arc::clone(&self.0);
        let mut place = None;
        let until = self.now().after(wait);
        Box::pin(poll_fn(move |context| {
            let mut time = lock(&time);
            if time.now >= until {
                return Poll::Ready(());
            }
            time.tickets += 1;
            let ticket = time.tickets;
            let place = *place.get_or_insert((until, ticket));
            time.waiting.insert(place, context.waker().clone());
            Poll::Pending
        }))
    }
}

impl fmt::Debug for SimTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimTimer({:?})", self.now())
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks in virtual time.
pub struct Sim {
    timer: SimTimer,
    rng: SeededRng,
    tasks: BTreeMap<usize, Task>,
    spawned: usize,
    ready: Arc<Mutex<BTreeSet<usize>>>,
}

struct Ready {
    task: usize,
    ready: Arc<Mutex<BTreeSet<usize>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        lock(&self.ready).insert(self.task);
    }
}

impl Sim {
    /// Makes a simulation without tasks at the moment zero.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (timer, rng) = (SimTimer::default(), SeededRng::new(seed));
        Self { timer, rng, tasks: BTreeMap::new(), spawned: 0, ready: Arc::default() }
    }

    /// Returns the timer of the virtual time.
    #[must_use]
    pub fn timer(&self) -> SimTimer {
        self.timer.clone()
    }

    /// Adds a task.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.insert(self.spawned, Box::pin(task));
        lock(&self.ready).insert(self.spawned);
        self.spawned += 1;
    }

    /// Polls tasks in random order until all have ended. Returns the number of deadlocked tasks,
    /// which wait for an event that will not occur.
    #[must_use]
    pub fn run(&mut self) -> usize {
        while !self.tasks.is_empty() {
            match self.pick() {
                Some(task) => self.poll(task),
                None if self.timer.advance() => {}
                None => break,
            }
        }
        self.tasks.len()
    }

    fn pick(&mut self) -> Option<usize> {
        let mut ready = lock(&self.ready);
        let place = self.rng.below(ready.len() as u64);
        let task = *ready.iter().nth(usize::try_from(place).ok()?)?;
        ready.remove(&task);
        Some(task)
    }

    fn poll(&mut self, place: usize) {
        let Some(task) = self.tasks.get_mut(&place) else { return };
        let ready = Ready { task: place, ready: Arc::clone(&self.ready) };
        let waker = Waker::from(Arc::new(ready));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.tasks.remove(&place);
        }
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sim({} tasks)", self.tasks.len())
    }
}
