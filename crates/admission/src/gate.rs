//! Admission gate: decides which requests run, which wait, and which are refused.
//!
//! # The problem
//!
//! A server that starts every request on arrival misses all deadlines once the load exceeds its
//! capacity: each request gets a smaller part of the processor and ends late. Its client has given
//! up, but the server does the work all the same. With a limit on concurrent requests, the work
//! that is done is done in time.
//!
//! # The gate
//!
//! ```text
//!                ┌──── queue: bounded in number and bytes ─────┐
//!  arrive ──────▶│ newest                              oldest │──┐
//!     │ of its   └────────────────────────────────────────┬───┘  │ the level with the least
//!     │ level and                                         │      ▼ used time for its shares
//!     │ workload ▶ … one queue for each …                  │  ──▶ running: bounded in number
//!     ▼ overloaded, and the queue is too long              ▼ overloaded, and waited too long
//!  refused                                              refused
//! ```
//!
//! * **Order.** The requests of a [`Tenant`] wait in order of arrival. Tenants of a queue are served in turns, so that a
//!   client does not wait for all that others have in flight.
//! * **Backpressure.** A request is not refused because of the load unless its level or its client asks for refusals
//!   ([`Workload::Interactive`]). Others wait. If the queue is full, or its oldest request has waited for
//!   [`GateLimits::shed_after`], a new request is *throttled*: its connection is not read from until the request
//!   leaves the queue.
//! * **Age.** The age of a request counts from its arrival at the machine. A connection that runs its statements itself
//!   reads nothing meanwhile, so most of the backlog stands in the kernel, and requests are old when they arrive here.
//! * **Overload** of a queue of interactive requests begins when it is full, or when requests have arrived at an age of
//!   [`GateLimits::shed_after`] for as long as that (as in CoDel: Nichols and Jacobson, "Controlling Queue Delay"). It
//!   ends twice `shed_after` after the last refusal. Requests that arrived until then are refused at this age, on arrival
//!   here and at the head of the queue. Once the oldest has half of that age, all new ones are refused on arrival, which
//!   costs least. So few requests are refused at the head.
//! * **Batch** requests take at most half of the running slots, so that small ones do not wait for long work. While small
//!   ones arrive, they begin at a low priority ([`Permit::begins_long`](crate::Permit::begins_long)).
//! * **Shares.** Among waiting levels, the one with the least processor time for its shares is next
//!   ([`Accounts`]). Within a level small requests come first, except that each twentieth
//!   slot goes to a batch request. Shares need a queue to choose from, and short requests form none: each
//!   would run as soon as it is read. While several levels compete, or several tenants on a busy machine, a request
//!   that is admitted on arrival therefore lets others arrive before it runs ([`Pass::yields`]).
//! * **Long requests** that go on at a low priority, after their first slice, free their slots
//!   ([`Gate::begin_long`]), so that short ones do not wait for them. Of these there are at most `running_max`, too.
//! * **Deadlines.** A request whose deadline passes in the queue is not run.
//!
//! Each decision follows from the present state of the queue: its length and the ages of its requests.
//! Deliberately absent: predictions from the durations of earlier requests. Only requests that run correct such an
//! average; once it exceeded their timeout, an idle server refused all requests of a level until a restart.
//! Also absent: LIFO order under overload. It completes as many requests in time, but each
//! request joins the queue and is refused from its other end, which costs several times as much as a
//! refusal on arrival.
//!
//! A gate is a pure structure: the time is an argument, and its driver carries out its decisions.
//!
//! # Invariants
//!
//! * Each request that arrived is admitted or refused exactly once, unless it is cancelled.
//! * While a request waits, all slots that it may use are taken.
//! * While no request runs or waits, any request that has just arrived is admitted, whatever happened before.
//! * At most `running_max` requests run, not counting resumed ones after a pause, and at most as many are long.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::Moment;

use super::level::{LevelId, LevelLimits, SHARES_DEFAULT, Workload};
use super::newest::Newest;
use super::queue::{Queue, Waiting};
use super::request::{
    Arrival, Arriving, Decision, GateLimits, Pass, QueueId, Reason, Shed, Tenant, Ticket,
};
use super::shares::Accounts;

