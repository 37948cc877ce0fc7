//! The simulated machine: one thread, virtual time, and an order drawn from a seed.
//!
//! ```text
//!  woken tasks ──┐ + a latency                       ┌─▶ poll a task
//!  rung workers ─┼────────────▶ events, by (moment, ─┼─▶ step a worker
//!  timers ───────┘               a random number)    └─▶ wake a sleeper
//! ```
//!
//! Time jumps to the next event; no thread sleeps. Each wake-up has its own latency, mostly
//! microseconds and sometimes milliseconds, so the first task to be woken is not always the first
//! to run, like a thread that the operating system preempted.
//!
//! Tasks and workers belong to a [`Process`], which can be paused and killed as a whole.
//!
//! A poll takes no time, unless the process was given [processors](Executor::give_processors).
//!
//! The *trace* is a hash over every event with its moment: two runs of a seed that differ in
//! anything differ in it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use carnet_base::{
    Clock, Moment, Rng, SeededRng, Signal, Spawn, Step, Task, Tasks, Timer, Wait, WallTime, Worker,
    WorkerHandle,
};

use crate::processors::{PollLengths, Priority, Processor, Processors};

/// Wall time at the begin of virtual time: 2020-09-13 12:26:40 UTC.
const EPOCH_MICROS: i64 = 1_600_000_000_000_000;

/// A process of the simulated system: it is paused and killed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub u32);

/// The machine. Clones are handles of the same one.
#[derive(Clone)]
pub struct Executor(Rc<Inner>);

struct Inner {
    state: RefCell<State>,
    nanos: Arc<AtomicU64>,
    woken: Arc<Mutex<Vec<u64>>>,
    spawned: Arc<Mutex<Vec<SpawnedWorker>>>,
    sent: Arc<Mutex<Vec<(Process, Task)>>>,
    sleepers: Arc<Mutex<Vec<(u64, Waker)>>>,
}

type Local = Pin<Box<dyn Future<Output = ()>>>;

struct State {
    rng: SeededRng,
    /// Events by moment; events of the same moment are ordered by the second, random number.
    events: BTreeMap<(u64, u64), Event>,
    tasks: BTreeMap<u64, Job>,
    workers: BTreeMap<u64, WorkerSlot>,
    paused: BTreeMap<Process, u64>,
    processors: BTreeMap<Process, Processors>,
    /// The task being polled.
    current: Option<u64>,
    numbers: u64,
    trace: u64,
    turns: u64,
}

enum Event {
    Poll(u64),
    /// A processor has completed a poll.
    Release(Process),
    Step(u64),
    Wake(Waker),
}

struct Job {
    process: Process,
    /// Taken while it is polled.
    future: Option<Local>,
    waker: Waker,
    /// Whether a poll is among the events.
    is_due: bool,
    priority: Priority,
}

/// A spawned worker that the machine has not taken over yet.
struct SpawnedWorker {
    process: Process,
    name: String,
    signal: Signal,
    worker: Box<dyn Worker>,
}

