//! Runs batches: the one place that reads and moves the root.
//!
//! ```text
//!          ┌──────────── the root has moved: again, on the newer one ◄─────────────┐
//!          ▼                                                                       │
//!  root ─► read the keys' paths ─► run each transaction ─┬─ no writes ─► verify ───┤
//!  cached  all at once, level      on what those before  │               root      │
//!  or read by level                it left               └─ writes ─► put nodes ─► compare-and-set
//! ```
//!
//! A batch holds what was called before it began, so whatever it learns about the root was true
//! at a moment after each of those calls: one read of the root, or one move of it, verifies all.
//!
//! **A compare-and-set that ends with an error** may have moved the root, or may do so at any
//! later time. Nothing is answered before that is settled: the root's history names the attempt,
//! or shows that another took its place. While the root has not moved at all, a *fence* settles
//! it: a root of the same content, which the delayed attempt does not expect. Only where the
//! store does not answer for all of [`Options::patience`] is the outcome `Unknown`.

use std::collections::{BTreeSet, VecDeque};
use std::error;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use carnet_base::{Bytes, Error, ErrorKind, Moment, Result, Rng, Timer, Timestamp};

use crate::ask::{AnswerTime, Calls};
use crate::cache::Cache;
use crate::edit::Edited;
use crate::id::{Attempt, NodeId, TransactorId};
use crate::job::{Job, Wakers, lock};
use crate::join::join;
use crate::node::Node;
use crate::options::Options;
use crate::root::{Root, Verdict};
use crate::shape::{Found, Nodes, find};
use crate::stats::Stats;
use crate::store::{NodeStore, RootPointer, Swap};
use crate::view::{Left, View, Writes};

/// After so many answers that a node is missing, ask whether its root is still in use: garbage
/// collection takes nodes away from those who stay behind.
const MISSES_BEFORE_ROOT: u64 = 16;
/// How sure one can be that a cached root is the newest, and from where on it is used.
const SURE_MAX: u32 = 4;
const SURE_ENOUGH: u32 = 2;
/// What one disappointment costs, where one confirmation brings 1. A right guess saves the read
/// of the root; a wrong one costs a lost move and a read: it has to be right most of the time.
const DISAPPOINTMENT: u32 = 3;
/// The longest wait after a lost move, in the times that a move takes: others need no more.
const BACKOFF_SWAPS_MAX: u32 = 4;
/// The longest rest after a move, the same way; and after how many moves to rest, for one that was
/// lost and altogether. Found by trying, with two to five transactors and 10 ms to the root.
const REST_SWAPS_MAX: u32 = 4;
const RESTS_PER_LOSS: u32 = 4;
const RESTS_MAX: u32 = 8;

/// A transactor.
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
    /// How sure it is that the cached root is still the newest when a batch begins.
    sure: u32,
    attempts: u64,
    /// How long the stores take to answer.
    nodes_time: AnswerTime,
    root_time: AnswerTime,
    /// How long a compare-and-set takes, about.
    swap_time: Duration,
    /// For how many more moves to rest after each of them.
    rests: u32,
    rest_until: Moment,
    stats: Stats,
}

impl State {
    /// Draws a time below a limit.
    fn below(&mut self, limit: Duration) -> Duration {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.below(limit))
    }

    /// Caches a root, unless a newer one is there: what others suggest may overtake answers.
    fn keep(&mut self, known: Known) -> bool {
        let generation = known.root.generation();
        let is_news = self.root.as_ref().is_none_or(|cached| cached.root.generation() < generation);
        if is_news {
            self.root = Some(known);
        }
        is_news
    }
}

/// A root as the pointer held it.
#[derive(Clone)]
struct Known {
    root: Arc<Root>,
    bytes: Option<Bytes>,
}

/// One try of a batch.
struct Try {
    base: Known,
    /// The root was read after every call of the batch, so that it needs no other proof.
    is_verified: bool,
    /// Moves that the batch has lost so far.
    losses: usize,
    deadline: Moment,
}

/// Why a try did not answer its transactions.
enum Stop {
    /// The root has moved; this is a newer one.
    Moved(Known),
    /// So it has, and a compare-and-set was lost by it.
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
        // Transactors that begin their batches at the same moments would collide each time.
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

    /// Returns the future that runs batches until none is waiting; `None` where none is.
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

