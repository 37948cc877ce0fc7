//! Whether small statements arrive, of whatever class.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::Moment;

use crate::diagnosis::nanos;

/// Time for which small statements count as arriving after the newest one.
const ARRIVING: Duration = Duration::from_millis(20);
/// Precision of the time of the newest one: threads write it seldom, because they share it.
const PRECISION: Duration = Duration::from_millis(1);

/// Time at which the newest small statement arrived, in nanoseconds; 0 before the first.
#[derive(Debug, Default)]
pub(super) struct SmallArrivals(AtomicU64);

impl SmallArrivals {
    /// Records the arrival of a small statement.
    pub(super) fn note(&self, now: Moment) {
        // Relaxed, here and below: the time guards no other memory.
        let newest = Duration::from_nanos(self.0.load(Ordering::Relaxed));
        if newest.is_zero() || now.since(Moment(newest)) >= PRECISION {
            self.0.store(nanos(now.0).max(1), Ordering::Relaxed);
        }
    }

    /// Returns `true` if a small statement has arrived in the last 20 ms; 19 ms if another arrived less than 1 ms
    /// after it.
    pub(super) fn are_recent(&self, now: Moment) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => false,
            newest => now.since(Moment(Duration::from_nanos(newest))) < ARRIVING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    #[test]
    fn statements_arrive_until_twenty_milliseconds_after_the_newest() {
        let small = SmallArrivals::default();
        assert!(!small.are_recent(at(1)));
        small.note(at(1));
        assert!(small.are_recent(at(1)) && small.are_recent(at(20)) && !small.are_recent(at(21)));
        small.note(at(11));
        assert!(small.are_recent(at(30)) && !small.are_recent(at(31)));
    }
}
