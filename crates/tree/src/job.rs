//! Queued transactions, and the futures of their callers.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use carnet_base::sync::lock;
use carnet_base::{Bytes, Error, Result};

use crate::view::{Left, View, Writes};

/// A transaction of any type.
pub(crate) trait Job: Send {
    /// Returns the keys that the caller named.
    fn keys(&self) -> &[Bytes];
    /// Runs the transaction, and keeps its result until it is answered. May be called repeatedly.
    fn run(&mut self, view: View<'_>) -> Result<Left>;
    /// Gives the result of the last run, or the error, to the caller.
    fn answer(&mut self, outcome: Result<()>);
}

/// Place for an answer.
pub(crate) type Slot<T> = Arc<Mutex<Option<Result<T>>>>;

pub(crate) struct Call<F, T> {
    pub(crate) keys: Vec<Bytes>,
    pub(crate) code: F,
    pub(crate) result: Option<Result<T>>,
    pub(crate) slot: Slot<T>,
}

impl<F, T> Job for Call<F, T>
where
    F: FnMut(&mut View<'_>) -> Result<T> + Send,
    T: Send,
{
    fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    fn run(&mut self, mut view: View<'_>) -> Result<Left> {
        let run = catch_unwind(AssertUnwindSafe(|| (self.code)(&mut view)));
        // Any caller's task may run the batch, so a panic must not unwind into it.
        let result =
            run.unwrap_or_else(|_| Err(Error::aborted("the code of the transaction panicked")));
        let mut left = view.finish()?;
        if result.is_err()
            && let Left::Writes(writes) = &mut left
        {
            *writes = Writes::new();
        }
        self.result = Some(result);
        Ok(left)
    }

    fn answer(&mut self, outcome: Result<()>) {
        let result = match outcome {
            Ok(()) => self.result.take().expect("a transaction is answered after it ran"),
            Err(error) => Err(error),
        };
        *lock(&self.slot) = Some(result);
    }
}

/// Wakers of all waiting callers. Each polled caller drives the batch, so each event wakes all.
#[derive(Default)]
pub(crate) struct Wakers(Mutex<(u64, BTreeMap<u64, Waker>)>);

impl Wakers {
    fn ticket(&self) -> u64 {
        let mut wakers = lock(&self.0);
        wakers.0 += 1;
        wakers.0
    }

    fn wait(&self, ticket: u64, waker: &Waker) {
        lock(&self.0).1.insert(ticket, waker.clone());
    }

    fn leave(&self, ticket: u64) {
        // The event may have woken only the caller that leaves. One other caller is enough to drive
        // the batch, and wakes the next one when it leaves.
        let mut wakers = lock(&self.0);
        wakers.1.remove(&ticket);
        let next = wakers.1.values().next().cloned();
        drop(wakers);
        next.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = lock(&self.0).1.values().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Holder of the one future that runs batches. Callers take turns to poll it, so dropping a caller
/// stops only its own wait.
#[derive(Default)]
pub(crate) struct JobDriver(Mutex<JobState>);

#[derive(Default)]
enum JobState {
    #[default]
    Idle,
    Polled,
    Parked(Driver),
}

impl JobDriver {
    /// Polls the driver once, unless another caller is polling it.
    fn turn(&self, start: impl FnOnce() -> Option<Driver>, wakers: &Arc<Wakers>) -> Poll<()> {
        let mut state = lock(&self.0);
        let mut driver = match std::mem::replace(&mut *state, JobState::Polled) {
            JobState::Polled => return Poll::Pending,
            JobState::Parked(driver) => driver,
            JobState::Idle => match start() {
                Some(driver) => driver,
                None => {
                    *state = JobState::Idle;
                    return Poll::Pending;
                }
            },
        };
        drop(state);
        let waker = Waker::from(Arc::clone(wakers));
        let polled = driver.as_mut().poll(&mut Context::from_waker(&waker));
        *lock(&self.0) = match polled {
            Poll::Ready(()) => JobState::Idle,
            Poll::Pending => JobState::Parked(driver),
        };
        polled
    }
}

/// Waits for a transaction's answer, and drives the batches meanwhile.
pub(crate) struct Waiting<S, T>
where
    S: Fn() -> Option<Driver>,
{
    slot: Slot<T>,
    driver: Arc<JobDriver>,
    wakers: Arc<Wakers>,
    /// Starts a driver if transactions are queued.
    start: S,
    ticket: u64,
}

impl<S, T> Waiting<S, T>
where
    S: Fn() -> Option<Driver>,
{
    pub(crate) fn new(
        slot: Slot<T>,
        driver: Arc<JobDriver>,
        wakers: Arc<Wakers>,
        start: S,
    ) -> Self {
        let ticket = wakers.ticket();
        Self { slot, driver, wakers, start, ticket }
    }
}

impl<S, T> Future for Waiting<S, T>
where
    S: Fn() -> Option<Driver> + Unpin,
{
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        self.wakers.wait(self.ticket, context.waker());
        loop {
            let turn = self.driver.turn(&self.start, &self.wakers);
            let answer = lock(&self.slot).take();
            if let Some(answer) = answer {
                // Leaves now, because this future may be dropped much later.
                self.wakers.leave(self.ticket);
                return Poll::Ready(answer);
            }
            if turn.is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<S, T> Drop for Waiting<S, T>
where
    S: Fn() -> Option<Driver>,
{
    fn drop(&mut self) {
        self.wakers.leave(self.ticket);
    }
}
