//! Execution of statements that change rows.
//!
//! A version is a whole row image, or a delta of a statement that does not set every column. A
//! statement that needs the row, or whose delta the store does not take, reads the row first, in
//! the same transaction, and keeps the other columns. A statement that deletes a range depends on
//! the range, and deletes the rows in it one by one.

use std::ops::Bound;
use std::sync::Arc;

use carnet::base::row::{Change as ColumnChange, Collection, CollectionKind};
use carnet::base::{Bytes, Marker, RowDelta, RowImage, WallTime};
use carnet::catalog::{ColumnKind, ColumnSchema};
use carnet::derived::RowStore;
use carnet::{CellKey, KeyRange, PageLimit, PartitionKey, Tx};

use super::applied::{Form, applied};
use super::condition;
use super::row;
use super::stored_row::StoredRow;
use super::targets::{Targeted, targeted, targets};
use crate::access::Clustering;
use crate::compile::{Change, Environment, Evaluated, GuardPlan, WritePlan};
use crate::cql_error::CqlError;
use crate::result::Response;

/// Maximum number of rows in one read of a range delete.
const PAGE_CELLS: usize = 500;

/// Runs statements as a unit: all of them, or none if an `IF` does not hold.
pub(crate) async fn run(
    tx: &Tx,
    writes: &[(&WritePlan, Environment<'_>)],
    form: Form,
) -> Result<Response, CqlError> {
    let json = writes.iter().map(|(plan, environment)| json_row(plan, environment));
    let json: Vec<_> = json.collect::<Result<_, _>>()?;
    let writes = targeted(&with_json(writes, &json))?;
    let is_conditional = writes.iter().any(|write| !matches!(write.plan.guard, GuardPlan::Always));
    if is_conditional && let Some(refused) = Box::pin(condition::refuse(tx, &writes, form)).await? {
        return Ok(refused);
    }
    let mut slice = tx.time_slice();
    for write in &writes {
        if let Some(slice) = &mut slice {
            slice.check().await;
        }
        apply_to(tx, write).await?;
    }
    Ok(if is_conditional { applied() } else { Response::Void })
}

/// Applies one statement without evaluating its `IF`.
pub(super) async fn apply(
    tx: &Tx,
    plan: &WritePlan,
    environment: &Environment<'_>,
) -> Result<(), CqlError> {
    let json = json_row(plan, environment)?;
    let environment = Environment { json: json.as_deref(), ..*environment };
    let targets = targets(plan, &environment)?;
    apply_to(tx, &Targeted { plan, environment, targets }).await
}

/// Parses the row of an `INSERT JSON`, once for all its columns.
fn json_row(
    plan: &WritePlan,
    environment: &Environment<'_>,
) -> Result<Option<Vec<Evaluated>>, CqlError> {
    plan.json.as_ref().map(|json| json.columns(&plan.table, environment)).transpose()
}

fn with_json<'a>(
    writes: &[(&'a WritePlan, Environment<'a>)],
    json: &'a [Option<Vec<Evaluated>>],
) -> Vec<(&'a WritePlan, Environment<'a>)> {
    let rows = writes.iter().zip(json);
    rows.map(|((plan, environment), json)| {
        (*plan, Environment { json: json.as_deref(), ..*environment })
    })
    .collect()
}

async fn apply_to(tx: &Tx, write: &Targeted<'_>) -> Result<(), CqlError> {
    let Targeted { plan, targets, environment } = write;
    let written = plan.written(environment)?;
    if matches!(plan.change, Change::Delete) {
        for partition in &targets.partitions {
            Box::pin(delete(tx, plan, partition, &targets.clustering)).await?;
        }
        return Ok(());
    }
    for partition in &targets.partitions {
        if plan.is_static_only() {
            change_row(tx, write, written, partition, None).await?;
            continue;
        }
        let Clustering::Cells(rows) = &targets.clustering else {
            return Err(CqlError::invalid("the statement names no rows"));
        };
        for clustering in rows {
            change_row(tx, write, written, partition, Some(clustering)).await?;
        }
    }
    Ok(())
}

/// Changes of columns, by position. Columns whose values were left unset do not change.
type ColumnChanges = Vec<(usize, ColumnChange)>;

/// Changes of a row, with their write time.
struct Changes {
    written: WallTime,
    columns: ColumnChanges,
}

/// Changes a row and the static columns of its partition; without a clustering key, only the static
/// columns.
///
/// Every value is calculated from the row before either cell changes.
async fn change_row(
    tx: &Tx,
    write: &Targeted<'_>,
    written: WallTime,
    partition: &PartitionKey,
    clustering: Option<&Bytes>,
) -> Result<(), CqlError> {
    let table = &write.plan.table;
    let static_cell = CellKey::new(table.id, partition, "");
    let row_cell = clustering.map(|clustering| CellKey::new(table.id, partition, clustering));
    let current = if write.plan.reads_row() {
        Box::pin(CurrentRow::read(tx, write, written, &static_cell, row_cell.as_ref())).await?
    } else {
        CurrentRow::default()
    };
    let expiry = write.plan.time_to_live(&write.environment)?;
    let expiry = expiry.map(|seconds| tx.wall_seconds().saturating_add(seconds));
    let changes = Changes { written, columns: changes(write, &current, expiry)? };
    if write.plan.changes_statics() {
        change_cell(tx, write, static_cell, ColumnKind::Static, &changes, None).await?;
    }
    if let Some(cell) = row_cell {
        let is_marked = matches!(write.plan.change, Change::Set { marker: true, .. });
        let marker = is_marked.then_some(Marker { expiry });
        change_cell(tx, write, cell, ColumnKind::Regular, &changes, marker).await?;
    }
    Ok(())
}

/// Returns the changes of columns; values that are set get an expiry.
fn changes(
    write: &Targeted<'_>,
    current: &CurrentRow,
    expiry: Option<i64>,
) -> Result<ColumnChanges, CqlError> {
    let plan = write.plan;
    let environment = &write.environment.with_row(&current.columns);
    let mut changes = Vec::new();
    match &plan.change {
        Change::Set { columns, .. } => {
            for (position, assigned) in columns {
                let column = &plan.table.columns[*position];
                let elements = current.elements(column)?;
                let change = assigned.change(column, elements, expiry, environment)?;
                changes.extend(change.map(|change| (*position, change)));
            }
        }
        Change::Add(additions) => {
            for (position, addition) in additions {
                if let Some(amount) = addition.amount(environment)? {
                    changes.push((*position, ColumnChange::Added(amount)));
                }
            }
        }
        Change::Clear(columns) => {
            changes.extend(columns.iter().map(|position| (*position, ColumnChange::Deleted)));
        }
        Change::Delete => {}
    }
    Ok(changes)
}

/// Writes a new version of a cell: the columns of one kind, static or regular, of a row.
async fn change_cell(
    tx: &Tx,
    write: &Targeted<'_>,
    cell: CellKey,
    kind: ColumnKind,
    changes: &Changes,
    marker: Option<Marker>,
) -> Result<(), CqlError> {
    let (plan, table) = (write.plan, &write.plan.table);
    let mut delta = RowDelta::new(table.version);
    delta.marker = marker;
    delta.written = Some(changes.written);
    for (position, change) in &changes.columns {
        let column = &table.columns[*position];
        if column.kind == kind {
            delta.change(column.id, change.clone());
        }
    }
    // If the statement sets every column, no read is needed.
    let all = table.columns.iter().filter(|column| column.kind == kind).count();
    let is_insert = matches!(plan.change, Change::Set { marker: true, .. });
    let blind = is_insert && delta.changes().len() == all;
    let rows = RowStore::new(tx, table);
    if blind {
        let mut image = RowImage::default();
        delta.apply(&mut image)?;
        rows.put(cell, image).await?;
    } else if plan.reads_row() || plan.has_write_time() || !matches!(plan.guard, GuardPlan::Always)
    {
        // A delta has one write time for all changes of its transaction.
        rows.rewrite(cell, &delta).await?;
    } else {
        rows.change(cell, &delta).await?;
    }
    Ok(())
}

/// A row before the change, for terms that use it; empty if none does.
#[derive(Default)]
struct CurrentRow {
    columns: Vec<Option<Bytes>>,
    image: Option<RowImage>,
    statics: Option<Arc<RowImage>>,
}

impl CurrentRow {
    async fn read(
        tx: &Tx,
        write: &Targeted<'_>,
        written: WallTime,
        static_cell: &CellKey,
        row_cell: Option<&CellKey>,
    ) -> Result<Self, CqlError> {
        let table = &write.plan.table;
        // The elements become part of the next version.
        let begin_version = |mut image: RowImage| {
            image.begin_version(Some(written));
            image
        };
        let image = match row_cell {
            Some(cell) => read_image(tx, cell).await?.map(begin_version),
            None => None,
        };
        let has_statics = table.statics().next().is_some();
        let statics = if has_statics { read_image(tx, static_cell).await? } else { None };
        let statics = statics.map(begin_version).map(Arc::new);
        let key = row_cell.unwrap_or(static_cell).clone();
        let row = StoredRow { key, image, statics };
        let columns = row::columns(table, &row)?;
        Ok(Self { columns, image: row.image, statics: row.statics })
    }

    /// Returns the elements of a collection that is not frozen.
    fn elements(&self, column: &ColumnSchema) -> Result<Option<Collection>, CqlError> {
        let image = match column.kind {
            ColumnKind::Static => self.statics.as_deref(),
            _ => self.image.as_ref(),
        };
        let kind = CollectionKind::of_type(&column.data_type).filter(|_| column.is_multi_cell);
        let (Some(image), Some(kind)) = (image, kind) else { return Ok(None) };
        Ok(image.elements(column.id, kind)?)
    }
}

async fn read_image(tx: &Tx, cell: &CellKey) -> Result<Option<RowImage>, CqlError> {
    let Some(entry) = tx.get_cell(cell).await? else { return Ok(None) };
    Ok(tx.row_image(&entry.payload)?)
}

async fn delete(
    tx: &Tx,
    plan: &WritePlan,
    partition: &PartitionKey,
    clustering: &Clustering,
) -> Result<(), CqlError> {
    let table = plan.table.id;
    let rows = RowStore::new(tx, &plan.table);
    match clustering {
        Clustering::Cells(cells) => {
            for clustering in cells {
                rows.delete(CellKey::new(table, partition, clustering)).await?;
            }
        }
        // A whole partition is deleted with its static columns.
        Clustering::All => delete_range(tx, rows, KeyRange::partition(table, partition)).await?,
        Clustering::Spans(spans) => {
            for (lower, upper) in spans {
                let (lower, upper): (Bound<Bytes>, Bound<Bytes>) = (lower.clone(), upper.clone());
                let range = KeyRange::clustering(table, partition, lower, upper);
                delete_range(tx, rows, range).await?;
            }
        }
    }
    Ok(())
}

async fn delete_range(tx: &Tx, rows: RowStore<'_>, range: KeyRange) -> Result<(), CqlError> {
    tx.guard_range(range.clone())?;
    let mut rest = Some(range);
    while let Some(range) = rest {
        let page = tx.range_cells(&range, false, PageLimit::cells(PAGE_CELLS)).await?;
        for (cell, payload) in page.cells.share_all() {
            rows.delete_found(cell, Some(&payload))?;
        }
        rest = page.resume;
    }
    Ok(())
}
