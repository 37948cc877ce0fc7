//! Driver of a gate: its lock, its waiting statements and its ticker.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use carnet_base::{Clock, Moment, Result, Signal, Spawn, Step, Worker, take_wait_note};

use super::class::Class;
use super::figures::Figures;
use super::gate::Gate;
use super::level::{Level, LevelId, Workload};
use super::progress::{Progress, killed};
use super::refusal::refusal;
use super::request::{
    AdmissionRequest, Arrival, Arriving, Decision, GateLimits, Pass, Reason, Shed, Ticket,
};
use super::small_arrivals::SmallArrivals;
use super::sync::{Mutex, MutexGuard};
use crate::diagnosis::{Diagnosis, Ended, Waits, Why, nanos};

/// Minimum interval after which the waits of a running statement are told to the diagnosis.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Interval between checks of the queue while no statement arrives or ends.
const TICK: Duration = Duration::from_millis(10);

/// A statement that was not refused on arrival.
#[must_use = "a statement runs while it holds its permit"]
pub enum Arrived {
    /// The statement runs.
    Admitted(Permit),
    /// The statement waits in the queue.
    Waits(Place),
}

/// Admission control of one class.
pub(super) struct SharedGate {
    class: Class,
    clock: Arc<dyn Clock>,
    state: Mutex<SharedGateState>,
    signal: Signal,
    /// Whether statements count their processor time. If so, a statement that counted none has used
    /// none.
    is_metered: AtomicBool,
    diagnosis: Arc<Diagnosis>,
    /// Arrivals of small statements at all gates of the process.
    small: Arc<SmallArrivals>,
}

struct SharedGateState {
    gate: Gate,
    places: HashMap<Ticket, At>,
    figures: BTreeMap<LevelId, Named>,
    /// Whether the ticker sleeps until its signal.
    ticker_sleeps: bool,
}

/// Figures of a level, with its name.
struct Named {
    level: Arc<str>,
    figures: Figures,
}

/// State of a statement at the gate.
struct At {
    arrived: Moment,
    outcome: Option<Result<Pass, Shed>>,
    /// Time of the decision; the arrival time until then.
    decided: Moment,
    waker: Option<Waker>,
}

impl SharedGate {
    pub(super) fn open(
        (class, limits): (Class, GateLimits),
        clock: Arc<dyn Clock>,
        spawn: &dyn Spawn,
        diagnosis: &Arc<Diagnosis>,
        small: &Arc<SmallArrivals>,
    ) -> Arc<Self> {
        let shared = Arc::new(Self {
            class,
            clock,
            state: Mutex::new(SharedGateState {
                gate: Gate::new(limits),
                places: HashMap::new(),
                figures: BTreeMap::new(),
                ticker_sleeps: true,
            }),
            signal: Signal::new(),
            is_metered: AtomicBool::new(false),
            diagnosis: Arc::clone(diagnosis),
            small: Arc::clone(small),
        });
        // The ticker ends once the gate is dropped.
        let ticker = Ticker(Arc::downgrade(&shared));
        drop(spawn.spawn("carnet-gate", shared.signal.clone(), Box::new(ticker)));
        shared
    }

