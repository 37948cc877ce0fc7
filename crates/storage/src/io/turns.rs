//! Driver: threads take turns from the [`Scheduler`]; requests without a turn are counted.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carnet_base::{Clock, Moment};

use super::totals::{ClassTotals, Totals};
use super::watch::Watch;
use super::{Class, Config, Direction, Dispatch, Id, PIECE_BYTES, Request, Scheduler};
use crate::lock::lock;

/// Maximum wait of a thread before it checks again, which bounds the effect of clock jumps.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Whether callers may be blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// A turn blocks its thread until the scheduler dispatches it.
    Block,
    /// A turn starts at once and is paid for later: workers that share a thread
    /// [pause](Turns::pause) between their steps.
    Pause,
}

/// Gives threads turns at the device.
pub struct Turns {
    clock: Arc<dyn Clock>,
    waits: Waits,
    state: Mutex<TurnState>,
    changed: Condvar,
    is_released: AtomicBool,
    has_model: AtomicBool,
    totals: Totals,
}

struct TurnState {
    scheduler: Scheduler,
    /// Dispatched requests whose threads have not been notified yet.
    granted: BTreeSet<Id>,
}

/// A turn at the device; it ends when dropped.
#[must_use]
pub struct Turn<'a> {
    turns: &'a Turns,
    id: Id,
    class: Class,
    begun: Moment,
}

impl Turns {
    /// Makes a driver without requests.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, config: Config, waits: Waits) -> Self {
        let has_model = AtomicBool::new(config.model.is_some());
        let state = TurnState { scheduler: Scheduler::new(config), granted: BTreeSet::new() };
        Self {
            clock,
            waits,
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_released: AtomicBool::new(false),
            has_model,
            totals: Totals::default(),
        }
    }

    /// Waits until a background request may be sent to the device. Must not be called while the
    /// thread has an open turn.
    pub fn take(&self, class: Class, direction: Direction, bytes: usize) -> Turn<'_> {
        let pushed = self.clock.now();
        let request = Request { direction, bytes, deadline: pushed, splits: false };
        let mut state = lock(&self.state);
        let (id, begun) = if self.waits == Waits::Pause || self.is_released.load(Ordering::Acquire)
        {
            (state.scheduler.pass(class, request, pushed), pushed)
        } else {
            let id = state.scheduler.push(class, request, pushed);
            self.wait(state, id)
        };
        self.totals.dispatched(class, bytes, begun.since(pushed));
        Turn { turns: self, id, class, begun }
    }

    /// Waits for a request's dispatch, and dispatches other requests meanwhile.
    fn wait(&self, mut state: MutexGuard<'_, TurnState>, id: Id) -> (Id, Moment) {
        loop {
            let now = self.clock.now();
            let wait = self.dispatch(&mut state, now);
            if state.granted.remove(&id) {
                return (id, now);
            }
            if self.is_released.load(Ordering::Acquire) && state.scheduler.cancel(id) {
                let request =
                    Request { direction: Direction::Read, bytes: 0, deadline: now, splits: false };
                return (state.scheduler.pass(Class::Maintenance, request, now), now);
            }
            let wait = wait.map_or(LOOK_AGAIN, |until| until.since(now).min(LOOK_AGAIN));
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Dispatches all possible requests; returns when the next one is possible.
    fn dispatch(&self, state: &mut TurnState, now: Moment) -> Option<Moment> {
        let mut has_granted = false;
        let until = loop {
            match state.scheduler.pop(now) {
                Dispatch::Piece(piece) => has_granted |= state.granted.insert(piece.id),
                Dispatch::WaitUntil(until) => break Some(until),
                Dispatch::Idle => break None,
            }
        };
        if has_granted {
            self.changed.notify_all();
        }
        until
    }

    fn end(&self, id: Id, class: Class, begun: Moment) {
        let now = self.clock.now();
        self.totals.took(class, now.since(begun));
        let mut state = lock(&self.state);
        state.scheduler.complete(id, now);
        if self.waits == Waits::Block {
            self.dispatch(&mut state, now);
        }
    }

    /// Counts a write of the log, which does not wait for a turn.
    pub fn log_wrote(&self, bytes: usize, begun: Moment) {
        let now = self.clock.now();
        if self.has_model.load(Ordering::Relaxed) {
            return self.passed(Class::Wal, Direction::Write, bytes, begun, now);
        }
        // Without a model nothing is paid for; no lock, because every commit calls this.
        self.totals.dispatched(Class::Wal, bytes, Duration::ZERO);
        self.totals.took(Class::Wal, now.since(begun));
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    fn passed(&self, class: Class, direction: Direction, bytes: usize, begun: Moment, now: Moment) {
        self.totals.dispatched(class, bytes, Duration::ZERO);
        let latency = now.since(begun);
        self.totals.took(class, latency);
        let request = Request { direction, bytes, deadline: now, splits: false };
        lock(&self.state).scheduler.passed(class, &request, latency, now);
    }

    /// Returns how long a worker that shares its thread must pause until its turns are paid for;
    /// `None` if it need not.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        if self.waits == Waits::Block {
            return None;
        }
        let now = self.clock.now();
        let wait = lock(&self.state).scheduler.paid_at(now).since(now);
        (!wait.is_zero()).then_some(wait)
    }

    /// Returns the maximum size of a piece: `bytes` if there are no reads that a longer piece would
    /// delay.
    pub(crate) fn piece_bytes(&self, bytes: usize) -> usize {
        let has_reads = lock(&self.state).scheduler.backoff().has_reads();
        if has_reads { bytes.min(PIECE_BYTES) } else { bytes }
    }

    /// Sets the floor of background work, see [`Scheduler::set_floor`].
    pub fn set_floor(&self, permille: u64) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        state.scheduler.set_floor(permille, now);
        if self.waits == Waits::Block {
            self.dispatch(&mut state, now);
        }
    }

    /// Drops the model, see [`Scheduler::forget_model`].
    pub fn forget_model(&self) {
        self.has_model.store(false, Ordering::Relaxed);
        lock(&self.state).scheduler.forget_model();
    }

    /// Lets all turns start without a wait from now on, because the engine is closing.
    pub fn release(&self) {
        self.is_released.store(true, Ordering::Release);
        drop(lock(&self.state));
        self.changed.notify_all();
    }

    /// Returns the totals of each class, in the order of [`Class::NAMES`].
    #[must_use]
    pub fn totals(&self) -> [ClassTotals; Class::KINDS] {
        let queued = lock(&self.state).scheduler.queued();
        self.totals.snapshot(queued)
    }
}

impl Watch for Turns {
    fn begun(&self) -> Moment {
        self.clock.now()
    }

    fn ended(&self, bytes: usize, begun: Moment) {
        let now = self.clock.now();
        self.passed(Class::Read, Direction::Read, bytes, begun, now);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.end(self.id, self.class, self.begun);
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turns({:?})", self.waits)
    }
}
