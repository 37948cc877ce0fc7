//! Evaluation of the `IF` conditions of single statements and batches.

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet::catalog::TableSchema;
use carnet::{CellKey, PartitionKey, Tx};
use carnet_base::Bytes;
use carnet_data::RowImage;

use super::applied::{Form, Judged, Read, answer, shown_rows};
use super::condition_kind::Kind;
use super::row;
use super::stored_row::StoredRow;
use super::targets::Targeted;
use crate::access::Clustering;
use crate::compile::{Filter, GuardPlan, WritePlan};
use crate::cql_error::CqlError;
use crate::result::Response;

/// Evaluates every `IF`; returns the result of the statement if a condition does not hold.
pub(super) async fn refuse(
    tx: &Tx,
    writes: &[Targeted<'_>],
    form: Form,
) -> Result<Option<Response>, CqlError> {
    let Some(table) = writes.first().map(|write| &write.plan.table) else { return Ok(None) };
    if writes.iter().any(|write| write.plan.table.id != table.id) {
        return Err(CqlError::invalid("a batch with conditions changes one table only"));
    }
    let read = Read::new(writes);
    let mut partitions: BTreeMap<PartitionKey, Judged> = BTreeMap::new();
    let mut refused = false;
    for write in writes {
        if matches!(write.plan.guard, GuardPlan::Always) {
            continue;
        }
        let (partition, clustering) = judged_key(write)?;
        if !partitions.contains_key(partition) {
            let statics = read_statics(tx, table, &read, partition).await?;
            let judged = Judged { statics, ..Judged::default() };
            partitions.insert(partition.clone(), judged);
        }
        let Some(judged) = partitions.get_mut(partition) else { continue };
        refused |= !judge(tx, write, partition, clustering, judged).await?;
    }
    if !refused {
        return Ok(None);
    }
    let mut found = Vec::new();
    for (partition, judged) in partitions {
        found.extend(shown_rows(tx, table, &partition, judged).await?);
    }
    answer(table, &read, form, &found).map(Some)
}

/// Returns the key of the one row that a conditional statement selects; without a clustering key,
/// the statement changes only static columns.
fn judged_key<'w>(
    write: &'w Targeted<'_>,
) -> Result<(&'w PartitionKey, Option<&'w Bytes>), CqlError> {
    let cells = match &write.targets.clustering {
        Clustering::Cells(cells) => cells.as_slice(),
        Clustering::All | Clustering::Spans(_) => &[],
    };
    match (write.targets.partitions.as_slice(), cells) {
        ([partition], []) => Ok((partition, None)),
        ([partition], [clustering]) => Ok((partition, Some(clustering))),
        ([_], _) => Err(CqlError::invalid(
            "IN on the clustering key columns is not supported with conditional updates",
        )),
        _ => Err(CqlError::invalid(
            "IN on the partition key is not supported with conditional updates",
        )),
    }
}

/// Evaluates the `IF` of a statement, and records the row that it depends on.
async fn judge(
    tx: &Tx,
    write: &Targeted<'_>,
    partition: &PartitionKey,
    clustering: Option<&Bytes>,
    judged: &mut Judged,
) -> Result<bool, CqlError> {
    let Targeted { plan, environment, .. } = write;
    let table = &plan.table;
    let key = CellKey::new(table.id, partition, clustering.cloned().unwrap_or_default());
    check_kind(plan, partition, &key, judged)?;
    let image = match clustering {
        Some(_) if judges_row(plan) => {
            if !judged.rows.contains_key(&key) {
                let image = read(tx, table, &key).await?;
                judged.rows.insert(key.clone(), image);
            }
            judged.rows.get(&key).cloned().flatten()
        }
        _ => None,
    };
    let exists = if plan.is_static_only() { judged.statics.is_some() } else { image.is_some() };
    match &plan.guard {
        GuardPlan::Always => Ok(true),
        GuardPlan::Exists => Ok(exists),
        GuardPlan::NotExists => Ok(!exists),
        GuardPlan::Columns(filters) => {
            let statics = judged.statics.clone();
            let columns = row::columns(table, &StoredRow { key, image, statics })?;
            let mut slice = tx.time_slice();
            for filter in filters {
                filter.count(&columns, environment.steps)?;
                environment.steps.pace(&mut slice).await?;
                if !filter.condition_holds(table, &columns, environment)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

/// Refuses an `IF` whose kind differs from another one's on the same row or static columns.
fn check_kind(
    plan: &WritePlan,
    partition: &PartitionKey,
    row: &CellKey,
    judged: &mut Judged,
) -> Result<(), CqlError> {
    let Some(kind) = Kind::new(&plan.guard) else { return Ok(()) };
    if judges_row(plan) {
        kind.check(*judged.kinds.entry(row.clone()).or_insert(kind))?;
    }
    if judges_statics(plan) {
        let statics = CellKey::new(plan.table.id, partition, "");
        kind.check(*judged.kinds.entry(statics).or_insert(kind))?;
    }
    Ok(())
}

/// Returns `true` if the `IF` of a statement depends on a row, not only on static columns.
fn judges_row(plan: &WritePlan) -> bool {
    match &plan.guard {
        GuardPlan::Always => false,
        GuardPlan::Exists | GuardPlan::NotExists => !plan.is_static_only(),
        GuardPlan::Columns(filters) => {
            let mut named = filters.iter().flat_map(Filter::positions);
            named.any(|position| !plan.is_static(*position))
        }
    }
}

/// Reads the static columns of a partition, and makes the transaction depend on them; `None` if the
/// requested ones are null.
async fn read_statics(
    tx: &Tx,
    table: &TableSchema,
    wanted: &Read,
    partition: &PartitionKey,
) -> Result<Option<Arc<RowImage>>, CqlError> {
    if !wanted.reads_statics(table) {
        return Ok(None);
    }
    let image = read(tx, table, &CellKey::new(table.id, partition, "")).await?;
    Ok(image.filter(|image| wanted.finds_statics(table, image)).map(Arc::new))
}

/// Returns `true` if the `IF` of a statement depends on static columns.
fn judges_statics(plan: &WritePlan) -> bool {
    match &plan.guard {
        GuardPlan::Always => false,
        GuardPlan::Exists | GuardPlan::NotExists => plan.is_static_only(),
        GuardPlan::Columns(filters) => {
            let mut named = filters.iter().flat_map(Filter::positions);
            named.any(|position| plan.is_static(*position))
        }
    }
}

async fn read(tx: &Tx, table: &TableSchema, cell: &CellKey) -> Result<Option<RowImage>, CqlError> {
    tx.guard_cell(cell)?;
    let Some(entry) = tx.get_cell(cell).await? else { return Ok(None) };
    let image = tx.row_image(&entry.payload)?;
    Ok(image.and_then(|image| table.kept_columns().retain(image)))
}
