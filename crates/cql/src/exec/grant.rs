//! Permit, deadline and memory of a statement.
//!
//! A server admits statements before it runs them (see [`carnet_admission`]).

use std::sync::Arc;
use std::time::Duration;

use carnet::TransactionOptions;
use carnet_admission::diagnosis::Why;
use carnet_admission::{Permit, Workload};
use carnet_base::{Moment, YieldNow};

use super::answer_memory::AnswerMemory;
use crate::trace::Trace;

/// Result of a statement's admission.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// Time from which the statement's timeout counts ([`RequestTimes::timeout_begin`]). `None` for a
    /// statement without timeout.
    pub arrived: Option<Moment>,
    /// Permit of the admission gate.
    pub permit: Option<Arc<Permit>>,
    /// Memory that the answer may take.
    pub memory: Option<Arc<AnswerMemory>>,
    /// Trace of the statement, if the client requested one.
    pub trace: Option<Arc<Trace>>,
    /// Function by which the statement yields to others at the end of its time slices.
    pub yield_now: Option<YieldNow>,
}

impl Grant {
    /// Applies the parts that concern a transaction to the transaction's options.
    pub(super) fn apply<'d>(
        &self,
        options: TransactionOptions<'d>,
        deadline: Option<Moment>,
    ) -> TransactionOptions<'d> {
        options.deadline(deadline).permit(self.permit.clone()).yield_now(self.yield_now)
    }
}

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

/// Timeouts of statements, from the reading of their requests, or from their arrival if they may be
/// refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout of statements that name the keys they read and write.
    pub statement: Duration,
    /// Timeout of statements that scan a table, filter or aggregate.
    pub scan: Duration,
    /// Timeout of schema changes and of statements that read system tables.
    pub schema: Duration,
}