struct WorkerSlot {
    process: Process,
    name: String,
    signal: Signal,
    /// Taken while it is stepped.
    worker: Option<Box<dyn Worker>>,
    due: Option<(u64, u64)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Executor {
    /// Creates an idle machine.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
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

    fn take_over(&self, process: Process, future: Local) {
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
        let State { current, tasks, .. } = &mut *state;
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

    fn now_nanos(&self) -> u64 {
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

    /// Pauses a process for a time, like a machine that swaps or collects garbage.
    pub fn pause(&self, process: Process, time: Duration) {
        let until = self.now_nanos().saturating_add(nanos(time));
        let mut state = self.0.state.borrow_mut();
        let paused = state.paused.entry(process).or_default();
        *paused = until.max(*paused);
    }

    /// Delays the workers of a process with a prefix of their names, like a stalled device.
    pub fn stall_workers(&self, process: Process, prefix: &str, time: Duration) {
        let until = self.now_nanos().saturating_add(nanos(time));
        let mut state = self.0.state.borrow_mut();
        let State { workers, events, rng, .. } = &mut *state;
        let stalled = workers
            .iter_mut()
            .filter(|(_, it)| it.process == process && it.name.starts_with(prefix));
        for (number, hand) in stalled {
            if let Some(due) = hand.due.take() {
                events.remove(&due);
            }
            let at = (until, rng.next_u64());
            events.insert(at, Event::Step(*number));
            hand.due = Some(at);
        }
    }

    /// Ends the tasks of a process immediately. Its workers go on.
    pub fn kill_tasks(&self, process: Process) {
        self.adopt_spawned();
        let mut state = self.0.state.borrow_mut();
        let killed: Vec<_> = state.tasks.extract_if(.., |_, job| job.process == process).collect();
        // Drop outside the borrow: it may wake other tasks.
        drop(state);
        drop(killed);
    }

    /// Ends a process: drops its tasks immediately, and then its workers.
    pub fn kill(&self, process: Process) {
        self.kill_tasks(process);
        let mut state = self.0.state.borrow_mut();
        state.paused.remove(&process);
        let killed: Vec<_> =
            state.workers.extract_if(.., |_, hand| hand.process == process).collect();
        drop(state);
        drop(killed);
    }

    /// Runs until the future, a task of no process, completes.
    ///
    /// Returns `None` if no event is left, or there were more than `turns_max`: a task waits for
    /// ever.
    pub fn run<T: 'static>(
        &self,
        turns_max: u64,
        future: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let output = Rc::new(RefCell::new(None));
        let result = Rc::clone(&output);
        self.spawn(Process(u32::MAX), async move {
            let value = future.await;
            *result.borrow_mut() = Some(value);
        });
        for _ in 0..turns_max {
            if output.borrow().is_some() || !self.turn() {
                break;
            }
        }
        output.take()
    }

    /// Processes the next event; returns `false` if there is none.
    fn turn(&self) -> bool {
        self.adopt_spawned();
        let event = {
            let mut state = self.0.state.borrow_mut();
            let now = self.now_nanos();
            for number in std::mem::take(&mut *lock(&self.0.woken)) {
                state.poll_soon(now, number);
            }
            for (until, waker) in std::mem::take(&mut *lock(&self.0.sleepers)) {
                let at = (until, state.rng.next_u64());
                state.events.insert(at, Event::Wake(waker));
            }
            state.step_rung(now);
            loop {
                let Some(((at, _), event)) = state.events.pop_first() else { return false };
                match state.process_of(&event) {
                    // It was dropped, or its process was killed.
                    None => {}
                    Some(process) => {
                        let now = self.0.nanos.fetch_max(at, Ordering::Relaxed).max(at);
                        let event = state.unless_paused(process, now, event);
                        if let Some(event) = event.and_then(|event| state.on_processor(event)) {
                            break event;
                        }
                    }
                }
            }
        };
        self.0.state.borrow_mut().turns += 1;
        match event {
            Event::Wake(waker) => waker.wake(),
            Event::Poll(number) => self.poll(number),
            Event::Step(number) => self.step(number),
            Event::Release(_) => {}
        }
        true
    }

    /// Takes over the spawned workers and tasks.
    fn adopt_spawned(&self) {
        for (process, task) in std::mem::take(&mut *lock(&self.0.sent)) {
            self.take_over(process, task);
        }
        let spawned = std::mem::take(&mut *lock(&self.0.spawned));
        let mut state = self.0.state.borrow_mut();
        for SpawnedWorker { process, name, signal, worker } in spawned {
            let number = state.number();
            let hand = WorkerSlot { process, name, signal, worker: Some(worker), due: None };
            state.workers.insert(number, hand);
            let at = self.now_nanos();
            state.step_at(number, at);
        }
    }

    fn poll(&self, number: u64) {
        let begun = self.now_nanos();
        let taken = {
            let mut state = self.0.state.borrow_mut();
            state.note(number);
            state.current = Some(number);
            let job = state.tasks.get_mut(&number);
            job.and_then(|job| {
                job.is_due = false;
                job.future.take().map(|future| (future, job.waker.clone(), job.process))
            })
        };
        let Some((mut future, waker, process)) = taken else { return };
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.end_poll(process, begun);
        let mut state = self.0.state.borrow_mut();
        let ended = match polled {
            Poll::Ready(()) => state.tasks.remove(&number),
            Poll::Pending => {
                if let Some(job) = state.tasks.get_mut(&number) {
                    job.future = Some(future);
                    return;
                }
                None
            }
        };
        drop(state);
        drop(ended);
    }

    /// Lets the time spent by a poll pass only for its processor, and for the tasks that it woke.
    fn end_poll(&self, process: Process, begun: u64) {
        self.0.state.borrow_mut().current = None;
        if !self.0.state.borrow().processors.contains_key(&process) {
            return;
        }
        self.adopt_spawned();
        let mut state = self.0.state.borrow_mut();
        let ended = self.now_nanos();
        for number in std::mem::take(&mut *lock(&self.0.woken)) {
            state.poll_soon(ended, number);
        }
        self.0.nanos.store(begun, Ordering::Relaxed);
        if let Some(processors) = state.processors.get_mut(&process) {
            processors.record(Duration::from_nanos(ended - begun));
        }
        let at = (ended, state.rng.next_u64());
        state.events.insert(at, Event::Release(process));
    }

    fn step(&self, number: u64) {
        let taken = {
            let mut state = self.0.state.borrow_mut();
            state.note(!number);
            let hand = state.workers.get_mut(&number);
            hand.and_then(|hand| {
                hand.due = None;
                let _ = hand.signal.take();
                hand.worker.take()
            })
        };
        let Some(mut worker) = taken else { return };
        let step = worker.step();
        let mut state = self.0.state.borrow_mut();
        let now = self.now_nanos();
        if step == Step::Done {
            let ended = state.workers.remove(&number);
            drop(state);
            drop((worker, ended));
            return;
        }
        if let Some(hand) = state.workers.get_mut(&number) {
            hand.worker = Some(worker);
        }
        match step {
            Step::Again => {
                let latency = state.latency();
                state.step_at(number, now + latency);
            }
            Step::Idle(Some(wait)) => state.step_at(number, now.saturating_add(nanos(wait))),
            Step::Idle(None) | Step::Done => {}
        }
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn note(&mut self, what: u64) {
        // One round of SplitMix64 each: cheap, and it mixes all bits.
        self.trace = SeededRng::new(self.trace ^ what).next_u64();
    }

    /// Draws the latency of a wake-up.
    fn latency(&mut self) -> u64 {
        match self.rng.below(100) {
            0..70 => self.rng.below(2_000),
            70..98 => self.rng.below(50_000),
            _ => self.rng.below(2_000_000),
        }
    }

    /// Draws the latency of a task's wake-up. With processors, waiting for one comes in addition.
    fn latency_of(&mut self, number: u64) -> u64 {
        let process = self.tasks.get(&number).map(|job| job.process);
        match process.filter(|process| self.processors.contains_key(process)) {
            Some(_) => self.rng.below(2_000),
            None => self.latency(),
        }
    }

    fn poll_soon(&mut self, now: u64, number: u64) {
        let at = (now + self.latency_of(number), self.rng.next_u64());
        if let Some(job) = self.tasks.get_mut(&number)
            && !std::mem::replace(&mut job.is_due, true)
        {
            self.events.insert(at, Event::Poll(number));
        }
    }

    fn step_at(&mut self, number: u64, moment: u64) {
        let at = (moment, self.rng.next_u64());
        if let Some(hand) = self.workers.get_mut(&number) {
            if let Some(due) = hand.due.replace(at) {
                self.events.remove(&due);
            }
            self.events.insert(at, Event::Step(number));
        }
    }

    /// Schedules the workers whose signals rang.
    fn step_rung(&mut self, now: u64) {
        let rung: Vec<u64> = self
            .workers
            .iter()
            .filter(|(_, hand)| hand.signal.take())
            .map(|(number, _)| *number)
            .collect();
        for number in rung {
            let soon = now + self.latency();
            let due = self.workers.get(&number).and_then(|hand| hand.due);
            if due.is_none_or(|(due, _)| due > soon) {
                self.step_at(number, soon);
            }
        }
    }

    /// Returns the process of an event; a sleeper's is that of the machine. `None` if it no longer
    /// exists.
    fn process_of(&self, event: &Event) -> Option<Process> {
        match event {
            Event::Wake(_) => Some(Process(u32::MAX)),
            Event::Poll(number) => self.tasks.get(number).map(|job| job.process),
            Event::Step(number) => self.workers.get(number).map(|hand| hand.process),
            Event::Release(process) => Some(*process),
        }
    }

    /// Returns the event if it needs no processor or there is a free one; a poll waits otherwise.
    fn on_processor(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Poll(number) => {
                let job = self.tasks.get(&number)?;
                let processors = self.processors.get_mut(&job.process);
                processors.is_none_or(|all| all.ask(number, job.priority)).then_some(event)
            }
            Event::Release(process) => {
                let processors = self.processors.get_mut(&process)?;
                while let Some(next) = processors.release() {
                    // It may have been killed while it waited.
                    if self.tasks.contains_key(&next) {
                        return Some(Event::Poll(next));
                    }
                }
                Some(event)
            }
            Event::Step(_) | Event::Wake(_) => Some(event),
        }
    }

    /// Postpones an event if its process is paused.
    fn unless_paused(&mut self, process: Process, now: u64, event: Event) -> Option<Event> {
        let Some(&until) = self.paused.get(&process).filter(|until| **until > now) else {
            return Some(event);
        };
        let at = (until, self.rng.next_u64());
        if let Event::Step(number) = event
            && let Some(hand) = self.workers.get_mut(&number)
        {
            hand.due = Some(at);
        }
        self.events.insert(at, event);
        None
    }
}

/// Lets other tasks run first.
#[must_use]
pub fn yield_once() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut has_yielded = false;
    Box::pin(poll_fn(move |context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }))
}

