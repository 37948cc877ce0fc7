//! Diagnosis: reasons why statements wait, and the bottleneck.
//!
//! ```text
//!   gate, turn, read, commit, … ─▶ Waits of the statement's permit
//!                                        │ at its end, and twice a second before
//!                                        ▼
//!                          History: integrals by level and reason
//!                            ├─▶ totals since the start ─▶ /metrics
//!                            └─▶ Report of the last 10 s ─▶ SHOW BOTTLENECK, the log
//! ```
//!
//! A sample at one instant is misleading: the reason why a statement waits at its timeout need not
//! be the one it waited for most of the time. So the bottleneck is the reason with the largest
//! integral of waiting time. Waiting at the gate is only a consequence if the statements with
//! permits wait for one reason most of their time ([`Report::bottleneck`]).
//!
//! [`History`] is pure; [`Diagnosis`] adds a clock and a lock.

mod history;
mod report;
mod sketch;
mod waits;
mod why;

#[cfg(test)]
mod log_tests;
#[cfg(test)]
mod model_tests;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carnet_base::{Clock, Moment, lock};
use tracing::warn;

pub use history::{Ended, History, Totals};
pub use report::{Cause, Report};
pub(crate) use waits::nanos;
pub use waits::{Named, Waiter, Waits};
pub use why::Why;

/// Interval at which the log may be offered a dump. The log takes one dump per 30 s.
const OFFER_EVERY: Duration = Duration::from_secs(1);

/// Maximum number of causes in a dump.
const DUMPED_MAX: usize = 8;

/// The diagnosis of a process.
pub struct Diagnosis {
    clock: Arc<dyn Clock>,
    history: Mutex<History>,
    /// Time of the last offer to the log, in nanoseconds.
    offered: AtomicU64,
}

impl Diagnosis {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let history = Mutex::new(History::new(clock.now()));
        Self { clock, history, offered: AtomicU64::new(0) }
    }

    /// Returns the report of the last 10 s.
    #[must_use]
    pub fn report(&self) -> Report {
        let now = self.clock.now();
        lock(&self.history).report(now)
    }

    /// Returns the figures of each level since the start, with its name.
    #[must_use]
    pub fn totals(&self) -> Vec<(Arc<str>, Totals)> {
        lock(&self.history).totals().map(|(level, totals)| (Arc::clone(level), *totals)).collect()
    }

    /// Adds the figures of a statement that ends now.
    pub(crate) fn add(&self, ended: Ended<'_>, now: Moment) {
        lock(&self.history).add(ended, now);
    }

    /// Records that a statement was refused or timed out. At most every 30 s, the log gets the
    /// reasons.
    pub(crate) fn complain(&self, event: &'static str, now: Moment) {
        let at = nanos(now.0);
        // Relaxed: the counter guards no other memory. Refusals are frequent, and must stay cheap.
        let offered = self.offered.load(Ordering::Relaxed);
        if offered != 0 && at.saturating_sub(offered) < nanos(OFFER_EVERY) {
            return;
        }
        self.offered.store(at.max(1), Ordering::Relaxed);
        let dump = lock(&self.history).dump(now);
        if let Some(report) = dump {
            log(event, &report);
        }
    }
}

fn log(event: &'static str, report: &Report) {
    let largest = report.bottleneck();
    let bottleneck = largest.map_or("none", |cause| cause.why.name());
    let level = largest.map_or("", |cause| &*cause.level);
    let waited = report.waited.as_secs_f64();
    warn!(bottleneck, level, waited, "a statement {event}; of the last 10 s:{}", lines(report));
}

/// Formats the causes of a report, one per line.
fn lines(report: &Report) -> String {
    let mut out = String::new();
    for cause in report.causes.iter().take(DUMPED_MAX) {
        let (why, level, share) = (cause.why.name(), &cause.level, cause.share * 100.0);
        let (waited, waits) = (cause.waited.as_secs_f64(), cause.waits);
        let _ = write!(out, "\n  {why} {share:.0} % {waited:.1} s {waits} waits, level {level}");
        if let Some(waiter) = &cause.waiter {
            let _ = write!(out, ", most by {waiter}");
        }
    }
    out
}
