//! Waiting statements of one level and workload.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use carnet_base::Moment;

use super::request::Tenant;

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
    /// Time at which it reached the machine.
    pub(super) arrived: Moment,
    /// Time at which it joined the queue.
    pub(super) joined: Moment,
    pub(super) deadline: Option<Moment>,
    pub(super) bytes: usize,
    pub(super) tenant: Tenant,
}

/// A period, by its first and its last event.
#[derive(Clone, Copy, Debug)]
struct Period {
    begun: Moment,
    last: Moment,
}

/// Queue of one level and workload.
#[derive(Debug, Default)]
pub(super) struct Queue {
    queue: BTreeMap<u64, Waiting>,
    /// Numbers of the waiting requests of each tenant that has any.
    tenants: BTreeMap<Tenant, BTreeSet<u64>>,
    /// Tenant that was served last.
    served: Option<Tenant>,
    pub(super) bytes: usize,
    /// Last time at which a request was refused because of the load.
    refused: Option<Moment>,
    /// Period in which old requests have arrived.
    old: Option<Period>,
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

    /// Returns the age of the oldest request; zero for an empty queue.
    pub(super) fn age(&self, now: Moment) -> Duration {
        self.oldest().map_or(Duration::ZERO, |(_, oldest)| now.since(oldest.arrived))
    }

    /// Returns the time for which the oldest request has been in this queue; zero for an empty queue.
    pub(super) fn waited(&self, now: Moment) -> Duration {
        self.oldest().map_or(Duration::ZERO, |(_, oldest)| now.since(oldest.joined))
    }

    /// Records that a request was old when it arrived. Returns `true` if old requests have arrived for at least
    /// `interval`, without a pause as long as that.
    pub(super) fn old_arrives(&mut self, interval: Duration, now: Moment) -> bool {
        let last = self.old.filter(|old| now.since(old.last) < interval);
        let begun = last.map_or(now, |old| old.begun);
        self.old = Some(Period { begun, last: now });
        now.since(begun) >= interval
    }

    /// Returns `true` if a request was refused within `interval` before a moment, or later. A queue that is merely
    /// empty may be between two bursts of the same overload.
    pub(super) fn is_overloaded(&self, interval: Duration, at: Moment) -> bool {
        self.refused.is_some_and(|refused| at.since(refused) < interval)
    }

    /// Records that a request is refused because of the load.
    pub(super) const fn refuse(&mut self, now: Moment) {
        self.refused = Some(now);
    }

    /// Chooses the request to run next: the oldest one of the tenant whose turn it is.
    pub(super) fn next_in_turn(&mut self) -> Option<(u64, Waiting)> {
        let after = self.served.map_or(Bound::Unbounded, Bound::Excluded);
        let mut turns = self.tenants.range((after, Bound::Unbounded)).chain(&self.tenants);
        let (tenant, numbers) = turns.next()?;
        let number = *numbers.first()?;
        self.served = Some(*tenant);
        Some((number, *self.queue.get(&number)?))
    }

    pub(super) fn push(&mut self, number: u64, waiting: Waiting) {
        self.bytes += waiting.bytes;
        self.tenants.entry(waiting.tenant).or_default().insert(number);
        self.queue.insert(number, waiting);
    }

    pub(super) fn take(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.queue.remove(&number)?;
        self.bytes -= waiting.bytes;
        if let Some(numbers) = self.tenants.get_mut(&waiting.tenant) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.tenants.remove(&waiting.tenant);
            }
        }
        Some(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_follows_slowly() {
        let mut average = Average::default();
        average.add(Duration::from_millis(320));
        assert_eq!(average.get(), Duration::from_millis(320), "the first value counts in full");
        average.add(Duration::ZERO);
        assert_eq!(average.get(), Duration::from_millis(310));
        average.add(Duration::from_millis(630));
        assert_eq!(average.get(), Duration::from_millis(320));
    }

    #[test]
    fn bytes_of_waiting_requests_are_counted() {
        let mut queue = Queue::default();
        let waiting = |bytes| {
            let (arrived, tenant) = (Moment::default(), Tenant::default());
            Waiting { arrived, joined: arrived, deadline: None, bytes, tenant }
        };
        queue.push(1, waiting(10));
        queue.push(2, waiting(5));
        assert_eq!(queue.bytes, 15);
        queue.take(1);
        assert_eq!((queue.bytes, queue.len()), (5, 1));
    }
}
