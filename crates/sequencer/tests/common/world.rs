//! Virtual time, and processes that the test drives, pauses and kills.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use carnet_base::{Clock, Moment, Task, Tasks, Timer, Wait, WallTime};

/// More steps than any test takes without an endless loop.
const STEPS_MAX: usize = 200_000;

/// Virtual time: it stands still while any process can go on.
#[derive(Default)]
pub struct Time(Mutex<Waits>);

#[derive(Default)]
struct Waits {
    now: Moment,
    tickets: u64,
    waiting: BTreeMap<(Moment, u64), Waker>,
}

impl Time {
    fn advance(&self) -> bool {
        let mut time = self.0.lock().unwrap();
        let Some(((moment, _), waker)) = time.waiting.pop_first() else { return false };
        time.now = time.now.max(moment);
        drop(time);
        waker.wake();
        true
    }
}

impl Clock for Time {
    fn now(&self) -> Moment {
        self.0.lock().unwrap().now
    }

    fn wall(&self) -> WallTime {
        WallTime(i64::try_from(Clock::now(self).0.as_micros()).unwrap())
    }
}

/// The timer of a world.
pub struct VirtualTimer(pub Arc<Time>);

impl Timer for VirtualTimer {
    fn now(&self) -> Moment {
        Clock::now(&*self.0)
    }

    fn wait(&self, wait: Duration) -> Wait {
        let until = Timer::now(self).after(wait);
        Box::pin(Waiting { time: Arc::clone(&self.0), until, ticket: None })
    }
}

struct Waiting {
    time: Arc<Time>,
    until: Moment,
    ticket: Option<u64>,
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.time);
        let mut time = shared.0.lock().unwrap();
        if time.now >= self.until {
            return Poll::Ready(());
        }
        let ticket = *self.ticket.get_or_insert_with(|| {
            time.tickets += 1;
            time.tickets
        });
        let before = time.waiting.insert((self.until, ticket), context.waker().clone());
        drop(time);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let waker = self.time.0.lock().unwrap().waiting.remove(&(self.until, ticket));
            drop(waker);
        }
    }
}

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
    pub time: Arc<Time>,
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
        self.run(VirtualTimer(Arc::clone(&self.time)).wait(wait));
    }

    /// Runs everything that can go on without time passing.
    pub fn settle(&self) {
        assert!((0..STEPS_MAX).any(|_| !self.step()), "it never ends");
    }
}
