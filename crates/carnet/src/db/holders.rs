//! Who holds the sweep back.

use std::time::Duration;

use carnet_base::{Timestamp, WallTime};
use carnet_txn::{Label, OpenTransaction};

use super::Db;

/// An open transaction. While it is open, the sweep takes nothing that its snapshot can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its snapshot.
    pub read: Timestamp,
    /// Its start, where it may write.
    pub start: Option<Timestamp>,
    /// Since when it is open, or a little before: to an eighth of the time after which it is
    /// rolled back when nobody calls it.
    pub since: WallTime,
    /// Who runs it, where that was [said](super::TransactionOptions::label).
    pub label: Option<Label>,
}

impl Db {
    /// Lists the transactions and snapshots of this handle and its clones that are open, the oldest
    /// snapshots first.
    #[must_use]
    pub fn holders(&self) -> Vec<Holder> {
        let (now, wall) = (self.inner.clock.now(), self.wall_time());
        let since = |open: &OpenTransaction| micros_before(wall, now.since(open.began));
        let holder = |open: OpenTransaction| Holder {
            since: since(&open),
            read: open.read,
            start: open.start,
            label: open.label,
        };
        self.inner.idle.open().into_iter().map(holder).collect()
    }

    /// Returns the transaction whose snapshot is the oldest: the one that holds the sweep back, if
    /// any does. While it is open the sweep mark does not pass its snapshot.
    #[must_use]
    pub fn oldest_snapshot(&self) -> Option<Holder> {
        self.holders().into_iter().next()
    }
}

fn micros_before(wall: WallTime, ago: Duration) -> WallTime {
    WallTime(wall.0.saturating_sub(i64::try_from(ago.as_micros()).unwrap_or(i64::MAX)))
}
