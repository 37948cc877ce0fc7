//! Execution of `BEGIN TRANSACTION`.

use carnet::Tx;
use carnet::base::Bytes;

use super::applied::{applied_column, boolean};
use super::parameters::Parameters;
use super::{select, write};
use crate::compile::{Environment, Evaluated, ResultPlan, TransactionPlan};
use crate::cql_error::CqlError;
use crate::result::{ColumnSpec, Response, Rows};

/// Runs a transaction. Its result is read before its writes.
pub(crate) async fn run(
    tx: &Tx,
    plan: &TransactionPlan,
    environment: &Environment<'_>,
    parameters: &Parameters,
) -> Result<Response, CqlError> {
    let mut lets: Vec<Option<Vec<Option<Bytes>>>> = Vec::with_capacity(plan.lets.len());
    let unpaged = Parameters { page_rows: None, paging_state: None, ..parameters.clone() };
    for read in &plan.lets {
        let environment = Environment { lets: &lets, ..*environment };
        let rows = select::run(tx, read, &environment, &unpaged, None).await?;
        lets.push(rows.rows.into_iter().next());
    }
    let environment = Environment { lets: &lets, ..*environment };
    let result = match &plan.result {
        ResultPlan::Applied => None,
        ResultPlan::Select(select) => {
            Some(select::run(tx, select, &environment, &unpaged, None).await?)
        }
        ResultPlan::Items(columns, operands) => {
            let values = operands.iter().map(|operand| match operand.evaluate(&environment)? {
                Evaluated::Bytes(bytes) => Ok(Some(bytes)),
                Evaluated::Null | Evaluated::Unset => Ok(None),
            });
            let row = values.collect::<Result<Vec<_>, CqlError>>()?;
            Some(Rows { columns: columns.clone(), rows: vec![row], paging_state: None })
        }
    };
    let holds = match &plan.body.condition {
        None => true,
        Some(condition) => condition.holds(&environment)?,
    };
    let writes = if holds { &plan.body.then } else { &plan.body.otherwise };
    for plan in writes {
        write::apply(tx, plan, &environment).await?;
    }
    Ok(Response::Rows(result.unwrap_or_else(|| Rows {
        columns: vec![applied_column("", "")],
        rows: vec![vec![boolean(holds)]],
        paging_state: None,
    })))
}

/// Returns the columns of a transaction's result.
pub(crate) fn result_columns(plan: &TransactionPlan) -> Vec<ColumnSpec> {
    match &plan.result {
        ResultPlan::Applied => vec![applied_column("", "")],
        ResultPlan::Select(select) => select.columns.clone(),
        ResultPlan::Items(columns, _) => columns.clone(),
    }
}
