//! Writes of rows, with the cells of the table's indexes and views.

use std::collections::BTreeMap;

use carnet_base::{Bytes, CellKey, Error, Result, WallTime};
use carnet_data::{RowDelta, RowImage};
use carnet_txn::Entry;

use super::table::Derived;
use crate::catalog::TableSchema;
use crate::row_changes::RowChange;
use crate::tx::Tx;
use crate::view::{Cells, Change, changes};

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
        self.write(cell, RowChange::Delta(delta), Some(delta)).await
    }

    /// Like [`RowStore::rewrite`], but values with later write times remain.
    ///
    /// # Errors
    ///
    /// Same as [`RowStore::change`].
    pub async fn rewrite_by_time(self, cell: CellKey, delta: &RowDelta) -> Result<()> {
        self.write(cell, RowChange::ByTime(delta), Some(delta)).await
    }

    /// Deletes the parts of a row that were written up to a time.
    ///
    /// # Errors
    ///
    /// Same as [`RowStore::change`].
    pub async fn delete_by_time(self, cell: CellKey, time: WallTime) -> Result<()> {
        self.write(cell, RowChange::DeleteByTime(time), None).await
    }

    /// Reads a row, and writes its next version. `delta` are the changes; `None` for any.
    async fn write(
        self,
        cell: CellKey,
        change: RowChange<'_>,
        delta: Option<&RowDelta>,
    ) -> Result<()> {
        let is_derived = self.concerns_derived(&cell, delta)?;
        let existing = self.read(&cell).await?;
        let after = self.tx.write_next(cell.clone(), existing.as_ref(), change)?;
        if !is_derived {
            return Ok(());
        }
        let before = self.image(existing.as_ref().map(|entry| &entry.payload))?;
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

    /// Returns the image of a row with its columns that have expired or were dropped: they may have
    /// derived cells.
    fn image(self, payload: Option<&Bytes>) -> Result<Option<RowImage>> {
        payload.map(RowImage::decode).transpose()
    }

    pub(super) fn kept(self, image: Option<RowImage>) -> Option<RowImage> {
        image.and_then(|image| self.table.kept_columns().retain(image))
    }

    /// Replaces the derived cells of a row by those of its next image. `before` is the whole stored
    /// image.
    fn move_cells(
        self,
        cell: &CellKey,
        before: Option<&RowImage>,
        after: Option<&RowImage>,
    ) -> Result<()> {
        let are_all_kept = self.table.kept_columns().are_all();
        for derived in Derived::all(self.table)? {
            let before = derived.cells(cell, before)?;
            let after = derived.cells(cell, after)?.check_new(&before)?;
            // Before the table is built, cells may be missing. After a column was dropped, the cells
            // of the row may still depend on it.
            let are_there = derived.is_built() && are_all_kept;
            for change in changes(&before.found, &after, are_there) {
                match change {
                    Change::Delete(key) => self.tx.delete_cell(key)?,
                    Change::Put(key, payload) => self.tx.put_cell(key, payload)?,
                }
            }
        }
        Ok(())
    }

    /// Returns the derived cells of an existing row in one derived table. Cells that have expired by the
    /// clock of this process are among them: others may have another time.
    ///
    /// # Errors
    ///
    /// `Invalid` if a value can have no cell; `Corrupted`.
    pub(super) fn cells_of(
        self,
        derived: &Derived<'_>,
        cell: &CellKey,
        payload_of_row: &Bytes,
    ) -> Result<BTreeMap<CellKey, RowImage>> {
        let image = self.kept(Some(RowImage::decode(payload_of_row)?));
        derived.cells(cell, image.as_ref())?.check_new(&Cells::default())
    }
}
