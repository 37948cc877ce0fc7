//! Waiting statements of one level and workload.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::Moment;

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

/// A waiting request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) arrived: Moment,
    pub(super) deadline: Option<Moment>,
    pub(super) bytes: usize,
}

/// Queue of one level and workload.
#[derive(Debug, Default)]
pub(super) struct Lane {
    queue: BTreeMap<u64, Waiting>,
    pub(super) bytes: usize,
    pub(super) running: usize,
    pub(super) is_overloaded: bool,
    /// Average time from admission to end.
    pub(super) average: Average,
    /// Average processor time.
    pub(super) cost: Average,
    /// Average time between two admissions while requests wait.
    interval: Average,
    /// Time of the last admission, or of the first arrival in an empty queue. `None` while it is
    /// empty.
    since: Option<Moment>,
}

impl Lane {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn oldest(&self) -> Option<(u64, Waiting)> {
        self.queue.first_key_value().map(|(number, waiting)| (*number, *waiting))
    }

    pub(super) fn push(&mut self, number: u64, waiting: Waiting) {
        self.since.get_or_insert(waiting.arrived);
        self.bytes += waiting.bytes;
        self.queue.insert(number, waiting);
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.queue.remove(&number)?;
        self.bytes -= waiting.bytes;
        if self.queue.is_empty() {
            self.is_overloaded = false;
            self.since = None;
        }
        Some(waiting)
    }

    /// Removes an admitted request, and updates the average interval.
    pub(super) fn admitted(&mut self, number: u64, now: Moment) {
        if let Some(since) = self.since {
            self.interval.add(now.since(since));
            self.since = Some(now);
        }
        self.take(number);
    }

    /// Returns the expected wait of a request that arrives now: the number of requests before it
    /// times the average interval of admissions, and at least the age of the oldest.
    pub(super) fn expected_wait(&self, now: Moment) -> Duration {
        let Some((_, oldest)) = self.oldest() else { return Duration::ZERO };
        let before = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        self.interval.get().saturating_mul(before).max(now.since(oldest.arrived))
    }
}
