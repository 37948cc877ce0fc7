//! Snapshots and starts of transactions.

use carnet_base::Timestamp;

/// Purpose of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginKind {
    /// Reads only: it gets a snapshot and no start timestamp.
    ReadOnly,
    /// Reads only, at a snapshot that was handed out before, such as for the next page of a read.
    ReadOnlyAt(Timestamp),
    /// A transaction that may write.
    ReadWrite,
}

/// Slot of an active snapshot. It has a meaning only to the owner of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Timestamps of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The snapshot R: every commit ≤ R is visible, and no later commit gets a timestamp ≤ R.
    pub read: Timestamp,
    /// The start S, drawn after R; a read-only transaction has none.
    pub start: Option<Timestamp>,
    /// Slot to give back with the snapshot.
    pub slot: Slot,
    /// No commit in `(schema, read]` wrote to a system table: system data that was read at a
    /// snapshot from here on is still current. A timestamp above `read` says nothing about system
    /// data.
    pub schema: Timestamp,
}
