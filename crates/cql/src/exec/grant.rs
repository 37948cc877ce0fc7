//! What a statement runs by: its permit and its deadline.
//!
//! A server admits statements before it runs them (see [`carnet::admission`]).

use std::sync::Arc;
use std::time::Duration;

use carnet::TransactionOptions;
use carnet::admission::Permit;
use carnet::base::{Moment, YieldNow};

use super::answer_memory::AnswerMemory;

/// The admission of a statement.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// When it arrived: its timeout begins then. `None` for a statement without timeout.
    pub arrived: Option<Moment>,
    /// What it runs by.
    pub permit: Option<Arc<Permit>>,
    /// The memory that its answer may take.
    pub memory: Option<Arc<AnswerMemory>>,
    /// How it yields to others at the end of its time slices.
    pub yield_now: Option<YieldNow>,
}

impl Grant {
    /// Hands what a transaction needs of it to the transaction's settings.
    pub(super) fn apply<'d>(
        &self,
        options: TransactionOptions<'d>,
        deadline: Option<Moment>,
    ) -> TransactionOptions<'d> {
        options.deadline(deadline).permit(self.permit.clone()).yield_now(self.yield_now)
    }
}

/// How long statements may take from their arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Of statements that name what they read and write.
    pub statement: Duration,
    /// Of statements that read a table as a whole, that filter, and that aggregate.
    pub scan: Duration,
}