/// Bounds of the retry delay of a refused request.
const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Number of admissions of a level per batch request that comes before interactive ones.
const BATCH_EVERY: u64 = 20;
/// Age of arriving requests from which tenants compete: the machine is busy, and requests wait for it where no gate sees
/// them.
const CROWDED_AGE: Duration = Duration::from_millis(2);
/// Minimum of [`GateLimits::shed_after`]: no request arrives at an age of zero, nor waits for less.
const SHED_AFTER_MIN: Duration = Duration::from_millis(1);

/// Duration of an overload after the last refusal, in multiples of [`GateLimits::shed_after`].
const OVERLOAD_INTERVALS: u32 = 2;
/// Number of levels above which a gate forgets levels without running or waiting requests.
const LEVELS_MAX: usize = 64;

#[derive(Debug)]
struct LevelState {
    limits: LevelLimits,
    running: usize,
    /// Requests that were admitted and have not ended, including paused ones.
    held: usize,
    admitted: u64,
    queues: [Queue; Workload::ALL.len()],
}

/// Admission gate. See the module documentation.
#[derive(Debug)]
pub struct Gate {
    limits: GateLimits,
    running: usize,
    waiting: usize,
    batch_running: usize,
    /// Requests that go on at a low priority without a slot.
    long: usize,
    levels: BTreeMap<LevelId, LevelState>,
    accounts: Accounts,
    tickets: u64,
    /// Levels of the newest requests.
    newest_level: Newest<LevelId>,
    /// Tenants of the newest requests.
    newest_tenant: Newest<Tenant>,
}

impl Gate {
    /// Makes a gate without requests.
    #[must_use]
    pub fn new(limits: GateLimits) -> Self {
        let limits = GateLimits { running_max: limits.running_max.max(1), ..limits };
        Self {
            limits,
            running: 0,
            waiting: 0,
            batch_running: 0,
            long: 0,
            levels: BTreeMap::new(),
            accounts: Accounts::default(),
            tickets: 0,
            newest_level: Newest::default(),
            newest_tenant: Newest::default(),
        }
    }

    /// Decides on a new request. Older requests that are refused meanwhile go to `decisions`.
    pub fn arrive(
        &mut self,
        request: Arriving,
        now: Moment,
        decisions: &mut Vec<Decision>,
    ) -> Arrival {
        let Arriving { level, workload, bytes, age, deadline, tenant, .. } = request;
        let id = QueueId { level, workload };
        if self.begin(request) {
            self.next(now, decisions);
        }
        let levels_compete = self.newest_level.competes(level, now);
        let tenants_compete = self.newest_tenant.competes(tenant, now) && age >= CROWDED_AGE;
        let yields = levels_compete || tenants_compete;
        if let Some(reason) = self.reason_to_refuse(id, request, now) {
            let shed = Shed { reason, ..self.shed(id, age, now) };
            self.refuse_old(id, now, decisions);
            return Arrival::Shed(shed);
        }
        let queue = self.queue(id);
        if queue.len() == 0 && self.may_run(id) {
            return Arrival::Admitted(Pass { yields, ..self.admit(id) });
        }
        let has_room = self.has_room(id, bytes);
        if workload.is_refused() && !has_room {
            self.queue_mut(id).refuse(now);
            let shed = self.shed(id, age, now);
            self.refuse_old(id, now, decisions);
            return Arrival::Shed(shed);
        }
        let is_slow = queue.waited(now) >= self.shed_after(level);
        let ticket = Ticket { number: self.tickets, queue: id };
        self.tickets += 1;
        self.waiting += 1;
        let arrived = before(now, age);
        let waiting = Waiting { arrived, joined: now, deadline, bytes, tenant };
        self.queue_mut(id).push(ticket.number, waiting);
        self.refuse_old(id, now, decisions);
        let is_throttled = !workload.is_refused() && (!has_room || is_slow);
        if is_throttled { Arrival::Throttled(ticket) } else { Arrival::Queued(ticket) }
    }

