//! A clock of which each reading takes a millisecond, so that every time slice is used up at its check.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{Clock, Moment, WallTime};

#[derive(Debug, Default)]
pub(crate) struct SlowClock(AtomicU64);

impl Clock for SlowClock {
    fn now(&self) -> Moment {
        Moment(Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed)))
    }

    fn wall(&self) -> WallTime {
        WallTime(1_700_000_000_000_000)
    }
}
