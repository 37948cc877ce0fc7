//! Execution of `SELECT`.

use carnet::Tx;

use super::aggregates::Aggregates;
use super::answer_memory::{AnswerMemory, of_table};
use super::group;
use super::near;
use super::paging::PagingState;
use super::parameters::Parameters;
use super::plain_rows::PlainRows;
use super::project::project;
use super::select_reader::{PageBounds, ROW_BYTES, SelectReader, too_large};
use super::system_rows::Columns;
use crate::compile::{Environment, SelectPlan};
use crate::cql_error::CqlError;
use crate::json;
use crate::result::{ColumnSpec, RowSet, Rows};
use crate::steps::Steps;

/// Bytes of a result between two charges of memory for rows that are lent.
const LENT_BYTES: usize = 4 << 10;

/// Cassandra's message. Drivers page by default, so it names the remedy.
const MERGE_NOT_PAGED: &str = "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must \
     either remove the ORDER BY or the IN and sort client side, or disable paging for this query";

/// Runs a `SELECT` in a transaction, from the row after `state` on.
pub(crate) async fn run(
    tx: &Tx,
    plan: &SelectPlan,
    environment: &Environment<'_>,
    parameters: &Parameters,
    state: Option<&PagingState>,
) -> Result<Rows, CqlError> {
    run_over(tx, plan, environment, parameters, state, None).await
}

/// Like [`run`], over the rows of a system table if they are given.
pub(super) async fn run_over(
    tx: &Tx,
    plan: &SelectPlan,
    environment: &Environment<'_>,
    parameters: &Parameters,
    state: Option<&PagingState>,
    system: Option<Vec<Columns>>,
) -> Result<Rows, CqlError> {
    let mut rows = select(tx, plan, environment, parameters, state, system).await?;
    if let Some(columns) = &plan.json {
        let memory = parameters.grant.memory.as_deref();
        rows.rows = Box::pin(json_rows(tx, columns, rows.rows, environment.steps, memory)).await?;
    }
    Ok(rows)
}

/// Returns the rows of a `SELECT JSON`.
async fn json_rows(
    tx: &Tx,
    columns: &[ColumnSpec],
    rows: RowSet,
    steps: &Steps<'_>,
    memory: Option<&AnswerMemory>,
) -> Result<RowSet, CqlError> {
    let mut slice = tx.time_slice();
    let mut texts = RowSet::default();
    let held = rows.encoded().len();
    for row in rows.into_vec() {
        let charge = |row: usize| match memory {
            Some(memory) if row > ROW_BYTES => {
                memory.grow_by_row(held + texts.encoded().len(), row)
            }
            _ => Ok(()),
        };
        let text = json::of_row(columns, &row, charge)?;
        texts.push([Some(text.as_bytes())]);
        steps.take_bytes(text.len())?;
        steps.pace(&mut slice).await?;
    }
    Ok(texts)
}

async fn select(
    tx: &Tx,
    plan: &SelectPlan,
    environment: &Environment<'_>,
    parameters: &Parameters,
    state: Option<&PagingState>,
    system: Option<Vec<Columns>>,
) -> Result<Rows, CqlError> {
    let memory = parameters.grant.memory.as_deref();
    let mut reader = SelectReader::new(tx, plan, environment, state, memory, system).await?;
    let columns = plan.columns.clone();
    if plan.group.is_some() {
        let bounds = PageBounds::new(parameters);
        return Box::pin(group::run(tx, plan, environment, reader, bounds, state)).await;
    }
    if let Some(found) = &plan.near {
        return Box::pin(near::run(tx, plan, found, environment, reader)).await;
    }
    if plan.aggregates {
        let rows = Box::pin(aggregate(tx, plan, environment, &mut reader)).await?;
        return Ok(Rows { columns, rows, paging_state: None });
    }
    let mut bounds = PageBounds::new(parameters);
    if reader.is_merged() {
        let fits = |limit: u32| usize::try_from(limit).is_ok_and(|limit| limit <= bounds.rows);
        if bounds.is_paged && !reader.remaining.is_some_and(fits) {
            return Err(CqlError::invalid(MERGE_NOT_PAGED));
        }
        bounds = PageBounds::UNPAGED;
    }
    let mut copier = plan.plain.as_ref().map(|plain| PlainRows::new(tx, plain, memory));
    let mut rows = RowSet::default();
    let mut paging_state = None;
    loop {
        // The row after a page is read as well: it decides whether there is another page.
        let wanted = bounds.rows.saturating_add(1) - rows.len();
        let last = match &mut copier {
            Some(copier) => {
                let until_bytes = bounds.bytes.min(rows.encoded().len() + LENT_BYTES);
                let mut failed = None;
                let lent = reader.lend(bounds.rows - rows.len(), |row| {
                    match copier.write(row, &mut rows) {
                        Ok(()) => rows.encoded().len() < until_bytes,
                        Err(error) => {
                            failed = Some(error);
                            false
                        }
                    }
                })?;
                if let Some(error) = failed {
                    return Err(of_table(&plan.table, &error));
                }
                match lent {
                    Some(last) => last,
                    None => {
                        let Some(stored) = reader.next_plain(wanted).await? else { break };
                        let written = copier.write(&stored.lend(), &mut rows);
                        written.map_err(|error| of_table(&plan.table, &error))?;
                        stored.key
                    }
                }
            }
            None => {
                let Some((stored, found)) = reader.next(wanted).await? else { break };
                let row = (&stored, found.as_slice());
                let given = (&mut reader, 0);
                Box::pin(project(tx, plan, row, environment, given, &mut rows)).await?;
                stored.key
            }
        };
        // The row is already in memory: a page that gets no more memory ends with it.
        let has_memory = match reader.charge(rows.encoded().len()) {
            Err(error) if !bounds.is_paged => return Err(of_table(&plan.table, &error)),
            grown => grown.is_ok(),
        };
        let is_full =
            rows.len() >= bounds.rows || rows.encoded().len() >= bounds.bytes || !has_memory;
        if is_full && !bounds.is_paged {
            return Err(too_large());
        }
        if is_full {
            let last = reader.position(last);
            // A page that ends with the last row has no paging state.
            if reader.next(1).await?.is_some() {
                paging_state = Some(reader.state(&last, tx).encode());
            }
            break;
        }
    }
    Ok(Rows { columns, rows, paging_state })
}

/// Aggregates all rows to one.
async fn aggregate(
    tx: &Tx,
    plan: &SelectPlan,
    environment: &Environment<'_>,
    reader: &mut SelectReader<'_>,
) -> Result<RowSet, CqlError> {
    let mut aggregates = Aggregates::new(plan);
    while let Some((stored, columns)) = reader.next(usize::MAX).await? {
        let row = (&stored, columns.as_slice());
        aggregates.add((tx, plan), row, environment, (&mut *reader, 0)).await?;
    }
    let mut rows = RowSet::default();
    aggregates.conclude(plan, environment, &mut rows)?;
    Ok(rows)
}
