//! Merge operator: merges versions that hold a part of a value into the value.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Result, TableId, Timestamp};

use crate::manifest::table_of;

/// Knowledge of the layer above about *deltas*: payloads that hold a part of a value.
///
/// A reader of a delta goes on to older versions of the cell, until one is a whole value or a
/// tombstone, and merges them. Compaction keeps the versions below a delta, or replaces both by
/// their value.
///
/// A commit that deletes a range must write no deltas within it: they would be merged with the
/// versions that the commit deletes.
pub trait MergeOperator: Send + Sync {
    /// Returns the first byte of deltas.
    fn mark(&self) -> u8;

    /// Returns `true` if payloads of a table that begin with [`MergeOperator::mark`] are deltas. The
    /// result for a table never changes.
    fn has_deltas(&self, table: TableId) -> bool;

    /// Merges deltas, newest first, with the value below them. Each has the start timestamp of its
    /// version; the result gets that of the newest delta. Without a value below, deltas apply to an
    /// empty value. `None` if nothing is left: the cell is deleted.
    ///
    /// The value that results from older deltas may take their place: merging must be associative.
    ///
    /// # Errors
    ///
    /// `Corrupted` if a payload was not made by the operator.
    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>>;

    /// Returns the second since 1970-01-01 UTC from which on a value counts as deleted; `None` if it
    /// does not expire. It is stored with a value that results from a merge, and with those of a large
    /// transaction.
    fn expiry(&self, value: &[u8]) -> Option<u64> {
        let _ = value;
        None
    }
}

/// The operator of an engine, with its mark, which is read once.
#[derive(Clone)]
pub(crate) struct Deltas {
    mark: u8,
    operator: Arc<dyn MergeOperator>,
}

impl Deltas {
    pub(crate) fn new(operator: Arc<dyn MergeOperator>) -> Self {
        Self { mark: operator.mark(), operator }
    }

    /// Returns the first byte of a table's deltas; `None` if it has none.
    pub(crate) fn mark_of(&self, table: TableId) -> Option<u8> {
        self.operator.has_deltas(table).then_some(self.mark)
    }

    /// Returns `true` if the payload of a cell is a delta. The table is looked up only if the first
    /// byte says so.
    #[inline]
    pub(crate) fn is_delta(&self, key: &[u8], payload: &[u8]) -> bool {
        payload.first() == Some(&self.mark)
            && table_of(key).is_some_and(|table| self.operator.has_deltas(table))
    }

    /// Returns the expiry of a cell's value; values of tables without deltas do not expire. The table
    /// is looked up last, because few values expire.
    pub(crate) fn expiry_of(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let has_deltas = |table| self.operator.has_deltas(table);
        self.expiry(value).filter(|_| table_of(key).is_some_and(has_deltas))
    }

    /// See [`MergeOperator::merge`].
    pub(crate) fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        self.operator.merge(value, deltas)
    }

    /// See [`MergeOperator::expiry`].
    pub(crate) fn expiry(&self, value: &[u8]) -> Option<u64> {
        self.operator.expiry(value)
    }
}
