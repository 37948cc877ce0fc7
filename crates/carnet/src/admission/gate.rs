//! Which requests run, which wait, and which are refused.
//!
//! # The problem
//!
//! A server that starts whatever arrives answers nothing in time once more arrives than it can do:
//! each request gets a smaller part of the processor, all of them end late, their clients have
//! gone, and what they asked for is done nevertheless. Below a limit on what runs at a time, the work
//! that is done is done in time.
//!
//! # The gate
//!
//! ```text
//!            ┌──── queue: bounded in number and bytes ────┐
//!  arrive ──▶│ newest                              oldest │──▶ running: bounded in number
//!     │      └────────────────────────────────────────┬───┘
//!     ▼ overloaded, and the queue is long enough      ▼ overloaded, and waited too long
//!  refused                                          refused
//! ```
//!
//! * **In order.** Requests wait in the order of their arrival. While the queue has room none is refused,
//!   however long it waits: clients that wait for their answers only wait longer.
//! * **Overloaded.** Once the queue is full more arrives than can be done, and every request that
//!   waited in such a queue would be late. From then on a request is refused on its arrival, which
//!   costs least, if it would wait for [`GateLimits::shed_after`]; the queue stays as short as that.
//!   What has waited for so long nevertheless is refused as well. This ends when the queue is empty.
//! * **Deadlines.** A request whose deadline comes before it would be done, by what requests took on
//!   average, is refused at once: on arrival, or when its turn comes.
//!
//! Deliberately absent: serving the newest first under overload. It answers as many in time, but each
//! request joins the queue and is refused from its other end, which costs several times as much as
//! a refusal on arrival.
//!
//! A gate is a pure structure: it is told the time, and what it decides its driver does.
//!
//! # Invariants
//!
//! * Each request that arrived is admitted or refused exactly once, unless it is cancelled.
//! * While a request waits, as many run as may.
//! * At most `running_max` run, but for those that resumed after a pause.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::Moment;

/// How much a gate lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// Maximum number of requests that run at a time. At least 1.
    pub running_max: usize,
    /// Maximum number of requests that wait.
    pub queue_max: usize,
    /// Maximum bytes of the requests that wait.
    pub queue_bytes_max: usize,
    /// How long a request waits at most while the gate is overloaded.
    pub shed_after: Duration,
}

/// Names a request at its gate: later ones have larger tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// More arrives than can be done.
    Overloaded,
    /// Its deadline comes before it would be done.
    Deadline,
}

/// A refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// Why.
    pub reason: Reason,
    /// After how long it is worth a try again.
    pub retry_after: Duration,
}

/// What becomes of a request on its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It runs; [`Gate::done`] is told when it has ended.
    Admitted,
    /// It waits; a [`Decision`] tells what becomes of it, unless it is cancelled.
    Queued(Ticket),
    /// It is refused.
    Shed(Shed),
}

/// What becomes of a request that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Admit(Ticket),
    /// It is refused.
    Shed(Ticket, Shed),
}

/// Shortest and longest time after which a refused request is told to come again.
const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// The average forgets this part of itself with each request.
const AVERAGE_OVER: u32 = 32;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    arrived: Moment,
    deadline: Option<Moment>,
    bytes: usize,
}

/// The gate. See the module's essay.
#[derive(Debug)]
pub struct Gate {
    limits: GateLimits,
    running: usize,
    queue: BTreeMap<Ticket, Waiting>,
    queue_bytes: usize,
    tickets: u64,
    is_overloaded: bool,
    /// Average time from admission to end.
    average: Duration,
}

impl Gate {
    /// Makes a gate at which no request runs or waits.
    #[must_use]
    pub fn new(limits: GateLimits) -> Self {
        let limits = GateLimits { running_max: limits.running_max.max(1), ..limits };
        Self {
            limits,
            running: 0,
            queue: BTreeMap::new(),
            queue_bytes: 0,
            tickets: 0,
            is_overloaded: false,
            average: Duration::ZERO,
        }
    }

