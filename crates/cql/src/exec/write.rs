//! Runs statements that change rows.
//!
//! A version is a whole row image. A statement that does not say what every column becomes reads
//! the row first, in the same transaction, and keeps the rest. One that deletes a range depends on
//! the range, and deletes the rows it finds there one by one.

use std::ops::Bound;
use std::sync::Arc;

use carnet::base::{Bytes, Column, Marker, RowImage};
use carnet::catalog::{ColumnKind, TableSchema};
use carnet::{CellKey, Entry, KeyRange, PageLimit, PartitionKey, Tx, Value};

use super::CqlError;
use super::condition;
use super::row;
use super::scan::{Clustering, Partitions, StoredRow};
use crate::compile::{Change, Environment, Evaluated, GuardPlan, Operand, WritePlan, WriteTarget};
use crate::result::Response;

/// Rows in one read while a range is deleted.
const PAGE_CELLS: usize = 500;

/// Runs statements as one: all of them, or none where an `IF` does not hold.
pub(crate) async fn run(
    tx: &Tx,
    writes: &[(&WritePlan, Environment<'_>)],
) -> Result<Response, CqlError> {
    if writes.iter().any(|(plan, _)| !matches!(plan.guard, GuardPlan::Always)) {
        if let Some(refused) = condition::refuse(tx, writes).await? {
            return Ok(refused);
        }
        for (plan, environment) in writes {
            apply(tx, plan, environment).await?;
        }
        return Ok(condition::applied());
    }
    for (plan, environment) in writes {
        apply(tx, plan, environment).await?;
    }
    Ok(Response::Void)
}

/// The rows that a statement changes.
pub(super) struct Targets {
    pub(super) partitions: Vec<PartitionKey>,
    pub(super) clustering: Clustering,
}

/// Evaluates which rows a statement changes.
pub(super) fn targets(
    plan: &WritePlan,
    environment: &Environment<'_>,
) -> Result<Targets, CqlError> {
    match &plan.target {
        WriteTarget::Key { partition, clustering } => {
            let values = required(partition, environment)?;
            let clustering = match clustering {
                None => Vec::new(),
                Some(operands) => {
                    let values = required(operands, environment)?;
                    vec![carnet::base::key::encode(&values, &plan.table.clustering_orders())?]
                }
            };
            Ok(Targets {
                partitions: vec![carnet::base::partition::encode(&values)?],
                clustering: Clustering::Cells(clustering),
            })
        }
        WriteTarget::Where(filter) => {
            let Partitions::Keys(partitions) = filter.partitions(environment)? else {
                return Err(CqlError::invalid("the statement names no partition"));
            };
            Ok(Targets { partitions, clustering: filter.clustering(environment)? })
        }
    }
}

fn required(operands: &[Operand], environment: &Environment<'_>) -> Result<Vec<Value>, CqlError> {
    operands.iter().map(|operand| operand.required(environment)).collect()
}

/// Runs one statement, whatever its `IF`.
pub(super) async fn apply(
    tx: &Tx,
    plan: &WritePlan,
    environment: &Environment<'_>,
) -> Result<(), CqlError> {
    let targets = targets(plan, environment)?;
    if matches!(plan.change, Change::Delete) {
        for partition in &targets.partitions {
            delete(tx, plan, partition, &targets.clustering).await?;
        }
        return Ok(());
    }
    let is_static = |position: &usize| plan.table.columns[*position].kind == ColumnKind::Static;
    let touches_statics = match &plan.change {
        Change::Set { columns, .. } => columns.iter().any(|(position, _)| is_static(position)),
        Change::Clear(columns) => columns.iter().any(is_static),
        Change::Delete => false,
    };
    for partition in &targets.partitions {
        if touches_statics {
            let cell = CellKey::new(plan.table.id, partition.clone(), Bytes::new());
            change_cell(tx, plan, &cell, ColumnKind::Static, environment).await?;
        }
        if plan.is_static_only() {
            continue;
        }
        let Clustering::Cells(rows) = &targets.clustering else {
            return Err(CqlError::invalid("the statement names no rows"));
        };
        for clustering in rows {
            let cell = CellKey::new(plan.table.id, partition.clone(), clustering.clone());
            change_cell(tx, plan, &cell, ColumnKind::Regular, environment).await?;
        }
    }
    Ok(())
}

/// Writes a cell anew: the columns of one kind, static or regular, of a row.
async fn change_cell(
    tx: &Tx,
    plan: &WritePlan,
    cell: &CellKey,
    kind: ColumnKind,
    environment: &Environment<'_>,
) -> Result<(), CqlError> {
    let table = &plan.table;
    let blind = is_blind(plan, kind, environment)?;
    let existing = if blind { None } else { tx.get_cell(cell).await? };
    let mut image = match &existing {
        None => RowImage::new(table.version),
        Some(entry) => next_image(tx, table, entry)?,
    };
    let columns = current_columns(table, cell, kind, existing.as_ref())?;
    let environment = environment.with_row(&columns);
    match &plan.change {
        Change::Set { columns, marker } => {
            for (position, operand) in of_kind(table, kind, columns) {
                let id = table.columns[*position].id;
                match operand.evaluate(&environment)? {
                    Evaluated::Bytes(bytes) => drop(image.set(id, Column::new(bytes))),
                    Evaluated::Null => drop(image.remove(id)),
                    Evaluated::Unset => {}
                }
            }
            if *marker && kind == ColumnKind::Regular {
                image.marker = Some(Marker::default());
            }
        }
        Change::Clear(columns) => {
            for position in columns.iter().filter(|at| table.columns[**at].kind == kind) {
                image.remove(table.columns[*position].id);
            }
        }
        Change::Delete => {}
    }
    if image.is_live() {
        tx.put_cell(cell.clone(), image.encode())?;
    } else if blind || existing.is_some() {
        tx.delete_cell(cell.clone())?;
    }
    Ok(())
}

fn of_kind<'p>(
    table: &'p TableSchema,
    kind: ColumnKind,
    columns: &'p [(usize, Operand)],
) -> impl Iterator<Item = &'p (usize, Operand)> {
    columns.iter().filter(move |(position, _)| table.columns[*position].kind == kind)
}

