//! Report of the largest waits.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::{Waiter, Why};

/// Inverse of the smallest share of time for which a cause is named.
const WORTH_NAMING: u32 = 20;

/// Waits of the statements of one level for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Reason of the waits.
    pub why: Why,
    /// Name of the level.
    pub level: Arc<str>,
    /// Total wait of the level's statements.
    pub waited: Duration,
    /// Number of statements that waited.
    pub waits: u64,
    /// Share of all waiting time, from 0 to 1.
    pub share: f64,
    /// The statement with the longest waits, and its user; `None` if no statement was named.
    pub waiter: Option<Waiter>,
}

/// Waits of statements in the last 10 s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Causes in descending order of waiting time.
    pub causes: Vec<Cause>,
    /// Total wait of all statements; longer than the span if several waited at the same time.
    pub waited: Duration,
    /// Length of the reported period.
    pub span: Duration,
}

impl Report {
    /// Orders the causes by reason, the largest integral first, and within a reason by level.
    ///
    /// Statements at the gate wait for the statements that hold permits. If these spent at least
    /// half of `held`, the total time of the permits, on one reason, that reason is the cause, and
    /// the gate its consequence.
    pub(super) fn new(mut causes: Vec<Cause>, held: Duration, span: Duration) -> Self {
        let of = |whys: &dyn Fn(Why) -> bool| -> Duration {
            causes.iter().filter(|cause| whys(cause.why)).map(|cause| cause.waited).sum()
        };
        let waited = of(&|_| true);
        let by_why = Why::ALL.map(|why| of(&|of| of == why));
        let while_held = Why::ALL.iter().filter(|why| why.holds_permit());
        let while_held = while_held.map(|why| by_why[*why as usize]).max().unwrap_or_default();
        let is_consequence = !while_held.is_zero() && while_held * 2 >= held;
        for cause in &mut causes {
            cause.share = cause.waited.as_secs_f64() / waited.as_secs_f64().max(f64::MIN_POSITIVE);
        }
        causes.sort_by_key(|cause| {
            let is_last = is_consequence && cause.why == Why::Gate;
            (is_last, Reverse(by_why[cause.why as usize]), cause.why, Reverse(cause.waited))
        });
        Self { causes, waited, span }
    }

    /// Returns the largest cause; `None` if statements waited for less than a twentieth of the
    /// time.
    #[must_use]
    pub fn bottleneck(&self) -> Option<&Cause> {
        self.causes.first().filter(|_| self.waited * WORTH_NAMING >= self.span)
    }

    /// Returns the total wait of statements of all levels for a reason.
    #[must_use]
    pub fn waited_for(&self, why: Why) -> Duration {
        self.causes.iter().filter(|cause| cause.why == why).map(|cause| cause.waited).sum()
    }

    /// Returns the bottleneck as one line for operators.
    #[must_use]
    pub fn verdict(&self) -> String {
        let (all, span) = (self.waited.as_secs_f64(), self.span.as_secs_f64());
        let Some(cause) = self.bottleneck() else {
            return format!("none: statements waited for {all:.2} s in the last {span:.1} s");
        };
        let Cause { why, level, waiter, .. } = cause;
        let percent = self.waited_for(*why).as_secs_f64() / all * 100.0;
        let mut verdict = format!(
            "{}: {percent:.0} % of the {all:.1} s that statements waited for in the last {span:.1} s; \
             most of level {level}",
            why.name()
        );
        if let Some(waiter) = waiter {
            let _ = write!(verdict, ", most by {waiter}");
        }
        verdict
    }
}
