//! The `IF` of single statements and batches.

use std::sync::Arc;

use carnet::base::{Bytes, RowImage};
use carnet::catalog::{ColumnKind, TableSchema};
use carnet::{CellKey, DataType, Tx, Value};

use super::CqlError;
use super::row;
use super::scan::{Clustering, StoredRow};
use super::write::Targeted;
use crate::compile::{Environment, Filter, GuardPlan, WritePlan, star_order};
use crate::result::{ColumnSpec, Response, Rows};

/// The name of the column that says whether a conditional statement was applied.
const APPLIED: &str = "[applied]";

/// Answers that a conditional statement was applied.
pub(crate) fn applied() -> Response {
    let columns = vec![applied_column("", "")];
    Response::Rows(Rows { columns, rows: vec![vec![boolean(true)]], paging_state: None })
}

pub(crate) fn applied_column(keyspace: &str, table: &str) -> ColumnSpec {
    ColumnSpec {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
        name: APPLIED.to_owned(),
        result_type: DataType::Boolean.into(),
    }
}

pub(crate) fn boolean(value: bool) -> Option<Bytes> {
    Some(Value::Boolean(value).serialize())
}

/// The row that an `IF` judges.
struct Judged {
    key: CellKey,
    /// Its columns; those outside the key are null where it is not there.
    columns: Vec<Option<Bytes>>,
    exists: bool,
}

/// Judges every `IF`; returns the answer where one does not hold.
pub(super) async fn refuse(tx: &Tx, writes: &[Targeted<'_>]) -> Result<Option<Response>, CqlError> {
    let Some(first) = writes.first().map(|write| &write.plan.table) else { return Ok(None) };
    if writes.iter().any(|write| write.plan.table.id != first.id) {
        return Err(CqlError::invalid("a batch with conditions changes one table only"));
    }
    let is_batch = writes.len() > 1;
    let mut refused = false;
    let mut rows: Vec<(Judged, Vec<usize>)> = Vec::new();
    for write in writes {
        if matches!(write.plan.guard, GuardPlan::Always) {
            continue;
        }
        let judged = judge(tx, write).await?;
        refused |= !holds(write.plan, &judged, &write.environment)?;
        let shown =
            if is_batch { star_order(&write.plan.table) } else { shown_columns(write.plan) };
        // Several conditions on one row show it once.
        if !rows.iter().any(|(known, _)| known.key == judged.key) {
            rows.push((judged, shown));
        }
    }
    Ok(refused.then(|| answer(first, rows)))
}

/// Returns the columns that say why a statement was refused.
fn shown_columns(plan: &WritePlan) -> Vec<usize> {
    match &plan.guard {
        GuardPlan::Always | GuardPlan::Exists => Vec::new(),
        GuardPlan::NotExists => star_order(&plan.table),
        GuardPlan::Columns(filters) => {
            let mut positions = Vec::new();
            for position in filters.iter().flat_map(Filter::positions) {
                if !positions.contains(position) {
                    positions.push(*position);
                }
            }
            positions
        }
    }
}

fn answer(table: &TableSchema, judged: Vec<(Judged, Vec<usize>)>) -> Response {
    let found: Vec<(Judged, Vec<usize>)> =
        judged.into_iter().filter(|(judged, _)| judged.exists).collect();
    let shown = found.first().map(|(_, shown)| shown.clone()).unwrap_or_default();
    let mut columns = vec![applied_column(&table.keyspace, &table.name)];
    columns.extend(shown.iter().map(|position| {
        let column = &table.columns[*position];
        ColumnSpec {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            name: column.name.clone(),
            result_type: column.data_type.into(),
        }
    }));
    let mut rows: Vec<Vec<Option<Bytes>>> = found
        .into_iter()
        .map(|(judged, _)| {
            let values = shown.iter().map(|position| judged.columns[*position].clone());
            std::iter::once(boolean(false)).chain(values).collect()
        })
        .collect();
    if rows.is_empty() {
        rows.push(vec![boolean(false)]);
    }
    Response::Rows(Rows { columns, rows, paging_state: None })
}

/// Reads the one row that a conditional statement names, and depends on it.
async fn judge(tx: &Tx, write: &Targeted<'_>) -> Result<Judged, CqlError> {
    let Targeted { plan, targets, .. } = write;
    let table = &plan.table;
    let cells = match &targets.clustering {
        Clustering::Cells(cells) => cells.as_slice(),
        Clustering::All | Clustering::Spans(_) => &[],
    };
    let is_static = plan.is_static_only() || judges_statics_only(plan);
    let [partition] = targets.partitions.as_slice() else {
        return Err(CqlError::invalid("IN has no place in a statement with IF"));
    };
    if cells.len() > 1 {
        return Err(CqlError::invalid("IN has no place in a statement with IF"));
    }
    let statics = if table.statics().next().is_some() {
        let cell = CellKey::new(table.id, partition, "");
        read(tx, &cell).await?
    } else {
        None
    };
    let clustering = cells.first().cloned().unwrap_or_default();
    let key = CellKey::new(table.id, partition, clustering);
    let image = if cells.is_empty() { None } else { read(tx, &key).await? };
    let exists = if is_static { statics.is_some() || image.is_some() } else { image.is_some() };
    let statics = statics.map(Arc::new);
    let columns = row::columns(table, &StoredRow { key: key.clone(), image, statics })?;
    Ok(Judged { key, columns, exists })
}

fn judges_statics_only(plan: &WritePlan) -> bool {
    match &plan.guard {
        GuardPlan::Columns(filters) => filters
            .iter()
            .flat_map(Filter::positions)
            .all(|position| plan.table.columns[*position].kind == ColumnKind::Static),
        _ => false,
    }
}

async fn read(tx: &Tx, cell: &CellKey) -> Result<Option<RowImage>, CqlError> {
    tx.guard_cell(cell)?;
    let Some(entry) = tx.get_cell(cell).await? else { return Ok(None) };
    let image = RowImage::decode(&entry.payload)?;
    Ok(image.is_live().then_some(image))
}

fn holds(
    plan: &WritePlan,
    judged: &Judged,
    environment: &Environment<'_>,
) -> Result<bool, CqlError> {
    match &plan.guard {
        GuardPlan::Always => Ok(true),
        GuardPlan::Exists => Ok(judged.exists),
        GuardPlan::NotExists => Ok(!judged.exists),
        GuardPlan::Columns(filters) => {
            for filter in filters {
                if !filter.condition_holds(&plan.table, &judged.columns, environment)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}
