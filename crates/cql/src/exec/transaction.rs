//! Execution of `BEGIN TRANSACTION`.

use std::iter;

use carnet::{Tx, Value};
use carnet_base::Bytes;

use super::answer_memory::AnswerMemory;
use super::applied::{applied_column, applied_columns, boolean};
use super::parameters::Parameters;
use super::{select, write};
use crate::compile::{Environment, Evaluated, Operand, ResultPlan, TransactionPlan};
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::result::{ColumnSpec, Response, RowSet, Rows};

/// Runs a transaction. Its result is read before its writes.
pub(crate) async fn run(
    tx: &Tx,
    plan: &TransactionPlan,
    environment: &Environment<'_>,
    parameters: &Parameters,
) -> Result<Response, CqlError> {
    let memory = parameters.grant.memory.as_deref();
    let keep = |bytes: usize| memory.map_or(Ok(()), |memory| memory.keep(bytes));
    // Those of an earlier run of the transaction are dropped.
    let mut kept = 0;
    keep(kept)?;
    let mut lets: Vec<Option<Vec<Option<Bytes>>>> = Vec::with_capacity(plan.lets.len());
    let unpaged = Parameters { page_rows: None, paging_state: None, ..parameters.clone() };
    for read in &plan.lets {
        let environment = Environment { lets: &lets, ..*environment };
        let rows = select::run(tx, read, &environment, &unpaged, None).await?;
        kept += rows.rows.encoded().len();
        lets.push(rows.rows.into_vec().into_iter().next());
        keep(kept)?;
    }
    let environment = Environment { lets: &lets, ..*environment };
    let result = match &plan.result {
        ResultPlan::Applied => None,
        ResultPlan::Select(select) => {
            Some(select::run(tx, select, &environment, &unpaged, None).await?)
        }
        ResultPlan::Items(columns, operands) => {
            let rows = Box::pin(items(tx, operands, &environment, memory)).await?;
            Some(Rows { columns: columns.clone(), rows, paging_state: None })
        }
    };
    let holds = match &plan.body.condition {
        None => true,
        Some(condition) => condition.holds(&environment)?,
    };
    let branch = if holds { &plan.body.then } else { &plan.body.otherwise };
    if let Some(text) = &branch.raise {
        return Err(raised(text, &environment)?);
    }
    let writes: Vec<_> = branch.writes.iter().map(|plan| (plan, environment)).collect();
    write::apply(tx, &writes).await?;
    Ok(Response::Rows(match result {
        Some(rows) if plan.shows_applied => with_applied(rows, holds),
        Some(rows) => rows,
        None => with_applied(Rows::default(), holds),
    }))
}

/// Returns the row of a result that is made of terms.
async fn items(
    tx: &Tx,
    operands: &[Operand],
    environment: &Environment<'_>,
    memory: Option<&AnswerMemory>,
) -> Result<RowSet, CqlError> {
    let mut slice = tx.time_slice();
    let mut row = RowSet::default();
    for operand in operands {
        let value = match operand.evaluate(environment)? {
            Evaluated::Bytes(bytes) => Some(bytes),
            Evaluated::Null | Evaluated::Unset => None,
        };
        let bytes = row.encoded().len() + value.as_ref().map_or(0, Bytes::len);
        memory.map_or(Ok(()), |memory| memory.grow_to(bytes, 0))?;
        row.push_value(value.as_deref());
        environment.steps.pace(&mut slice).await?;
    }
    row.end_row();
    Ok(row)
}

/// Returns the error of a `RAISE`. The writes before it are not made: they would have no effect.
fn raised(text: &Operand, environment: &Environment<'_>) -> Result<CqlError, CqlError> {
    match text.required(environment)? {
        Value::Text(text) => Ok(CqlError::new(CqlErrorKind::Raised, text)),
        _ => Err(CqlError::invalid("the value of RAISE is not a text")),
    }
}

/// Adds `[applied]` before the columns of a result. Without rows there is one, in which the other
/// columns are null.
fn with_applied(mut rows: Rows, holds: bool) -> Rows {
    let mut values = rows.rows.into_vec();
    if values.is_empty() {
        values.push(vec![None; rows.columns.len()]);
    }
    rows.columns = match rows.columns.is_empty() {
        true => applied_columns(),
        false => {
            let others = rows.columns.iter().cloned();
            iter::once(applied_column("", "")).chain(others).collect::<Vec<_>>().into()
        }
    };
    values.iter_mut().for_each(|row| row.insert(0, boolean(holds)));
    rows.rows = values.into();
    rows
}

/// Returns the columns of a transaction's result.
pub(crate) fn result_columns(plan: &TransactionPlan) -> Vec<ColumnSpec> {
    let columns = match &plan.result {
        ResultPlan::Applied => return vec![applied_column("", "")],
        ResultPlan::Select(select) => &select.columns,
        ResultPlan::Items(columns, _) => columns,
    };
    let applied = plan.shows_applied.then(|| applied_column("", ""));
    applied.into_iter().chain(columns.iter().cloned()).collect()
}
