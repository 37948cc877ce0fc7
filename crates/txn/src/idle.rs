//! Transactions that nobody calls any more are rolled back.
//!
//! An open transaction holds back what everybody pays for: a writer the conflict state, a snapshot
//! the sweep. One that was forgotten would hold it back until its process ends.
//!
//! ```text
//!   transaction ── begins in a shard ──▶ [ weak, –, weak, … ]      coarse time: set by the worker,
//!        │ each call: touched = coarse time                        read by calls
//!        ▼                                 ▲
//!   { calls in flight, touched, … }        └── worker, now and then: who has no call in flight and
//!                                              was touched too long ago is rolled back
//! ```
//!
//! No call asks a clock. Coarse time lags by a period, the time from one look to the next, so that
//! long is added to the limit: no transaction is ended early, and each at most two periods late.
//! One with a call in flight is never ended: a read does not lose its snapshot under way.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use carnet_base::{Clock, Moment, Signal, Spawn, Step, Timestamp, Worker, WorkerHandle, stripe};

use crate::open::{Named, OpenTransaction};

/// Threads begin transactions in shards of their own, as far as these reach.
const SHARDS: usize = 64;
/// So many looks in the time of a limit.
const LOOKS: u32 = 8;

/// How long transactions may be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleLimits {
    /// Those that may write.
    pub writer: Duration,
    /// Those that only read.
    pub reader: Duration,
    /// The transaction with the oldest snapshot is named in a warning once it has held the sweep
    /// back for so long.
    pub warning: Duration,
}

impl IdleLimits {
    /// No transaction is ever ended, or named in a warning.
    pub const NONE: Self =
        Self { writer: Duration::MAX, reader: Duration::MAX, warning: Duration::MAX };

    fn period(self) -> Duration {
        (self.writer.min(self.reader).min(self.warning) / LOOKS).max(Duration::from_millis(1))
    }
}

impl Default for IdleLimits {
    /// Ten minutes for writers, an hour for readers: what a reader holds back is space on disk. A
    /// warning after ten minutes.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { writer: seconds(600), reader: seconds(3600), warning: seconds(600) }
    }
}

/// Ends transactions that nobody calls. When it is dropped, those that are left live on.
pub struct IdleWatch {
    shared: Arc<Shared>,
    signal: Signal,
    worker: Option<WorkerHandle>,
}

struct Shared {
    limits: IdleLimits,
    period: Duration,
    shards: Box<[Arc<Shard>]>,
    is_closed: AtomicBool,
}

/// A cache line or two of its own: threads write to their shards at every transaction.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    /// Coarse time, in nanoseconds.
    now: AtomicU64,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    open: Vec<Option<Weak<dyn Idle>>>,
    free: Vec<usize>,
}

/// What can be left alone.
pub(crate) trait Idle: Send + Sync {
    /// Ends it, if no call is in flight and none was since the moment that its kind is allowed.
    fn end_if_idle(&self, since: &Since);

    /// Describes it, unless it has ended.
    fn describe(&self) -> Option<OpenTransaction>;
}

/// When the last call must have been, at the latest, and how long ago that is.
pub(crate) struct Since {
    pub(crate) writer: u64,
    pub(crate) reader: u64,
    pub(crate) limits: IdleLimits,
}

/// A transaction's place among those that are watched.
pub(crate) struct Place {
    shard: Arc<Shard>,
    at: usize,
}

impl IdleWatch {
    /// Starts the worker that looks; none where the limits are [`IdleLimits::NONE`].
    #[must_use]
    pub fn start(limits: IdleLimits, clock: Arc<dyn Clock>, spawn: &dyn Spawn) -> Self {
        let shards = (0..SHARDS).map(|_| Arc::default()).collect();
        let (period, is_closed) = (limits.period(), AtomicBool::new(false));
        let shared = Arc::new(Shared { limits, period, shards, is_closed });
        let signal = Signal::new();
        let worker = (limits != IdleLimits::NONE).then(|| {
            let looker = Looker { shared: Arc::clone(&shared), clock, named: Named::default() };
            looker.tell_time();
            spawn.spawn("carnet-idle", signal.clone(), Box::new(looker))
        });
        Self { shared, signal, worker }
    }

