//! Admission control: limits the number of statements that run at a time, and refuses further ones
//! under overload.
//!
//! ```text
//!   statement ─ arrive(Request) ─▶ shared gate of its class ─┬▶ Permit ─ runs ─ drop
//!                                                            ├▶ Place ─ await ─▶ Permit
//!                                                            └▶ Err(Overloaded)
//! ```
//!
//! A [`Gate`] decides which statements run, one gate for each [`Class`]: writes must not wait
//! behind reads. System queries, without which drivers cannot connect, must wait behind neither. A
//! *shared gate* is the thin driver of a gate: a lock, and the wakers of waiting statements.
//!
//! A statement holds one permit from its admission until it is dropped with its answer. While it
//! holds a permit, it must not wait for another permit or for its client. A transaction that waits
//! for its turn at a hot cell [pauses](Permit::pause) the permit: other statements run meanwhile,
//! possibly the one it waits for.
//!
//! [`levels`] are the service levels, whose limits the gates apply; [`diagnosis`] sums up why statements
//! wait. An embedded database has no admission control unless its builder's `admission` is set; `carnet serve`
//! always has it.

mod class;
pub mod diagnosis;
mod figures;
mod gate;
mod level;
pub mod levels;
#[cfg(all(test, shuttle))]
mod models;
mod newest;
#[cfg(test)]
mod permit_tests;
mod progress;
mod queue;
mod refusal;
mod request;
mod run_queue;
mod shared_gate;
mod shares;
mod small_arrivals;
mod sync;

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{Clock, Moment, Result, Spawn};

use crate::diagnosis::{Diagnosis, Why};

pub use class::Class;
pub use figures::Figures;
pub use gate::Gate;
pub use level::{Level, LevelId, LevelLimits, SHARES_DEFAULT, Workload};
pub use progress::Progress;
pub use request::{
    AdmissionRequest, Arrival, Arriving, Decision, GateLimits, Pass, QueueId, Reason, Shed, Tenant,
    Ticket,
};
pub use shared_gate::{Arrived, LongSlot, Paused, Permit, Place, Witness};

pub use run_queue::{Asked, Asking, RunQueue, TurnId};

use shared_gate::SharedGate;
use small_arrivals::SmallArrivals;

/// Limits of the statements that run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Limits of read statements, and separately of write statements.
    pub statements: GateLimits,
    /// Limits of [`Class::System`].
    pub system: GateLimits,
}

/// Default number of running statements per class and processor.
const RUNNING_PER_PROCESSOR: usize = 8;

impl AdmissionLimits {
    /// Returns the limits of a server on a machine with `processors` processors: 8 running
    /// statements per class and processor, 1,000 waiting statements with 16 MiB in total, and a
    /// maximum wait of 50 ms while overloaded.
    #[must_use]
    pub const fn of_server(processors: usize) -> Self {
        let statements = GateLimits {
            running_max: RUNNING_PER_PROCESSOR * processors,
            queue_max: 1_000,
            queue_bytes_max: 16 << 20,
            shed_after: Duration::from_millis(50),
        };
        // Refused system queries make drivers reconnect, which causes more of them.
        let system = GateLimits { shed_after: Duration::from_secs(2), ..statements };
        Self { statements, system }
    }
}

/// Admission control of a process.
pub struct Admission {
    gates: [Arc<SharedGate>; Class::ALL.len()],
    diagnosis: Arc<Diagnosis>,
    limits: AdmissionLimits,
}

impl Admission {
    /// Opens the gates, whose workers wake the statements that have waited for too long.
    #[must_use]
    pub fn new(limits: AdmissionLimits, clock: &Arc<dyn Clock>, spawn: &dyn Spawn) -> Self {
        let diagnosis = Arc::new(Diagnosis::new(Arc::clone(clock)));
        let small = Arc::new(SmallArrivals::default());
        let open = |class| {
            let limits = match class {
                Class::Read | Class::Write => limits.statements,
                Class::System => limits.system,
            };
            SharedGate::open((class, limits), Arc::clone(clock), spawn, &diagnosis, &small)
        };
        Self { gates: Class::ALL.map(open), diagnosis, limits }
    }

    /// Returns the limits of the statements that run at a time.
    #[must_use]
    pub const fn limits(&self) -> AdmissionLimits {
        self.limits
    }

    /// Returns the diagnosis of the statements' waits.
    #[must_use]
    pub fn diagnosis(&self) -> &Diagnosis {
        &self.diagnosis
    }

    /// Admits, queues or refuses a statement that arrives now.
    ///
    /// # Errors
    ///
    /// `Overloaded` if the statement is refused; nothing was done.
    pub fn arrive(&self, request: AdmissionRequest<'_>) -> Result<Arrived> {
        self.gates[request.class as usize].arrive(request, None, None)
    }

    /// Like [`Admission::arrive`], for a statement whose request reached the machine at the time `arrived`, and has
    /// waited since where no gate sees it. `unread` is the reason why its connection was not read from, if it is known.
    ///
    /// # Errors
    ///
    /// `Overloaded` or `Timeout` if the statement is refused; nothing was done.
    pub fn arrive_from(
        &self,
        request: AdmissionRequest<'_>,
        arrived: Moment,
        unread: Option<Why>,
    ) -> Result<Arrived> {
        self.gates[request.class as usize].arrive(request, Some(arrived), unread)
    }

    /// Tells the diagnosis for how long a request of a level waited unread, which is refused now.
    pub fn waited_unread(&self, level: &Arc<str>, why: Why, waited: Duration) {
        self.gates[Class::Write as usize].count_wait(Some(level), why, waited);
    }

    /// Returns the figures of a class.
    #[must_use]
    pub fn figures(&self, class: Class) -> Figures {
        let levels = self.figures_of_levels(class);
        levels.into_iter().fold(Figures::default(), |sum, (_, figures)| sum.plus(figures))
    }

    /// Returns the figures of a class by level, with the level's name.
    #[must_use]
    pub fn figures_of_levels(&self, class: Class) -> Vec<(Arc<str>, Figures)> {
        self.gates[class as usize].figures()
    }
}
