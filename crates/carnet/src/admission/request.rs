//! What a gate is asked, and what it answers.

use std::time::Duration;

use carnet_base::Moment;

use super::level::{LevelId, LevelLimits, Workload};

/// How much a gate lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// Maximum number of requests that run at a time. At least 1.
    pub running_max: usize,
    /// Maximum number of requests of a lane that wait.
    pub queue_max: usize,
    /// Maximum bytes of the requests that wait. Half of it is divided among the levels by their
    /// shares, the other half is for all.
    pub queue_bytes_max: usize,
    /// How long a request waits at most while its lane is overloaded.
    pub shed_after: Duration,
}

/// A request that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arriving {
    /// Its level.
    pub level: LevelId,
    /// The limits of the level, which hold from now on.
    pub limits: LevelLimits,
    /// How it is treated under overload.
    pub workload: Workload,
    /// The bytes of the request.
    pub bytes: usize,
    /// When it has to be done.
    pub deadline: Option<Moment>,
}

/// Where requests wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId {
    /// The level of its requests.
    pub level: LevelId,
    /// The workload of its requests.
    pub workload: Workload,
}

/// Names a request at its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(super) number: u64,
    pub(super) lane: LaneId,
}

/// An admission, to be handed back at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The lane of the request.
    pub lane: LaneId,
    /// The processor time that its level was charged for it.
    pub(super) charged: Duration,
}

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
    /// It runs; `Gate::done` is told when it has ended.
    Admitted(Pass),
    /// It waits; a [`Decision`] tells what becomes of it, unless it is cancelled.
    Queued(Ticket),
    /// It waits although its lane is full: it would have been refused, if it were interactive.
    Throttled(Ticket),
    /// It is refused.
    Shed(Shed),
}

/// What becomes of a request that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Admit(Ticket, Pass),
    /// It is refused.
    Shed(Ticket, Shed),
}
