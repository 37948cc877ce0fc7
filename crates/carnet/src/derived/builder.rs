//! Building of indexes and views while transactions run.
//!
//! A step reads the next rows of the base table, and writes their derived cells and the progress, as
//! one transaction. A concurrent write of one of these rows conflicts with the step, which runs again
//! with fewer rows. The progress is a cell of the derived table: after a crash the next process
//! continues there, and two processes that build the same table conflict and take turns.

use std::ops::Bound;

use carnet_base::{Bytes, CellKey, ColumnId, Error, ErrorKind, KeyRange, Result, TableId};
use carnet_data::row::Column;
use carnet_data::{RowImage, Value};
use carnet_store::PageLimit;
use carnet_txn::{Isolation, Label};

use super::row_name::row_name;
use super::table::Derived;
use super::write::RowStore;
use crate::catalog::{self, BuildFailure, TableSchema};
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
enum Built {
    Goes,
    Whole,
    /// A row can have no derived cells.
    Failed(BuildFailure),
}

/// Like [`build_step`], but tells the failures that are to be recorded from others.
async fn build_rows(
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
    /// The derived table is built, cannot be built, or was dropped.
    Ended,
}

/// Builds all indexes and views that are not built, step by step.
pub(super) struct Builder {
    db: WeakDb,
    target: Option<Target>,
    /// Derived table whose last step failed for a reason that may pass. The builder goes on with the
    /// next one.
    failed: Option<TableId>,
    rows_max: usize,
    /// `None` while the builder looks for the next index or view.
    building: Option<Building>,
}

impl Builder {
    pub(super) fn new(db: &Db, building: Building) -> Self {
        let db = db.downgrade();
        Self { db, target: None, failed: None, rows_max: ROWS_MAX, building: Some(building) }
    }

    /// Returns how often the database was asked to build; 0 for a closed one.
    pub(super) fn asked(&self) -> u64 {
        self.db.upgrade().map_or(0, |db| db.asked_to_build())
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
            // Several rows may be too much for one transaction.
            if error.kind() == ErrorKind::Invalid && self.rows_max > 1 {
                self.rows_max = 1;
                return Ok(true);
            }
            tracing::warn!(%error, target = ?self.target, "a step of the build of an index or view failed");
            self.failed = self.target.take().map(|target| target.derived).or(self.failed);
        }
        stepped
    }

    async fn step(&mut self, db: &Db) -> Result<bool> {
        if self.target.is_none() {
            // Cleared before the search, so that a table created after it starts a new builder.
            self.building = None;
            let target = next_target(&db.snapshot_async().await?, self.failed).await?;
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
    let Some(derived) = derived.filter(Derived::is_building) else { return Ok(Stepped::Ended) };
    match build_rows(&tx, &table, &derived, rows_max).await? {
        Built::Goes => Ok(Stepped::Goes),
        Built::Whole => Ok(Stepped::Ended),
        Built::Failed(failure) => {
            tracing::warn!(?target, failure = failure.text(), "an index or view cannot be built");
            tx.delete_cell(derived.progress_cell())?;
            derived.built(&tx, Some(failure)).await?;
            Ok(Stepped::Ended)
        }
    }
}

/// Returns `true` if the catalog has an index or view that is not built.
pub(crate) async fn is_needed(tx: &Tx) -> Result<bool> {
    next_target(tx, None).await.map(|target| target.is_some())
}

/// Returns an index or view to build: the one that comes after another in the order of their tables' ids, or
/// the first one.
async fn next_target(tx: &Tx, after: Option<TableId>) -> Result<Option<Target>> {
    let mut targets = Vec::new();
    for keyspace in catalog::keyspaces(tx).await? {
        for table in catalog::tables(tx, &keyspace.name).await? {
            let indexes = table.indexes.iter().filter(|index| index.is_building());
            let views = table.views.iter().filter(|view| view.is_building());
            let ids = indexes.map(|index| index.id).chain(views.map(|view| view.id));
            targets.extend(ids.map(|derived| Target {
                keyspace: table.keyspace.clone(),
                table: table.name.clone(),
                derived,
            }));
        }
    }
    let is_before = |target: &Target| after.is_some_and(|after| target.derived <= after);
    Ok(targets.into_iter().min_by_key(|target| (is_before(target), target.derived)))
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