struct TaskWaker {
    number: u64,
    woken: Arc<Mutex<Vec<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        lock(&self.woken).push(self.number);
    }
}

/// Spawns workers of a process on the machine.
#[derive(Clone)]
pub struct Spawner {
    process: Process,
    spawned: Arc<Mutex<Vec<SpawnedWorker>>>,
}

impl Spawn for Spawner {
    fn spawn(&self, name: &str, signal: Signal, worker: Box<dyn Worker>) -> WorkerHandle {
        let name = name.to_owned();
        lock(&self.spawned).push(SpawnedWorker { process: self.process, name, signal, worker });
        WorkerHandle::detached()
    }
}

/// Spawns tasks of a process on the machine.
#[derive(Clone)]
pub struct SimTasks {
    process: Process,
    sent: Arc<Mutex<Vec<(Process, Task)>>>,
}

impl Tasks for SimTasks {
    fn spawn(&self, task: Task) {
        lock(&self.sent).push((self.process, task));
    }
}

/// A timer of virtual time.
#[derive(Clone)]
pub struct SimTimer {
    nanos: Arc<AtomicU64>,
    sleepers: Arc<Mutex<Vec<(u64, Waker)>>>,
}

impl Timer for SimTimer {
    fn now(&self) -> Moment {
        Moment(Duration::from_nanos(self.nanos.load(Ordering::Relaxed)))
    }