    /// Returns the reason to refuse a request for its age, or for that of its queue.
    fn reason_to_refuse(&mut self, id: QueueId, request: Arriving, now: Moment) -> Option<Reason> {
        let (age, shed_after) = (request.age, self.shed_after(id.level));
        if request.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(Reason::Deadline);
        }
        if !id.workload.is_refused() {
            return None;
        }
        let is_old = age >= shed_after;
        let begins = is_old && self.queue_mut(id).old_arrives(shed_after, now);
        let is_late = is_old || self.queue(id).age(now) >= shed_after / 2;
        if begins || (is_late && self.is_overloaded(id, before(now, age))) {
            self.queue_mut(id).refuse(now);
            return Some(Reason::Overloaded);
        }
        None
    }

    /// Ends a running request, given its processor time.
    pub fn done(&mut self, pass: Pass, cost: Duration, now: Moment, decisions: &mut Vec<Decision>) {
        self.queue_mut(pass.queue).cost.add(cost);
        self.accounts.give_back(pass.queue.level, pass.charged);
        self.accounts.charge(pass.queue.level, cost);
        self.level_mut(pass.queue.level).held -= 1;
        self.pause(pass, now, decisions);
    }

    /// Ends a request that was admitted but never ran.
    pub fn give_back(&mut self, pass: Pass, now: Moment, decisions: &mut Vec<Decision>) {
        self.accounts.give_back(pass.queue.level, pass.charged);
        self.level_mut(pass.queue.level).held -= 1;
        self.pause(pass, now, decisions);
    }

    /// Pauses a running request that waits for something other than the processor and the disk: it
    /// does not count as running until [`Gate::resume`].
    pub fn pause(&mut self, pass: Pass, now: Moment, decisions: &mut Vec<Decision>) {
        self.count_running(pass.queue, |running| *running -= 1);
        self.next(now, decisions);
    }

    /// Resumes a paused request at once, because other requests may be waiting for it.
    pub fn resume(&mut self, pass: Pass) {
        self.count_running(pass.queue, |running| *running += 1);
    }

    /// Counts a running request that goes on at a low priority; the caller then pauses it. Returns `false` if it keeps
    /// its slot.
    pub fn begin_long(&mut self, pass: Pass) -> bool {
        let QueueId { level, workload } = pass.queue;
        let is_limited = self.level_mut(level).limits.running_max.is_some();
        // Batch requests have slots that no others take.
        let may = workload != Workload::Batch && !is_limited && self.long < self.limits.running_max;
        self.long += usize::from(may);
        may
    }

    /// Ends a request that went on at a low priority, after the caller has resumed it.
    pub const fn end_long(&mut self) {
        self.long -= 1;
    }

    /// Removes a cancelled request from its queue. Returns `true` if it was waiting.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        self.take(ticket).is_some()
    }

    /// Refuses requests that have waited too long. Arrivals and ends of requests do this too; the
    /// tick covers periods without either.
    pub fn tick(&mut self, now: Moment, decisions: &mut Vec<Decision>) {
        let busy: Vec<QueueId> =
            self.queues().filter(|(_, queue)| queue.len() > 0).map(|(id, _)| id).collect();
        busy.into_iter().for_each(|id| self.refuse_old(id, now, decisions));
        self.next(now, decisions);
    }

    /// Returns the number of running requests.
    #[must_use]
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Returns `true` if as many requests as may run are in progress, including paused ones, but not long ones.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let held: usize = self.levels.values().map(|state| state.held).sum();
        held >= self.limits.running_max + self.long
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the numbers of running and of waiting requests of a level.
    #[must_use]
    pub fn of_level(&self, level: LevelId) -> (usize, usize) {
        self.levels
            .get(&level)
            .map_or((0, 0), |state| (state.running, state.queues.iter().map(Queue::len).sum()))
    }

    fn shares(&self, level: LevelId) -> u32 {
        self.levels.get(&level).map_or(SHARES_DEFAULT, |state| state.limits.shares)
    }

    /// Applies the limits of an arriving request to its level. Returns `true` if they have changed, so that waiting
    /// requests may run now.
    fn begin(&mut self, request: Arriving) -> bool {
        let Arriving { level, limits, .. } = request;
        if self.levels.len() >= LEVELS_MAX && !self.levels.contains_key(&level) {
            self.forget_idle();
        }
        let state = self.levels.entry(level).or_insert_with(|| LevelState {
            limits,
            running: 0,
            held: 0,
            admitted: 0,
            queues: Default::default(),
        });
        // Accounts of waiting levels stay as they are. If each arrival raised them, batch requests would wait for ever
        // behind another level's: small requests move the virtual time on meanwhile.
        let is_waiting = state.queues.iter().any(|queue| queue.len() > 0);
        if !is_waiting || state.limits.shares != limits.shares {
            self.accounts.begin(level, limits.shares, state.held == 0);
        }
        std::mem::replace(&mut state.limits, limits) != limits
    }

    fn forget_idle(&mut self) {
        let is_idle = |state: &LevelState| {
            state.held == 0 && state.queues.iter().all(|queue| queue.len() == 0)
        };
        let idle = self.levels.iter().find(|(_, state)| is_idle(state)).map(|(level, _)| *level);
        if let Some(level) = idle {
            self.levels.remove(&level);
            self.accounts.remove(level);
        }
    }

    /// Admits waiting requests while slots are free.
    fn next(&mut self, now: Moment, decisions: &mut Vec<Decision>) {
        while self.waiting > 0 && self.running < self.limits.running_max {
            let Some(id) = self.next_queue() else { return };
            self.refuse_old(id, now, decisions);
            let Some((number, waiting)) = self.queue_mut(id).next_in_turn() else { continue };
            let ticket = Ticket { number, queue: id };
            if waiting.deadline.is_some_and(|deadline| deadline <= now) {
                self.refuse(ticket, Reason::Deadline, now, decisions);
                continue;
            }
            self.take(ticket);
            let pass = self.admit(id);
            decisions.push(Decision::Admit(ticket, pass));
        }
    }

    /// Chooses the queue whose oldest request runs next.
    fn next_queue(&mut self) -> Option<QueueId> {
        let (levels, limits, batch_running) = (&self.levels, &self.limits, self.batch_running);
        let wants = |id: QueueId| {
            levels.get(&id.level).is_some_and(|state| {
                state.queues[id.workload as usize].len() > 0
                    && has_place(limits, state, batch_running, id.workload)
            })
        };
        let of_level = |level| Workload::ALL.map(|workload| QueueId { level, workload });
        let waiting =
            levels.keys().copied().filter(|level| of_level(*level).into_iter().any(wants));
        let level = self.accounts.next(waiting)?;
        let state = &levels[&level];
        let [interactive, unspecified, batch] = of_level(level);
        // The older one of the two heads comes first.
        let arrived =
            |id: &QueueId| state.queues[id.workload as usize].oldest().map(|(number, _)| number);
        let small =
            [interactive, unspecified].into_iter().filter(|id| wants(*id)).min_by_key(arrived);
        let is_turn_of_batch = state.admitted % BATCH_EVERY == BATCH_EVERY - 1;
        if wants(batch) && is_turn_of_batch { Some(batch) } else { small.or(Some(batch)) }
    }

    fn admit(&mut self, id: QueueId) -> Pass {
        let charged = self.queue(id).cost.get();
        self.accounts.serve(id.level);
        self.accounts.charge(id.level, charged);
        self.count_running(id, |running| *running += 1);
        let state = self.level_mut(id.level);
        state.admitted += 1;
        state.held += 1;
        Pass { queue: id, shares: self.shares(id.level), charged, yields: false }
    }

    fn count_running(&mut self, id: QueueId, change: impl Fn(&mut usize)) {
        change(&mut self.running);
        if id.workload == Workload::Batch {
            change(&mut self.batch_running);
        }
        let state = self.level_mut(id.level);
        change(&mut state.running);
    }

    /// Refuses requests at the head of a queue that have waited too long while overloaded, or that
    /// have passed their deadline.
    fn refuse_old(&mut self, id: QueueId, now: Moment, decisions: &mut Vec<Decision>) {
        let shed_after = self.shed_after(id.level);
        loop {
            let queue = self.queue(id);
            let Some((number, waiting)) = queue.oldest() else { return };
            let oldest = Ticket { number, queue: id };
            let is_old = now.since(waiting.arrived) >= shed_after;
            if id.workload.is_refused() && is_old && self.is_overloaded(id, waiting.arrived) {
                self.queue_mut(id).refuse(now);
                self.refuse(oldest, Reason::Overloaded, now, decisions);
            } else if waiting.deadline.is_some_and(|deadline| deadline <= now) {
                self.refuse(oldest, Reason::Deadline, now, decisions);
            } else {
                return;
            }
        }
    }

    fn refuse(
        &mut self,
        ticket: Ticket,
        reason: Reason,
        now: Moment,
        decisions: &mut Vec<Decision>,
    ) {
        let shed = Shed { reason, ..self.shed(ticket.queue, Duration::ZERO, now) };
        self.take(ticket);
        decisions.push(Decision::Shed(ticket, shed));
    }

    fn take(&mut self, ticket: Ticket) -> Option<Waiting> {
        let state = self.levels.get_mut(&ticket.queue.level)?;
        let waiting = state.queues[ticket.queue.workload as usize].take(ticket.number)?;
        self.waiting -= 1;
        Some(waiting)
    }

    /// Returns `true` if a slot is free for another request of a queue.
    fn may_run(&self, id: QueueId) -> bool {
        self.running < self.limits.running_max
            && has_place(&self.limits, &self.levels[&id.level], self.batch_running, id.workload)
    }

    /// Returns `true` if a queue may grow by a request.
    fn has_room(&self, id: QueueId, bytes: usize) -> bool {
        self.queue(id).len() < self.queue_max(id.level) && self.has_memory(id.level, bytes)
    }

    /// Returns `true` if the waiting requests of a level may grow by `bytes` bytes.
    fn has_memory(&self, level: LevelId, bytes: usize) -> bool {
        let half = self.limits.queue_bytes_max / 2;
        let shares: u64 = self.levels.values().map(|state| u64::from(state.limits.shares)).sum();
        let own = |state: &LevelState| {
            let part = half as u64 * u64::from(state.limits.shares) / shares.max(1);
            usize::try_from(part).unwrap_or(half)
        };
        // Bytes of levels beyond their own part come out of the common half.
        let common: usize = self
            .levels
            .iter()
            .map(|(id, state)| {
                let more = if *id == level { bytes } else { 0 };
                let held: usize = state.queues.iter().map(|queue| queue.bytes).sum();
                held.saturating_add(more).saturating_sub(own(state))
            })
            .fold(0, usize::saturating_add);
        common <= self.limits.queue_bytes_max - half
    }

    fn queue_max(&self, level: LevelId) -> usize {
        let of_level = self.levels.get(&level).and_then(|state| state.limits.queue_max);
        of_level.unwrap_or(self.limits.queue_max).max(1)
    }

    fn shed_after(&self, level: LevelId) -> Duration {
        let of_level = self.levels.get(&level).and_then(|state| state.limits.shed_after);
        of_level.unwrap_or(self.limits.shed_after).max(SHED_AFTER_MIN)
    }

    /// Returns `true` if a request that arrived at this time arrived before the end of the overload. After a pause of
    /// the process the requests that waited meanwhile are as late as before it.
    fn is_overloaded(&self, id: QueueId, arrived: Moment) -> bool {
        self.queue(id).is_overloaded(self.shed_after(id.level) * OVERLOAD_INTERVALS, arrived)
    }

    /// Refuses a request of the age `age` because of the load.
    fn shed(&self, id: QueueId, age: Duration, now: Moment) -> Shed {
        let retry_after = self.queue(id).age(now).max(age).clamp(RETRY_MIN, RETRY_MAX);
        Shed { reason: Reason::Overloaded, retry_after }
    }

    fn queues(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.levels.iter().flat_map(|(level, state)| {
            Workload::ALL
                .iter()
                .zip(&state.queues)
                .map(|(workload, queue)| (QueueId { level: *level, workload: *workload }, queue))
        })
    }

    fn level_mut(&mut self, level: LevelId) -> &mut LevelState {
        self.levels.get_mut(&level).expect("a level is known while a request of it runs or waits")
    }

    fn queue(&self, id: QueueId) -> &Queue {
        &self.levels[&id.level].queues[id.workload as usize]
    }

    fn queue_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.level_mut(id.level).queues[id.workload as usize]
    }
}

/// Returns the moment of an age.
fn before(now: Moment, age: Duration) -> Moment {
    Moment(now.0.saturating_sub(age))
}

/// Returns `true` if the limits of a level and of batch requests permit one more running request.
fn has_place(
    limits: &GateLimits,
    state: &LevelState,
    batch_running: usize,
    workload: Workload,
) -> bool {
    let batch_max = (limits.running_max / 2).max(1);
    state.limits.running_max.is_none_or(|most| state.running < most.max(1))
        && (workload != Workload::Batch || batch_running < batch_max)
}

#[cfg(test)]
#[path = "gate_edge_tests.rs"]
mod edge_tests;
#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
