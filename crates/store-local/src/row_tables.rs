//! Tables of rows, whose versions may be deltas, and how the engine merges them.
//!
//! Values of raw tables are arbitrary bytes, which may look like deltas. So the store has to know the raw tables before
//! anything merges or drops versions: until then it takes no deltas, and garbage collection drops nothing.

use std::collections::HashSet;
use std::sync::RwLock;

use carnet_base::row::Lifetime;
use carnet_base::sync::{read, write};
use carnet_base::{Bytes, CellKeyRef, Result, RowDelta, RowReader, TableId, Timestamp};
use carnet_storage::{MergeOperator, Mutation};

/// Set of the tables of rows: all tables except system tables and raw tables.
#[derive(Debug, Default)]
pub struct RowTables {
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
enum Known {
    #[default]
    Nothing,
    /// No table has rows.
    AllRaw,
    Raw(HashSet<TableId>),
}

impl RowTables {
    /// Sets the raw tables that exist; all other tables have rows.
    pub fn set_raw(&self, tables: impl IntoIterator<Item = TableId>) {
        *write(&self.known) = Known::Raw(tables.into_iter().collect());
    }

    /// Sets all tables to raw tables, for stores without a catalog.
    pub fn set_all_raw(&self) {
        *write(&self.known) = Known::AllRaw;
    }

    /// Adds a raw table, before anything is written to it.
    pub fn add_raw(&self, table: TableId) {
        if let Known::Raw(raw) = &mut *write(&self.known) {
            raw.insert(table);
        }
    }

    /// Returns the change that writes a value or deletes the cell. A row whose columns all expire
    /// expires as a whole.
    pub(crate) fn mutation<'a>(
        &self,
        key: CellKeyRef<'a>,
        payload: Option<&'a [u8]>,
    ) -> Mutation<'a> {
        let Some(payload) = payload else { return Mutation::Delete { key } };
        // The table is looked up last: few rows expire.
        let expiry = self.expiry(payload).filter(|_| self.has_deltas(key.table()));
        Mutation::Put { key, payload, expiry }
    }

    pub(crate) fn are_known(&self) -> bool {
        !matches!(*read(&self.known), Known::Nothing)
    }
}

impl MergeOperator for RowTables {
    fn mark(&self) -> u8 {
        RowDelta::MARK
    }

    fn has_deltas(&self, table: TableId) -> bool {
        match &*read(&self.known) {
            Known::Raw(raw) => !table.is_system() && !raw.contains(&table),
            Known::Nothing | Known::AllRaw => false,
        }
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
