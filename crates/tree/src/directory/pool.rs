//! Thread pool for blocking file I/O.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use carnet_base::{Error, Result, Signal, Spawn, Step, Worker, WorkerHandle};

use crate::job::lock;

/// Number of concurrent syncs; the device merges them.
const THREADS: usize = 8;

type Work = Box<dyn FnOnce() + Send>;

/// Runs work on its threads, or in the caller's if it has none.
#[derive(Default)]
pub(crate) struct Pool {
    queue: Arc<Mutex<Queue>>,
    workers: Vec<(Signal, WorkerHandle)>,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    is_closed: bool,
}

struct PoolWorker(Arc<Mutex<Queue>>);

impl Worker for PoolWorker {
    fn step(&mut self) -> Step {
        let mut queue = lock(&self.0);
        match queue.work.pop_front() {
            Some(work) => {
                drop(queue);
                work();
                Step::Again
            }
            None if queue.is_closed => Step::Done,
            None => Step::Idle(None),
        }
    }
}

impl Pool {
    pub(crate) fn new(spawn: &dyn Spawn) -> Self {
        let queue: Arc<Mutex<Queue>> = Arc::default();
        let start = |n| {
            let (signal, worker) = (Signal::new(), Box::new(PoolWorker(Arc::clone(&queue))));
            let handle = spawn.spawn(&format!("carnet-tree-{n}"), signal.clone(), worker);
            (signal, handle)
        };
        let workers = (0..THREADS).map(start).collect();
        Self { queue, workers }
    }

    /// Runs work. The work is completed even if the future is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.workers.is_empty() {
            return work();
        }
        let answer: Slot<T> = Arc::new(Mutex::new((None, None)));
        let theirs = Answerer(Arc::clone(&answer));
        lock(&self.queue).work.push_back(Box::new(move || theirs.answer(work())));
        for (signal, _) in &self.workers {
            signal.ring();
        }
        poll_fn(|context| {
            let mut answer = lock(&answer);
            if let Some(result) = answer.0.take() {
                return Poll::Ready(result);
            }
            answer.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

/// An answer and the waker of the task that waits for it.
type Slot<T> = Arc<Mutex<(Option<Result<T>>, Option<Waker>)>>;

/// Answers once, also if the work panicked or never ran.
struct Answerer<T>(Slot<T>);

impl<T> Answerer<T> {
    fn answer(&self, result: Result<T>) {
        lock(&self.0).0 = Some(result);
    }
}

impl<T> Drop for Answerer<T> {
    fn drop(&mut self) {
        let mut answer = lock(&self.0);
        answer.0.get_or_insert_with(|| {
            Err(Error::unavailable("a worker thread of the tree stopped before it answered"))
        });
        let waker = answer.1.take();
        drop(answer);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        lock(&self.queue).is_closed = true;
        for (signal, handle) in self.workers.drain(..) {
            signal.ring();
            handle.join();
        }
    }
}
