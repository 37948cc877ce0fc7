//! Names of rows that a transaction has lost to another one.

use carnet::CellKey;
use carnet::base::{Bytes, TableId};
use carnet::catalog::{self, TableSchema};
use carnet::derived::row_name;

use super::executor::Executor;
use crate::cql_error::{CqlError, LostRow};

impl Executor {
    /// Adds the name of the row to the error of a conflict, if it is known.
    pub(super) async fn name_lost_row<T>(
        &self,
        mut result: Result<T, CqlError>,
    ) -> Result<T, CqlError> {
        if let Err(error) = &mut result
            && let Some(key) = error.lost_cell()
            // An error of the catalog must not hide that of the statement.
            && let Some(row) = Box::pin(self.lost_row(key)).await
        {
            error.set_lost_row(row);
        }
        result
    }

    async fn lost_row(&self, key: &[u8]) -> Option<LostRow> {
        let cell = CellKey::from_bytes(Bytes::copy_from_slice(key)).ok()?;
        let table = self.table_of(cell.table()).await?;
        let key = row_name(&table, &cell);
        Some(LostRow { table: format!("{}.{}", table.keyspace, table.name), key })
    }

    /// Returns a table by its id. Indexes and views are not among them: a transaction that changes
    /// their cells also changes the row.
    async fn table_of(&self, id: TableId) -> Option<TableSchema> {
        let tx = self.shared.db.snapshot_async().await.ok()?;
        for keyspace in catalog::keyspaces(&tx).await.ok()? {
            let tables = catalog::tables(&tx, &keyspace.name).await.ok()?;
            if let Some(table) = tables.into_iter().find(|table| table.id == id) {
                return Some(table);
            }
        }
        None
    }
}
