//! The table schema of a view, made from that of its base table.

use carnet_base::{Error, Result};

use super::table::{ColumnKind, ColumnSchema, TableKind, TableSchema};
use super::view_schema::{ViewBase, ViewSchema};

impl ViewSchema {
    /// Returns `true` if a column of the base table is in the view.
    #[must_use]
    pub fn has(&self, column: &ColumnSchema) -> bool {
        let is_selected =
            || self.columns.as_ref().is_none_or(|columns| columns.contains(&column.id));
        self.is_key(column.id) || (column.kind != ColumnKind::Static && is_selected())
    }

    /// Makes the schema of the view's own table.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the base table lacks a column of the key.
    pub fn table(&self, base: &TableSchema) -> Result<TableSchema> {
        let mut table = TableSchema::new(&base.keyspace, &self.name, TableKind::Rows, self.uuid);
        table.id = self.id;
        table.version = base.version;
        table.next_column = base.next_column;
        table.options.clone_from(&self.options);
        let partition = self.partition.iter().map(|id| (*id, ColumnKind::Partition));
        let clustering = self.clustering.iter();
        let clustering = clustering.map(|(id, order)| (*id, ColumnKind::Clustering(*order)));
        for (id, kind) in partition.chain(clustering) {
            let column = base.column_by_id(id).ok_or_else(|| self.misfit(base))?;
            table.columns.push(ColumnSchema { kind, ..column.clone() });
        }
        for column in &base.columns {
            if self.has(column) && !self.is_key(column.id) {
                table.columns.push(ColumnSchema { kind: ColumnKind::Regular, ..column.clone() });
            }
        }
        table.base = Some(ViewBase {
            table: base.name.clone(),
            is_built: self.is_built,
            failure: self.failure.clone(),
        });
        Ok(table)
    }

    /// Makes the error for a base table without a column of the view.
    pub(crate) fn misfit(&self, base: &TableSchema) -> Error {
        Error::corrupted(format!(
            "view {} has a column that its table {}.{} does not have",
            self.name, base.keyspace, base.name
        ))
    }
}