    /// Lists the transactions that are open, the oldest snapshots first.
    #[must_use]
    pub fn open(&self) -> Vec<OpenTransaction> {
        self.shared.open()
    }

    /// Gives a transaction a place, in a shard that other threads rarely use.
    pub(crate) fn place(&self, who: Weak<dyn Idle>) -> Place {
        let shard = Arc::clone(&self.shared.shards[stripe(SHARDS)]);
        let mut places = shard.places();
        let at = if let Some(at) = places.free.pop() {
            places.open[at] = Some(who);
            at
        } else {
            places.open.push(Some(who));
            places.open.len() - 1
        };
        drop(places);
        Place { shard, at }
    }
}

impl Drop for IdleWatch {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        self.signal.ring();
        if let Some(worker) = self.worker.take() {
            worker.join();
        }
    }
}

impl fmt::Debug for IdleWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdleWatch").field(&self.shared.limits).finish()
    }
}

impl Shared {
    fn open(&self) -> Vec<OpenTransaction> {
        let open = self.shards.iter().flat_map(|shard| shard.open());
        let mut open: Vec<_> = open.filter_map(|one| one.describe()).collect();
        open.sort_by_key(|open| (open.read, open.start));
        open
    }
}

impl Shard {
    /// The last handle of one may be among these: what drops it gives its place back, and locks.
    fn open(&self) -> Vec<Arc<dyn Idle>> {
        self.places().open.iter().flatten().filter_map(Weak::upgrade).collect()
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Returns coarse time.
    pub(crate) fn now(&self) -> u64 {
        self.shard.now.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.shard.places();
        places.open[self.at] = None;
        places.free.push(self.at);
    }
}

/// The worker.
struct Looker {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    named: Named,
}

impl Looker {
    fn tell_time(&self) -> Moment {
        let now = self.clock.now();
        for shard in &self.shared.shards {
            shard.now.store(nanos(now.0), Ordering::Relaxed);
        }
        now
    }

    fn look(&self) {
        let Shared { limits, period, shards, .. } = &*self.shared;
        let now = self.tell_time();
        // What was touched at coarse time t may have been touched up to a period after it.
        let last = |limit: Duration| now.0.checked_sub(limit.checked_add(*period)?).map(nanos);
        let (writer, reader) = (last(limits.writer), last(limits.reader));
        if writer.is_none() && reader.is_none() {
            return;
        }
        let none = |last: Option<u64>| last.unwrap_or_default();
        let since = Since { writer: none(writer), reader: none(reader), limits: *limits };
        for shard in shards {
            shard.open().iter().for_each(|idle| idle.end_if_idle(&since));
        }
    }
}

impl Looker {
    /// Names whoever has held the sweep back for too long.
    fn warn(&mut self) {
        let (now, after) = (self.clock.now(), self.shared.limits.warning);
        let Some(oldest) = self.shared.open().into_iter().next() else { return };
        if self.named.is_due(&oldest, now, after) {
            let OpenTransaction { read, start, began, label } = oldest;
            tracing::warn!(
                snapshot = read.get(),
                start = start.map(Timestamp::get),
                label = label.as_ref().map(tracing::field::display),
                seconds = now.since(began).as_secs(),
                "an open transaction holds the sweep back"
            );
        }
    }
}

impl Worker for Looker {
    fn step(&mut self) -> Step {
        if self.shared.is_closed.load(Ordering::Acquire) {
            return Step::Done;
        }
        self.look();
        self.warn();
        Step::Idle(Some(self.shared.period))
    }
}

/// Nanoseconds of 584 years.
fn nanos(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
