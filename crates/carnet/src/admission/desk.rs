//! A gate with a lock around it, and those that wait at it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use carnet_base::{Clock, Moment, Result, Signal, Spawn, Step, Worker};

use super::gate::{Arrival, Decision, Gate, GateLimits, Reason, Shed, Ticket};
use super::{Arrived, Class, Figures, refusal};

/// How often the queue is looked at while nothing arrives and nothing ends.
const TICK: Duration = Duration::from_millis(10);

/// The admission of one class.
pub(super) struct Desk {
    class: Class,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    signal: Signal,
}

struct State {
    gate: Gate,
    places: HashMap<Ticket, At>,
    figures: Figures,
    /// The ticker sleeps until it is rung.
    ticker_sleeps: bool,
}

/// Where a statement stands.
struct At {
    arrived: Moment,
    outcome: Option<Result<(), Shed>>,
    waker: Option<Waker>,
}

impl Desk {
    pub(super) fn open(
        class: Class,
        limits: GateLimits,
        clock: Arc<dyn Clock>,
        spawn: &dyn Spawn,
    ) -> Arc<Self> {
        let desk = Arc::new(Self {
            class,
            clock,
            state: Mutex::new(State {
                gate: Gate::new(limits),
                places: HashMap::new(),
                figures: Figures::default(),
                ticker_sleeps: true,
            }),
            signal: Signal::new(),
        });
        // It ends by itself once the desk is dropped.
        let ticker = Ticker(Arc::downgrade(&desk));
        drop(spawn.spawn("carnet-gate", desk.signal.clone(), Box::new(ticker)));
        desk
    }

    pub(super) fn arrive(
        self: &Arc<Self>,
        bytes: usize,
        deadline: Option<Moment>,
    ) -> Result<Arrived> {
        let now = self.clock.now();
        let mut decisions = Vec::new();
        let mut state = self.lock();
        let arrival = state.gate.arrive(bytes, deadline, now, &mut decisions);
        let arrived = match arrival {
            Arrival::Admitted => {
                state.figures.admitted += 1;
                Ok(Arrived::Admitted(self.permit(now)))
            }
            Arrival::Queued(ticket) => {
                state.places.insert(ticket, At { arrived: now, outcome: None, waker: None });
                if std::mem::take(&mut state.ticker_sleeps) {
                    self.signal.ring();
                }
                Ok(Arrived::Waits(Place { desk: Arc::clone(self), ticket: Some(ticket) }))
            }
            Arrival::Shed(shed) => {
                state.figures.shed(shed.reason);
                Err(refusal(self.class, shed))
            }
        };
        let wakers = state.decide(&decisions, now);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        arrived
    }

    pub(super) fn figures(&self) -> Figures {
        let state = self.lock();
        let (running, waiting) = (state.gate.running(), state.gate.waiting());
        Figures { running, waiting, ..state.figures }
    }

    fn permit(self: &Arc<Self>, admitted: Moment) -> Permit {
        Permit { desk: Arc::clone(self), admitted, paused: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the gate, and wakes those about whom it decides.
    fn step(&self, change: impl FnOnce(&mut Gate, Moment, &mut Vec<Decision>)) {
        let now = self.clock.now();
        let mut decisions = Vec::new();
        let mut state = self.lock();
        change(&mut state.gate, now, &mut decisions);
        let wakers = state.decide(&decisions, now);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn cancel(&self, ticket: Ticket) {
        let mut state = self.lock();
        let at = state.places.remove(&ticket);
        state.gate.cancel(ticket);
        drop(state);
        // Outside of the lock, like every waker: it may be the last to hold a task.
        if let Some(At { outcome: Some(Ok(())), .. }) = at {
            // Admitted, and never ran.
            self.step(Gate::pause);
        }
    }
}

impl State {
    fn decide(&mut self, decisions: &[Decision], now: Moment) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for decision in decisions {
            let (ticket, outcome) = match *decision {
                Decision::Admit(ticket) => {
                    self.figures.admitted += 1;
                    (ticket, Ok(()))
                }
                Decision::Shed(ticket, shed) => {
                    self.figures.shed(shed.reason);
                    (ticket, Err(shed))
                }
            };
            let Some(at) = self.places.get_mut(&ticket) else { continue };
            self.figures.waited += now.since(at.arrived);
            at.outcome = Some(outcome);
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

impl Drop for Desk {
    fn drop(&mut self) {
        self.signal.ring();
    }
}

/// The right to run, given back when it is dropped.
#[must_use = "it is given back when it is dropped"]
pub struct Permit {
    desk: Arc<Desk>,
    admitted: Moment,
    /// Time that it was paused, in nanoseconds.
    paused: AtomicU64,
}

impl Permit {
    /// Lets another statement run while this one waits for something else than the processor or the
    /// disk. It goes on without waiting once the guard is dropped.
    pub fn pause(&self) -> Paused<'_> {
        self.desk.step(Gate::pause);
        Paused { permit: self, since: self.desk.clock.now() }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.desk.step(|gate, now, decisions| {
            let paused = Duration::from_nanos(self.paused.load(Ordering::Relaxed));
            let took = now.since(self.admitted).saturating_sub(paused);
            gate.done(took, now, decisions);
        });
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.desk.class.name())
    }
}

/// A permit that does not count meanwhile.
#[must_use = "the statement runs again when it is dropped"]
pub struct Paused<'p> {
    permit: &'p Permit,
    since: Moment,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        let Permit { desk, paused, .. } = self.permit;
        let nanos = desk.clock.now().since(self.since).as_nanos();
        paused.fetch_add(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
        desk.lock().gate.resume();
    }
}

/// A place in the queue. Dropping it gives it up.
pub struct Place {
    desk: Arc<Desk>,
    /// `None` once it is decided.
    ticket: Option<Ticket>,
}

impl Future for Place {
    type Output = Result<Permit>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket.expect("a place is not polled after its end");
        let desk = Arc::clone(&self.desk);
        let mut state = desk.lock();
        let at = state.places.get_mut(&ticket).expect("a place is known until its end");
        let Some(outcome) = at.outcome else {
            let before = at.waker.replace(context.waker().clone());
            drop(state);
            drop(before);
            return Poll::Pending;
        };
        state.places.remove(&ticket);
        drop(state);
        self.ticket = None;
        Poll::Ready(match outcome {
            Ok(()) => Ok(desk.permit(desk.clock.now())),
            Err(shed) => Err(refusal(desk.class, shed)),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.desk.cancel(ticket);
        }
    }
}

/// Looks at the queue while it is not empty.
struct Ticker(Weak<Desk>);

impl Worker for Ticker {
    fn step(&mut self) -> Step {
        let Some(desk) = self.0.upgrade() else { return Step::Done };
        desk.step(Gate::tick);
        let mut state = desk.lock();
        state.ticker_sleeps = state.gate.waiting() == 0;
        Step::Idle((!state.ticker_sleeps).then_some(TICK))
    }
}
