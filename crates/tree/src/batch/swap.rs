//! Moves of the root, until their outcome is certain.

use std::error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use carnet_base::{Error, ErrorKind, Moment, Result, Timestamp};

use super::core::{Core, Known, Stop, Try};
use super::roots::SURE_MAX;
use crate::ask::Calls;
use crate::id::Attempt;
use crate::root::{Root, Verdict};
use crate::store::{NodeStore, RootPointer, Swap};

/// Maximum wait after a lost move, in compare-and-set times.
const BACKOFF_SWAPS_MAX: u32 = 4;
/// Maximum rest after a move, in compare-and-set times; number of rests for each lost move, and in
/// total. Determined by simulation with 2 to 5 transactors and a root latency of 10 ms.
const REST_SWAPS_MAX: u32 = 4;
const RESTS_PER_LOSS: u32 = 4;
const RESTS_MAX: u32 = 8;

impl<N: NodeStore, R: RootPointer> Core<N, R> {
    /// Moves the root; returns only when the outcome is certain.
    pub(super) async fn swap(&self, this: &Try, root: Root, attempt: Attempt) -> Result<(), Stop> {
        let mut calls = Calls::new(&*self.timer);
        calls.start(self.compare_and_set(&this.base, root));
        match calls.first(self.timeout(|state| &mut state.root_time)).await {
            Some((_, Ok(Some(_)))) => return Ok(()),
            // The winner may continue at once, so the root is read after the wait.
            Some((_, Ok(None))) => {
                self.back_off(this.losses).await;
                if self.options.exact_stores {
                    return Err(Stop::Lost(self.read_root(this.deadline).await?));
                }
            }
            Some((_, Err(error))) => {
                self.count(|stats| stats.swaps_in_doubt += 1);
                if self.options.exact_stores {
                    return self.resolve_exactly(this, attempt, error).await;
                }
            }
            None => {
                self.count(|stats| stats.swaps_in_doubt += 1);
                return self.resolve_late(this, attempt, calls).await;
            }
        }
        self.resolve(this, attempt).await
    }

    /// Resolves an attempt, or takes its late answer. Only a success ends the search: a mismatch
    /// may be the answer to the second copy of a request that succeeded.
    async fn resolve_late(
        &self,
        this: &Try,
        attempt: Attempt,
        mut calls: Calls<'_, impl Future<Output = Result<Option<Known>>> + Send>,
    ) -> Result<(), Stop> {
        let mut late = pin!(calls.first(None));
        let mut resolve = pin!(self.resolve(this, attempt));
        let mut is_open = true;
        poll_fn(|context| {
            if is_open && let Poll::Ready(answer) = late.as_mut().poll(context) {
                is_open = false;
                if let Some((_, Ok(Some(_)))) = answer {
                    return Poll::Ready(Ok(()));
                }
            }
            resolve.as_mut().poll(context)
        })
        .await
    }

    /// Sets the root; returns it if the compare-and-set succeeded.
    async fn compare_and_set(&self, base: &Known, root: Root) -> Result<Option<Known>> {
        let to = root.encode();
        self.count(|stats| {
            stats.root_swaps += 1;
            stats.root_bytes_max = stats.root_bytes_max.max(to.len() as u64);
        });
        let began = self.timer.now();
        let swap = self.root.compare_and_set(base.bytes.clone(), to.clone()).await?;
        self.pace(swap, began);
        if swap == Swap::Mismatch {
            return Ok(None);
        }
        let known = Known { root: Arc::new(root), bytes: Some(to) };
        let state = &mut *self.state();
        state.stats.root_moves += 1;
        state.keep(known.clone());
        state.sure = (state.sure + 1).min(SURE_MAX);
        Ok(Some(known))
    }

