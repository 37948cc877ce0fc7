//! What statements waited for most.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::{Named, Why};

/// Waiting of less than this part of the time has no cause worth naming.
const WORTH_NAMING: u32 = 20;

/// What the statements of a level waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The reason.
    pub why: Why,
    /// The level.
    pub level: Arc<str>,
    /// Time that its statements waited, summed.
    pub waited: Duration,
    /// Statements that waited.
    pub waits: u64,
    /// Part of all waiting, from 0 to 1.
    pub share: f64,
    /// The statement that waited most; `None` where none was named.
    pub named: Option<Arc<Named>>,
}

/// What statements waited for in the last 10 s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The causes, the largest first.
    pub causes: Vec<Cause>,
    /// Time that statements waited, summed: longer than the span where several waited at a time.
    pub waited: Duration,
    /// How much time the report is about.
    pub span: Duration,
}

impl Report {
    /// Orders the causes: the reason with the largest integral first, and its levels by theirs.
    ///
    /// Statements that wait at the gate wait for those that hold the permits. Where these spent at least
    /// half of `held`, the time in which they held them, waiting for one thing, that is the cause, and
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

    /// Returns the largest cause; `None` where statements waited for less than a twentieth of the
    /// time.
    #[must_use]
    pub fn bottleneck(&self) -> Option<&Cause> {
        self.causes.first().filter(|_| self.waited * WORTH_NAMING >= self.span)
    }

    /// Returns the time that statements of all levels waited for a reason.
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
        let Cause { why, level, named, .. } = cause;
        let percent = self.waited_for(*why).as_secs_f64() / all * 100.0;
        let mut verdict = format!(
            "{}: {percent:.0} % of the {all:.1} s that statements waited for in the last {span:.1} s; \
             most of level {level}",
            why.name()
        );
        if let Some(named) = named {
            let _ = write!(verdict, ", most by {named}");
        }
        verdict
    }
}