    /// Lets somebody else drive on where more is waiting, so that whoever drove can take his
    /// answer. All who wait were woken.
    async fn hand_over(&self) {
        let mut is_over = self.state().queue.is_empty();
        poll_fn(|_| {
            if std::mem::replace(&mut is_over, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Waits where others are to have their turn.
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

    /// Adds what waits to a batch, as far as there is room; false where nothing was added.
    fn fill(&self, batch: &mut Vec<Box<dyn Job>>) -> bool {
        let mut state = self.state();
        let room = self.options.batch_transactions_max.max(1).saturating_sub(batch.len());
        let count = state.queue.len().min(room);
        batch.extend(state.queue.drain(..count));
        count > 0
    }

    /// Runs a batch, and answers it. What is wrong with one transaction is no answer to another:
    /// where nothing was written for such a reason, each half is tried by itself.
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

    /// Runs a batch. If a store panics, this is an answer like another: the batch belongs to
    /// many, and they would wait for ever if it unwound the one who drives.
    async fn run_guarded(&self, batch: &mut Vec<Box<dyn Job>>) -> Result<()> {
        let mut run = pin!(self.run(batch));
        poll_fn(|context| {
            let poll = || run.as_mut().poll(context);
            catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| {
                let attempt = Attempt(self.state().attempts);
                Poll::Ready(Err(self.unknown(attempt, "a store of it panicked")))
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
        let deadline = self.timer.now().after(self.options.patience);
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
                    "other transactors moved the root meanwhile, {losses} times"
                )));
            }
            // Whoever was called meanwhile comes along, instead of waiting for the next batch. Of
            // these the root that was just read proves nothing.
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

    /// Returns the cached root where it is worth a try.
    fn guess(&self) -> Option<Known> {
        let state = self.state();
        // Whoever does not verify is content with any root.
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

    /// Runs the transactions one after the other, and returns what they write together.
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

    /// Puts what the writes make of the tree, and moves the root to it.
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

    /// Reads nodes, from the cache or all at once.
    async fn load(&self, ids: BTreeSet<NodeId>, this: &Try, nodes: &mut Nodes) -> Result<(), Stop> {
        let absent = self.look_into_cache(ids, nodes);
        let gets: Vec<_> = absent.iter().map(|id| self.fetch(*id, this)).collect();
        let found = join(gets, self.options.reads_in_flight).await?;
        for (id, node) in absent.into_iter().zip(found) {
            nodes.insert(id, node);
        }
        Ok(())
    }

    /// Takes what is cached, and returns the others.
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

    /// Calls a store until it answers. It is called again after an error, and where an answer is
    /// late; earlier calls stay open, and the first answer counts.
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
                    Error::unavailable("no answer came in time")
                }
            };
            self.wait_or_give_up(error, deadline).await?;
        }
    }

    /// Returns the time after which an answer is late, if there is such a time.
    fn timeout(&self, time: fn(&mut State) -> &mut AnswerTime) -> Option<Duration> {
        let min = self.options.answer_timeout?;
        Some(time(&mut self.state()).timeout(min, self.options.patience / 2))
    }

    /// Reads a node, and waits for it where it is late.
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
            let error = Error::unavailable(format!("node {id} is not there"));
            self.wait_or_give_up(error, this.deadline).await?;
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
        // Only what is put for certain: a root may come to name it.
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

    /// Keeps a root that somebody has set, if it is news.
    pub(crate) fn suggest(&self, bytes: Bytes) -> Result<()> {
        let root = Root::decode(&bytes)?;
        let state = &mut *self.state();
        let is_news = state.keep(Known { root: Arc::new(root), bytes: Some(bytes) });
        state.stats.roots_suggested += u64::from(is_news);
        Ok(())
    }

    /// Decodes a root that was just read, and keeps it.
    fn know(&self, bytes: Option<Bytes>) -> Result<Known> {
        let root = bytes.as_ref().map_or_else(|| Ok(Root::default()), Root::decode)?;
        let state = &mut *self.state();
        if let Some(cached) = &state.root {
            // It was suggested while the answer was on its way: a root that was set after the
            // one that was read, and so after the read began.
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

    /// Waits a little after an error that may pass.
    async fn wait_or_give_up(&self, error: Error, deadline: Moment) -> Result<()> {
        if error.kind() == ErrorKind::Corrupted {
            return Err(error);
        }
        if self.timer.now() >= deadline {
            let message = "the store does not answer; nothing was written";
            return Err(Error::unavailable(message).with_source(error));
        }
        self.timer.wait(self.options.missing_wait).await;
        Ok(())
    }

    /// Moves the root, for certain or certainly not.
    async fn swap(&self, this: &Try, root: Root, attempt: Attempt) -> Result<(), Stop> {
        let mut calls = Calls::new(&*self.timer);
        calls.start(self.compare_and_set(&this.base, root));
        match calls.first(self.timeout(|state| &mut state.root_time)).await {
            Some((_, Ok(Some(_)))) => return Ok(()),
            // Whoever won may go on at once; the root is read after the wait, not before it.
            Some((_, Ok(None))) => self.back_off(this.losses).await,
            Some((_, Err(_))) => self.count(|stats| stats.swaps_in_doubt += 1),
            None => {
                self.count(|stats| stats.swaps_in_doubt += 1);
                return self.resolve_late(this, attempt, calls).await;
            }
        }
        self.resolve(this, attempt).await
    }

    /// Finds out what became of an attempt, or takes the late answer to it. Only a success ends the
    /// search: an attempt that is refused may be one that was sent twice.
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

    /// Sets the root; returns it where the pointer says so.
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

    /// Learns from a compare-and-set how long to wait for others. A transactor that has just moved
    /// the root knows the newest one, and could move it again before anybody else has read it: the
    /// others would starve. So whoever has lost lately rests after its next moves.
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

    /// Finds out what became of an attempt. Also one that was refused is looked for: a request
    /// that was sent twice is refused the second time.
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
                    return Err(unknown(Error::unavailable("too many others moved it since")));
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
                // The next read shows whether it has moved the root.
                None => Error::unavailable("no answer came in time"),
            };
            self.wait_or_give_up(error, *deadline).await.map_err(unknown)?;
        }
    }
}

/// Makes an error for each transaction of a batch.
fn again(error: &Error) -> Error {
    Error::new(error.kind(), error.to_string())
}
