//! Terms by which a statement is admitted.

use std::sync::Arc;
use std::time::Duration;

use carnet::levels::Effective;
use carnet_admission::diagnosis::Why;
use carnet_admission::{Admission, AdmissionRequest, Arrived, Class, Tenant, Workload};
use carnet_base::Moment;

/// Times of a request on its way to admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    /// Time at which the request reached the machine.
    pub arrived: Moment,
    /// Time at which the server read it.
    pub read: Moment,
    /// Reason why it was not read before, if it is known.
    pub unread: Option<Why>,
}

impl RequestTimes {
    /// Returns the times of a request that arrives and is read at a moment.
    #[must_use]
    pub const fn at(now: Moment) -> Self {
        Self { arrived: now, read: now, unread: None }
    }

    /// Returns the time from which the request's timeout counts, for its admission and for its execution: its
    /// arrival if it may be refused, and otherwise the time at which it was read. A driver that loads data has
    /// more in flight than the server does within a timeout.
    #[must_use]
    pub const fn timeout_begin(&self, workload: Workload) -> Moment {
        if workload.is_refused() { self.arrived } else { self.read }
    }
}

/// Admission terms of a statement. Its level and timeout apply until its end: a change of the level
/// meanwhile concerns later statements.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Class of the statement.
    pub class: Class,
    /// Service level of the statement.
    pub level: Arc<Effective>,
    /// Treatment under overload.
    pub workload: Workload,
    /// Timeout, if it is known. A statement with a zero timeout times out when it runs.
    pub timeout: Option<Duration>,
    /// Tenant of the session.
    pub tenant: Tenant,
}

impl Terms {
    /// Returns the time until which the statement has to begin. It counts from the reading of a statement that
    /// may not be refused: before, it waits unread as long as it takes.
    pub(super) fn deadline(&self, times: RequestTimes) -> Option<Moment> {
        let timeout = self.timeout.filter(|timeout| !timeout.is_zero())?;
        Some(times.timeout_begin(self.workload).after(timeout))
    }

    /// Requests an admission by these terms, for a request of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// `Overloaded` if the statement is refused.
    pub fn arrive(
        &self,
        admission: &Admission,
        bytes: usize,
        times: RequestTimes,
    ) -> Result<Arrived, carnet::Error> {
        let Self { class, workload, tenant, .. } = *self;
        let (level, deadline) = (&self.level.level, self.deadline(times));
        let request = AdmissionRequest { level, class, workload, bytes, deadline, tenant };
        admission.arrive_from(request, times.arrived, times.unread)
    }
}