    pub(super) fn arrive(
        self: &Arc<Self>,
        request: AdmissionRequest<'_>,
        arrived_at: Option<Moment>,
        unread: Option<Why>,
    ) -> Result<Arrived> {
        let now = self.clock.now();
        let arrived_at = arrived_at.map_or(now, |at| at.min(now));
        let AdmissionRequest { level, workload, bytes, deadline, tenant, .. } = request;
        let age = now.since(arrived_at);
        if workload != Workload::Batch {
            self.small.note(now);
        }
        let (of_level, limits) = (level.id, level.limits);
        let request = Arriving { level: of_level, limits, workload, bytes, age, deadline, tenant };
        let mut decisions = Vec::new();
        let mut state = self.lock();
        // It was not read because others were in progress, or because no thread was free.
        let why = unread.unwrap_or(if state.gate.is_full() { Why::Gate } else { Why::Cpu });
        let arrival = state.gate.arrive(request, now, &mut decisions);
        let figures = state.figures_of(level);
        let arrived = match arrival {
            Arrival::Admitted(pass) => {
                figures.admitted += 1;
                figures.waited += age;
                let permit = self.permit(pass, now);
                permit.waits.add(why, age);
                Ok(Arrived::Admitted(permit))
            }
            Arrival::Queued(ticket) => {
                Ok(Arrived::Waits(self.place(&mut state, ticket, false, arrived_at)))
            }
            Arrival::Throttled(ticket) => {
                figures.throttled += 1;
                Ok(Arrived::Waits(self.place(&mut state, ticket, true, arrived_at)))
            }
            Arrival::Shed(shed) => {
                figures.waited += age;
                figures.shed(shed.reason);
                Err(refusal(self.class, shed))
            }
        };
        let wakers = state.decide(&decisions, now);
        drop(state);
        if arrived.is_err() {
            self.diagnosis.complain("was refused", now);
        }
        wakers.into_iter().for_each(Waker::wake);
        arrived
    }

    /// Returns the figures of each level with its name.
    pub(super) fn figures(&self) -> Vec<(Arc<str>, Figures)> {
        let state = self.lock();
        let of_level = |(id, named): (&LevelId, &Named)| {
            let (running, waiting) = state.gate.of_level(*id);
            (Arc::clone(&named.level), Figures { running, waiting, ..named.figures })
        };
        state.figures.iter().map(of_level).collect()
    }

    fn permit(self: &Arc<Self>, pass: Pass, admitted: Moment) -> Permit {
        Permit {
            shared: Arc::clone(self),
            pass,
            begins_long: pass.queue.workload == Workload::Batch && self.small.are_recent(admitted),
            admitted,
            paused: AtomicU64::new(0),
            frees: AtomicUsize::new(0),
            processor: AtomicU64::new(0),
            waits: Waits::default(),
            told_at: AtomicU64::new(nanos(admitted.0)),
            told_held: AtomicU64::new(0),
            is_of_use: AtomicBool::new(false),
            progress: Progress::default(),
        }
    }

    fn place(
        self: &Arc<Self>,
        state: &mut SharedGateState,
        ticket: Ticket,
        is_throttled: bool,
        arrived: Moment,
    ) -> Place {
        let at = At { arrived, outcome: None, decided: arrived, waker: None };
        state.places.insert(ticket, at);
        if std::mem::take(&mut state.ticker_sleeps) {
            self.signal.ring();
        }
        Place { shared: Arc::clone(self), ticket: Some(ticket), is_throttled }
    }

    fn lock(&self) -> MutexGuard<'_, SharedGateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the gate, and wakes the statements that it decided on.
    fn step(&self, change: impl FnOnce(&mut Gate, Moment, &mut Vec<Decision>)) {
        let now = self.clock.now();
        let mut decisions = Vec::new();
        let mut state = self.lock();
        change(&mut state.gate, now, &mut decisions);
        let wakers = state.decide(&decisions, now);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Counts the wait of a statement that was not admitted.
    fn gave_up(&self, level: Option<&Arc<str>>, arrived: Moment) {
        self.count_wait(level, Why::Gate, self.clock.now().since(arrived));
    }

    pub(super) fn count_wait(&self, level: Option<&Arc<str>>, why: Why, waited: Duration) {
        let Some(level) = level else { return };
        let now = self.clock.now();
        let waits = Waits::default();
        waits.add(why, waited);
        self.diagnosis.add(Ended::without_permit(level, &waits), now);
    }

    fn cancel(&self, ticket: Ticket) {
        let mut state = self.lock();
        let at = state.places.remove(&ticket);
        state.gate.cancel(ticket);
        let level = state.name_of(ticket.queue.level);
        drop(state);
        if let Some(at) = &at {
            self.gave_up(level.as_ref(), at.arrived);
        }
        // Outside the lock, like every waker: dropping this one may drop the last handle of a task.
        if let Some(At { outcome: Some(Ok(pass)), .. }) = at {
            self.step(|gate, now, decisions| gate.give_back(pass, now, decisions));
        }
    }
}

impl SharedGateState {
    fn figures_of(&mut self, level: &Level) -> &mut Figures {
        let named = self.figures.entry(level.id).or_insert_with(|| Named {
            level: Arc::clone(&level.name),
            figures: Figures::default(),
        });
        &mut named.figures
    }

