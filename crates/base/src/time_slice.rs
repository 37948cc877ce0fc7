//! Time slices: work that never waits yields to other tasks from time to time.
//!
//! A task of an asynchronous runtime keeps its thread until it waits for something. A scan of rows
//! in memory never waits, so all other tasks on its thread wait for the scan. Such work checks its
//! slice regularly and yields once it is used up.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{Clock, Moment};

/// Time that work runs before it yields.
pub const TIME_SLICE: Duration = Duration::from_micros(200);

/// Yields to other tasks of a runtime.
pub type YieldNow = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Time that work may run until it yields.
pub struct TimeSlice<'c> {
    clock: &'c dyn Clock,
    yield_now: YieldNow,
    ends: Moment,
}

impl<'c> TimeSlice<'c> {
    /// Begins a slice.
    #[must_use]
    pub fn begin(clock: &'c dyn Clock, yield_now: YieldNow) -> Self {
        Self { clock, yield_now, ends: clock.now().after(TIME_SLICE) }
    }

    /// Yields if the slice is used up, and begins the next one.
    pub async fn check(&mut self) {
        if self.clock.now() >= self.ends {
            self.end().await;
        }
    }

    /// Yields before work that takes longer than a slice and cannot yield, and begins the next one.
    pub async fn end(&mut self) {
        (self.yield_now)().await;
        self.ends = self.clock.now().after(TIME_SLICE);
    }
}

impl fmt::Debug for TimeSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeSlice").field("ends", &self.ends).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use super::*;
    use crate::{WallTime, block_on};

    #[derive(Default)]
    struct Steps(AtomicU64);

    impl Clock for Steps {
        /// Each reading takes 50 microseconds.
        fn now(&self) -> Moment {
            Moment(Duration::from_micros(50 * self.0.fetch_add(1, Ordering::Relaxed)))
        }

        fn wall(&self) -> WallTime {
            WallTime(0)
        }
    }

    #[test]
    fn work_yields_once_a_slice() {
        static YIELDS: AtomicU32 = AtomicU32::new(0);
        let clock = Steps::default();
        let mut slice = TimeSlice::begin(&clock, || {
            Box::pin(async {
                YIELDS.fetch_add(1, Ordering::Relaxed);
            })
        });
        block_on(async {
            for _ in 0..100 {
                slice.check().await;
            }
        });
        // Four readings use a slice up, and one more begins the next.
        assert_eq!(YIELDS.load(Ordering::Relaxed), 25);
    }
}
