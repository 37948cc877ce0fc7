//! Runs batches. Only this module reads and moves the root.
//!
//! ```text
//!          ┌──────────── the root has moved: again, on the newer one ◄─────────────┐
//!          ▼                                                                       │
//!  root ─► read the keys' paths ─► run each transaction ─┬─ no writes ─► verify ───┤
//!  cached  all at once, level      on what those before  │               root      │
//!  or read by level                it left               └─ writes ─► put nodes ─► compare-and-set
//! ```
//!
//! All calls of a batch precede its begin, so one read or one move of the root during the batch
//! verifies the reads of all of them.
//!
//! **A compare-and-set that ends with an error** may have moved the root, or may still move it at
//! any later time. The batch is answered only after this is resolved: the root's history contains
//! the attempt, or shows that another one replaced it. If the root has not moved at all, a *fence*
//! resolves it: a root with the same content, which the delayed attempt does not expect. If the
//! store does not answer within [`Options::retry_timeout`], the outcome is `Unknown`.

use std::collections::{BTreeSet, VecDeque};
use std::error;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Bytes, Error, ErrorKind, Moment, Result, Rng, Timer, Timestamp};

use crate::ask::{AnswerTime, Calls};
use crate::cache::Cache;
use crate::edit::Edited;
use crate::id::{Attempt, NodeId, TransactorId};
use crate::job::{Job, Wakers};
use crate::join::join;
use crate::node::Node;
use crate::options::Options;
use crate::root::{Root, Verdict};
use crate::shape::{Found, Nodes, find};
use crate::stats::Stats;
use crate::store::{NodeStore, RootPointer, Swap};
use crate::view::{Left, View, Writes};

/// After this number of answers that a node is missing, the root is read again: garbage collection
/// may have removed nodes of an outdated root.
const MISSES_BEFORE_ROOT: u64 = 16;
/// Maximum confidence that a cached root is the newest, and the minimum to use it.
const SURE_MAX: u32 = 4;
const SURE_ENOUGH: u32 = 2;
/// Decrease of the confidence after a stale guess; a confirmation increases it by 1. A right guess
/// saves a read of the root, a stale one costs a lost move and a read, so most guesses must be
/// right.
const DISAPPOINTMENT: u32 = 3;
/// Maximum wait after a lost move, in compare-and-set times.
const BACKOFF_SWAPS_MAX: u32 = 4;
/// Maximum rest after a move, in compare-and-set times; number of rests for each lost move, and in
/// total. Determined by simulation with 2 to 5 transactors and a root latency of 10 ms.
const REST_SWAPS_MAX: u32 = 4;
const RESTS_PER_LOSS: u32 = 4;
const RESTS_MAX: u32 = 8;

pub(crate) struct Core<N, R> {
    transactor: TransactorId,
    nodes: N,
    root: R,
    timer: Arc<dyn Timer>,
    options: Options,
    phase: Duration,
    wakers: Arc<Wakers>,
    state: Mutex<State>,
}

struct State {
    queue: VecDeque<Box<dyn Job>>,
    rng: Box<dyn Rng>,
    cache: Cache,
    root: Option<Known>,
    /// Confidence that the cached root is the newest when a batch begins.
    sure: u32,
    attempts: u64,
    /// Answer times of the stores.
    nodes_time: AnswerTime,
    root_time: AnswerTime,
    /// Mean time of a compare-and-set.
    swap_time: Duration,
    /// Remaining number of moves that are followed by a rest.
    rests: u32,
    rest_until: Moment,
    stats: Stats,
}

