//! Runs tasks on virtual time, in an order from a seed: a run takes no real time, and the same seed
//! gives the same run.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use carnet_base::{Rng, SeededRng, VirtualTimer, lock};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks in virtual time.
pub(crate) struct Sim {
    timer: VirtualTimer,
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
    pub(crate) fn new(seed: u64) -> Self {
        let (timer, rng) = (VirtualTimer::default(), SeededRng::new(seed));
        Self { timer, rng, tasks: BTreeMap::new(), spawned: 0, ready: Arc::default() }
    }

    /// Returns the timer of the virtual time.
    #[must_use]
    pub(crate) fn timer(&self) -> VirtualTimer {
        self.timer.clone()
    }

    /// Adds a task.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.insert(self.spawned, Box::pin(task));
        lock(&self.ready).insert(self.spawned);
        self.spawned += 1;
    }

    /// Polls tasks in random order until all have ended. Returns the number of deadlocked tasks,
    /// which wait for an event that will not occur.
    #[must_use]
    pub(crate) fn run(&mut self) -> usize {
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
