//! Writes of rows, with the entries of the table's indexes.

use carnet_base::{Bytes, CellKey, Marker, Result, RowDelta, RowImage};
use carnet_txn::Entry;

use super::layout::IndexLayout;
use crate::catalog::{ColumnKind, TableSchema};
use crate::tx::Tx;

/// Writes of the rows of a table by a transaction. All writes of rows of a table that may have
/// indexes go through it.
#[derive(Clone, Copy)]
pub struct RowStore<'a> {
    tx: &'a Tx,
    table: &'a TableSchema,
}

impl<'a> RowStore<'a> {
    /// Creates the writer of a table, whose schema is that of the transaction's snapshot.
    #[must_use]
    pub const fn new(tx: &'a Tx, table: &'a TableSchema) -> Self {
        Self { tx, table }
    }

    /// Changes a part of a row. Reads the row only if the store takes no delta of it, or if the
    /// change may concern an index.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::rewrite_row`]; `Invalid` for a value that is too long for an index.
    pub async fn change(self, cell: CellKey, delta: &RowDelta) -> Result<()> {
        if delta.is_empty() || !self.concerns_index(&cell, Some(delta)) {
            return self.tx.change_row(cell, delta).await;
        }
        self.rewrite(cell, delta).await
    }

    /// Reads a row, and writes it with the changes of a delta.
    ///
    /// # Errors
    ///
    /// Same as [`RowStore::change`].
    pub async fn rewrite(self, cell: CellKey, delta: &RowDelta) -> Result<()> {
        if !self.concerns_index(&cell, Some(delta)) {
            return self.tx.rewrite_row(cell, delta).await;
        }
        let existing = self.read(&cell).await?;
        let before = self.image(existing.as_ref())?;
        let after = self.tx.write_next(cell.clone(), existing.as_ref(), delta)?;
        self.move_entries(&cell, before.as_ref(), self.kept(after).as_ref())
    }

    /// Writes a whole row; a row without marker and columns is deleted.
    ///
    /// # Errors
    ///
    /// Same as [`RowStore::change`].
    pub async fn put(self, cell: CellKey, image: RowImage) -> Result<()> {
        if !image.is_live() {
            return self.delete(cell).await;
        }
        if self.concerns_index(&cell, None) {
            let existing = self.read(&cell).await?;
            let before = self.image(existing.as_ref())?;
            self.move_entries(&cell, before.as_ref(), Some(&image))?;
        }
        self.tx.put_cell(cell, image.encode())
    }

    /// Deletes a row.
    ///
    /// # Errors
    ///
    /// Same as [`RowStore::change`].
    pub async fn delete(self, cell: CellKey) -> Result<()> {
        if self.concerns_index(&cell, None) {
            let existing = self.read(&cell).await?;
            return self.delete_found(cell, existing.as_ref());
        }
        self.tx.delete_cell(cell)
    }

    /// Deletes a row that the transaction has read, and depends on.
    ///
    /// # Errors
    ///
    /// Same as [`RowStore::change`].
    pub fn delete_found(self, cell: CellKey, existing: Option<&Entry>) -> Result<()> {
        if self.concerns_index(&cell, None) {
            let before = self.image(existing)?;
            self.move_entries(&cell, before.as_ref(), None)?;
        }
        self.tx.delete_cell(cell)
    }

    /// Returns `true` if a change may concern an entry. `None` is a change of the whole row.
    fn concerns_index(self, cell: &CellKey, delta: Option<&RowDelta>) -> bool {
        self.table.indexes.iter().any(|index| {
            let Some(column) = self.table.column_by_id(index.column) else { return false };
            let is_static_cell = self.is_static(cell);
            match (column.kind, delta) {
                (ColumnKind::Static, _) if !is_static_cell => false,
                (ColumnKind::Static | ColumnKind::Regular, Some(delta)) => {
                    delta.changes().iter().any(|(id, _)| *id == index.column)
                }
                // Any change may create a row, or remove its last column.
                _ => !is_static_cell || column.kind == ColumnKind::Static,
            }
        })
    }

    fn is_static(self, cell: &CellKey) -> bool {
        cell.clustering().is_empty() && self.table.clustering_key().next().is_some()
    }

    /// Reads a row whose next entries depend on its earlier ones, at every isolation level.
    async fn read(self, cell: &CellKey) -> Result<Option<Entry>> {
        self.tx.guard_cell(cell)?;
        self.tx.get_cell(cell).await
    }

    fn image(self, entry: Option<&Entry>) -> Result<Option<RowImage>> {
        let Some(entry) = entry else { return Ok(None) };
        Ok(self.kept(self.tx.row_image(&entry.payload)?))
    }

    pub(super) fn kept(self, image: Option<RowImage>) -> Option<RowImage> {
        image.and_then(|image| self.table.kept_columns().retain(image))
    }

    /// Replaces the entries of a row by those of its next image.
    fn move_entries(
        self,
        cell: &CellKey,
        before: Option<&RowImage>,
        after: Option<&RowImage>,
    ) -> Result<()> {
        for index in &self.table.indexes {
            let layout = IndexLayout::new(self.table, index)?;
            let (before, after) = (layout.entries(cell, before)?, layout.entries(cell, after)?);
            for entry in before.keys().filter(|entry| !after.contains_key(*entry)) {
                self.tx.delete_cell(entry.clone())?;
            }
            for (entry, expiry) in after {
                // The index may not be built yet: an unchanged row need not have its entry.
                if !index.is_built || before.get(&entry) != Some(&expiry) {
                    self.tx.put_cell(entry, payload(expiry))?;
                }
            }
        }
        Ok(())
    }

    /// Writes the entries of an existing row in one index.
    pub(super) fn add_entries(
        self,
        layout: &IndexLayout<'_>,
        cell: &CellKey,
        payload_of_row: &Bytes,
    ) -> Result<()> {
        let image = self.kept(self.tx.row_image(payload_of_row)?);
        for (entry, expiry) in layout.entries(cell, image.as_ref())? {
            self.tx.put_cell(entry, payload(expiry))?;
        }
        Ok(())
    }
}

/// Returns the payload of an entry: a row that has a marker only.
fn payload(expiry: Option<i64>) -> Bytes {
    let mut image = RowImage::new(0);
    image.marker = Some(Marker { expiry });
    image.encode()
}
