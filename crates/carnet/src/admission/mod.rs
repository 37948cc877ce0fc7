//! Admission: how many statements a process runs at a time, and which it refuses.
//!
//! ```text
//!   statement ─ arrive(Request) ─▶ desk of its class: gate ─┬▶ Permit ─ runs ─ drop
//!                                                          ├▶ Place ─ await ─▶ Permit
//!                                                          └▶ Err(Overloaded)
//! ```
//!
//! What may run is decided by a [`Gate`], one for each [`Class`]: writes must not wait behind reads,
//! nor system queries, without which drivers cannot connect, behind either. A *desk* is the thin part
//! around a gate: a lock, and what wakes those that wait.
//!
//! A statement holds one permit from its admission until it is dropped with the answer. It must not
//! wait for another permit, nor for its client, while it holds one. A transaction that waits for its
//! turn at a hot cell [pauses](Permit::pause): others run meanwhile, and among them may be the one
//! that it waits for.
//!
//! An embedded database has no admission unless [`Builder::admission`](crate::Builder::admission)
//! asks for it; `carnet serve` always has one.

mod desk;
mod gate;
mod lane;
mod level;
#[cfg(all(test, shuttle))]
mod models;
mod request;
mod run_queue;
mod shares;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Clock, Error, ErrorKind, Moment, Result, Spawn};

use crate::diagnosis::Diagnosis;

pub use desk::{Paused, Permit, Place};
pub use gate::Gate;
pub use level::{Level, LevelId, LevelLimits, SHARES_DEFAULT, Workload};
pub use request::{Arrival, Arriving, Decision, GateLimits, LaneId, Pass, Reason, Shed, Ticket};

pub use run_queue::{Asked, Asking, RunQueue, TurnId};

use desk::Desk;

/// Kinds of statements that do not wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Statements that only read.
    Read,
    /// Statements that may write.
    Write,
    /// Reads of system tables, changes of the schema, and what else drivers need to connect.
    System,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::System];

    /// Returns the name in metrics and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::System => "system",
        }
    }
}

/// How much a process runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Limits of statements that read, and, by themselves, of statements that write.
    pub statements: GateLimits,
    /// Limits of [`Class::System`].
    pub system: GateLimits,
}

/// Statements that run at a time for each processor, by default.
const RUNNING_PER_PROCESSOR: usize = 8;

impl AdmissionLimits {
    /// Returns the limits of a server on a machine with `processors` processors: 8 statements of a class
    /// at a time for each of them, 1,000 that wait with 16 MiB, and 50 ms of waiting while
    /// overloaded.
    #[must_use]
    pub const fn of_server(processors: usize) -> Self {
        let statements = GateLimits {
            running_max: RUNNING_PER_PROCESSOR * processors,
            queue_max: 1_000,
            queue_bytes_max: 16 << 20,
            shed_after: Duration::from_millis(50),
        };
        // Refusing them makes drivers connect again, and ask for more of them.
        let system = GateLimits { shed_after: Duration::from_secs(2), ..statements };
        Self { statements, system }
    }
}

/// The admission of a process.
pub struct Admission {
    desks: [Arc<Desk>; Class::ALL.len()],
    diagnosis: Arc<Diagnosis>,
}

/// A statement that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Request<'l> {
    /// Its service level.
    pub level: &'l Level,
    /// Its class.
    pub class: Class,
    /// How it is treated under overload.
    pub workload: Workload,
    /// The bytes of its request.
    pub bytes: usize,
    /// When it has to be done.
    pub deadline: Option<Moment>,
}

/// A statement that was not refused.
#[must_use = "a statement runs while it holds its permit"]
pub enum Arrived {
    /// It runs.
    Admitted(Permit),
    /// It waits.
    Waits(Place),
}

impl Admission {
    pub(crate) fn new(limits: AdmissionLimits, clock: &Arc<dyn Clock>, spawn: &dyn Spawn) -> Self {
        let diagnosis = Arc::new(Diagnosis::new(Arc::clone(clock)));
        let desk = |class| {
            let limits = match class {
                Class::Read | Class::Write => limits.statements,
                Class::System => limits.system,
            };
            Desk::open(class, limits, Arc::clone(clock), spawn, &diagnosis)
        };
        Self { desks: Class::ALL.map(desk), diagnosis }
    }

    /// Returns what statements wait for.
    #[must_use]
    pub fn diagnosis(&self) -> &Diagnosis {
        &self.diagnosis
    }

    /// Takes a statement.
    ///
    /// # Errors
    ///
    /// `Overloaded` where it is refused; nothing was done.
    pub fn arrive(&self, request: Request<'_>) -> Result<Arrived> {
        let Request { level, class, workload, bytes, deadline } = request;
        self.desks[class as usize].arrive(level, workload, bytes, deadline)
    }

    /// Returns figures of a class.
    #[must_use]
    pub fn figures(&self, class: Class) -> Figures {
        let levels = self.figures_of_levels(class);
        levels.into_iter().fold(Figures::default(), |sum, (_, figures)| sum.plus(figures))
    }

    /// Returns figures of a class by level, with the level's name.
    #[must_use]
    pub fn figures_of_levels(&self, class: Class) -> Vec<(Arc<str>, Figures)> {
        self.desks[class as usize].figures()
    }
}

/// Figures of a class, or of one level in it, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Statements that run.
    pub running: usize,
    /// Statements that wait.
    pub waiting: usize,
    /// Statements that were admitted.
    pub admitted: u64,
    /// Statements that were refused because more arrived than could be done.
    pub shed_overloaded: u64,
    /// Statements that were refused because of their deadline.
    pub shed_deadline: u64,
    /// Statements that were refused after their admission, as there was no memory for their answers.
    pub shed_memory: u64,
    /// Batch statements that waited, and would have been refused as interactive ones.
    pub throttled: u64,
    /// Time that admitted and refused statements have waited.
    pub waited: Duration,
}

impl Figures {
    fn plus(self, other: Self) -> Self {
        Self {
            running: self.running + other.running,
            waiting: self.waiting + other.waiting,
            admitted: self.admitted + other.admitted,
            shed_overloaded: self.shed_overloaded + other.shed_overloaded,
            shed_deadline: self.shed_deadline + other.shed_deadline,
            shed_memory: self.shed_memory + other.shed_memory,
            throttled: self.throttled + other.throttled,
            waited: self.waited + other.waited,
        }
    }
}

/// Returns the error of a statement that was refused.
fn refusal(class: Class, shed: Shed) -> Error {
    let why = match shed.reason {
        Reason::Overloaded => "more arrive than can be done",
        Reason::Deadline => "it would not be done before its deadline",
    };
    Error::new(
        ErrorKind::Overloaded { retry_after: shed.retry_after },
        format!(
            "the {} statement was refused, since {why}; nothing was done, try again after {} ms",
            class.name(),
            shed.retry_after.as_millis().max(1)
        ),
    )
}
