//! Requests and decisions of a gate.

use std::time::Duration;

use carnet_base::Moment;

use super::class::Class;
use super::level::{Level, LevelId, LevelLimits, Workload};

/// Limits of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// Maximum number of running requests. At least 1.
    pub running_max: usize,
    /// Number of waiting requests per queue above which interactive requests are refused and the clients of others
    /// throttled.
    pub queue_max: usize,
    /// Bytes of waiting requests above which the same happens. Half of it is divided among the levels by their shares,
    /// the other half is common.
    pub queue_bytes_max: usize,
    /// Maximum age of an interactive request while its queue is overloaded. Time in a queue of its oldest request from
    /// which clients of the other requests are throttled.
    pub shed_after: Duration,
}

/// A statement that asks for admission.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'l> {
    /// Service level of the statement.
    pub level: &'l Level,
    /// Class of the statement.
    pub class: Class,
    /// Handling of the statement under overload.
    pub workload: Workload,
    /// Size of the request in bytes.
    pub bytes: usize,
    /// Deadline of the statement.
    pub deadline: Option<Moment>,
    /// Tenant of the statement's client.
    pub tenant: Tenant,
}

impl<'l> AdmissionRequest<'l> {
    /// Creates a request without a deadline, of a client without a tenant.
    #[must_use]
    pub fn new(level: &'l Level, class: Class, workload: Workload, bytes: usize) -> Self {
        Self { level, class, workload, bytes, deadline: None, tenant: Tenant::default() }
    }
}

/// Clients that share a part of the slots: the connections of one user, or of one address if clients do not log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(pub u64);

/// A request on its arrival.
#[derive(Clone, Copy, Debug)]
pub struct Arriving {
    /// Level of the request.
    pub level: LevelId,
    /// Limits of the level, which apply from now on.
    pub limits: LevelLimits,
    /// Handling of the request under overload.
    pub workload: Workload,
    /// Size of the request in bytes.
    pub bytes: usize,
    /// Time since the request reached the machine. It has waited since where the gate does not see it.
    pub age: Duration,
    /// Deadline of the request.
    pub deadline: Option<Moment>,
    /// Tenant of the request. Tenants of a queue are served in turns.
    pub tenant: Tenant,
}

/// Id of a queue, a queue of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId {
    /// Level of the queue's requests.
    pub level: LevelId,
    /// Workload of the queue's requests.
    pub workload: Workload,
}

/// Id of a waiting request at its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(super) number: u64,
    pub(super) queue: QueueId,
}

/// Admission of a request, returned to the gate at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Queue of the request.
    pub queue: QueueId,
    /// Shares of its level at the admission.
    pub shares: u32,
    /// Processor time that was charged to its level in advance.
    pub(super) charged: Duration,
    /// Whether the request was admitted on arrival while several levels or tenants compete. It should let others arrive
    /// before it runs, so that the gate has requests of all of them to choose from.
    pub yields: bool,
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The load exceeds the capacity.
    Overloaded,
    /// The deadline passed while the request waited.
    Deadline,
}

/// Refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// Reason of the refusal.
    pub reason: Reason,
    /// Delay after which the client should retry.
    pub retry_after: Duration,
}

/// Decision on an arriving request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The request runs; call `Gate::done` at its end.
    Admitted(Pass),
    /// The request waits; a [`Decision`] follows unless it is cancelled.
    Queued(Ticket),
    /// The request waits although its queue is full, or its oldest request has waited long. The server stops reading
    /// from its client.
    Throttled(Ticket),
    /// The request is refused.
    Shed(Shed),
}

/// Decision on a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request runs.
    Admit(Ticket, Pass),
    /// The request is refused.
    Shed(Ticket, Shed),
}
