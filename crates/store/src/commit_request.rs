//! Requests for commits, and the claims that are decided.

use carnet_base::{CellHash, KeyRange, TableId, Timestamp};
use carnet_data::RowDelta;

use crate::begun::{Begun, Slot};
use crate::cells::Cells;
use crate::writes::Writes;

/// Cells and ranges that no other transaction may have written between R and C.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSet {
    /// Single cells, existing or not.
    pub points: Vec<CellHash>,
    /// Ranges, including every cell that could lie in them.
    pub ranges: Vec<KeyRange>,
}

/// Request for a commit. Plain data, so that it can be sent to the log's owner.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    /// The snapshot R of the transaction's reads.
    pub read: Timestamp,
    /// The start S, which names its versions.
    pub start: Timestamp,
    /// Slot of its snapshot.
    pub slot: Slot,
    /// Cells and ranges that it relies on. Its own writes are always checked and need not be
    /// listed.
    pub reads: ReadSet,
    /// Writes of the transaction.
    pub writes: Writes,
    /// `true` if no other transaction may have written its cells since R, although the read set
    /// does not name them. A transaction that read nothing, or whose read set names all its reads,
    /// can be placed at any C.
    pub checks_writes: bool,
    /// Dropped tables: every cell committed before is deleted.
    ///
    /// These cells are not checked. Users of a table must rely on a cell that a drop of the table
    /// writes, and the id of a dropped table is never used again.
    pub drops: Vec<TableId>,
}

impl CommitRequest {
    /// Creates the request of a transaction that drops no table.
    #[must_use]
    pub fn new(begun: Begun, start: Timestamp, reads: ReadSet, writes: impl Into<Writes>) -> Self {
        Self {
            read: begun.read,
            start,
            slot: begun.slot,
            reads,
            writes: writes.into(),
            checks_writes: true,
            drops: Vec::new(),
        }
    }

    /// Returns the claim, which is the input of the decision, and discards the payloads.
    ///
    /// Build it before the critical section of the decision, where all commits wait for each other.
    #[must_use]
    pub fn into_claim(self) -> Claim {
        self.into_parts().0
    }

    /// Like [`CommitRequest::into_claim`], but keeps the writes.
    #[must_use]
    pub fn into_parts(self) -> (Claim, Writes) {
        let Self { read, start, slot, reads, writes, checks_writes, drops } = self;
        let cells = Cells::from_sorted(writes.iter().map(|(key, _)| key));
        let beyond = Vec::new();
        let may_be_delta = |payload: &[u8]| payload.first() == Some(&RowDelta::MARK);
        let has_deltas = writes.iter().any(|(_, payload)| payload.is_some_and(may_be_delta));
        let claim =
            Claim { read, start, slot, reads, cells, checks_writes, drops, beyond, has_deltas };
        (claim, writes)
    }
}

/// The cells that a transaction wants to write, and the cells and ranges that it relied on.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The snapshot R of the transaction's reads.
    pub read: Timestamp,
    /// The start S, which names its versions.
    pub start: Timestamp,
    /// Slot of its snapshot.
    pub slot: Slot,
    /// Cells and ranges that it relies on, in addition to its writes.
    pub reads: ReadSet,
    /// Cells that it writes.
    pub cells: Cells,
    /// See [`CommitRequest::checks_writes`]. A log with versions ordered by S always checks them.
    pub checks_writes: bool,
    /// Dropped tables, see [`CommitRequest::drops`].
    pub drops: Vec<TableId>,
    /// Sorted hashes of further written cells, which are too many to be listed with keys.
    /// Transactions that began before such a commit cannot be checked against it.
    pub beyond: Vec<CellHash>,
    /// `true` if a written version may be a delta.
    pub has_deltas: bool,
}

impl Claim {
    /// Returns `true` if `cells` has all cells that it changes.
    #[must_use]
    pub const fn names_all(&self) -> bool {
        self.beyond.is_empty() && self.drops.is_empty()
    }

    /// Returns `true` if it may write to a system table.
    #[must_use]
    pub fn changes_schema(&self) -> bool {
        !self.beyond.is_empty() || self.cells.first_table().is_some_and(TableId::is_system)
    }
}
