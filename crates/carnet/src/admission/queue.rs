//! Waiting statements of one level and workload.

use std::collections::BTreeMap;
use std::time::Duration;

use carnet_base::Moment;

/// Weight of the moving average: a new value counts one part in this number.
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
pub(super) struct Queue {
    queue: BTreeMap<u64, Waiting>,
    pub(super) bytes: usize,
    /// Last time at which a request was refused because the queue was full or, after that, too old.
    refused: Option<Moment>,
    /// Average processor time of a request, which is charged to its level in advance. It never decides
    /// whether a request runs.
    pub(super) cost: Average,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn oldest(&self) -> Option<(u64, Waiting)> {
        self.queue.first_key_value().map(|(number, waiting)| (*number, *waiting))
    }

    /// Returns the time for which the oldest request has waited; zero for an empty queue.
    pub(super) fn age(&self, now: Moment) -> Duration {
        self.oldest().map_or(Duration::ZERO, |(_, oldest)| now.since(oldest.arrived))
    }

    /// Returns `true` if a request was refused within the last `interval`. A queue that is merely empty may be between
    /// two bursts of the same overload.
    pub(super) fn is_overloaded(&self, interval: Duration, now: Moment) -> bool {
        self.refused.is_some_and(|refused| now.since(refused) < interval)
    }

    /// Records that a request is refused because of the load.
    pub(super) const fn refuse(&mut self, now: Moment) {
        self.refused = Some(now);
    }

    pub(super) fn push(&mut self, number: u64, waiting: Waiting) {
        self.bytes += waiting.bytes;
        self.queue.insert(number, waiting);
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.queue.remove(&number)?;
        self.bytes -= waiting.bytes;
        Some(waiting)
    }
}
