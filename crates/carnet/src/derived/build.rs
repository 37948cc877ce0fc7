//! Steps that build indexes and views while transactions run.
//!
//! A step reads the next rows of the base table, and writes their derived cells and the progress, as
//! one transaction. A concurrent write of one of these rows conflicts with the step, which runs again
//! with fewer rows. The progress is a cell of the derived table: after a crash the next process
//! continues there, and two processes that build the same table conflict and take turns.

use std::ops::Bound;

use carnet_base::{Bytes, CellKey, ColumnId, Error, KeyRange, Result};
use carnet_data::row::Column;
use carnet_data::{RowImage, Value};
use carnet_store::PageLimit;

use super::row_name::row_name;
use super::table::Derived;
use super::write::RowStore;
use crate::catalog::{BuildFailure, TableSchema};
use crate::tx::Tx;

/// Columns of the progress.
const NEXT_CELL: ColumnId = ColumnId(0);
const ROWS_READ: ColumnId = ColumnId(1);

/// Progress of the build of an index or a view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuildProgress {
    /// First cell of the base table whose derived cells are not written yet; `None` before the first step.
    next: Option<CellKey>,
    /// Number of rows and static parts of partitions read so far.
    pub rows: u64,
}

impl BuildProgress {
    /// Reads the progress of a derived table that is not built.
    ///
    /// # Errors
    ///
    /// Same as [`Tx::get_cell`].
    pub async fn read(tx: &Tx, derived: &Derived<'_>) -> Result<Self> {
        let Some(entry) = tx.get_cell(&derived.progress_cell()).await? else {
            return Ok(Self::default());
        };
        let image = RowImage::decode(&entry.payload)?;
        let next = image.value(NEXT_CELL).cloned().map(CellKey::from_bytes).transpose()?;
        let rows = image.value(ROWS_READ).and_then(|bytes| bytes[..].try_into().ok());
        Ok(Self { next, rows: rows.map_or(0, u64::from_be_bytes) })
    }

    /// Returns the part of the base table that was read, from 0 to 1, by the tokens of its partitions.
    #[must_use]
    pub fn part(&self) -> f64 {
        self.next.as_ref().map_or(0.0, |next| next.token().part())
    }

    fn payload(&self) -> Bytes {
        let mut image = RowImage::new(0);
        if let Some(next) = &self.next {
            image.set(NEXT_CELL, Column::new(next.as_bytes().clone()));
        }
        let rows = Value::Bigint(self.rows.cast_signed()).serialize();
        image.set(ROWS_READ, Column::new(rows));
        image.encode()
    }
}

/// Writes the derived cells of the next rows, at most `rows_max`, in a transaction that has created
/// or read the derived table. Returns `true` if it is built.
///
/// # Errors
///
/// `Invalid` if a row can have no derived cells; same as [`Tx::range_cells`] and [`Tx::put_cell`].
pub async fn build_step(
    tx: &Tx,
    table: &TableSchema,
    derived: &Derived<'_>,
    rows_max: usize,
) -> Result<bool> {
    match build_rows(tx, table, derived, rows_max).await? {
        Built::Goes => Ok(false),
        Built::Whole => Ok(true),
        Built::Failed(failure) => Err(Error::invalid(failure.text())),
    }
}

/// Outcome of a step of a build.
pub(crate) enum Built {
    Goes,
    Whole,
    /// A row can have no derived cells.
    Failed(BuildFailure),
}

/// Like [`build_step`], but tells the failures that are to be recorded from others.
pub(crate) async fn build_rows(
    tx: &Tx,
    table: &TableSchema,
    derived: &Derived<'_>,
    rows_max: usize,
) -> Result<Built> {
    let mut progress = BuildProgress::read(tx, derived).await?;
    let mut range = KeyRange::table(table.id);
    if let Some(next) = &progress.next {
        range.lower = Bound::Included(next.clone());
    }
    let page = tx.range_cells(&range, false, PageLimit::cells(rows_max)).await?;
    // A row that changes meanwhile must conflict, whatever the transaction's isolation level.
    tx.guard_range(part_before(range, page.resume.as_ref()))?;
    let rows = RowStore::new(tx, table);
    for (cell, payload) in page.cells.share_all() {
        match rows.cells_of(derived, &cell, &payload) {
            Ok(cells) => {
                cells.into_iter().try_for_each(|(key, image)| tx.put_cell(key, image.encode()))?;
            }
            Err(error) => {
                return Ok(Built::Failed(BuildFailure::new(&error, &row_name(table, &cell))));
            }
        }
    }
    progress.rows += page.cells.len() as u64;
    let Some(rest) = page.resume else {
        if progress.next.is_some() {
            tx.delete_cell(derived.progress_cell())?;
        }
        derived.built(tx, None).await?;
        return Ok(Built::Whole);
    };
    progress.next = match rest.lower {
        Bound::Included(next) => Some(next),
        Bound::Excluded(last) => Some(successor(&last)?),
        Bound::Unbounded => progress.next,
    };
    tx.put_cell(derived.progress_cell(), progress.payload())?;
    Ok(Built::Goes)
}

/// Returns the part of a range before its rest.
fn part_before(mut range: KeyRange, rest: Option<&KeyRange>) -> KeyRange {
    match rest.map(|rest| &rest.lower) {
        Some(Bound::Included(next)) => range.upper = Bound::Excluded(next.clone()),
        Some(Bound::Excluded(last)) => range.upper = Bound::Included(last.clone()),
        Some(Bound::Unbounded) | None => {}
    }
    range
}

/// Returns the first possible key after a cell.
fn successor(cell: &CellKey) -> Result<CellKey> {
    CellKey::from_bytes([cell.as_bytes(), &[0][..]].concat().into())
}
