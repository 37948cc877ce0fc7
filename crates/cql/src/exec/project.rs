//! Values that a `SELECT` returns of a row.

use carnet::base::Bytes;
use carnet::{Tx, Value};

use super::cell_time::cell_time;
use super::stored_row::StoredRow;
use crate::compile::{Environment, Evaluated, Output, SelectPlan};
use crate::cql_error::CqlError;

/// Returns the values of the outputs; those of aggregates are null.
pub(super) fn project(
    tx: &Tx,
    plan: &SelectPlan,
    stored: &StoredRow,
    columns: &[Option<Bytes>],
    environment: &Environment<'_>,
) -> Result<Vec<Option<Bytes>>, CqlError> {
    let environment = environment.with_row(columns);
    let value = |output: &Output| {
        Ok(match output {
            Output::Column(position) => columns[*position].clone(),
            Output::Operand(operand) => match operand.evaluate(&environment)? {
                Evaluated::Bytes(bytes) => Some(bytes),
                Evaluated::Null | Evaluated::Unset => None,
            },
            Output::Token => Some(Value::Bigint(stored.key.token().0).serialize()),
            Output::Time(time) => cell_time(tx, &plan.table, stored, time, &environment)?,
            Output::Aggregate(_) => None,
        })
    };
    plan.outputs.iter().map(value).collect()
}
