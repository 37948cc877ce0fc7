//! Publication: the contiguous prefix of commits that are inserted and as durable as asked.
//!
//! Each record has a slot from its reservation on, in the order of commits. Two things complete a
//! slot, in either order: its owner has inserted the cells, and the log is *settled* (written or
//! synced, as the durability setting asks) through its end. Whoever completes the first slot
//! publishes it and every complete slot behind it: the observer is told of each commit in order,
//! and then the waiters are woken. So a commit is published even if nobody waits for it any more,
//! and the slowest insert delays visibility only, never the log.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use carnet_base::{Error, Result, Signal, Timestamp};

use crate::lock::lock;
use crate::wal::Lsn;

/// Is told of commits as they are published.
pub trait Publish: Send + Sync + 'static {
    /// Hears that a commit, and with it every earlier one, is visible and as durable as the
    /// setting asks.
    ///
    /// It is called once for each commit, in the order of commits, from whichever thread
    /// completes it, and under a lock: it must be quick and must not call the engine.
    fn publish(&self, start: Timestamp, commit: Timestamp);
}

/// The slots in flight.
#[derive(Default)]
pub(super) struct Publication {
    slots: Mutex<Slots>,
    /// How many slots were published ever.
    resolved: AtomicU64,
    /// The last published commit.
    published: AtomicU64,
    observer: OnceLock<Arc<dyn Publish>>,
    stopped: AtomicBool,
    /// Rung when publication stops, so that the workers end.
    workers: Vec<Signal>,
}

#[derive(Default)]
struct Slots {
    /// The number of the first slot in `open`.
    first: u64,
    open: VecDeque<Slot>,
    settled: Lsn,
    /// Rung once all slots below a number are published. They are few: one for each memtable that
    /// waits for its flush, and one for each thread that waits with it.
    marks: Vec<(u64, Signal)>,
    cause: Option<String>,
}

struct Slot {
    start: Timestamp,
    commit: Timestamp,
    end: Lsn,
    inserted: bool,
    waiter: Option<Waker>,
}

impl Publication {
    /// Begins after recovery.
    pub(super) fn new(published: Timestamp, settled: Lsn, workers: Vec<Signal>) -> Self {
        let slots = Slots { settled, ..Slots::default() };
        Self {
            workers,
            slots: Mutex::new(slots),
            published: AtomicU64::new(published.get()),
            ..Self::default()
        }
    }

    /// Names who is told of commits; the first one stays.
    pub(super) fn observe(&self, observer: Arc<dyn Publish>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// The last published commit.
    pub(super) fn published(&self) -> Timestamp {
        Timestamp::new(self.published.load(Ordering::Acquire)).unwrap_or(Timestamp::MAX)
    }

    /// How many slots were published.
    pub(super) fn resolved(&self) -> u64 {
        self.resolved.load(Ordering::Acquire)
    }

    /// Opens the next slot and returns its number. Called in the order of commits.
    pub(super) fn open(&self, start: Timestamp, commit: Timestamp, end: Lsn) -> u64 {
        let mut slots = lock(&self.slots);
        let number = slots.first + slots.open.len() as u64;
        slots.open.push_back(Slot { start, commit, end, inserted: false, waiter: None });
        number
    }

    /// How many slots were opened.
    pub(super) fn opened(&self) -> u64 {
        let slots = lock(&self.slots);
        slots.first + slots.open.len() as u64
    }

    /// Rings a signal once every slot below a number is published, or publication has stopped.
    pub(super) fn mark(&self, number: u64, signal: Signal) {
        let mut slots = lock(&self.slots);
        if slots.first >= number || slots.cause.is_some() {
            signal.ring();
        } else {
            slots.marks.push((number, signal));
        }
    }

    /// Notes that a slot's cells are in the memtable.
    pub(super) fn inserted(&self, number: u64) {
        self.advance(|slots| {
            let at = number.checked_sub(slots.first).and_then(|at| usize::try_from(at).ok());
            if let Some(slot) = at.and_then(|at| slots.open.get_mut(at)) {
                slot.inserted = true;
            }
        });
    }

    /// Notes that everything below an LSN is as durable as the setting asks.
    pub(super) fn settled(&self, through: Lsn) {
        self.advance(|slots| slots.settled = slots.settled.max(through));
    }

    fn advance(&self, note: impl FnOnce(&mut Slots)) {
        let mut wakers = Vec::new();
        let mut slots = lock(&self.slots);
        note(&mut slots);
        while let Some(slot) = slots.pop_complete() {
            if let Some(observer) = self.observer.get() {
                observer.publish(slot.start, slot.commit);
            }
            self.published.store(slot.commit.get(), Ordering::Release);
            self.resolved.store(slots.first, Ordering::Release);
            wakers.extend(slot.waiter);
        }
        let first = slots.first;
        for (_, signal) in slots.marks.extract_if(.., |(number, _)| *number <= first) {
            signal.ring();
        }
        drop(slots);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends publication for good: every waiter, now and later, gets an error that names the cause.
    /// The first cause stays.
    pub(super) fn stop(&self, cause: &str) {
        let mut slots = lock(&self.slots);
        if slots.cause.is_none() {
            tracing::error!(cause, "the store has stopped writing");
            slots.cause = Some(cause.to_owned());
        }
        self.stopped.store(true, Ordering::Release);
        let wakers: Vec<Waker> =
            slots.open.iter_mut().filter_map(|slot| slot.waiter.take()).collect();
        for (_, signal) in slots.marks.drain(..) {
            signal.ring();
        }
        drop(slots);
        self.workers.iter().for_each(Signal::ring);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns an error once publication has stopped.
    pub(super) fn check(&self) -> Result<()> {
        if !self.stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        let slots = lock(&self.slots);
        let cause = slots.cause.as_deref().unwrap_or("the engine was closed");
        Err(Error::unavailable(format!(
            "the store has stopped writing ({cause}); reads go on, but open the database again \
             before you write"
        )))
    }

    /// Waits until a slot is published. A slot wakes one waiter: its owner.
    pub(super) fn poll(&self, number: u64, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.resolved() > number {
            return Poll::Ready(Ok(()));
        }
        let mut slots = lock(&self.slots);
        let Some(at) = number.checked_sub(slots.first) else { return Poll::Ready(Ok(())) };
        if slots.cause.is_some() {
            drop(slots);
            return Poll::Ready(self.check());
        }
        if let Some(slot) = usize::try_from(at).ok().and_then(|at| slots.open.get_mut(at)) {
            match &mut slot.waiter {
                Some(waiter) => waiter.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
        }
        Poll::Pending
    }
}

impl Slots {
    fn pop_complete(&mut self) -> Option<Slot> {
        let settled = self.settled;
        let slot = self.open.pop_front_if(|slot| slot.inserted && slot.end <= settled)?;
        self.first += 1;
        Some(slot)
    }
}
