//! Values that a `SELECT` returns of a row.

use carnet::base::Bytes;
use carnet::catalog::ColumnKind;
use carnet::{Tx, Value};

use super::scan::StoredRow;
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
            Output::TimeToLive(position) => time_to_live(tx, plan, stored, *position),
            Output::Aggregate(_) => None,
        })
    };
    plan.outputs.iter().map(value).collect()
}

/// Returns the seconds until a column expires; `None` for a column that is null or does not expire.
fn time_to_live(tx: &Tx, plan: &SelectPlan, row: &StoredRow, position: usize) -> Option<Bytes> {
    let column = &plan.table.columns[position];
    let image = match column.kind {
        ColumnKind::Static => row.statics.as_deref(),
        _ => row.image.as_ref(),
    };
    let expiry = image?.column(column.id)?.expiry?;
    let seconds = i32::try_from(expiry.saturating_sub(tx.wall_seconds())).unwrap_or(i32::MAX);
    Some(Value::Int(seconds).serialize())
}