/// Tells whether a statement says what every column becomes, so that nothing need be read.
fn is_blind(
    plan: &WritePlan,
    kind: ColumnKind,
    environment: &Environment<'_>,
) -> Result<bool, CqlError> {
    let Change::Set { columns, marker: true } = &plan.change else { return Ok(false) };
    let all = plan.table.columns.iter().filter(|column| column.kind == kind).count();
    if of_kind(&plan.table, kind, columns).count() < all {
        return Ok(false);
    }
    for (_, operand) in of_kind(&plan.table, kind, columns) {
        if operand.evaluate(environment)? == Evaluated::Unset {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns what the next version of a row begins with.
fn next_image(tx: &Tx, table: &TableSchema, entry: &Entry) -> Result<RowImage, CqlError> {
    let older = RowImage::decode(&entry.payload)?;
    let mut image = if Some(entry.start) == tx.start_timestamp() {
        older
    } else {
        older.carried_over(entry.start)
    };
    image.schema_version = table.version;
    Ok(image)
}

/// Returns the columns of a row before the change, for terms that calculate with them.
fn current_columns(
    table: &TableSchema,
    cell: &CellKey,
    kind: ColumnKind,
    existing: Option<&Entry>,
) -> Result<Vec<Option<Bytes>>, CqlError> {
    let image = existing.map(|entry| RowImage::decode(&entry.payload)).transpose()?;
    let mut stored = StoredRow { key: cell.clone(), image: None, statics: None };
    if kind == ColumnKind::Static {
        stored.statics = image.map(Arc::new);
    } else {
        stored.image = image;
    }
    Ok(row::columns(table, &stored)?)
}

async fn delete(
    tx: &Tx,
    plan: &WritePlan,
    partition: &PartitionKey,
    clustering: &Clustering,
) -> Result<(), CqlError> {
    let table = plan.table.id;
    match clustering {
        Clustering::Cells(rows) => {
            for clustering in rows {
                tx.delete_cell(CellKey::new(table, partition.clone(), clustering.clone()))?;
            }
        }
        // A whole partition goes with its static columns.
        Clustering::All => delete_range(tx, KeyRange::partition(table, partition)).await?,
        Clustering::Spans(spans) => {
            for (lower, upper) in spans {
                let (lower, upper): (Bound<Bytes>, Bound<Bytes>) = (lower.clone(), upper.clone());
                delete_range(tx, KeyRange::clustering(table, partition, lower, upper)).await?;
            }
        }
    }
    Ok(())
}

async fn delete_range(tx: &Tx, range: KeyRange) -> Result<(), CqlError> {
    tx.guard_range(range.clone())?;
    let mut rest = Some(range);
    while let Some(range) = rest {
        let page = tx.range_cells(&range, false, PageLimit::cells(PAGE_CELLS)).await?;
        for (cell, _) in page.cells {
            tx.delete_cell(cell)?;
        }
        rest = page.resume;
    }
    Ok(())
}
