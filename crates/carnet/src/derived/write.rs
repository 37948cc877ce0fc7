//! Writes of rows, with the cells of the table's indexes and views.

use carnet_base::{Bytes, CellKey, Error, Result, RowDelta, RowImage};
use carnet_txn::Entry;

use super::table::{Change, Derived, changes};
use crate::catalog::TableSchema;
use crate::tx::Tx;

/// Writes of the rows of a table by a transaction. All writes of rows of a table that may have
/// indexes or views go through it.
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
    /// change may concern an index or a view.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::rewrite_row`]; `Invalid` for a value that is too long for an index or the key of
    /// a view, and for the table of a view.
    pub async fn change(self, cell: CellKey, delta: &RowDelta) -> Result<()> {
        if delta.is_empty() || !self.concerns_derived(&cell, Some(delta))? {
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
        if !self.concerns_derived(&cell, Some(delta))? {
            return self.tx.rewrite_row(cell, delta).await;
        }
        let existing = self.read(&cell).await?;
        let before = self.image(existing.as_ref().map(|entry| &entry.payload))?;
        let after = self.tx.write_next(cell.clone(), existing.as_ref(), delta)?;
        self.move_cells(&cell, before.as_ref(), self.kept(after).as_ref())
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
        if self.concerns_derived(&cell, None)? {
            let existing = self.read(&cell).await?;
            let before = self.image(existing.as_ref().map(|entry| &entry.payload))?;
            self.move_cells(&cell, before.as_ref(), Some(&image))?;
        }
        self.tx.put_cell(cell, image.encode())
    }

    /// Deletes a row.
    ///
    /// # Errors
    ///
    /// Same as [`RowStore::change`].
    pub async fn delete(self, cell: CellKey) -> Result<()> {
        if self.concerns_derived(&cell, None)? {
            let existing = self.read(&cell).await?;
            return self.delete_found(cell, existing.as_ref().map(|entry| &entry.payload));
        }
        self.tx.delete_cell(cell)
    }

    /// Deletes a row that the transaction has read, and depends on.
    ///
    /// # Errors
    ///
    /// Same as [`RowStore::change`].
    pub fn delete_found(self, cell: CellKey, existing: Option<&Bytes>) -> Result<()> {
        if self.concerns_derived(&cell, None)? {
            let before = self.image(existing)?;
            self.move_cells(&cell, before.as_ref(), None)?;
        }
        self.tx.delete_cell(cell)
    }

    /// Returns `true` if a change may concern an index or a view. `None` is a change of the whole row.
    fn concerns_derived(self, cell: &CellKey, delta: Option<&RowDelta>) -> Result<bool> {
        if self.table.base.is_some() {
            return Err(Error::invalid("Cannot directly modify a materialized view"));
        }
        Ok(Derived::all(self.table)?.iter().any(|derived| derived.concerns(cell, delta)))
    }

    /// Reads a row whose next derived cells depend on its earlier ones. The commit depends on it at
    /// every isolation level: a transaction that changes derived cells also writes the row.
    async fn read(self, cell: &CellKey) -> Result<Option<Entry>> {
        self.tx.get_cell(cell).await
    }

    fn image(self, payload: Option<&Bytes>) -> Result<Option<RowImage>> {
        let Some(payload) = payload else { return Ok(None) };
        Ok(self.kept(self.tx.row_image(payload)?))
    }

    pub(super) fn kept(self, image: Option<RowImage>) -> Option<RowImage> {
        image.and_then(|image| self.table.kept_columns().retain(image))
    }

    /// Replaces the derived cells of a row by those of its next image.
    fn move_cells(
        self,
        cell: &CellKey,
        before: Option<&RowImage>,
        after: Option<&RowImage>,
    ) -> Result<()> {
        for derived in Derived::all(self.table)? {
            let (before, after) = (derived.cells(cell, before)?, derived.cells(cell, after)?);
            for change in changes(&before, &after, derived.is_built()) {
                match change {
                    Change::Delete(key) => self.tx.delete_cell(key)?,
                    Change::Put(key, payload) => self.tx.put_cell(key, payload)?,
                }
            }
        }
        Ok(())
    }

    /// Writes the derived cells of an existing row in one derived table.
    pub(super) fn add_cells(
        self,
        derived: &Derived<'_>,
        cell: &CellKey,
        payload_of_row: &Bytes,
    ) -> Result<()> {
        let image = self.kept(self.tx.row_image(payload_of_row)?);
        for (key, image) in derived.cells(cell, image.as_ref())? {
            self.tx.put_cell(key, image.encode())?;
        }
        Ok(())
    }
}
