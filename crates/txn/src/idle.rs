//! Rollback of idle transactions.
//!
//! An open transaction delays cleanup for the whole database: a writer delays trimming of the
//! conflict state, and a snapshot delays the sweep. A forgotten transaction would do so until its
//! process ends.
//!
//! ```text
//!   transaction ── begins in a shard ──▶ [ weak, –, weak, … ]      coarse time: set by the reaper,
//!        │ each call: touched = coarse time                        read by calls
//!        ▼                                 ▲
//!   { calls in flight, touched, … }        └── reaper, periodically: rolls back a transaction with
//!                                              no call in flight that was touched too long ago
//! ```
//!
//! No call reads a clock: coarse time lags by up to a second. A scan may come late, so a period, the
//! time between two scans, is added to each limit: no transaction is ended early, and each at most
//! two periods late.
//! A transaction with a call in flight is never ended, so no read loses its snapshot.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use carnet_base::sync::lock;
use carnet_base::{Clock, Moment, Signal, Spawn, Step, Timestamp, Worker, WorkerHandle, stripe};

use crate::open::{Named, OpenTransaction};

/// Number of shards; threads begin transactions in separate shards if there are enough.
const SHARDS: usize = 64;
/// Number of scans within the shortest limit.
const SCANS: u32 = 8;
/// Maximum lag of coarse time.
const TICK: Duration = Duration::from_secs(1);

/// Limits of idle time for transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleLimits {
    /// Idle time after which a writer is rolled back.
    pub writer: Duration,
    /// Idle time after which a read-only transaction is rolled back.
    pub reader: Duration,
    /// Time after which a warning names the transaction whose snapshot is the oldest, because it
    /// blocks the sweep.
    pub warning: Duration,
}

impl IdleLimits {
    /// No limits: no transaction is ended, or named in a warning.
    pub const NONE: Self =
        Self { writer: Duration::MAX, reader: Duration::MAX, warning: Duration::MAX };

    fn period(self) -> Duration {
        (self.writer.min(self.reader).min(self.warning) / SCANS).max(Duration::from_millis(1))
    }
}

impl Default for IdleLimits {
    /// Ten minutes for writers, and an hour for readers, which hold back only disk space. A warning
    /// after ten minutes.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { writer: seconds(600), reader: seconds(3600), warning: seconds(600) }
    }
}

/// Watch that ends idle transactions. When it is dropped, open transactions go on.
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

/// A shard. It is aligned to its own cache lines, because threads write to their shards at every
/// transaction.
#[derive(Default)]
#[repr(align(128))]
struct Shard {
    /// Coarse time, in nanoseconds.
    now: AtomicU64,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    open: Vec<Option<Weak<dyn Idle>>>,
    free: Vec<usize>,
}

/// A transaction that can be ended when idle.
pub(crate) trait Idle: Send + Sync {
    /// Ends the transaction if no call is in flight and the last one was before the moment allowed
    /// for its kind.
    fn end_if_idle(&self, since: &Since);

    /// Describes the transaction, unless it has ended.
    fn describe(&self) -> Option<OpenTransaction>;
}

/// Transactions whose last call was before these times count as idle. The times result from
/// `limits`.
pub(crate) struct Since {
    pub(crate) writer: u64,
    pub(crate) reader: u64,
    pub(crate) limits: IdleLimits,
}

/// The slot of a transaction in a shard.
pub(crate) struct Slot {
    shard: Arc<Shard>,
    at: usize,
}

impl IdleWatch {
    /// Starts the reaper; it starts none if the limits are [`IdleLimits::NONE`].
    #[must_use]
    pub fn start(limits: IdleLimits, clock: Arc<dyn Clock>, spawn: &dyn Spawn) -> Self {
        let shards = (0..SHARDS).map(|_| Arc::default()).collect();
        let (period, is_closed) = (limits.period(), AtomicBool::new(false));
        let shared = Arc::new(Shared { limits, period, shards, is_closed });
        let signal = Signal::new();
        let worker = (limits != IdleLimits::NONE).then(|| {
            let (scanned, named) = (clock.now(), Named::default());
            let reaper = Reaper { shared: Arc::clone(&shared), clock, scanned, named };
            reaper.tell_time();
            spawn.spawn("carnet-idle", signal.clone(), Box::new(reaper))
        });
        Self { shared, signal, worker }
    }

