//! Totals of each class.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::class::Class;

/// Totals of a class since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassTotals {
    /// Number of queued requests.
    pub queued: u64,
    /// Number of dispatched requests.
    pub dispatched: u64,
    /// Bytes of the dispatched requests.
    pub bytes: u64,
    /// Total time in the queue.
    pub waited: Duration,
    /// Total time in the device.
    pub in_device: Duration,
}

#[derive(Default)]
struct Counts {
    dispatched: AtomicU64,
    bytes: AtomicU64,
    waited_nanos: AtomicU64,
    device_nanos: AtomicU64,
}

/// Counters of all classes.
#[derive(Default)]
pub(super) struct Totals([Counts; Class::KINDS]);

impl Totals {
    pub(super) fn dispatched(&self, class: Class, bytes: usize, waited: Duration) {
        let counts = &self.0[class.kind()];
        counts.dispatched.fetch_add(1, Ordering::Relaxed);
        counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        counts.waited_nanos.fetch_add(nanos(waited), Ordering::Relaxed);
    }

    pub(super) fn took(&self, class: Class, time: Duration) {
        self.0[class.kind()].device_nanos.fetch_add(nanos(time), Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self, queued: [usize; Class::KINDS]) -> [ClassTotals; Class::KINDS] {
        std::array::from_fn(|kind| {
            let counts = &self.0[kind];
            let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
            ClassTotals {
                queued: queued[kind] as u64,
                dispatched: of(&counts.dispatched),
                bytes: of(&counts.bytes),
                waited: Duration::from_nanos(of(&counts.waited_nanos)),
                in_device: Duration::from_nanos(of(&counts.device_nanos)),
            }
        })
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