    fn name_of(&self, level: LevelId) -> Option<Arc<str>> {
        self.figures.get(&level).map(|named| Arc::clone(&named.level))
    }

    fn decide(&mut self, decisions: &[Decision], now: Moment) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for decision in decisions {
            let (ticket, outcome) = match *decision {
                Decision::Admit(ticket, pass) => (ticket, Ok(pass)),
                Decision::Shed(ticket, shed) => (ticket, Err(shed)),
            };
            let Some(at) = self.places.get_mut(&ticket) else { continue };
            if let Some(named) = self.figures.get_mut(&ticket.queue.level) {
                named.figures.waited += now.since(at.arrived);
                match outcome {
                    Ok(_) => named.figures.admitted += 1,
                    Err(shed) => named.figures.shed(shed.reason),
                }
            }
            at.outcome = Some(outcome);
            at.decided = now;
            wakers.extend(at.waker.take());
        }
        wakers
    }
}

impl Figures {
    const fn shed(&mut self, reason: Reason) {
        match reason {
            Reason::Overloaded => self.shed_overloaded += 1,
            Reason::Deadline => self.shed_deadline += 1,
        }
    }
}

impl Drop for SharedGate {
    fn drop(&mut self) {
        self.signal.ring();
    }
}

/// The right to run, released on drop.
#[must_use = "it is given back when it is dropped"]
pub struct Permit {
    shared: Arc<SharedGate>,
    pass: Pass,
    /// Whether the statement begins at a low priority.
    begins_long: bool,
    admitted: Moment,
    /// Total time of its pauses, in nanoseconds.
    paused: AtomicU64,
    /// Number of reasons for which others may use its slot.
    frees: AtomicUsize,
    /// Processor time of the statement, in nanoseconds.
    processor: AtomicU64,
    waits: Waits,
    /// Time at which its waits were told to the diagnosis last, and for how long it had held the slot, in nanoseconds.
    told_at: AtomicU64,
    told_held: AtomicU64,
    /// Whether the statement was answered in time.
    is_of_use: AtomicBool,
    progress: Progress,
}

