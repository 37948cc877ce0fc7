//! Garbage collection: determines the GC watermark.
//!
//! Versions that are visible to a snapshot in use, or to the newest snapshot within the
//! *retention*, are kept. Pages of a read name their snapshot and hold no resources in between, so
//! a client may request the next page within the retention, and `AS OF` reads work. Below the
//! resulting GC watermark, these are dropped:
//!
//! * versions hidden by newer ones, as in all tables;
//! * entries of the commit table: reads do not need them, and a later query for the outcome of a
//!   start below the watermark is answered with an error;
//! * wall times that the wall-clock map no longer contains.

use std::sync::Arc;
use std::time::Duration;

use carnet_base::{TableId, Timestamp};
use carnet_storage::compaction::merge::{GcHook, Mark};
use carnet_storage::manifest;
use carnet_store::RowTables;

use crate::commit_table;
use crate::order::SharedOrder;
use crate::wall_clock::{self, WallClockMap};

/// GC hook with the snapshots in use and those within the retention.
pub(crate) struct Gc {
    order: SharedOrder,
    wall_clock: Arc<WallClockMap>,
    retention: Duration,
    row_tables: Arc<RowTables>,
}

impl Gc {
    pub(crate) fn new(
        order: SharedOrder,
        wall_clock: Arc<WallClockMap>,
        retention: Duration,
        row_tables: Arc<RowTables>,
    ) -> Self {
        Self { order, wall_clock, retention, row_tables }
    }

    /// Returns the newest commit at the begin of the retention, if known.
    fn retained(&self) -> Timestamp {
        if self.retention.is_zero() {
            return self.order.published();
        }
        self.wall_clock.newest_before(self.retention)
    }
}

impl GcHook for Gc {
    fn mark(&self) -> Mark {
        if !self.row_tables.are_known() {
            return Mark::default();
        }
        let read = self.order.raise_mark(self.retained());
        self.wall_clock.forget_below(read);
        Mark { read, wall: self.wall_clock.passed_second(read), ..Mark::default() }
    }

    fn is_dropped(&self, _: TableId) -> bool {
        false
    }

    fn passes(&self, table: TableId) -> bool {
        commit_table::is_one(table) || table == wall_clock::TABLE
    }

    fn keeps_newest(&self, table: TableId) -> bool {
        // The newest point below the watermark gives the time of the watermark.
        table == wall_clock::TABLE
    }

    fn has_passed(&self, mark: Timestamp, key: &[u8], commit: Timestamp) -> bool {
        match manifest::table_of(key) {
            // Every version in the engine has its commit timestamp, so the entry serves only
            // queries for the outcome of its start, and S < C.
            Some(table) if commit_table::is_one(table) => commit <= mark,
            Some(wall_clock::TABLE) => self.wall_clock.is_forgotten(key),
            _ => false,
        }
    }
}
