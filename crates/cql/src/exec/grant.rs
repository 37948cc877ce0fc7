//! Permit, deadline and memory of a statement.
//!
//! A server admits statements before it runs them (see [`carnet_admission`]).

use std::sync::Arc;
use std::time::Duration;

use carnet::TransactionOptions;
use carnet_admission::Permit;
use carnet_base::{Moment, YieldNow};

use super::answer_memory::AnswerMemory;
use super::found::Found;
use crate::trace::Trace;

/// Result of a statement's admission.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// What the arrival has found.
    pub found: Found,
    /// Time from which the statement's timeout counts
    /// ([`RequestTimes::timeout_begin`](super::terms::RequestTimes::timeout_begin)). `None` for a statement without
    /// timeout.
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
