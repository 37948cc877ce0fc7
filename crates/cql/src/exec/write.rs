//! Execution of statements that change rows.
//!
//! Statements that change columns of rows are made by file `row_change`, those of a batch in groups
//! (file `row_groups`). A statement that deletes a range depends on the range, and deletes the rows in
//! it one by one.

use std::ops::Bound;

use carnet::derived::RowStore;
use carnet::{CellKey, KeyRange, PageLimit, PartitionKey, Tx};
use carnet_base::{Bytes, WallTime};

use super::applied::{Form, applied};
use super::condition;
use super::row_groups::RowGroups;
use super::targets::{Targeted, targeted};
use super::thresholds::BatchSize;
use crate::access::Clustering;
use crate::compile::{Change, Environment, Evaluated, GuardPlan, WritePlan};
use crate::cql_error::CqlError;
use crate::result::Response;
use crate::steps::Steps;

/// Maximum number of rows in one read of a range delete.
const PAGE_CELLS: usize = 500;

/// Number of steps of the deletion of a row: it is read, guarded and written.
const DELETE_STEPS: u64 = 32;

/// Runs statements as a unit: all of them, or none if an `IF` does not hold. Counts their writes.
pub(crate) async fn run(
    tx: &Tx,
    writes: &[(&WritePlan, Environment<'_>)],
    form: Form,
    size: Option<&mut BatchSize>,
) -> Result<Response, CqlError> {
    let json = json_rows(tx, writes).await?;
    let mut writes = targeted(tx, &with_json(writes, &json)).await?;
    for write in &mut writes {
        write.decides = write.plan.decides_by_time();
    }
    if writes.iter().any(|write| write.decides) {
        // As in Cassandra, a deletion precedes changes of its time.
        writes.sort_by_key(|write| (write.written, matches!(write.plan.change, Change::Delete)));
    }
    let is_conditional = writes.iter().any(|write| !matches!(write.plan.guard, GuardPlan::Always));
    if is_conditional && let Some(refused) = Box::pin(condition::refuse(tx, &writes, form)).await? {
        return Ok(refused);
    }
    let before = tx.written_bytes();
    apply_all(tx, &writes).await?;
    if let Some(size) = size {
        size.count(&writes);
        size.count_bytes(tx, before);
    }
    Ok(if is_conditional { applied() } else { Response::Void })
}

/// Applies the statements of a transaction in their order, without evaluating their `IF`.
pub(super) async fn apply(
    tx: &Tx,
    writes: &[(&WritePlan, Environment<'_>)],
) -> Result<(), CqlError> {
    let json = json_rows(tx, writes).await?;
    let writes = targeted(tx, &with_json(writes, &json)).await?;
    apply_all(tx, &writes).await
}

async fn apply_all(tx: &Tx, writes: &[Targeted<'_>]) -> Result<(), CqlError> {
    let mut slice = tx.time_slice();
    let mut groups = RowGroups::new(writes.len());
    for write in writes {
        if let Some(slice) = &mut slice {
            slice.check().await;
        }
        let Targeted { plan, targets, environment, .. } = write;
        environment.steps.take(1)?;
        if matches!(plan.change, Change::Delete) {
            groups.make_deleted(tx, write).await?;
            for partition in &targets.partitions {
                Box::pin(delete(tx, write, partition, &targets.clustering)).await?;
            }
            continue;
        }
        groups.add(tx, write).await?;
    }
    groups.make(tx).await
}

/// Parses the row of each `INSERT JSON`, once for all its columns.
async fn json_rows(
    tx: &Tx,
    writes: &[(&WritePlan, Environment<'_>)],
) -> Result<Vec<Option<Vec<Evaluated>>>, CqlError> {
    let mut slice = tx.time_slice();
    let mut rows = Vec::with_capacity(writes.len());
    for (plan, environment) in writes {
        let json = plan.json.as_ref();
        rows.push(json.map(|json| json.columns(&plan.table, environment)).transpose()?);
        environment.steps.pace(&mut slice).await?;
    }
    Ok(rows)
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

async fn delete(
    tx: &Tx,
    write: &Targeted<'_>,
    partition: &PartitionKey,
    clustering: &Clustering,
) -> Result<(), CqlError> {
    let table = write.plan.table.id;
    let rows = RowStore::new(tx, &write.plan.table);
    let until = write.competes.then_some(write.written);
    let steps = write.environment.steps;
    let mut slice = tx.time_slice();
    match clustering {
        Clustering::Cells(cells) => {
            for clustering in cells {
                let cell = CellKey::new(table, partition, clustering);
                match until {
                    Some(time) => rows.delete_by_time(cell, time).await?,
                    None => rows.delete(cell).await?,
                }
                steps.take(DELETE_STEPS)?;
                steps.pace(&mut slice).await?;
            }
        }
        // A whole partition is deleted with its static columns.
        Clustering::All => {
            delete_range(tx, rows, KeyRange::partition(table, partition), until, steps).await?;
        }
        Clustering::Spans(spans) => {
            for (lower, upper) in spans {
                let (lower, upper): (Bound<Bytes>, Bound<Bytes>) = (lower.clone(), upper.clone());
                let range = KeyRange::clustering(table, partition, lower, upper);
                delete_range(tx, rows, range, until, steps).await?;
            }
        }
    }
    Ok(())
}

/// Deletes the rows of a range, or their parts that were written up to a time.
async fn delete_range(
    tx: &Tx,
    rows: RowStore<'_>,
    range: KeyRange,
    until: Option<WallTime>,
    steps: &Steps<'_>,
) -> Result<(), CqlError> {
    let mut slice = tx.time_slice();
    tx.guard_range(range.clone())?;
    let mut rest = Some(range);
    while let Some(range) = rest {
        let page = tx.range_cells(&range, false, PageLimit::cells(PAGE_CELLS)).await?;
        for (cell, payload) in page.cells.share_all() {
            match until {
                Some(time) => rows.delete_by_time(cell, time).await?,
                None => rows.delete_found(cell, Some(&payload))?,
            }
            steps.take(DELETE_STEPS)?;
            steps.take_bytes(payload.len())?;
            steps.pace(&mut slice).await?;
        }
        rest = page.resume;
    }
    Ok(())
}