impl Permit {
    /// Frees the slot while the statement waits for something other than the processor or the disk.
    /// When the guard is dropped, the statement resumes without waiting.
    pub fn pause(&self) -> Paused<'_> {
        Paused { _slot: FreeSlot::new(self), permit: self, since: self.shared.clock.now() }
    }

    /// Frees the slot of a statement that goes on at a low priority, so that short statements do not wait for long
    /// ones. Returns `None`, and the statement keeps its slot, if as many as may run do so already, or if its level
    /// limits the number of its running statements.
    #[must_use]
    pub fn run_long(self: &Arc<Self>) -> Option<LongSlot> {
        let is_free = self.frees.load(Ordering::Relaxed) > 0;
        if is_free || !self.shared.lock().gate.begin_long(self.pass) {
            return None;
        }
        Some(LongSlot { slot: Some(FreeSlot::new(Arc::clone(self))), permit: Arc::clone(self) })
    }

    /// Awaits a commit, and counts the time as a wait for the log. Meanwhile the slot is free, as for
    /// [`Permit::pause`]: a commit that waits for a sync uses neither processor nor disk, and the more commits wait,
    /// the more share the next sync.
    pub async fn wait_for_log<F: Future>(&self, commit: F) -> F::Output {
        let mut commit = pin!(commit);
        let mut waiting = Counting { permit: self, why: Why::Log, since: None };
        let mut slot = None;
        poll_fn(|context| {
            // Discard a note that another future has left.
            let _ = take_wait_note();
            let polled = commit.as_mut().poll(context);
            if polled.is_pending() {
                let note = take_wait_note();
                waiting.wait(note.map_or(Why::Log, Why::from));
                // A commit that the engine holds back is not in the log yet.
                slot = note.is_none().then(|| slot.take().unwrap_or_else(|| FreeSlot::new(self)));
            }
            polled
        })
        .await
    }

    /// Returns the progress of the statement.
    #[must_use]
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Returns the time of the admission.
    #[must_use]
    pub const fn admitted(&self) -> Moment {
        self.admitted
    }

    /// Returns the level of the statement with the level's shares.
    #[must_use]
    pub const fn level(&self) -> (LevelId, u32) {
        (self.pass.queue.level, self.pass.shares)
    }

    /// Returns `true` if the statement has to let others arrive before it runs: see [`Pass::yields`].
    #[must_use]
    pub fn yields(&self) -> bool {
        self.pass.yields
    }

    /// Returns `true` for a batch statement that was admitted while small ones arrive: it should begin at a low
    /// priority, so that none of them waits for its first slice. A lone one would only pay for the change of threads.
    #[must_use]
    pub const fn begins_long(&self) -> bool {
        self.begins_long
    }

    /// Returns the class of the statement.
    #[must_use]
    pub fn class(&self) -> Class {
        self.shared.class
    }

    /// Returns the handling of the statement under overload.
    #[must_use]
    pub const fn workload(&self) -> Workload {
        self.pass.queue.workload
    }

    /// Returns the waits of the statement. They are added to the [`Diagnosis`] when the permit is
    /// released.
    #[must_use]
    pub const fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Counts the time since the admission as a wait for a thread: the statement begins to run.
    pub fn begin(&self) {
        self.waits.add(Why::Cpu, self.shared.clock.now().since(self.admitted));
    }

    /// Awaits a future. If it is not ready at once, counts the time as a wait for `why`, or for the
    /// reason that lower layers [note](carnet_base::wait_note) while it is pending.
    pub async fn wait_for<F: Future>(&self, why: Why, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut waiting = Counting { permit: self, why, since: None };
        poll_fn(|context| {
            // Discard a note that another future has left.
            let _ = take_wait_note();
            let polled = future.as_mut().poll(context);
            if polled.is_pending() {
                waiting.wait(take_wait_note().map_or(why, Why::from));
            }
            polled
        })
        .await
    }

    /// Like [`Permit::wait_for`], for a read, which fails as soon as the statement is killed.
    ///
    /// # Errors
    ///
    /// Same as the read; `Aborted` if the statement was killed.
    pub async fn read<T>(
        &self,
        why: Why,
        reading: Pin<&mut (impl Future<Output = Result<T>> + ?Sized)>,
    ) -> Result<T> {
        let read = self.wait_for(why, self.progress.unless_killed(reading)).await;
        read.unwrap_or_else(|| Err(killed()))
    }

    /// Records that the statement was answered in time. Without this call its processor time counts
    /// as wasted.
    pub fn answered(&self) {
        // Relaxed: the flag guards no other memory.
        self.is_of_use.store(true, Ordering::Relaxed);
    }

    /// Adds the waits so far to the diagnosis, at most twice a second, so that it sees statements of minutes while they
    /// run.
    pub fn tell_waits(&self, now: Moment) {
        // Relaxed: the counter guards no other memory.
        let last = Duration::from_nanos(self.told_at.load(Ordering::Relaxed));
        if now.0.saturating_sub(last) >= TELL_EVERY {
            self.told_at.store(nanos(now.0), Ordering::Relaxed);
            self.diagnose(now, Duration::ZERO);
            self.waits.tell();
        }
    }

    /// Returns a handle that counts waits of the statement's level after the permit is released.
    #[must_use]
    pub fn witness(&self) -> Witness {
        let level = self.shared.lock().name_of(self.pass.queue.level);
        Witness { shared: Arc::clone(&self.shared), level }
    }

    /// Records that the statement is refused because no memory is left for its answer. Its client waits for
    /// `retry_after`.
    pub fn refused_for_memory(&self, retry_after: Duration) {
        self.lacked_memory(retry_after);
        let mut state = self.shared.lock();
        if let Some(named) = state.figures.get_mut(&self.pass.queue.level) {
            named.figures.shed_memory += 1;
        }
        drop(state);
        self.shared.diagnosis.complain("was refused", self.shared.clock.now());
    }

    /// Records that the statement fails because other answers hold the memory that its answer needs. Its client
    /// waits for `retry_after`.
    pub fn lacked_memory(&self, retry_after: Duration) {
        self.waits.add(Why::Memory, retry_after);
    }

    /// Records that the statement has timed out.
    pub fn timed_out(&self) {
        self.shared.diagnosis.complain("timed out", self.shared.clock.now());
    }

    /// Returns the processor time of a statement that was not answered in time.
    fn wasted(&self) -> Duration {
        let is_of_use = self.is_of_use.load(Ordering::Relaxed);
        let processor = Duration::from_nanos(self.processor.load(Ordering::Relaxed));
        if is_of_use { Duration::ZERO } else { processor }
    }

    /// Adds the waits of the statement that the diagnosis does not know.
    fn diagnose(&self, now: Moment, wasted: Duration) {
        if wasted.is_zero() && !self.waits.is_worth_counting() {
            return;
        }
        let shared = &self.shared;
        let paused = Duration::from_nanos(self.paused.load(Ordering::Relaxed));
        let held = now.since(self.admitted).saturating_sub(paused);
        let told = Duration::from_nanos(self.told_held.swap(nanos(held), Ordering::Relaxed));
        let held = held.saturating_sub(told);
        let level = shared.lock().name_of(self.pass.queue.level);
        if let Some(level) = &level {
            shared
                .diagnosis
                .add(Ended { held, wasted, ..Ended::without_permit(level, &self.waits) }, now);
        }
    }

    /// Counts processor time of the statement, which is charged to its level at the end. If no
    /// statement of the class counts any, the time since the admission is charged.
    pub fn count_processor(&self, time: Duration) {
        // Relaxed: neither atomic guards other memory. The flag is written only once, so that its
        // cache line stays shared.
        if !self.shared.is_metered.load(Ordering::Relaxed) {
            self.shared.is_metered.store(true, Ordering::Relaxed);
        }
        self.processor.fetch_add(nanos(time), Ordering::Relaxed);
    }
}