    /// Takes a request of `bytes` bytes. Requests that are refused for it go to `decisions`.
    pub fn arrive(
        &mut self,
        bytes: usize,
        deadline: Option<Moment>,
        now: Moment,
        decisions: &mut Vec<Decision>,
    ) -> Arrival {
        if self.is_late(deadline, self.expected_wait(), now) {
            return Arrival::Shed(self.shed(Reason::Deadline));
        }
        if self.running < self.limits.running_max && self.queue.is_empty() {
            self.running += 1;
            return Arrival::Admitted;
        }
        if self.is_overloaded && self.expected_wait() >= self.limits.shed_after {
            return Arrival::Shed(self.shed(Reason::Overloaded));
        }
        while !self.has_room(bytes) {
            self.is_overloaded = true;
            let Some((oldest, _)) = self.queue.first_key_value() else {
                return Arrival::Shed(self.shed(Reason::Overloaded));
            };
            self.refuse(*oldest, Reason::Overloaded, decisions);
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.queue_bytes += bytes;
        self.queue.insert(ticket, Waiting { arrived: now, deadline, bytes });
        self.refuse_old(now, decisions);
        Arrival::Queued(ticket)
    }

    /// Takes the end of a request that ran, and how long it did.
    pub fn done(&mut self, took: Duration, now: Moment, decisions: &mut Vec<Decision>) {
        let before = self.average.saturating_mul(AVERAGE_OVER - 1);
        self.average =
            if self.average.is_zero() { took } else { before.saturating_add(took) / AVERAGE_OVER };
        self.pause(now, decisions);
    }

    /// Takes that a request which runs waits for something other than the processor and the disk: it
    /// does not count until [`Gate::resume`].
    pub fn pause(&mut self, now: Moment, decisions: &mut Vec<Decision>) {
        self.running -= 1;
        self.next(now, decisions);
    }

    /// Takes that a paused request runs again. It does not wait: others may be waiting for it.
    pub const fn resume(&mut self) {
        self.running += 1;
    }

    /// Takes a request out of the queue, because its caller gave it up. Returns `true` if it waited.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        self.take(ticket).is_some()
    }

    /// Refuses what has waited for too long. It is needed only where nothing arrives and nothing ends
    /// for long: both look as well.
    pub fn tick(&mut self, now: Moment, decisions: &mut Vec<Decision>) {
        self.refuse_old(now, decisions);
        self.next(now, decisions);
    }

    /// Returns how many requests run.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Returns how many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Returns `true` while requests are refused that would wait for too long.
    #[must_use]
    pub const fn is_overloaded(&self) -> bool {
        self.is_overloaded
    }

    /// Admits requests while there is room for them.
    fn next(&mut self, now: Moment, decisions: &mut Vec<Decision>) {
        while self.running < self.limits.running_max {
            self.refuse_old(now, decisions);
            let Some((&ticket, waiting)) = self.queue.first_key_value() else { return };
            if self.is_late(waiting.deadline, Duration::ZERO, now) {
                self.refuse(ticket, Reason::Deadline, decisions);
                continue;
            }
            self.take(ticket);
            self.running += 1;
            decisions.push(Decision::Admit(ticket));
        }
    }

    /// Refuses, while overloaded, what has waited for too long; and always what waits beyond its
    /// deadline and is the oldest.
    fn refuse_old(&mut self, now: Moment, decisions: &mut Vec<Decision>) {
        while let Some((&oldest, waiting)) = self.queue.first_key_value() {
            let is_old = self.is_overloaded && now.since(waiting.arrived) >= self.limits.shed_after;
            if is_old {
                self.refuse(oldest, Reason::Overloaded, decisions);
            } else if waiting.deadline.is_some_and(|deadline| deadline <= now) {
                self.refuse(oldest, Reason::Deadline, decisions);
            } else {
                return;
            }
        }
    }

    fn refuse(&mut self, ticket: Ticket, reason: Reason, decisions: &mut Vec<Decision>) {
        let shed = self.shed(reason);
        self.take(ticket);
        decisions.push(Decision::Shed(ticket, shed));
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        let waiting = self.queue.remove(&ticket)?;
        self.queue_bytes -= waiting.bytes;
        self.is_overloaded &= !self.queue.is_empty();
        Some(waiting)
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.queue.len() < self.limits.queue_max
            && self.queue_bytes.saturating_add(bytes) <= self.limits.queue_bytes_max
    }

    /// Returns how long a request that arrives now waits, by what requests took on average.
    fn expected_wait(&self) -> Duration {
        self.time_of(self.queue.len())
    }

    /// Returns how long a number of requests takes.
    fn time_of(&self, requests: usize) -> Duration {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        let width = u32::try_from(self.limits.running_max).unwrap_or(u32::MAX);
        self.average.saturating_mul(requests) / width
    }

    fn is_late(&self, deadline: Option<Moment>, wait: Duration, now: Moment) -> bool {
        deadline.is_some_and(|deadline| deadline.since(now) <= wait.saturating_add(self.average))
    }

    fn shed(&self, reason: Reason) -> Shed {
        let retry_after = self.time_of(self.queue.len()).clamp(RETRY_MIN, RETRY_MAX);
        Shed { reason, retry_after }
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
