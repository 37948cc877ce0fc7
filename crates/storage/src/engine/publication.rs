//! Commit pipeline: publishes commits in order, once they are inserted and sufficiently durable.
//!
//! From its reservation on, each record has a slot in a ring, in commit order. Its owner moves the
//! slot through two phases, without a lock: *filled* when the record's bytes are ready for the log,
//! and *inserted* when its cells are in the memtable. Besides, the log is *settled* up to an LSN:
//! written or synced, as the durability setting requires.
//!
//! ```text
//!             resolved ▼           ▼ opened
//!  ring  … published │ I  I  F  O │ free …       O open, F filled, I inserted
//!                    └────┴ published next, when the log is settled up to their ends
//! ```
//!
//! The thread that completes the first slot publishes it and every complete slot after it: it
//! notifies the observer, then wakes the waiters. So a commit is published even if its writer does
//! not wait for it, and a slow insert delays only visibility, not the log.
//!
//! One thread publishes at a time. A thread that finds another one publishing does not wait,
//! because the publishing thread checks again after it has finished.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use carnet_base::{Error, Result, Signal, Timestamp};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, lock};
use crate::wal::Lsn;

/// Number of slots, which is the maximum number of commits in flight. The slots take 2 MiB. Models
/// have fewer, so that they run out, and debug builds, so that an engine opens quickly.
pub(super) const RING: u64 = if cfg!(shuttle) {
    8
} else if cfg!(debug_assertions) {
    1 << 9
} else {
    1 << 14
};
/// Number of slots reserved for writers that passed `poll_room` and have not reserved yet.
const RESERVE: u64 = RING / 4;

/// Number of checks for the publication of a commit that needs no sync: if another thread inserts an
/// earlier commit, or writes the log, it publishes this one within microseconds, in less time than it
/// takes to sleep and wake. Models have none: they run one thread at a time.
const SPINS: u32 = if cfg!(shuttle) { 0 } else { 100 };

/// Observer of published commits.
pub trait Publish: Send + Sync + 'static {
    /// Called when a commit and all earlier ones are visible and as durable as the setting
    /// requires.
    ///
    /// Calls have ascending commits and come from any thread. If several commits are published
    /// together, only the last one is reported. The method must be fast and must not call the
    /// engine.
    fn publish(&self, commit: Timestamp);
}

/// The commit pipeline.
pub(super) struct Publication {
    slots: Box<[Slot]>,
    /// Number of the next slot to open.
    opened: AtomicU64,
    /// Number of the first slot that is not published.
    resolved: AtomicU64,
    /// Last published commit.
    published: AtomicU64,
    settled: AtomicU64,
    /// Held by the publishing thread.
    busy: AtomicBool,
    /// Signals to ring when all slots below a number are published: one for each memtable that
    /// waits for its flush, and one for each thread that waits for their publication.
    marks: Mutex<Vec<(u64, Signal)>>,
    /// Least number in `marks`.
    next_mark: AtomicU64,
    /// Writers that wait for free slots.
    room: Mutex<Vec<Waker>>,
    crowded: AtomicBool,
    observer: OnceLock<Arc<dyn Publish>>,
    stopped: AtomicBool,
    cause: Mutex<Option<String>>,
    /// Rung when publication stops, so that the workers end.
    workers: Vec<Signal>,
}

const OPEN: u64 = 0;
const FILLED: u64 = 1;
const INSERTED: u64 = 2;

/// Aligned, so that slots do not share cache lines.
#[repr(align(128))]
struct Slot {
    /// Slot number and phase: the number distinguishes rounds of the ring.
    state: AtomicU64,
    start: AtomicU64,
    commit: AtomicU64,
    end: AtomicU64,
    shared: Mutex<Shared>,
}

struct Shared {
    number: u64,
    record: Option<Bytes>,
    waiter: Option<Waker>,
}

impl Slot {
    fn new() -> Self {
        Self {
            state: AtomicU64::new(u64::MAX),
            start: AtomicU64::new(0),
            commit: AtomicU64::new(0),
            end: AtomicU64::new(0),
            shared: Mutex::new(Shared { number: u64::MAX, record: None, waiter: None }),
        }
    }

    fn phase(&self, number: u64) -> Option<u64> {
        let state = self.state.load(Ordering::SeqCst);
        (state >> 2 == number).then_some(state & 3)
    }
}

