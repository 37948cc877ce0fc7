//! The machine and its handles.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use carnet_base::{Rng, SeededRng, Task, Timer, Wait};

use super::clock::{SimClock, SimTimer};
use super::process::Process;
use super::spawner::{SimTasks, SpawnedWorker, Spawner, TaskWaker};
use super::state::{Job, Local, MachineState};
use crate::processors::{PollLengths, Priority, Processor, Processors};

/// The machine. Clones are handles of the same one.
#[derive(Clone)]
pub struct Executor(pub(super) Rc<Inner>);

pub(super) struct Inner {
    pub(super) state: RefCell<MachineState>,
    pub(super) nanos: Arc<AtomicU64>,
    pub(super) woken: Arc<Mutex<Vec<u64>>>,
    pub(super) spawned: Arc<Mutex<Vec<SpawnedWorker>>>,
    pub(super) sent: Arc<Mutex<Vec<(Process, Task)>>>,
    pub(super) sleepers: Arc<Mutex<Vec<(u64, Waker)>>>,
}

impl Executor {
    /// Creates an idle machine.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = MachineState {
            rng: SeededRng::new(seed),
            events: BTreeMap::new(),
            tasks: BTreeMap::new(),
            workers: BTreeMap::new(),
            paused: BTreeMap::new(),
            processors: BTreeMap::new(),
            current: None,
            numbers: 0,
            trace: seed,
            turns: 0,
        };
        Self(Rc::new(Inner {
            state: RefCell::new(state),
            nanos: Arc::default(),
            woken: Arc::default(),
            spawned: Arc::default(),
            sent: Arc::default(),
            sleepers: Arc::default(),
        }))
    }

    /// Runs a future as a task of a process.
    pub fn spawn(&self, process: Process, future: impl Future<Output = ()> + 'static) {
        self.take_over(process, Box::pin(future));
    }

    pub(super) fn take_over(&self, process: Process, future: Local) {
        let mut state = self.0.state.borrow_mut();
        let number = state.number();
        let woken = Arc::clone(&self.0.woken);
        let waker = Waker::from(Arc::new(TaskWaker { number, woken }));
        let priority = Priority::Normal;
        let job = Job { process, future: Some(future), waker, is_due: false, priority };
        state.tasks.insert(number, job);
        state.poll_soon(self.now_nanos(), number);
    }

    /// Gives a process a number of processors. From then on its polls take the time that they
    /// [spend](Processor::spend), and wait for each other.
    pub fn give_processors(&self, process: Process, count: usize) {
        self.0.state.borrow_mut().processors.insert(process, Processors::new(count));
    }

    /// Returns a handle that spends processor time.
    #[must_use]
    pub fn processor(&self) -> Processor {
        Processor { nanos: Arc::clone(&self.0.nanos) }
    }

    /// Gives the current task low priority among tasks that wait for a processor.
    pub fn lower_priority(&self) {
        let mut state = self.0.state.borrow_mut();
        let MachineState { current, tasks, .. } = &mut *state;
        if let Some(job) = current.and_then(|number| tasks.get_mut(&number)) {
            job.priority = Priority::Low;
        }
    }

    /// Returns the lengths of the polls of a process with processors.
    #[must_use]
    pub fn polls(&self, process: Process) -> PollLengths {
        let state = self.0.state.borrow();
        state.processors.get(&process).map(Processors::lengths).unwrap_or_default()
    }

    /// Returns a handle that spawns tasks of a process.
    #[must_use]
    pub fn tasks(&self, process: Process) -> SimTasks {
        SimTasks { process, sent: Arc::clone(&self.0.sent) }
    }

    /// Returns a timer.
    #[must_use]
    pub fn timer(&self) -> SimTimer {
        SimTimer { nanos: Arc::clone(&self.0.nanos), sleepers: Arc::clone(&self.0.sleepers) }
    }

    /// Returns a handle that spawns workers of a process.
    #[must_use]
    pub fn spawner(&self, process: Process) -> Spawner {
        Spawner { process, spawned: Arc::clone(&self.0.spawned) }
    }

    /// Returns a new clock for a process; its wall clock can be made to jump.
    #[must_use]
    pub fn clock(&self) -> SimClock {
        SimClock { nanos: Arc::clone(&self.0.nanos), jumped_micros: Arc::default() }
    }

    /// Returns the time since the begin.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now_nanos())
    }

    pub(super) fn now_nanos(&self) -> u64 {
        self.0.nanos.load(Ordering::Relaxed)
    }

    /// Completes after a time.
    pub fn sleep(&self, time: Duration) -> Wait {
        self.timer().wait(time)
    }

    /// Lets other tasks run for a moment.
    pub fn pause_briefly(&self) -> Wait {
        let latency = self.0.state.borrow_mut().latency();
        self.sleep(Duration::from_nanos(latency.max(1)))
    }

    /// Draws a number below a bound.
    #[must_use]
    pub fn below(&self, bound: u64) -> u64 {
        self.0.state.borrow_mut().rng.below(bound)
    }

    /// Mixes an occurrence into the trace.
    pub fn note(&self, what: u64) {
        self.0.state.borrow_mut().note(what);
    }

    /// Returns the hash of all occurrences so far.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.0.state.borrow().trace
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.0.state.borrow().turns
    }
}