/// Counts waits of a level without a permit.
pub struct Witness {
    shared: Arc<SharedGate>,
    level: Option<Arc<str>>,
}

impl Witness {
    /// Adds a wait to the diagnosis.
    pub fn waited(&self, why: Why, waited: Duration) {
        self.shared.count_wait(self.level.as_ref(), why, waited);
    }
}

/// A wait that is counted when this is dropped.
struct Counting<'p> {
    permit: &'p Permit,
    why: Why,
    since: Option<Moment>,
}

impl Counting<'_> {
    /// Counts the time from now on as a wait for a reason.
    fn wait(&mut self, why: Why) {
        if self.since.is_some() && self.why == why {
            return;
        }
        let now = self.permit.shared.clock.now();
        self.count(now);
        (self.why, self.since) = (why, Some(now));
    }

    fn count(&mut self, now: Moment) {
        if let Some(since) = self.since.take() {
            self.permit.waits.add(self.why, now.since(since));
            self.permit.tell_waits(now);
        }
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        if self.since.is_some() {
            self.count(self.permit.shared.clock.now());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.diagnose(self.shared.clock.now(), self.wasted());
        self.shared.step(|gate, now, decisions| {
            let paused = Duration::from_nanos(self.paused.load(Ordering::Relaxed));
            let took = now.since(self.admitted).saturating_sub(paused);
            let processor = Duration::from_nanos(self.processor.load(Ordering::Relaxed));
            // A statement that was cancelled before it ran may have waited long, but has used no
            // processor.
            let is_metered = self.shared.is_metered.load(Ordering::Relaxed);
            let cost = if is_metered { processor } else { took };
            gate.done(self.pass, cost, now, decisions);
        });
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.shared.class.name())
    }
}

/// Slot of a running statement that others may use until this is dropped. There may be several of one statement.
struct FreeSlot<P: Deref<Target = Permit>>(P);