impl Publication {
    /// Makes a pipeline without commits in flight, after recovery.
    pub(super) fn new(published: Timestamp, settled: Lsn, workers: Vec<Signal>) -> Self {
        Self {
            slots: (0..RING).map(|_| Slot::new()).collect(),
            opened: AtomicU64::new(0),
            resolved: AtomicU64::new(0),
            published: AtomicU64::new(published.get()),
            settled: AtomicU64::new(settled.0),
            busy: AtomicBool::new(false),
            marks: Mutex::default(),
            next_mark: AtomicU64::new(u64::MAX),
            room: Mutex::default(),
            crowded: AtomicBool::new(false),
            observer: OnceLock::new(),
            stopped: AtomicBool::new(false),
            cause: Mutex::default(),
            workers,
        }
    }

    /// Sets the observer; only the first call has an effect.
    pub(super) fn observe(&self, observer: Arc<dyn Publish>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// Returns the last published commit.
    pub(super) fn published(&self) -> Timestamp {
        timestamp(self.published.load(Ordering::Acquire))
    }

    /// Returns the number of published slots.
    pub(super) fn resolved(&self) -> u64 {
        self.resolved.load(Ordering::Acquire)
    }

    /// Returns the number of opened slots.
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Acquire)
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number % RING) as usize]
    }

    /// Returns `true` if another slot can be opened.
    pub(super) fn has_room(&self) -> bool {
        self.opened() - self.resolved() < RING
    }

    /// Waits until there are enough free slots.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        // After a stop slots are not freed any more.
        let is_crowded = || {
            let resolved = self.resolved();
            self.opened().saturating_sub(resolved) > RING - RESERVE && !self.has_stopped()
        };
        if !is_crowded() {
            return Poll::Ready(());
        }
        let mut room = lock(&self.room);
        if !room.iter().any(|waker| waker.will_wake(context.waker())) {
            room.push(context.waker().clone());
        }
        self.crowded.store(true, Ordering::SeqCst);
        drop(room);
        fence(Ordering::SeqCst);
        if is_crowded() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Opens the next slot and returns its number. Called in commit order by one thread at a time,
    /// if [`Publication::has_room`].
    pub(super) fn open(&self, start: Timestamp, commit: Timestamp, end: Lsn) -> u64 {
        let number = self.opened();
        let slot = self.slot(number);
        let next = Shared { number, record: None, waiter: None };
        // The previous owner's commit is published, but its waiter may not be woken yet.
        let last = std::mem::replace(&mut *lock(&slot.shared), next);
        last.waiter.into_iter().for_each(Waker::wake);
        slot.start.store(start.get(), Ordering::Relaxed);
        slot.commit.store(commit.get(), Ordering::Relaxed);
        slot.end.store(end.0, Ordering::Relaxed);
        slot.state.store(number << 2 | OPEN, Ordering::SeqCst);
        self.opened.store(number + 1, Ordering::SeqCst);
        number
    }

    /// Stores a slot's record, ready for the log.
    pub(super) fn filled(&self, number: u64, record: Bytes) {
        let slot = self.slot(number);
        lock(&slot.shared).record = Some(record);
        slot.state.store(number << 2 | FILLED, Ordering::SeqCst);
    }

    /// Returns `true` if a slot's record is ready for the log.
    pub(super) fn is_filled(&self, number: u64) -> bool {
        self.slot(number).phase(number).is_some_and(|phase| phase >= FILLED)
    }

    /// Takes a slot's record for the log, once.
    pub(super) fn take_filled(&self, number: u64) -> Option<Bytes> {
        if !self.is_filled(number) {
            return None;
        }
        lock(&self.slot(number).shared).record.take()
    }

    /// Records that a slot's cells are in the memtable.
    pub(super) fn inserted(&self, number: u64) {
        self.slot(number).state.store(number << 2 | INSERTED, Ordering::SeqCst);
        self.advance();
    }

    /// Records that the log is settled up to an LSN.
    pub(super) fn settled(&self, through: Lsn) {
        self.settled.fetch_max(through.0, Ordering::SeqCst);
        self.advance();
    }

    fn is_complete(&self, number: u64) -> bool {
        let slot = self.slot(number);
        slot.phase(number) == Some(INSERTED)
            && slot.end.load(Ordering::Relaxed) <= self.settled.load(Ordering::SeqCst)
    }

    fn advance(&self) {
        while self.is_complete(self.resolved.load(Ordering::SeqCst)) {
            if self.busy.swap(true, Ordering::SeqCst) {
                return;
            }
            self.publish();
            self.busy.store(false, Ordering::SeqCst);
        }
    }

    /// Publishes all complete slots from the first unpublished one on. The caller holds `busy`.
    fn publish(&self) {
        let first = self.resolved.load(Ordering::SeqCst);
        let mut end = first;
        while self.is_complete(end) && end - first < RING {
            end += 1;
        }
        if end == first {
            return;
        }
        let commit = self.slot(end - 1).commit.load(Ordering::Relaxed);
        if let Some(observer) = self.observer.get() {
            observer.publish(timestamp(commit));
        }
        self.published.store(commit, Ordering::Release);
        self.resolved.store(end, Ordering::SeqCst);
        for number in first..end {
            let mut shared = lock(&self.slot(number).shared);
            // The slot may have been opened again; then the waiter belongs to another record.
            if shared.number == number
                && let Some(waiter) = shared.waiter.take()
            {
                drop(shared);
                waiter.wake();
            }
        }
        if end >= self.next_mark.load(Ordering::SeqCst) {
            self.ring_marks();
        }
        if self.crowded.swap(false, Ordering::SeqCst) {
            std::mem::take(&mut *lock(&self.room)).into_iter().for_each(Waker::wake);
        }
    }

    /// Wakes all tasks that wait for a free slot or for publication, to check again.
    pub(super) fn wake_waiters(&self) {
        for slot in &self.slots {
            let waiter = lock(&slot.shared).waiter.take();
            waiter.into_iter().for_each(Waker::wake);
        }
        std::mem::take(&mut *lock(&self.room)).into_iter().for_each(Waker::wake);
    }

    /// Rings a signal when every slot below a number is published, or publication has stopped.
    pub(super) fn mark(&self, number: u64, signal: Signal) {
        let mut marks = lock(&self.marks);
        marks.push((number, signal));
        self.next_mark.fetch_min(number, Ordering::SeqCst);
        drop(marks);
        if self.resolved.load(Ordering::SeqCst) >= number || self.has_stopped() {
            self.ring_marks();
        }
    }

    fn ring_marks(&self) {
        let (resolved, stopped) = (self.resolved.load(Ordering::SeqCst), self.has_stopped());
        let mut marks = lock(&self.marks);
        for (_, signal) in marks.extract_if(.., |(number, _)| stopped || *number <= resolved) {
            signal.ring();
        }
        let next = marks.iter().map(|(number, _)| *number).min().unwrap_or(u64::MAX);
        self.next_mark.store(next, Ordering::SeqCst);
    }

    /// Returns `true` if a start's commit is decided and not published yet.
    pub(super) fn is_under_way(&self, start: Timestamp) -> bool {
        let numbers = self.resolved.load(Ordering::SeqCst)..self.opened.load(Ordering::SeqCst);
        numbers.into_iter().any(|number| {
            let slot = self.slot(number);
            slot.start.load(Ordering::Relaxed) == start.get() && slot.phase(number).is_some()
        })
    }

    /// Stops publication for good: every waiter, now and later, gets an error with the cause. The
    /// first cause is kept.
    pub(super) fn stop(&self, cause: &str) {
        {
            let mut first = lock(&self.cause);
            if first.is_none() {
                tracing::error!(cause, "the store has stopped writing");
                *first = Some(cause.to_owned());
            }
        }
        self.stopped.store(true, Ordering::SeqCst);
        self.ring_marks();
        self.workers.iter().for_each(Signal::ring);
        for slot in &self.slots {
            let waiter = lock(&slot.shared).waiter.take();
            waiter.into_iter().for_each(Waker::wake);
        }
        std::mem::take(&mut *lock(&self.room)).into_iter().for_each(Waker::wake);
    }

    /// Returns `true` if publication has stopped.
    pub(super) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Returns an error if publication has stopped.
    pub(super) fn check(&self) -> Result<()> {
        if !self.has_stopped() {
            return Ok(());
        }
        let cause = lock(&self.cause);
        let cause = cause.as_deref().unwrap_or("the engine was closed");
        Err(Error::unavailable(format!(
            "the store has stopped writing ({cause}); reads go on, but open the database again \
             before you write"
        )))
    }

    /// Waits for a slot that other threads are about to publish, without sleeping and not for long.
    pub(super) fn wait_briefly(&self, number: u64) {
        for _ in 0..SPINS {
            if self.resolved() > number {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Waits until a slot is published. A slot wakes one waiter: its owner.
    pub(super) fn poll(&self, number: u64, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.resolved() > number {
            return Poll::Ready(Ok(()));
        }
        let mut shared = lock(&self.slot(number).shared);
        if shared.number == number {
            match &mut shared.waiter {
                Some(waiter) => waiter.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
        }
        drop(shared);
        // Checked again after the waker is registered: publication or a stop is seen.
        fence(Ordering::SeqCst);
        if self.resolved() > number {
            return Poll::Ready(Ok(()));
        }
        if self.has_stopped() {
            return Poll::Ready(self.check());
        }
        Poll::Pending
    }
}

fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap_or(Timestamp::MAX)
}
