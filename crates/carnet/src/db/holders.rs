//! Open transactions that block garbage collection.

use std::time::Duration;

use carnet_base::{Timestamp, WallTime};
use carnet_txn::{Label, OpenTransaction};

use super::database::Db;

/// An open transaction. While it is open, garbage collection keeps all versions that its snapshot
/// can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Timestamp of its snapshot.
    pub read: Timestamp,
    /// Start timestamp, if the transaction may write.
    pub start: Option<Timestamp>,
    /// When it was opened, or slightly earlier: by at most a second.
    pub since: WallTime,
    /// Client that runs it, if set by [`label`](crate::TransactionOptions::label).
    pub label: Option<Label>,
}

impl Db {
    /// Lists the open transactions and snapshots of this handle and its clones, the oldest
    /// snapshot first.
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

    /// Returns the open transaction with the oldest snapshot. While it is open, the GC watermark
    /// does not pass its snapshot.
    #[must_use]
    pub fn oldest_snapshot(&self) -> Option<Holder> {
        self.holders().into_iter().next()
    }
}

fn micros_before(wall: WallTime, ago: Duration) -> WallTime {
    WallTime(wall.0.saturating_sub(i64::try_from(ago.as_micros()).unwrap_or(i64::MAX)))
}
