//! What compaction may forget.
//!
//! Everything that a snapshot can see which is in use, or which was the newest within the
//! *retention*: pages of a read name their snapshot and hold nothing between each other, so that
//! a client may come back to one for as long.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{TableId, Timestamp};
use carnet_storage::compaction::merge::{GcHook, Mark};

use crate::SharedOrder;
use crate::times::Times;

/// Knows which snapshots are in use, and which are within the retention.
pub(crate) struct Gc {
    order: SharedOrder,
    times: Arc<Times>,
    retention: Duration,
}

impl Gc {
    pub(crate) fn new(order: SharedOrder, times: Arc<Times>, retention: Duration) -> Self {
        Self { order, times, retention }
    }

    /// Returns what was the newest commit when the retention began, as far as that is known.
    fn retained(&self) -> Timestamp {
        if self.retention.is_zero() {
            return self.order.published();
        }
        self.times.newest_before(self.retention)
    }
}

impl GcHook for Gc {
    fn mark(&self) -> Mark {
        let read = self.order.raise_mark(self.retained());
        self.times.forget_below(read);
        Mark { read, ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }
}