impl State {
    /// Returns a random time below `limit`.
    fn below(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.below(limit))
    }

    /// Caches a root unless a newer one is cached: suggested roots may overtake answers.
    fn keep(&mut self, known: Known) -> bool {
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
struct Known {
    root: Arc<Root>,
    bytes: Option<Bytes>,
}

/// One try of a batch.
struct Try {
    base: Known,
    /// The root was read after all calls of the batch, so it needs no further verification.
    is_verified: bool,
    /// Number of lost moves of the batch.
    losses: usize,
    deadline: Moment,
}

/// Reason why a try did not answer its transactions.
enum Stop {
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
        let state = State {
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

    fn state(&self) -> MutexGuard<'_, State> {
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

    fn unknown(
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

    /// Returns the cached root if it is probably the newest.
    fn guess(&self) -> Option<Known> {
        let state = self.state();
        // Without verification, any root is good enough.
        let is_worth_it = state.sure >= SURE_ENOUGH || !self.options.verify_reads;
        state.root.clone().filter(|_| self.options.cache_root && is_worth_it)
    }

    async fn attempt(&self, batch: &mut [Box<dyn Job>], this: &Try) -> Result<(), Stop> {
        let mut nodes = Nodes::default();
        let writes = self.execute(batch, this, &mut nodes).await?;
        if !writes.is_empty() {
            return self.commit(this, &mut nodes, writes).await;
        }
        if this.is_verified || !self.options.verify_reads {
            return Ok(());
        }
        let newest = self.read_root(this.deadline).await?;
        if newest.bytes == this.base.bytes { Ok(()) } else { Err(Stop::Moved(newest)) }
    }

    /// Runs the transactions in order, and returns all their writes.
    async fn execute(
        &self,
        batch: &mut [Box<dyn Job>],
        this: &Try,
        nodes: &mut Nodes,
    ) -> Result<Writes, Stop> {
        loop {
            let mut needed = BTreeSet::new();
            for key in batch.iter().flat_map(|job| job.keys()) {
                if let Found::Needs(id) = find(&this.base.root, nodes, key)? {
                    needed.insert(id);
                }
            }
            if needed.is_empty() {
                break;
            }
            self.load(needed, this, nodes).await?;
        }
        let mut writes = Writes::new();
        for job in batch {
            loop {
                match job.run(View::new(&this.base.root, nodes, &writes))? {
                    Left::Writes(own) => {
                        writes.extend(own);
                        break;
                    }
                    Left::Needs(needed) => self.load(needed, this, nodes).await?,
                }
            }
        }
        Ok(writes)
    }

    /// Puts the nodes of the new root, and moves the root.
    async fn commit(&self, this: &Try, nodes: &mut Nodes, writes: Writes) -> Result<(), Stop> {
        let attempt = self.next_attempt();
        let mut edited =
            Edited::new(&this.base.root, self.transactor, attempt, &self.options.shape);
        edited.write(writes)?;
        loop {
            let needed = edited.needs(nodes)?;
            if needed.is_empty() {
                break;
            }
            self.load(needed, this, nodes).await?;
        }
        let (root, made) = edited.finish(nodes)?;
        let puts: Vec<_> =
            made.iter().map(|(id, node)| self.put(*id, node, this.deadline)).collect();
        join(puts, self.options.writes_in_flight).await?;
        if !made.is_empty() {
            self.nodes.sync().await?;
        }
        self.swap(this, root, attempt).await
    }

    fn next_attempt(&self) -> Attempt {
        let mut state = self.state();
        state.attempts += 1;
        Attempt(state.attempts)
    }

    /// Reads nodes from the cache, and the others concurrently from the store.
    async fn load(&self, ids: BTreeSet<NodeId>, this: &Try, nodes: &mut Nodes) -> Result<(), Stop> {
        let absent = self.look_into_cache(ids, nodes);
        let gets: Vec<_> = absent.iter().map(|id| self.fetch(*id, this)).collect();
        let found = join(gets, self.options.reads_in_flight).await?;
        for (id, node) in absent.into_iter().zip(found) {
            nodes.insert(id, node);
        }
        Ok(())
    }

    /// Takes cached nodes, and returns the ids of the others.
    fn look_into_cache(&self, ids: BTreeSet<NodeId>, nodes: &mut Nodes) -> Vec<NodeId> {
        let state = &mut *self.state();
        let mut absent = Vec::new();
        for id in ids {
            match state.cache.get(id) {
                Some(node) => {
                    state.stats.cache_hits += 1;
                    nodes.insert(id, Some(node));
                }
                None => absent.push(id),
            }
        }
        absent
    }

    fn count(&self, count: impl FnOnce(&mut Stats)) {
        count(&mut self.state().stats);
    }

    /// Calls a store until it answers. The call is repeated after an error or a late answer;
    /// earlier calls stay open, and the first answer counts.
    async fn ask<T, F>(
        &self,
        time: fn(&mut State) -> &mut AnswerTime,
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
    fn timeout(&self, time: fn(&mut State) -> &mut AnswerTime) -> Option<Duration> {
        let min = self.options.answer_timeout?;
        Some(time(&mut self.state()).timeout(min, self.options.retry_timeout / 2))
    }

    /// Reads a node; if it is missing, waits for it.
    async fn fetch(&self, id: NodeId, this: &Try) -> Result<Option<Arc<Node>>, Stop> {
        let mut misses = 0;
        loop {
            let get = || {
                self.count(|stats| stats.node_gets += 1);
                self.nodes.get(id)
            };
            let found = self.ask(|state| &mut state.nodes_time, this.deadline, get).await?;
            if let Some(bytes) = found {
                let node = Arc::new(Node::decode(id, &bytes)?);
                self.state().cache.insert(id, &node);
                return Ok(Some(node));
            }
            self.count(|stats| stats.nodes_missing += 1);
            if self.options.ignore_missing {
                return Ok(None);
            }
            misses += 1;
            if misses % MISSES_BEFORE_ROOT == 0 {
                let newest = self.read_root(this.deadline).await?;
                if newest.bytes != this.base.bytes {
                    return Err(Stop::Moved(newest));
                }
            }
            let error = Error::unavailable(format!("node {id} is missing"));
            self.wait_or_fail(error, this.deadline).await?;
        }
    }

    async fn put(&self, id: NodeId, node: &Arc<Node>, deadline: Moment) -> Result<()> {
        let bytes = node.encode(id);
        let put = || {
            self.count(|stats| {
                stats.node_puts += 1;
                stats.node_put_bytes += bytes.len() as u64;
            });
            self.nodes.put(id, bytes.clone())
        };
        self.ask(|state| &mut state.nodes_time, deadline, put).await?;
        // Only after the put is confirmed: cached nodes may be referenced by new roots.
        self.state().cache.insert(id, node);
        Ok(())
    }

    async fn read_root(&self, deadline: Moment) -> Result<Known> {
        let read = || {
            self.count(|stats| stats.root_reads += 1);
            self.root.read()
        };
        let bytes = self.ask(|state| &mut state.root_time, deadline, read).await?;
        self.know(bytes)
    }

    /// Caches a root that another transactor has set, if it is newer.
    pub(crate) fn suggest(&self, bytes: Bytes) -> Result<()> {
        let root = Root::decode(&bytes)?;
        let state = &mut *self.state();
        let is_news = state.keep(Known { root: Arc::new(root), bytes: Some(bytes) });
        state.stats.roots_suggested += u64::from(is_news);
        Ok(())
    }

    /// Decodes and caches a root that was just read.
    fn know(&self, bytes: Option<Bytes>) -> Result<Known> {
        let root = bytes.as_ref().map_or_else(|| Ok(Root::default()), Root::decode)?;
        let state = &mut *self.state();
        if let Some(cached) = &state.root {
            // This newer root was suggested while the read was in flight, so it was set after the
            // read began.
            if cached.root.generation() > root.generation() {
                return Ok(cached.clone());
            }
            let is_same = cached.bytes == bytes;
            state.sure = if is_same {
                (state.sure + 1).min(SURE_MAX)
            } else {
                state.sure.saturating_sub(DISAPPOINTMENT)
            };
            if is_same {
                return Ok(cached.clone());
            }
        }
        let known = Known { root: Arc::new(root), bytes };
        state.root = Some(known.clone());
        Ok(known)
    }

    /// Waits briefly after a retryable error; after the deadline, fails.
    async fn wait_or_fail(&self, error: Error, deadline: Moment) -> Result<()> {
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

    /// Moves the root; returns only when the outcome is certain.
    async fn swap(&self, this: &Try, root: Root, attempt: Attempt) -> Result<(), Stop> {
        let mut calls = Calls::new(&*self.timer);
        calls.start(self.compare_and_set(&this.base, root));
        match calls.first(self.timeout(|state| &mut state.root_time)).await {
            Some((_, Ok(Some(_)))) => return Ok(()),
            // The winner may continue at once, so the root is read after the wait.
            Some((_, Ok(None))) => self.back_off(this.losses).await,
            Some((_, Err(_))) => self.count(|stats| stats.swaps_in_doubt += 1),
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
}

/// Copies an error for another transaction of the batch.
fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}
