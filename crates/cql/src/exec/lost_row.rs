//! Names of rows that a transaction has lost to another one.

use carnet::CellKey;
use carnet::derived::row_name;
use carnet_base::Bytes;

use super::executor::Executor;
use crate::cql_error::{CqlError, LostRow};

impl Executor {
    /// Adds the name of the row to the error of a conflict, if it is known.
    ///
    /// Conflicts are frequent where they hurt, so the table is looked up among those in memory. Cells
    /// of indexes and views have no name: a transaction that changes them also changes the row.
    pub(super) fn name_lost_row<T>(&self, mut result: Result<T, CqlError>) -> Result<T, CqlError> {
        if let Err(error) = &mut result
            && let Some(row) = error.lost_cell().and_then(|key| self.lost_row(key))
        {
            error.set_lost_row(row);
        }
        result
    }

    /// Returns the row of a cell, if it is known.
    pub(super) fn lost_row(&self, key: &[u8]) -> Option<LostRow> {
        let cell = CellKey::from_bytes(Bytes::copy_from_slice(key)).ok()?;
        let table = self.shared.db.known_table(cell.table())?;
        let key = row_name(&table, &cell);
        let (keyspace, name) =
            (table.keyspace.clone(), format!("{}.{}", table.keyspace, table.name));
        Some(LostRow { table: name, keyspace, key })
    }
}
