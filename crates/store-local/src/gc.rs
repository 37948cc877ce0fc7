//! What compaction may forget.
//!
//! Everything that a snapshot can see which is in use, or which was the newest within the
//! *retention*: pages of a read name their snapshot and hold nothing between each other, so that
//! a client may come back to one for as long.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use carnet_base::{Clock, Moment, TableId, Timestamp};
use carnet_storage::compaction::merge::{GcHook, Mark};

use crate::SharedOrder;

/// P is written down at most so often within the retention.
const SAMPLES: u32 = 64;

/// Knows how far the newest commit had come at which time.
pub(crate) struct Gc {
    order: SharedOrder,
    clock: Arc<dyn Clock>,
    retention: Duration,
    samples: Mutex<VecDeque<(Moment, Timestamp)>>,
}

impl Gc {
    pub(crate) fn new(order: SharedOrder, clock: Arc<dyn Clock>, retention: Duration) -> Self {
        Self { order, clock, retention, samples: Mutex::default() }
    }

    /// Returns what was the newest commit when the retention began, as far as that is known.
    fn retained(&self) -> Timestamp {
        let (now, published) = (self.clock.now(), self.order.published());
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let spacing = self.retention / SAMPLES;
        if samples.back().is_none_or(|(at, _)| now.since(*at) >= spacing) {
            samples.push_back((now, published));
        }
        let is_over = |sample: &(Moment, Timestamp)| now.since(sample.0) >= self.retention;
        while samples.get(1).is_some_and(is_over) {
            samples.pop_front();
        }
        samples.front().copied().filter(is_over).map_or(Timestamp::ZERO, |(_, read)| read)
    }
}

impl GcHook for Gc {
    fn mark(&self) -> Mark {
        Mark { read: self.order.raise_mark(self.retained()), ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use carnet_base::WallTime;
    use carnet_store::BeginKind;
    use carnet_store::conformance::PlainOrder;

    use super::*;

    #[derive(Default)]
    struct Manual(Mutex<Duration>);

    impl Clock for Manual {
        fn now(&self) -> Moment {
            Moment(*self.0.lock().unwrap())
        }

        fn wall(&self) -> WallTime {
            WallTime::default()
        }
    }

    #[test]
    fn what_was_newest_within_the_retention_is_kept() {
        let at = |number| Timestamp::new(number).unwrap();
        let order: SharedOrder = Arc::new(PlainOrder::starting_above(at(1)));
        order.extend(at(1000));
        let clock = Arc::new(Manual::default());
        let retention = Duration::from_secs(100);
        let gc = Gc::new(Arc::clone(&order), Arc::clone(&clock) as _, retention);
        let mut seen = Vec::new();
        for second in 0..300_u64 {
            *clock.0.lock().unwrap() = Duration::from_secs(second);
            assert!(order.begin(BeginKind::ReadWrite).is_ok());
            order.publish(at(second + 2));
            seen.push(gc.retained().get());
        }
        assert!(seen[..100].iter().all(|mark| *mark == 0), "all of it is younger");
        for (second, mark) in seen.iter().enumerate().skip(100) {
            let newest = second as u64 - 100 + 2;
            assert!(*mark <= newest && *mark + 3 >= newest, "{mark} at {second} s");
        }
    }
}
