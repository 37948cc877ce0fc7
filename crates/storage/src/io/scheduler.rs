//! Scheduler: queues, tokens, and the order of dispatch.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use carnet_base::Moment;

use super::backoff::{Backoff, Goal};
use super::bucket::{Bucket, SECOND};
use super::class::Class;
use super::model::Model;
use super::queued::Queued;
use super::request::{Id, PIECE_BYTES, Request};
use super::shares::{CLASSES, Shares};

/// Floor of all background requests together, in thousandths of the device.
const FLOOR_PERMILLE: u64 = 50;

/// Depth of a bucket: device time that may be started at once.
const DEPTH_NANOS: u64 = 1_500_000;

/// Depth of the back-off's bucket: small, so that pieces are spaced evenly and not sent in bursts.
const PACED_NANOS: u64 = 50_000;

/// Maximum device time of background requests in flight while there are reads; one piece is always
/// allowed.
const FLYING_NANOS_BESIDE_READS: u64 = 1_000_000;

/// Maximum device time of background requests in flight without reads.
const FLYING_NANOS: u64 = 8_000_000;

/// Options of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Measured model of the disk. Without one, only [`Backoff`] and the shares limit requests.
    pub model: Option<Model>,
    /// Read latency that background work must preserve.
    pub goal: Goal,
    /// Shares of flush, compaction and maintenance.
    pub shares: [u64; CLASSES],
}

impl Default for Config {
    fn default() -> Self {
        Self { model: None, goal: Goal::Measured, shares: [1000, 1000, 200] }
    }
}

/// A part of a request to send to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Id of the request.
    pub id: Id,
    /// Class of the request.
    pub class: Class,
    /// Range of the request's bytes.
    pub bytes: Range<usize>,
    /// Whether it is the last piece of the request.
    pub is_last: bool,
}

/// Next action of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Send a piece to the device, and call [`Scheduler::complete`] when it is done.
    Piece(Piece),
    /// The next request can be paid for at this time, unless another one arrives or ends before.
    WaitUntil(Moment),
    /// Nothing can be dispatched before a request arrives or ends.
    Idle,
}

/// A piece in the device.
#[derive(Debug)]
struct Flying {
    class: Class,
    cost: u64,
    begun: Moment,
}

/// Decides which request the device gets next. See [`crate::io`].
#[derive(Debug)]
pub struct Scheduler {
    model: Option<Model>,
    wal: BTreeMap<(Moment, Id), Queued>,
    reads: BTreeMap<(Moment, Id), Queued>,
    background: Shares,
    /// Tokens by the model.
    device: Bucket,
    /// Tokens by the back-off's rate.
    limit: Bucket,
    /// Tokens of the background floor.
    floor: Bucket,
    floor_permille: u64,
    backoff: Backoff,
    flying: BTreeMap<Id, Vec<Flying>>,
    flying_background: u64,
    last_id: u64,
}