impl<P: Deref<Target = Permit>> FreeSlot<P> {
    fn new(permit: P) -> Self {
        // Relaxed: a statement is polled by one thread at a time, and the gate has a lock.
        if permit.frees.fetch_add(1, Ordering::Relaxed) == 0 {
            permit.shared.step(|gate, now, decisions| gate.pause(permit.pass, now, decisions));
        }
        Self(permit)
    }
}

impl<P: Deref<Target = Permit>> Drop for FreeSlot<P> {
    fn drop(&mut self) {
        if self.0.frees.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.shared.lock().gate.resume(self.0.pass);
        }
    }
}

/// Slot of a statement that goes on at a low priority.
#[must_use = "the statement takes its slot again when it is dropped"]
pub struct LongSlot {
    /// `None` only during the drop.
    slot: Option<FreeSlot<Arc<Permit>>>,
    permit: Arc<Permit>,
}

impl Drop for LongSlot {
    fn drop(&mut self) {
        self.slot = None;
        self.permit.shared.lock().gate.end_long();
    }
}

/// A paused permit.
#[must_use = "the statement runs again when it is dropped"]
pub struct Paused<'p> {
    _slot: FreeSlot<&'p Permit>,
    permit: &'p Permit,
    since: Moment,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        let Permit { shared, paused, waits, .. } = self.permit;
        let waited = shared.clock.now().since(self.since);
        paused.fetch_add(nanos(waited), Ordering::Relaxed);
        waits.add(Why::Lock, waited);
    }
}

/// A place in the queue, given up on drop.
pub struct Place {
    shared: Arc<SharedGate>,
    /// `None` after the place has returned its outcome.
    ticket: Option<Ticket>,
    is_throttled: bool,
}

impl Place {
    /// Returns `true` for a throttled statement: the server should not read from its client while it waits.
    #[must_use]
    pub const fn is_throttled(&self) -> bool {
        self.is_throttled
    }

    /// Returns the class of the statement.
    #[must_use]
    pub fn class(&self) -> Class {
        self.shared.class
    }

    /// Returns the level of the statement.
    ///
    /// # Panics
    ///
    /// After the place has returned its outcome.
    #[must_use]
    pub fn level(&self) -> LevelId {
        self.ticket.expect("a place is not asked after its end").queue.level
    }

    /// Returns the handling of the statement under overload.
    ///
    /// # Panics
    ///
    /// After the place has returned its outcome.
    #[must_use]
    pub fn workload(&self) -> Workload {
        self.ticket.expect("a place is not asked after its end").queue.workload
    }
}

impl Future for Place {
    type Output = Result<Permit>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket.expect("a place is not polled after its end");
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let at = state.places.get_mut(&ticket).expect("a place is known until its end");
        let Some(outcome) = at.outcome else {
            let before = at.waker.replace(context.waker().clone());
            drop(state);
            drop(before);
            return Poll::Pending;
        };
        let (arrived, decided) = (at.arrived, at.decided);
        let level = outcome.err().and_then(|_| state.name_of(ticket.queue.level));
        state.places.remove(&ticket);
        drop(state);
        self.ticket = None;
        Poll::Ready(match outcome {
            Ok(pass) => {
                let now = shared.clock.now();
                let permit = shared.permit(pass, now);
                permit.waits.add(Why::Gate, decided.since(arrived));
                permit.waits.add(Why::Cpu, now.since(decided));
                Ok(permit)
            }
            Err(shed) => {
                shared.gave_up(level.as_ref(), arrived);
                shared.diagnosis.complain("was refused", decided);
                Err(refusal(shared.class, shed))
            }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.shared.cancel(ticket);
        }
    }
}

/// Checks the queue periodically while it is not empty.
struct Ticker(Weak<SharedGate>);

impl Worker for Ticker {
    fn step(&mut self) -> Step {
        let Some(shared) = self.0.upgrade() else { return Step::Done };
        shared.step(Gate::tick);
        let mut state = shared.lock();
        state.ticker_sleeps = state.gate.waiting() == 0;
        Step::Idle((!state.ticker_sleeps).then_some(TICK))
    }
}
