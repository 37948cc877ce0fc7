//! What compaction may forget.
//!
//! Not what a snapshot can see which is in use, or which was the newest within the *retention*:
//! pages of a read name their snapshot and hold nothing between each other, so that a client may
//! come back to one for as long, and `AS OF` reads what was. Below the mark that follows from it,
//! the *sweep mark*, there go
//!
//! * versions that newer ones hide, as everywhere;
//! * entries of the commit table: nobody needs them to read, and who asks later what became of a
//!   start below the mark is told that it is not known any more;
//! * wall times, and those that are left out for their age.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{TableId, Timestamp};
use carnet_storage::compaction::merge::{GcHook, Mark};
use carnet_storage::manifest;

use crate::SharedOrder;
use crate::commit_table;
use crate::times::{self, Times};

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

    fn passes(&self, table: TableId) -> bool {
        commit_table::is_one(table) || table == times::TABLE
    }

    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        match manifest::table_of(key) {
            // Every version in the engine is stamped: an entry is there for who asks what became of
            // its start, and S < C.
            Some(table) if commit_table::is_one(table) => commit <= mark,
            Some(times::TABLE) => self.times.is_forgotten(key),
            _ => false,
        }
    }
}
