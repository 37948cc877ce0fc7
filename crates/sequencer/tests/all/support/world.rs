//! Virtual time, and processes that the test drives, pauses and kills.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use carnet_base::{Task, Tasks, Timer, VirtualTimer};

/// More steps than any test takes without an endless loop.
const STEPS_MAX: usize = 200_000;

/// The tasks of one process.
#[derive(Default)]
pub struct Process {
    state: Mutex<State>,
    is_paused: AtomicBool,
}

#[derive(Default)]
struct State {
    parked: BTreeMap<u64, Task>,
    ready: BTreeSet<u64>,
    spawned: u64,
    is_dead: bool,
}

impl Process {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Stops the process until it is resumed.
    pub fn pause(&self) {
        self.is_paused.store(true, Ordering::SeqCst);
    }

    pub fn resume(&self) {
        self.is_paused.store(false, Ordering::SeqCst);
    }

    /// Ends the process immediately.
    pub fn kill(&self) {
        let mut state = self.lock();
        state.is_dead = true;
        let left = std::mem::take(&mut state.parked);
        drop(state);
        drop(left);
    }

    /// Polls the oldest ready task; returns `false` if there is none.
    fn step(self: &Arc<Self>) -> bool {
        if self.is_paused.load(Ordering::SeqCst) {
            return false;
        }
        let mut state = self.lock();
        let Some(number) = state.ready.pop_first() else { return false };
        let Some(mut task) = state.parked.remove(&number) else { return true };
        drop(state);
        let waker = Waker::from(Arc::new(Ready { number, process: Arc::clone(self) }));
        let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.lock();
        if polled.is_pending() && !state.is_dead {
            state.parked.insert(number, task);
        } else {
            drop(state);
            drop(task);
        }
        true
    }
}

impl Tasks for Process {
    fn spawn(&self, task: Task) {
        let mut state = self.lock();
        if state.is_dead {
            return;
        }
        state.spawned += 1;
        let number = state.spawned;
        state.parked.insert(number, task);
        state.ready.insert(number);
    }
}

struct Ready {
    number: u64,
    process: Arc<Process>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.process.lock().ready.insert(self.number);
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Time and processes.
#[derive(Default)]
pub struct World {
    /// Stands still while any process can go on.
    pub time: VirtualTimer,
    processes: Mutex<Vec<Arc<Process>>>,
}

impl World {
    pub fn process(&self) -> Arc<Process> {
        let process = Arc::new(Process::default());
        self.processes.lock().unwrap().push(Arc::clone(&process));
        process
    }

    /// Runs everything until a future is done.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&flag));
        for _ in 0..STEPS_MAX {
            if flag.0.swap(false, Ordering::SeqCst)
                && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return value;
            }
            let has_stepped = self.step();
            let is_idle = !has_stepped && !flag.0.load(Ordering::SeqCst);
            assert!(!is_idle || self.time.advance(), "stuck: no task waits for time");
        }
        panic!("it never ends");
    }

    fn step(&self) -> bool {
        let processes = self.processes.lock().unwrap().clone();
        processes.iter().filter(|process| process.step()).count() > 0
    }

    /// Lets time pass.
    pub fn pass(&self, wait: Duration) {
        self.run(self.time.wait(wait));
    }

    /// Runs everything that can go on without time passing.
    pub fn settle(&self) {
        assert!((0..STEPS_MAX).any(|_| !self.step()), "it never ends");
    }
}
