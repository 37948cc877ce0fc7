//! Values that a `SELECT` returns of a row.

use carnet::base::Bytes;
use carnet::{Tx, Value};

use super::cell_time::cell_time;
use super::select_reader::{ROW_BYTES, SelectReader, of_table};
use super::stored_row::StoredRow;
use crate::compile::{Environment, Evaluated, Output, SelectPlan};
use crate::cql_error::CqlError;

/// Returns the values of the outputs; those of aggregates are null. `before` are the bytes of the
/// rows before it.
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
) -> Result<Vec<Option<Bytes>>, CqlError> {
    let environment = environment.with_row(columns);
    let mut row = Vec::with_capacity(plan.outputs.len());
    let mut bytes = 0;
    for output in &plan.outputs {
        let value = match output {
            Output::Column(position) => columns[*position].clone(),
            Output::Operand(operand) => match operand.evaluate(&environment)? {
                Evaluated::Bytes(bytes) => Some(bytes),
                Evaluated::Null | Evaluated::Unset => None,
            },
            Output::Token => Some(Value::Bigint(stored.key.token().0).serialize()),
            Output::Time(time) => cell_time(tx, &plan.table, stored, time, &environment)?,
            Output::Aggregate(_) => None,
        };
        bytes += value.as_ref().map_or(0, Bytes::len);
        if bytes > ROW_BYTES {
            reader.charge(before + bytes).map_err(|error| of_table(plan, &error))?;
        }
        reader.pace().await?;
        row.push(value);
    }
    Ok(row)
}
