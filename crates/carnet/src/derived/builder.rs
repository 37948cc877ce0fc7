//! Building of indexes and views while transactions run.
//!
//! A step reads the next rows of the base table, and writes their derived cells and the progress, as
//! one transaction. A concurrent write of one of these rows conflicts with the step, which runs again
//! with fewer rows. The progress is a cell of the derived table: after a crash the next process
//! continues there, and two processes that build the same table conflict and take turns.

use std::ops::Bound;

use carnet_base::row::Column;
use carnet_base::{
    Bytes, CellKey, ColumnId, ErrorKind, KeyRange, Result, RowImage, TableId, Value,
};
use carnet_store::PageLimit;
use carnet_txn::{Isolation, Label};

use super::table::Derived;
use super::write::RowStore;
use crate::catalog::{self, TableSchema};
use crate::db::{Building, Db, WeakDb};
use crate::tx::Tx;

/// Number of rows in a step without conflicts.
const ROWS_MAX: usize = 256;
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
/// Same as [`Tx::range_cells`] and [`RowStore::change`].
pub async fn build_step(
    tx: &Tx,
    table: &TableSchema,
    derived: &Derived<'_>,
    rows_max: usize,
) -> Result<bool> {
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
        rows.add_cells(derived, &cell, &payload)?;
    }
    progress.rows += page.cells.len() as u64;
    let Some(rest) = page.resume else {
        if progress.next.is_some() {
            tx.delete_cell(derived.progress_cell())?;
        }
        derived.built(tx).await?;
        return Ok(true);
    };
    progress.next = match rest.lower {
        Bound::Included(next) => Some(next),
        Bound::Excluded(last) => Some(successor(&last)?),
        Bound::Unbounded => progress.next,
    };
    tx.put_cell(derived.progress_cell(), progress.payload())?;
    Ok(false)
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

/// A derived table to build.
#[derive(Clone, Debug)]
struct Target {
    keyspace: String,
    table: String,
    derived: TableId,
}

/// Outcome of a step.
enum Stepped {
    Goes,
    /// The derived table is built, or was dropped.
    Ended,
}

/// Builds all indexes and views that are not built, step by step.
pub(super) struct Builder {
    db: WeakDb,
    target: Option<Target>,
    rows_max: usize,
    /// `None` while the builder looks for the next index or view.
    building: Option<Building>,
}

impl Builder {
    pub(super) fn new(db: &Db, building: Building) -> Self {
        let db = db.downgrade();
        Self { db, target: None, rows_max: ROWS_MAX, building: Some(building) }
    }

    /// Runs a step; returns `false` if all indexes and views are built, or the database is closed.
    /// After a conflict the next step has fewer rows.
    pub(super) async fn advance(&mut self) -> Result<bool> {
        // Between two steps the builder does not keep the database open.
        let Some(db) = self.db.upgrade() else { return Ok(false) };
        let stepped = self.step(&db).await;
        if let Err(error) = &stepped {
            if error.kind() == ErrorKind::Conflict {
                self.rows_max = (self.rows_max / 2).max(1);
                return Ok(true);
            }
            tracing::warn!(%error, target = ?self.target, "a step of the build of an index or view failed");
        }
        stepped
    }

    async fn step(&mut self, db: &Db) -> Result<bool> {
        if self.target.is_none() {
            // Cleared before the search, so that a table created after it starts a new builder.
            self.building = None;
            let target = next_target(&db.snapshot_async().await?).await?;
            if target.is_some() {
                self.building = db.begin_building();
            }
            if self.building.is_none() {
                return Ok(false);
            }
            self.target = target;
        }
        let Some(target) = &self.target else { return Ok(false) };
        let rows_max = self.rows_max;
        let label = Label::new("carnet", "index or view build");
        // A row that changes during the step must conflict with it, whatever the database's default.
        let strict = db.transaction().isolation(Isolation::StrictSerializable);
        let step = strict.attempts_max(1).label(label);
        match step.try_run(|tx| step_of(tx, target, rows_max)).await? {
            Stepped::Goes => self.rows_max = (rows_max * 2).min(ROWS_MAX),
            Stepped::Ended => self.target = None,
        }
        Ok(true)
    }
}

async fn step_of(tx: Tx, target: &Target, rows_max: usize) -> Result<Stepped> {
    let Some(table) = catalog::table(&tx, &target.keyspace, &target.table).await? else {
        return Ok(Stepped::Ended);
    };
    let derived = Derived::all(&table)?.into_iter().find(|found| found.id() == target.derived);
    let Some(derived) = derived.filter(|derived| !derived.is_built()) else {
        return Ok(Stepped::Ended);
    };
    let is_built = build_step(&tx, &table, &derived, rows_max).await?;
    Ok(if is_built { Stepped::Ended } else { Stepped::Goes })
}

/// Returns `true` if the catalog has an index or view that is not built.
pub(crate) async fn is_needed(tx: &Tx) -> Result<bool> {
    next_target(tx).await.map(|target| target.is_some())
}

/// Returns an index or view that is not built.
async fn next_target(tx: &Tx) -> Result<Option<Target>> {
    for keyspace in catalog::keyspaces(tx).await? {
        for table in catalog::tables(tx, &keyspace.name).await? {
            let unbuilt = Derived::all(&table)?.into_iter().find(|derived| !derived.is_built());
            if let Some(derived) = unbuilt.map(|derived| derived.id()) {
                return Ok(Some(Target { keyspace: keyspace.name, table: table.name, derived }));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn builder_that_panics_leaves_the_right_to_build() {
        let db = Db::builder().in_memory();
        let building = db.begin_building().unwrap();
        assert!(db.begin_building().is_none());
        let builder = Builder::new(&db, building);
        let step = AssertUnwindSafe(move || {
            let _builder = builder;
            panic!("a step fails");
        });
        assert!(catch_unwind(step).is_err());
        assert!(db.begin_building().is_some());
    }
}
