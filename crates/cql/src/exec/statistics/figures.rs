//! Figures of a fingerprint: one copy for each thread, which are added up when they are shown.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::stripe;

use super::histogram::{Counts, Histogram};

/// Number of copies.
const STRIPES: usize = 8;

/// Figures of one execution.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::exec) struct Executed {
    pub(in crate::exec) took: Duration,
    pub(in crate::exec) has_failed: bool,
    /// Number of attempts that were lost to other transactions.
    pub(in crate::exec) conflicts: u64,
    pub(in crate::exec) rows_read: u64,
    pub(in crate::exec) rows_returned: u64,
}

/// Figures of all executions so far.
#[derive(Clone, Debug, Default)]
pub(in crate::exec) struct Totals {
    pub(in crate::exec) durations: Counts,
    pub(in crate::exec) took: Duration,
    pub(in crate::exec) longest: Duration,
    pub(in crate::exec) errors: u64,
    pub(in crate::exec) conflicts: u64,
    pub(in crate::exec) rows_read: u64,
    pub(in crate::exec) rows_returned: u64,
}

/// Copies of the figures. A copy is made when its thread counts for the first time.
#[derive(Debug, Default)]
pub(in crate::exec) struct Figures([OnceLock<Box<Copied>>; STRIPES]);

/// Figures of the threads of one number. It is aligned to its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Copied {
    durations: Histogram,
    took_nanos: AtomicU64,
    longest_nanos: AtomicU64,
    errors: AtomicU64,
    conflicts: AtomicU64,
    rows_read: AtomicU64,
    rows_returned: AtomicU64,
}

impl Figures {
    /// Counts an execution.
    pub(in crate::exec) fn add(&self, executed: Executed) {
        let Executed { took, has_failed, conflicts, rows_read, rows_returned } = executed;
        let copy = self.0[stripe(STRIPES)].get_or_init(Box::default);
        let nanos = nanos(took);
        copy.durations.record(took);
        copy.took_nanos.fetch_add(nanos, Ordering::Relaxed);
        if nanos > copy.longest_nanos.load(Ordering::Relaxed) {
            copy.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
        }
        let others = [
            (&copy.errors, u64::from(has_failed)),
            (&copy.conflicts, conflicts),
            (&copy.rows_read, rows_read),
            (&copy.rows_returned, rows_returned),
        ];
        for (counter, amount) in others {
            if amount > 0 {
                counter.fetch_add(amount, Ordering::Relaxed);
            }
        }
    }

    /// Adds figures of another fingerprint.
    pub(in crate::exec) fn add_totals(&self, totals: &Totals) {
        let copy = self.0[0].get_or_init(Box::default);
        copy.durations.add(&totals.durations);
        copy.longest_nanos.fetch_max(nanos(totals.longest), Ordering::Relaxed);
        for (counter, amount) in [
            (&copy.took_nanos, nanos(totals.took)),
            (&copy.errors, totals.errors),
            (&copy.conflicts, totals.conflicts),
            (&copy.rows_read, totals.rows_read),
            (&copy.rows_returned, totals.rows_returned),
        ] {
            counter.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Returns the sums of all copies.
    pub(in crate::exec) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for copy in self.0.iter().filter_map(OnceLock::get) {
            let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            copy.durations.add_to(&mut totals.durations);
            totals.took += Duration::from_nanos(get(&copy.took_nanos));
            totals.longest = totals.longest.max(Duration::from_nanos(get(&copy.longest_nanos)));
            totals.errors += get(&copy.errors);
            totals.conflicts += get(&copy.conflicts);
            totals.rows_read += get(&copy.rows_read);
            totals.rows_returned += get(&copy.rows_returned);
        }
        totals
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
