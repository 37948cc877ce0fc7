//! Forms batches from the queue, runs each until it can be answered, and answers it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use carnet_base::{Error, ErrorKind, Result};

use super::core::{Core, Stop, Try};
use crate::id::Attempt;
use crate::job::Job;
use crate::store::{NodeStore, RootPointer};

impl<N: NodeStore, R: RootPointer> Core<N, R> {
    /// Returns the future that runs batches until the queue is empty; `None` if it is empty.
    pub(crate) fn driver(core: &Arc<Self>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        if core.state().queue.is_empty() {
            return None;
        }
        let core = Arc::clone(core);
        Some(Box::pin(async move {
            loop {
                core.rest().await;
                core.wait_for_tick().await;
                let mut batch = Vec::new();
                if !core.fill(&mut batch) {
                    return;
                }
                core.serve(batch).await;
                core.count(|stats| stats.batches += 1);
                core.wakers.wake_all();
                core.hand_over().await;
            }
        }))
    }

    /// Yields once if transactions are waiting, so that the task that drives this future can take
    /// its own answer. All waiting tasks have been woken.
    async fn hand_over(&self) {
        let mut is_over = self.state().queue.is_empty();
        poll_fn(|_| {
            if std::mem::replace(&mut is_over, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Waits to let other transactors move the root.
    async fn rest(&self) {
        let wait = self.state().rest_until.since(self.timer.now());
        if !wait.is_zero() {
            self.timer.wait(wait).await;
        }
    }

    async fn wait_for_tick(&self) {
        let interval = self.options.batch_interval.as_nanos();
        if interval == 0 || self.state().queue.is_empty() {
            return;
        }
        let since = (self.timer.now().0 + self.options.batch_interval - self.phase).as_nanos();
        let wait = u64::try_from(interval - since % interval).unwrap_or(u64::MAX);
        self.timer.wait(Duration::from_nanos(wait)).await;
    }

    /// Adds waiting transactions to a batch, up to its limit. Returns `false` if none were added.
    fn fill(&self, batch: &mut Vec<Box<dyn Job>>) -> bool {
        let mut state = self.state();
        let room = self.options.batch_transactions_max.max(1).saturating_sub(batch.len());
        let count = state.queue.len().min(room);
        batch.extend(state.queue.drain(..count));
        count > 0
    }

    /// Runs a batch and answers it. An error of one transaction must not fail the others: if one
    /// prevented all writes, each half is run separately.
    async fn serve(&self, batch: Vec<Box<dyn Job>>) {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            let outcome = self.run_guarded(&mut part).await;
            let is_of_one = outcome.as_ref().is_err_and(|error| {
                matches!(error.kind(), ErrorKind::Corrupted | ErrorKind::Invalid)
            });
            if is_of_one && part.len() > 1 {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
                continue;
            }
            self.count(|stats| stats.transactions += part.len() as u64);
            for mut job in part {
                job.answer(outcome.as_ref().copied().map_err(again));
            }
        }
    }

    /// Runs a batch. A panic of a store becomes an error for all its callers, because unwinding the
    /// task that drives the batch would leave the other callers waiting forever.
    async fn run_guarded(&self, batch: &mut Vec<Box<dyn Job>>) -> Result<()> {
        let mut run = pin!(self.run(batch));
        poll_fn(|context| {
            let poll = || run.as_mut().poll(context);
            catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| {
                let attempt = Attempt(self.state().attempts);
                Poll::Ready(Err(self.unknown(attempt, "a store panicked")))
            })
        })
        .await
    }

    /// Runs a batch until it can be answered.
    async fn run(&self, batch: &mut Vec<Box<dyn Job>>) -> Result<()> {
        let deadline = self.timer.now().after(self.options.retry_timeout);
        let mut this = match self.guess() {
            Some(base) => Try { base, is_verified: false, losses: 0, deadline },
            None => {
                let base = self.read_root(deadline).await?;
                Try { base, is_verified: true, losses: 0, deadline }
            }
        };
        loop {
            let newer = match self.attempt(batch, &this).await {
                Ok(()) => return Ok(()),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Moved(newer)) => newer,
                Err(Stop::Lost(newer)) => {
                    this.losses += 1;
                    newer
                }
            };
            if this.losses >= self.options.attempts_max {
                let losses = this.losses;
                return Err(Error::conflict(format!(
                    "other transactors moved the root {losses} times before this one"
                )));
            }
            // Transactions called meanwhile join this batch. The root was read before their calls,
            // so it is not verified for them.
            this = Try { base: newer, is_verified: !self.fill(batch), ..this };
        }
    }
}

/// Copies an error for another transaction of the batch.
fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}