    /// Returns the open transactions, the oldest snapshots first.
    #[must_use]
    pub fn open(&self) -> Vec<OpenTransaction> {
        self.shared.open()
    }

    /// Registers a transaction in a shard that other threads rarely use.
    pub(crate) fn slot(&self, who: Weak<dyn Idle>) -> Slot {
        let shard = Arc::clone(&self.shared.shards[stripe(SHARDS)]);
        let mut slots = shard.slots();
        let at = if let Some(at) = slots.free.pop() {
            slots.open[at] = Some(who);
            at
        } else {
            slots.open.push(Some(who));
            slots.open.len() - 1
        };
        drop(slots);
        Slot { shard, at }
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
    /// Returns the open transactions without holding the lock: one of these may be the last handle,
    /// and dropping it locks the shard to give the slot back.
    fn open(&self) -> Vec<Arc<dyn Idle>> {
        self.slots().open.iter().flatten().filter_map(Weak::upgrade).collect()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        lock(&self.slots)
    }
}

impl Slot {
    /// Returns coarse time.
    pub(crate) fn now(&self) -> u64 {
        self.shard.now.load(Ordering::Relaxed)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = self.shard.slots();
        slots.open[self.at] = None;
        slots.free.push(self.at);
    }
}

/// The worker that ends idle transactions.
struct Reaper {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    /// Time of the last scan.
    scanned: Moment,
    named: Named,
}

impl Reaper {
    fn tell_time(&self) -> Moment {
        let now = self.clock.now();
        for shard in &self.shared.shards {
            shard.now.store(nanos(now.0), Ordering::Relaxed);
        }
        now
    }

    fn scan(&self, now: Moment) {
        let Shared { limits, period, shards, .. } = &*self.shared;
        // A transaction touched at coarse time t may have been touched up to a period later.
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

impl Reaper {
    /// Logs the transaction that has blocked the sweep for too long.
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
                "an open transaction blocks the sweep"
            );
        }
    }
}

impl Worker for Reaper {
    fn step(&mut self) -> Step {
        if self.shared.is_closed.load(Ordering::Acquire) {
            return Step::Done;
        }
        let (now, period) = (self.tell_time(), self.shared.period);
        if now.since(self.scanned) >= period {
            self.scanned = now;
            self.scan(now);
            self.warn();
        }
        Step::Idle(Some(period.min(TICK)))
    }
}

/// Converts to nanoseconds, which reach for 584 years.
fn nanos(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use carnet_base::WallTime;

    use super::*;

    struct Stopped(Moment);

    impl Clock for Stopped {
        fn now(&self) -> Moment {
            self.0
        }

        fn wall(&self) -> WallTime {
            WallTime::default()
        }
    }

    /// The scans are 75 s apart: an operator would see ages of up to that.
    #[test]
    fn coarse_time_is_told_each_second() {
        let limits = IdleLimits::default();
        let shards: Box<[Arc<Shard>]> = (0..SHARDS).map(|_| Arc::default()).collect();
        let (period, is_closed) = (limits.period(), AtomicBool::new(false));
        assert!(period > TICK);
        let shared = Arc::new(Shared { limits, period, shards, is_closed });
        let now = Moment(Duration::from_secs(7));
        let (clock, named) = (Arc::new(Stopped(now)), Named::default());
        let mut reaper = Reaper { shared: Arc::clone(&shared), clock, scanned: now, named };
        assert!(matches!(reaper.step(), Step::Idle(Some(wait)) if wait <= TICK));
        assert_eq!(shared.shards[0].now.load(Ordering::Relaxed), nanos(now.0), "without a scan");
    }
}
