//! The merge operator of the engine: it merges the versions of rows.

use std::sync::Arc;

use carnet_base::{Bytes, CellKeyRef, Result, TableId, Timestamp};
use carnet_data::row::Lifetime;
use carnet_data::{RowDelta, RowReader};
use carnet_storage::{MergeOperator, Mutation};
use carnet_store::RowTables;

/// Merges versions of the tables of rows.
#[derive(Debug)]
pub(crate) struct RowMerge(pub(crate) Arc<RowTables>);

impl RowMerge {
    /// Returns the change that writes a value or deletes the cell. A row whose columns all expire
    /// expires as a whole.
    pub(crate) fn mutation<'a>(
        &self,
        key: CellKeyRef<'a>,
        payload: Option<&'a [u8]>,
    ) -> Mutation<'a> {
        let Some(payload) = payload else { return Mutation::Delete { key } };
        // The table is looked up last: few rows expire.
        let expiry = self.expiry(payload).filter(|_| self.0.has_deltas(key.table()));
        Mutation::Put { key, payload, expiry }
    }
}

impl MergeOperator for RowMerge {
    fn mark(&self) -> u8 {
        RowDelta::MARK
    }

    fn has_deltas(&self, table: TableId) -> bool {
        self.0.has_deltas(table)
    }

    fn merge(
        &self,
        value: Option<(Timestamp, &Bytes)>,
        deltas: &[(Timestamp, Bytes)],
    ) -> Result<Option<Bytes>> {
        let image = RowDelta::merge(value, deltas)?;
        Ok(image.is_live().then(|| image.encode()))
    }

    fn expiry(&self, value: &[u8]) -> Option<u64> {
        match RowReader::new(value).and_then(RowReader::lifetime) {
            Ok(Lifetime::Until(expiry)) => u64::try_from(expiry).ok(),
            // Values that are no images, such as deltas, do not expire as a whole.
            Ok(Lifetime::None | Lifetime::Unlimited) | Err(_) => None,
        }
    }
}
