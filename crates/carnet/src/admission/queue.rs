//! Waiting statements of one level and workload.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::Moment;

/// Minimum time over which the average interval of admissions is measured. A thread runs some statements, then reads
/// requests: the interval within such a burst says nothing about the time that a queue takes.
const RATE_WINDOW: Duration = Duration::from_millis(20);
/// Weight of the moving averages: a new value counts one part in this number.
const AVERAGE_OVER: u32 = 32;

/// A moving average of durations. The first value counts in full.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average(Duration);

impl Average {
    pub(super) fn add(&mut self, value: Duration) {
        let before = self.0.saturating_mul(AVERAGE_OVER - 1);
        self.0 = if self.0.is_zero() { value } else { before.saturating_add(value) / AVERAGE_OVER };
    }

    pub(super) const fn get(self) -> Duration {
        self.0
    }
}

/// Average time between two admissions while requests wait, over at least [`RATE_WINDOW`] of such time. A window
/// spans queues that become empty, so that short queues correct the average as well.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    /// Average of the last whole window, or of the first window so far until it ends.
    value: Duration,
    is_whole: bool,
    /// Last admission, or first arrival in an empty queue. `None` while no request waits.
    since: Option<Moment>,
    /// Time of the current window in which requests waited, and the number of its admissions.
    elapsed: Duration,
    admissions: u32,
}

impl Interval {
    fn begin(&mut self, now: Moment) {
        self.since.get_or_insert(now);
    }

    fn add(&mut self, now: Moment) {
        let Some(since) = self.since.replace(now) else { return };
        self.elapsed = self.elapsed.saturating_add(now.since(since));
        self.admissions += 1;
        let is_over = self.elapsed >= RATE_WINDOW;
        if is_over || !self.is_whole {
            self.value = self.elapsed / self.admissions;
        }
        if is_over {
            (self.is_whole, self.elapsed, self.admissions) = (true, Duration::ZERO, 0);
        }
    }

    fn end(&mut self) {
        self.since = None;
    }
}

/// A waiting request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) arrived: Moment,
    pub(super) deadline: Option<Moment>,
    pub(super) bytes: usize,
}

/// Queue of one level and workload.
#[derive(Debug, Default)]
pub(super) struct Queue {
    queue: BTreeMap<u64, Waiting>,
    pub(super) bytes: usize,
    pub(super) running: usize,
    pub(super) is_overloaded: bool,
    /// Average time from admission to end.
    pub(super) average: Average,
    /// Average processor time.
    pub(super) cost: Average,
    interval: Interval,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn oldest(&self) -> Option<(u64, Waiting)> {
        self.queue.first_key_value().map(|(number, waiting)| (*number, *waiting))
    }

    pub(super) fn push(&mut self, number: u64, waiting: Waiting) {
        self.interval.begin(waiting.arrived);
        self.bytes += waiting.bytes;
        self.queue.insert(number, waiting);
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.queue.remove(&number)?;
        self.bytes -= waiting.bytes;
        if self.queue.is_empty() {
            self.is_overloaded = false;
            self.interval.end();
        }
        Some(waiting)
    }

    /// Removes an admitted request, and updates the average interval.
    pub(super) fn admitted(&mut self, number: u64, now: Moment) {
        self.interval.add(now);
        self.take(number);
    }

    /// Returns the number of requests before one that arrives now.
    fn before(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    /// Returns the expected wait of a request that arrives now: the number of requests before it
    /// times the average interval of admissions, and at least the age of the oldest.
    pub(super) fn expected_wait(&self, now: Moment) -> Duration {
        let Some((_, oldest)) = self.oldest() else { return Duration::ZERO };
        self.interval.value.saturating_mul(self.before()).max(now.since(oldest.arrived))
    }

    /// Returns `true` if a request with a deadline that arrives now would end too late.
    ///
    /// The interval of admissions alone would refuse requests after a stall, for example while a log record is synced:
    /// all slots are taken, a queue forms, and the first admission says nothing about the next ones. So the estimate is
    /// capped at the time in which the running slots complete the requests before it.
    pub(super) fn arrives_late(&self, deadline: Moment, now: Moment) -> bool {
        let by_running = match u32::try_from(self.running) {
            Ok(running @ 1..) => self.average.get().saturating_mul(self.before()) / running,
            _ => Duration::MAX,
        };
        let age = self.oldest().map_or(Duration::ZERO, |(_, oldest)| now.since(oldest.arrived));
        let wait = self.expected_wait(now).min(by_running.max(age));
        self.ends_late(deadline, wait, now)
    }

    /// Returns `true` if a request that is admitted after `wait` would end too late.
    pub(super) fn ends_late(&self, deadline: Moment, wait: Duration, now: Moment) -> bool {
        deadline.since(now) <= wait.saturating_add(self.average.get())
    }
}