    /// Adapts the waits to the result and time of a compare-and-set. A transactor that has just
    /// moved the root knows the newest one, and could move it again before others have read it, so
    /// they would starve. So after a lost move, a transactor rests after its next moves.
    fn pace(&self, swap: Swap, began: Moment) {
        let now = self.timer.now();
        let state = &mut *self.state();
        state.root_time.learn(now.since(began));
        state.swap_time = (state.swap_time * 7 + now.since(began)) / 8;
        if swap == Swap::Mismatch {
            state.rests = (state.rests + RESTS_PER_LOSS).min(RESTS_MAX);
        } else if state.rests > 0 && !self.options.backoff.is_zero() {
            state.rests -= 1;
            let rest = state.below(state.swap_time.saturating_mul(REST_SWAPS_MAX));
            state.rest_until = now.after(rest);
        }
    }

    /// Waits a random time that grows with the number of losses.
    async fn back_off(&self, losses: usize) {
        let doublings = u32::try_from(losses).unwrap_or(u32::MAX).min(6);
        let backoff = self.options.backoff;
        let wait = {
            let state = &mut *self.state();
            let cap = state.swap_time.max(backoff).saturating_mul(BACKOFF_SWAPS_MAX);
            state.below(backoff.saturating_mul(1 << doublings).min(cap))
        };
        if !wait.is_zero() {
            self.timer.wait(wait).await;
        }
    }

    /// Determines the outcome of an attempt that ended with an error and is not in flight any more.
    async fn resolve_exactly(
        &self,
        this: &Try,
        attempt: Attempt,
        error: Error,
    ) -> Result<(), Stop> {
        // If the read fails, too, the reason of the failed move is the more useful cause.
        let Ok(newest) = self.read_root(this.deadline).await else {
            return Err(Stop::Failed(self.unknown(attempt, error)));
        };
        match newest.root.judge(self.transactor, attempt, this.base.root.generation()) {
            Verdict::Moved => Ok(()),
            Verdict::Lost => Err(Stop::Lost(newest)),
            Verdict::Forgotten => Err(Stop::Failed(self.unknown(attempt, error))),
            Verdict::Pending => {
                let message = "the root could not be moved: nothing was written";
                Err(Stop::Failed(Error::unavailable(message).with_source(error)))
            }
        }
    }

    /// Determines the outcome of an attempt. After a mismatch, too: if a request is delivered
    /// twice, the second delivery fails.
    async fn resolve(&self, this: &Try, attempt: Attempt) -> Result<(), Stop> {
        let Try { base, deadline, .. } = this;
        let unknown = |cause: Error| Stop::Failed(self.unknown(attempt, cause));
        let from = base.root.generation();
        loop {
            let newest = self.read_root(*deadline).await.map_err(unknown)?;
            match newest.root.judge(self.transactor, attempt, from) {
                Verdict::Moved => return Ok(()),
                Verdict::Lost => return Err(Stop::Lost(newest)),
                Verdict::Forgotten => {
                    return Err(unknown(Error::unavailable(
                        "too many other transactors moved the root since",
                    )));
                }
                Verdict::Pending => {}
            }
            let (below, buffer) = (base.root.below, base.root.buffer.clone());
            let fence = base.root.moved(self.transactor, self.next_attempt(), below, buffer);
            let mut calls = Calls::new(&*self.timer);
            calls.start(self.compare_and_set(base, fence));
            let error = match calls.first(self.timeout(|state| &mut state.root_time)).await {
                Some((_, Ok(Some(fence)))) => return Err(Stop::Lost(fence)),
                Some((_, Ok(None))) => continue,
                Some((_, Err(error))) => error,
                // The next read shows whether the fence moved the root.
                None => Error::unavailable("the store did not answer in time"),
            };
            self.wait_or_fail(error, *deadline).await.map_err(unknown)?;
        }
    }

    pub(super) fn unknown(
        &self,
        attempt: Attempt,
        cause: impl Into<Box<dyn error::Error + Send + Sync>>,
    ) -> Error {
        let start = Timestamp::new(attempt.0).expect("attempts have fewer bits than that");
        let message = format!(
            "whether transactor {} moved the root in its attempt {} is not known",
            self.transactor, attempt.0
        );
        Error::new(ErrorKind::Unknown { start }, message).with_source(cause)
    }
}
