//! Lag of the connections' threads: the time for which a task that can run waits for its thread.
//!
//! The admission gate measures how long statements wait after their arrival, and refuses some if
//! the wait is long. A statement that runs on its connection's task delays the arrival of the
//! statements of other connections, which no gate sees. So statements run there only while the lag
//! is short; otherwise they arrive first, wait at the gate, and run in tasks of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carnet_base::{Clock, Moment};

/// Interval between measurements while statements arrive.
const INTERVAL: Duration = Duration::from_millis(2);
/// Lag above which statements do not run on their connection's task. The gate refuses statements
/// that have waited ten times as long.
const SHORT_MAX: Duration = Duration::from_millis(5);

/// Measurement of the lag.
pub(crate) struct Lag {
    clock: Arc<dyn Clock>,
    /// Time of the last measurement, in nanoseconds of the clock.
    measured_at: AtomicU64,
    /// Beginning of the measurement in progress, in nanoseconds of the clock; zero without one.
    since: AtomicU64,
    /// Result of the last measurement, in nanoseconds.
    lag: AtomicU64,
}

impl Lag {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let (measured_at, since, lag) = Default::default();
        Arc::new(Self { clock, measured_at, since, lag })
    }

    /// Returns `true` if tasks that can run wait for a short time only. Begins a measurement if the
    /// last one is old.
    pub(super) fn is_short(self: &Arc<Self>, now: Moment) -> bool {
        // Relaxed: the numbers guard no other memory.
        let now = nanos(now.0);
        let since = self.since.load(Ordering::Relaxed);
        let lag = match since {
            0 => self.lag.load(Ordering::Relaxed),
            _ => now.saturating_sub(since),
        };
        let before = self.measured_at.load(Ordering::Relaxed);
        if since == 0 && now.saturating_sub(before) >= nanos(INTERVAL) {
            self.measure(before, now);
        }
        lag <= nanos(SHORT_MAX)
    }

    fn measure(self: &Arc<Self>, before: u64, now: u64) {
        let order = Ordering::Relaxed;
        if self.measured_at.compare_exchange(before, now, order, order).is_err() {
            return;
        }
        self.since.store(now, order);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            // A new task is the next one of its thread. One that yields is behind all others.
            tokio::task::yield_now().await;
            this.lag.store(nanos(this.clock.now().0).saturating_sub(now), order);
            this.since.store(0, order);
        });
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use carnet_base::SystemClock;

    use super::*;

    #[tokio::test]
    async fn lag_is_long_while_a_task_keeps_the_thread() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let lag = Lag::new(Arc::clone(&clock));
        let begun = clock.now().after(INTERVAL);
        assert!(lag.is_short(begun), "nothing is measured yet");
        assert!(lag.is_short(begun.after(SHORT_MAX)));
        let late = begun.after(SHORT_MAX + Duration::from_micros(1));
        assert!(!lag.is_short(late), "the measurement has not ended");
        while lag.since.load(Ordering::Relaxed) != 0 {
            tokio::task::yield_now().await;
        }
        let after = clock.now().after(INTERVAL);
        assert!(lag.is_short(after), "the thread was free");
    }
}
