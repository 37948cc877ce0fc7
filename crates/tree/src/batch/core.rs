//! BatchState of a transactor, and calls to its stores.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Bytes, Error, ErrorKind, Moment, Result, Rng, Timer};

use crate::ask::{AnswerTime, Calls};
use crate::cache::Cache;
use crate::id::{Attempt, TransactorId};
use crate::job::{Job, Wakers};
use crate::options::Options;
use crate::root::Root;
use crate::stats::Stats;
use crate::store::{NodeStore, RootPointer};

pub(crate) struct Core<N, R> {
    pub(super) transactor: TransactorId,
    pub(super) nodes: N,
    pub(super) root: R,
    pub(super) timer: Arc<dyn Timer>,
    pub(super) options: Options,
    pub(super) phase: Duration,
    pub(super) wakers: Arc<Wakers>,
    pub(super) state: Mutex<BatchState>,
}

pub(super) struct BatchState {
    pub(super) queue: VecDeque<Box<dyn Job>>,
    pub(super) rng: Box<dyn Rng>,
    pub(super) cache: Cache,
    pub(super) root: Option<Known>,
    /// Confidence that the cached root is the newest when a batch begins.
    pub(super) sure: u32,
    pub(super) attempts: u64,
    /// Answer times of the stores.
    pub(super) nodes_time: AnswerTime,
    pub(super) root_time: AnswerTime,
    /// Mean time of a compare-and-set.
    pub(super) swap_time: Duration,
    /// Remaining number of moves that are followed by a rest.
    pub(super) rests: u32,
    pub(super) rest_until: Moment,
    pub(super) stats: Stats,
}

impl BatchState {
    /// Returns a random time below `limit`.
    pub(super) fn below(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.below(limit))
    }

    /// Caches a root unless a newer one is cached: suggested roots may overtake answers.
    pub(super) fn keep(&mut self, known: Known) -> bool {
        let generation = known.root.generation();
        let is_news = self.root.as_ref().is_none_or(|cached| cached.root.generation() < generation);
        if is_news {
            self.root = Some(known);
        }
        is_news
    }
}

/// A root and its bytes in the pointer.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) root: Arc<Root>,
    pub(super) bytes: Option<Bytes>,
}

/// One try of a batch.
pub(super) struct Try {
    pub(super) base: Known,
    /// The root was read after all calls of the batch, so it needs no further verification.
    pub(super) is_verified: bool,
    /// Number of lost moves of the batch.
    pub(super) losses: usize,
    pub(super) deadline: Moment,
}

/// Reason why a try did not answer its transactions.
pub(super) enum Stop {
    /// The root has moved; this is a newer one.
    Moved(Known),
    /// The root has moved, and a compare-and-set failed because of it.
    Lost(Known),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<N: NodeStore, R: RootPointer> Core<N, R> {
    pub(crate) fn new(
        transactor: TransactorId,
        nodes: N,
        root: R,
        timer: Arc<dyn Timer>,
        mut rng: Box<dyn Rng>,
        options: Options,
    ) -> Self {
        let interval = u64::try_from(options.batch_interval.as_nanos()).unwrap_or(u64::MAX);
        // Transactors that begin their batches at the same moments would always collide.
        let phase = Duration::from_nanos(rng.below(interval));
        let state = BatchState {
            queue: VecDeque::new(),
            rng,
            cache: Cache::new(options.cache_bytes),
            root: None,
            sure: 0,
            attempts: 0,
            nodes_time: AnswerTime::default(),
            root_time: AnswerTime::default(),
            swap_time: Duration::ZERO,
            rests: 0,
            rest_until: Moment::default(),
            stats: Stats::default(),
        };
        let (wakers, state) = (Arc::default(), Mutex::new(state));
        Self { transactor, nodes, root, timer, options, phase, wakers, state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, BatchState> {
        lock(&self.state)
    }

    pub(crate) fn wakers(&self) -> Arc<Wakers> {
        Arc::clone(&self.wakers)
    }

    pub(crate) const fn transactor(&self) -> TransactorId {
        self.transactor
    }

    pub(crate) fn stats(&self) -> Stats {
        let state = self.state();
        Stats { cache_bytes: state.cache.bytes() as u64, ..state.stats }
    }

    pub(crate) fn enqueue(&self, job: Box<dyn Job>) {
        self.state().queue.push_back(job);
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Stats)) {
        count(&mut self.state().stats);
    }

    pub(super) fn next_attempt(&self) -> Attempt {
        let mut state = self.state();
        state.attempts += 1;
        Attempt(state.attempts)
    }

    /// Calls a store until it answers. The call is repeated after an error or a late answer;
    /// earlier calls stay open, and the first answer counts.
    pub(super) async fn ask<T, F>(
        &self,
        time: fn(&mut BatchState) -> &mut AnswerTime,
        deadline: Moment,
        call: impl Fn() -> F + Send,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
        T: Send,
    {
        let mut calls = Calls::new(&*self.timer);
        let mut timeout = self.timeout(time);
        loop {
            calls.start(call());
            let least = self.options.answer_timeout.unwrap_or_default();
            let left = deadline.since(self.timer.now()).max(least);
            let error = match calls.first(timeout.map(|timeout| timeout.min(left))).await {
                Some((took, Ok(answer))) => {
                    time(&mut self.state()).learn(took);
                    return Ok(answer);
                }
                Some((_, Err(error))) => error,
                None => {
                    timeout = timeout.map(|timeout| timeout.saturating_mul(2));
                    Error::unavailable("the store did not answer in time")
                }
            };
            self.wait_or_fail(error, deadline).await?;
        }
    }

    /// Returns the time after which an answer is late; `None` if there is no timeout.
    pub(super) fn timeout(&self, time: fn(&mut BatchState) -> &mut AnswerTime) -> Option<Duration> {
        let min = self.options.answer_timeout?;
        Some(time(&mut self.state()).timeout(min, self.options.retry_timeout / 2))
    }

    /// Waits briefly after a retryable error; after the deadline, fails.
    pub(super) async fn wait_or_fail(&self, error: Error, deadline: Moment) -> Result<()> {
        if error.kind() == ErrorKind::Corrupted {
            return Err(error);
        }
        if self.timer.now() >= deadline {
            let message = "the store does not answer: nothing was written";
            return Err(Error::unavailable(message).with_source(error));
        }
        self.timer.wait(self.options.missing_wait).await;
        Ok(())
    }
}
