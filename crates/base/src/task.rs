//! Tasks: the interface that drives background futures.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};

use crate::spawn::{Signal, Spawn, Step, Worker, WorkerHandle};
use crate::sync::lock;

/// A future that is driven until it ends.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Drives tasks. Implemented by a runtime, a simulator, or a worker.
pub trait Tasks: Send + Sync + 'static {
    /// Takes over a task. Tasks are first polled in the order in which they were spawned.
    fn spawn(&self, task: Task);
}

/// Drives tasks by one [`Worker`], for callers without a runtime. Dropping it drops the remaining
/// tasks.
pub struct WorkerTasks {
    shared: Arc<Shared>,
    worker: Option<WorkerHandle>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<TaskState>,
    signal: Signal,
}

#[derive(Default)]
struct TaskState {
    /// Tasks that wait to be woken.
    parked: HashMap<u64, Task>,
    /// Tasks to be polled, oldest first.
    ready: BTreeSet<u64>,
    spawned: u64,
    is_closed: bool,
}

impl WorkerTasks {
    /// Starts the worker.
    #[must_use]
    pub fn new(name: &str, spawn: &dyn Spawn) -> Self {
        let shared = Arc::new(Shared::default());
        let driver = Driver(Arc::clone(&shared));
        let worker = spawn.spawn(name, shared.signal.clone(), Box::new(driver));
        Self { shared, worker: Some(worker) }
    }
}

impl Tasks for WorkerTasks {
    fn spawn(&self, task: Task) {
        let mut state = self.shared.lock();
        if state.is_closed {
            return;
        }
        state.spawned += 1;
        let number = state.spawned;
        state.parked.insert(number, task);
        state.ready.insert(number);
        drop(state);
        self.shared.signal.ring();
    }
}

impl Drop for WorkerTasks {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_closed = true;
        let left = std::mem::take(&mut state.parked);
        drop(state);
        drop(left);
        self.shared.signal.ring();
        if let Some(worker) = self.worker.take() {
            worker.join();
        }
    }
}

impl fmt::Debug for WorkerTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerTasks({} parked)", self.shared.lock().parked.len())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, TaskState> {
        lock(&self.state)
    }
}

struct Driver(Arc<Shared>);

impl Worker for Driver {
    fn step(&mut self) -> Step {
        let mut state = self.0.lock();
        if state.is_closed {
            return Step::Done;
        }
        let Some(number) = state.ready.pop_first() else { return Step::Idle(None) };
        let Some(mut task) = state.parked.remove(&number) else { return Step::Again };
        drop(state);
        let waker = Waker::from(Arc::new(Ready { number, shared: Arc::clone(&self.0) }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            let mut state = self.0.lock();
            if !state.is_closed {
                state.parked.insert(number, task);
            }
        }
        Step::Again
    }
}

struct Ready {
    number: u64,
    shared: Arc<Shared>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A task that wakes itself while it is polled is found here and polled again.
        self.shared.lock().ready.insert(self.number);
        self.shared.signal.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;

    use super::*;
    use crate::spawn::{Stepped, ThreadSpawn};

    #[test]
    fn tasks_are_polled_in_order_and_after_wakes() {
        let stepped = Stepped::default();
        let tasks = WorkerTasks::new("tasks", &stepped);
        let log: Arc<Mutex<Vec<u32>>> = Arc::default();
        for number in 0..3 {
            let log = Arc::clone(&log);
            let mut polls = 0;
            tasks.spawn(Box::pin(poll_fn(move |context| {
                log.lock().unwrap().push(number);
                polls += 1;
                if number == 1 && polls < 3 {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            })));
        }
        stepped.settle();
        assert_eq!(*log.lock().unwrap(), [0, 1, 1, 1, 2]);
        assert_eq!(format!("{tasks:?}"), "WorkerTasks(0 parked)");
    }

    #[test]
    fn remaining_tasks_are_dropped() {
        let count = Arc::new(AtomicU32::new(0));
        let tasks = WorkerTasks::new("tasks", &ThreadSpawn);
        let held = Arc::clone(&count);
        tasks.spawn(Box::pin(async move {
            held.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }));
        while count.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        drop(tasks);
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