impl Scheduler {
    /// Makes a scheduler without requests.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let Config { model, goal, shares } = config;
        let quiet = model.map(|model| model.read_p99_nanos).filter(|quiet| *quiet > 0);
        Self {
            model,
            wal: BTreeMap::new(),
            reads: BTreeMap::new(),
            background: Shares::new(shares),
            device: Bucket::new(SECOND, DEPTH_NANOS),
            limit: Bucket::new(SECOND, PACED_NANOS),
            floor: Bucket::empty(SECOND / 1000 * FLOOR_PERMILLE, DEPTH_NANOS),
            floor_permille: FLOOR_PERMILLE,
            backoff: Backoff::new(goal, quiet),
            flying: BTreeMap::new(),
            flying_background: 0,
            last_id: 0,
        }
    }

    /// Queues a request.
    pub fn push(&mut self, class: Class, request: Request, now: Moment) -> Id {
        self.tick(now);
        let id = self.next_id();
        let queued = Queued { id, class, request, begun: 0 };
        match class.background() {
            Some(background) => self.background.push(background, queued),
            None => {
                self.deadlines(class).insert((request.deadline, id), queued);
            }
        }
        id
    }

    /// Dispatches a request at once, because its thread must not wait. Other requests wait until
    /// its cost is paid.
    pub fn pass(&mut self, class: Class, request: Request, now: Moment) -> Id {
        self.tick(now);
        let (id, cost) = (self.next_id(), self.cost(&request));
        self.fly(id, class, cost, now);
        if class.background().is_some() {
            self.floor.take(cost);
        }
        id
    }

    /// Counts a request that has ended and did not wait for a turn: a write of the log or a read,
    /// with its latency in the device. Other requests wait until its cost is paid.
    pub fn passed(&mut self, class: Class, request: &Request, latency: Duration, now: Moment) {
        self.device.fill(now);
        self.device.take(self.cost(request));
        if class == Class::Read {
            self.backoff.read(latency);
        }
        self.tick(now);
    }

    /// Returns the next action. Call it until it does not return a piece.
    pub fn pop(&mut self, now: Moment) -> Dispatch {
        self.tick(now);
        if let Some(queued) = self.wal.first_key_value().map(|(_, queued)| queued) {
            let cost = self.cost(&queued.request);
            return self.pop_foreground(Class::Wal, cost, now);
        }
        let background = self.background.next().map(|class| (class, self.piece_of(class)));
        if let Some((class, (bytes, cost))) = &background
            && self.background_has_room(*cost)
            && self.floor.ready_at(*cost, now) <= now
        {
            return self.dispatch_background(*class, bytes.clone(), *cost, now);
        }
        if let Some(queued) = self.reads.first_key_value().map(|(_, queued)| queued) {
            let (class, cost) = (queued.class, self.cost(&queued.request));
            return self.pop_foreground(class, cost, now);
        }
        match background {
            Some((class, (bytes, cost))) => self.pop_background(class, bytes, cost, now),
            None => Dispatch::Idle,
        }
    }

    /// Ends a piece of a request; returns its time in the device. Unknown ids have no effect.
    pub fn complete(&mut self, id: Id, now: Moment) -> Option<Duration> {
        let pieces = self.flying.get_mut(&id)?;
        let Flying { class, cost, begun } = pieces.pop()?;
        if pieces.is_empty() {
            self.flying.remove(&id);
        }
        let latency = now.since(begun);
        match class {
            Class::Read => self.backoff.read(latency),
            Class::Wal => {}
            _ => self.flying_background -= cost,
        }
        self.tick(now);
        Some(latency)
    }

    /// Cancels the undispatched part of a request; returns `false` if there is none. Dispatched
    /// pieces must still be [completed](Scheduler::complete).
    pub fn cancel(&mut self, id: Id) -> bool {
        for queue in [&mut self.wal, &mut self.reads] {
            let found = queue.keys().find(|(_, queued)| *queued == id).copied();
            if found.is_some_and(|key| queue.remove(&key).is_some()) {
                return true;
            }
        }
        self.background.remove(id).is_some()
    }

    /// Sets the floor of all background requests together, in thousandths of the device. It is
    /// higher while writers are throttled because background work is behind.
    pub fn set_floor(&mut self, permille: u64, now: Moment) {
        self.floor_permille = permille.clamp(FLOOR_PERMILLE, 1000);
        self.apply_rates(now);
    }

    /// Drops the model, because the disk is not the measured one. Back-off remains active.
    pub fn forget_model(&mut self) {
        self.model = None;
    }

    /// Returns when background work may continue after requests that [passed](Scheduler::pass).
    pub fn paid_at(&mut self, now: Moment) -> Moment {
        self.tick(now);
        let floor = self.floor.ready_at(0, now);
        let device = if self.model.is_some() { self.device.ready_at(0, now) } else { now };
        let limited = self.backoff.rate().is_some();
        let limit = if limited { self.limit.ready_at(0, now) } else { now };
        floor.min(device.max(limit))
    }

    /// Returns the number of queued requests, by [`Class::kind`].
    #[must_use]
    pub fn queued(&self) -> [usize; Class::KINDS] {
        let background = |class| self.background.len(class);
        [self.wal.len(), self.reads.len(), background(0), background(1), background(2)]
    }

    /// Returns the back-off.
    #[must_use]
    pub const fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    fn next_id(&mut self) -> Id {
        self.last_id += 1;
        Id(self.last_id)
    }

    fn deadlines(&mut self, class: Class) -> &mut BTreeMap<(Moment, Id), Queued> {
        if class == Class::Wal { &mut self.wal } else { &mut self.reads }
    }

    fn cost(&self, request: &Request) -> u64 {
        self.model.unwrap_or(Model::UNMEASURED).cost_nanos(request)
    }

    /// Returns the next piece of a class's first request, and its cost.
    fn piece_of(&mut self, class: usize) -> (Range<usize>, u64) {
        let head = self.background.head(class).expect("only classes with requests are next");
        let rest = head.request.bytes - head.begun;
        let bytes = if head.request.splits { rest.min(PIECE_BYTES) } else { rest };
        let range = head.begun..head.begun + bytes;
        let request = Request { bytes, ..head.request };
        (range, self.cost(&request))
    }

    fn background_has_room(&self, cost: u64) -> bool {
        let most = match self.backoff.has_reads() {
            true => FLYING_NANOS_BESIDE_READS,
            false => FLYING_NANOS,
        };
        self.flying_background == 0 || self.flying_background + cost <= most
    }

    /// Returns when the device can start a request; immediately if it is idle.
    fn affordable_at(&mut self, cost: u64, now: Moment) -> Moment {
        if self.model.is_none() || self.flying.is_empty() {
            return now;
        }
        self.device.ready_at(cost, now)
    }

    fn pop_foreground(&mut self, class: Class, cost: u64, now: Moment) -> Dispatch {
        let at = self.affordable_at(cost, now);
        if at > now {
            return Dispatch::WaitUntil(at);
        }
        let queue = self.deadlines(class);
        let (_, queued) = queue.pop_first().expect("the caller found a request");
        let Queued { id, class, request, .. } = queued;
        self.fly(id, class, cost, now);
        Dispatch::Piece(Piece { id, class, bytes: 0..request.bytes, is_last: true })
    }

    fn pop_background(
        &mut self,
        class: usize,
        bytes: Range<usize>,
        cost: u64,
        now: Moment,
    ) -> Dispatch {
        if !self.background_has_room(cost) {
            return Dispatch::Idle;
        }
        let mut at = self.affordable_at(cost, now);
        if self.backoff.rate().is_some() {
            at = at.max(self.limit.ready_at(cost, now));
        }
        let at = at.min(self.floor.ready_at(cost, now));
        if at > now {
            return Dispatch::WaitUntil(at);
        }
        self.dispatch_background(class, bytes, cost, now)
    }

    fn dispatch_background(
        &mut self,
        class: usize,
        bytes: Range<usize>,
        cost: u64,
        now: Moment,
    ) -> Dispatch {
        let head = self.background.head(class).expect("the caller found a request");
        head.begun = bytes.end;
        let (id, of, is_last) = (head.id, head.class, bytes.end == head.request.bytes);
        self.background.took(class, cost, is_last);
        self.fly(id, of, cost, now);
        self.floor.fill(now);
        self.floor.take_above_zero(cost);
        Dispatch::Piece(Piece { id, class: of, bytes, is_last })
    }

    fn fly(&mut self, id: Id, class: Class, cost: u64, now: Moment) {
        self.device.fill(now);
        self.device.take(cost);
        if class.background().is_some() {
            self.limit.fill(now);
            self.limit.take(cost);
            self.backoff.moved(cost);
            self.flying_background += cost;
        }
        self.flying.entry(id).or_default().push(Flying { class, cost, begun: now });
    }

    fn tick(&mut self, now: Moment) {
        let floor = self.floor_rate();
        if self.backoff.tick(floor, now) {
            self.apply_rates(now);
        }
    }

    /// Returns the floor's device time per second. Without a model, the device's capacity is the
    /// highest speed of background requests.
    fn floor_rate(&self) -> u64 {
        let device = match (self.model, self.backoff.peak()) {
            (Some(_), _) | (None, 0) => SECOND,
            (None, peak) => peak.max(SECOND / 10),
        };
        device / 1000 * self.floor_permille
    }

    fn apply_rates(&mut self, now: Moment) {
        let floor = self.floor_rate();
        self.floor.set_rate(floor, now);
        if let Some(rate) = self.backoff.rate() {
            self.limit.set_rate(rate.max(floor), now);
        }
    }
}
