//! Values that a `SELECT` returns of a row.

use carnet::{Tx, Value};
use carnet_base::Bytes;

use super::cell_time::cell_time;
use super::select_reader::SelectReader;
use super::stored_row::StoredRow;
use crate::compile::{Environment, Evaluated, Operand, Output, SelectPlan};
use crate::cql_error::CqlError;
use crate::result::RowSet;

/// Appends the values of the outputs to a result; those of aggregates are null. `before` are the bytes
/// that the statement holds beside the result.
///
/// # Errors
///
/// Errors of the evaluation, and of a row that takes more memory than the answer may have.
pub(super) async fn project(
    tx: &Tx,
    plan: &SelectPlan,
    (stored, columns): (&StoredRow, &[Option<Bytes>]),
    environment: &Environment<'_>,
    (reader, before): (&mut SelectReader<'_>, usize),
    rows: &mut RowSet,
) -> Result<(), CqlError> {
    let begin = rows.encoded().len();
    for output in &plan.outputs {
        let value = value(tx, plan, output, (stored, columns), environment)?;
        let row = rows.encoded().len() - begin + value.as_ref().map_or(0, Bytes::len);
        reader.charge_row(before + begin, row)?;
        rows.push_value(value.as_deref());
        reader.pace().await?;
    }
    rows.end_row();
    Ok(())
}

/// Returns the value of an output; that of an aggregate is null.
pub(super) fn value(
    tx: &Tx,
    plan: &SelectPlan,
    output: &Output,
    (stored, columns): (&StoredRow, &[Option<Bytes>]),
    environment: &Environment<'_>,
) -> Result<Option<Bytes>, CqlError> {
    let with_row = environment.with_row(columns);
    let evaluate = |operand: &Operand, environment: &Environment<'_>| {
        operand.evaluate(environment).map(|found| match found {
            Evaluated::Bytes(bytes) => Some(bytes),
            Evaluated::Null | Evaluated::Unset => None,
        })
    };
    Ok(match output {
        Output::Column(position) => columns[*position].clone(),
        Output::Operand(operand) => evaluate(operand, &with_row)?,
        Output::Derived(operand, appended) => {
            environment.steps.take((columns.len() / 16) as u64)?;
            let mut row = columns.to_vec();
            for output in appended {
                row.push(value(tx, plan, output, (stored, columns), environment)?);
            }
            evaluate(operand, &environment.with_row(&row))?
        }
        Output::Token => Some(Value::Bigint(stored.key.token().0).serialize()),
        Output::Time(time) => cell_time(tx, &plan.table, stored, time, &with_row)?,
        Output::Aggregate(_) | Output::Composed(..) => None,
    })
}