    fn wait(&self, wait: Duration) -> Wait {
        let this = self.clone();
        let until = this.nanos.load(Ordering::Relaxed).saturating_add(nanos(wait));
        let mut is_set = false;
        Box::pin(poll_fn(move |context| {
            if this.nanos.load(Ordering::Relaxed) >= until {
                return Poll::Ready(());
            }
            // The machine polls a task only after it was woken, always with the same waker.
            if !std::mem::replace(&mut is_set, true) {
                lock(&this.sleepers).push((until, context.waker().clone()));
            }
            Poll::Pending
        }))
    }
}

/// A clock of virtual time.
#[derive(Clone)]
pub struct SimClock {
    nanos: Arc<AtomicU64>,
    jumped_micros: Arc<AtomicI64>,
}

impl SimClock {
    /// Sets the wall clock forward or back.
    pub fn jump(&self, micros: i64) {
        self.jumped_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        Moment(Duration::from_nanos(self.nanos.load(Ordering::Relaxed)))
    }

    fn wall(&self) -> WallTime {
        let passed = i64::try_from(self.nanos.load(Ordering::Relaxed) / 1_000).unwrap_or(i64::MAX);
        let jumped = self.jumped_micros.load(Ordering::Relaxed);
        WallTime(EPOCH_MICROS.saturating_add(passed).saturating_add(jumped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Process = Process(1);

    #[test]
    fn sleepers_wake_in_order_in_virtual_time() {
        let executor = Executor::new(1);
        let order = Rc::new(RefCell::new(Vec::new()));
        for hours in [3, 1, 2] {
            let (machine, order) = (executor.clone(), Rc::clone(&order));
            executor.spawn(ME, async move {
                machine.sleep(Duration::from_secs(3600 * hours)).await;
                order.borrow_mut().push(hours);
            });
        }
        let machine = executor.clone();
        let day = async move { machine.sleep(Duration::from_secs(86_400)).await };
        assert_eq!(executor.run(1000, day), Some(()));
        assert_eq!(*order.borrow(), [1, 2, 3]);
        assert!(executor.now() >= Duration::from_secs(86_400));
    }

    #[test]
    fn seed_determines_the_order_of_ready_tasks() {
        let order = |seed| {
            let executor = Executor::new(seed);
            let order = Rc::new(RefCell::new(Vec::new()));
            for number in 0..10 {
                let (machine, order) = (executor.clone(), Rc::clone(&order));
                executor.spawn(ME, async move {
                    machine.pause_briefly().await;
                    order.borrow_mut().push(number);
                });
            }
            let machine = executor.clone();
            executor.run(1000, async move { machine.sleep(Duration::from_secs(1)).await });
            (order.take(), executor.trace())
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1).0, order(2).0);
        assert_ne!(order(1).1, order(2).1);
    }

    #[test]
    fn waiting_for_ever_is_detected() {
        let executor = Executor::new(1);
        assert_eq!(executor.run(1000, std::future::pending::<()>()), None);
    }

    struct Counter(Arc<AtomicU64>);

    impl Worker for Counter {
        fn step(&mut self) -> Step {
            self.0.fetch_add(1, Ordering::Relaxed);
            Step::Idle(None)
        }
    }

    #[test]
    fn workers_step_on_rings_until_their_process_dies() {
        let executor = Executor::new(1);
        let (steps, signal) = (Arc::new(AtomicU64::new(0)), Signal::new());
        let worker = Box::new(Counter(Arc::clone(&steps)));
        executor.spawner(ME).spawn("counter", signal.clone(), worker).join();
        let sleep = |seconds| {
            let machine = executor.clone();
            executor.run(100, async move { machine.sleep(Duration::from_secs(seconds)).await });
        };
        sleep(1);
        assert_eq!(steps.load(Ordering::Relaxed), 1, "once when it is spawned");
        executor.pause(ME, Duration::from_secs(10));
        signal.ring();
        sleep(5);
        assert_eq!(steps.load(Ordering::Relaxed), 1, "it is paused");
        sleep(10);
        assert_eq!(steps.load(Ordering::Relaxed), 2);
        executor.kill(ME);
        signal.ring();
        sleep(1);
        assert_eq!(steps.load(Ordering::Relaxed), 2);
    }
}
