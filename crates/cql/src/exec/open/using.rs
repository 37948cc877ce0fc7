//! Values of `USING TRANSACTION`.

use carnet::base::Bytes;
use carnet::{DataType, Uuid, Value};

use crate::ast::{Attribute, Literal, Statement, Term, Using};
use crate::bound::Bound;
use crate::cql_error::CqlError;

/// Returns the `USING TRANSACTION` of a statement.
///
/// # Errors
///
/// `Invalid` if the value is not a UUID.
pub(in crate::exec) fn using_transaction(
    statement: &Statement,
    bound: &[Bound],
) -> Result<Option<Uuid>, CqlError> {
    match statement {
        Statement::Select(select) => named(&select.using, bound),
        Statement::Write(write) => named(write.using(), bound),
        Statement::Batch(batch) => named(&batch.using, bound),
        _ => Ok(None),
    }
}

fn named(using: &Using, bound: &[Bound]) -> Result<Option<Uuid>, CqlError> {
    let wrong = || CqlError::invalid("the value of USING TRANSACTION is not a uuid");
    match using.get(Attribute::Transaction) {
        None => Ok(None),
        Some(Term::Literal(Literal::Uuid(id))) => Ok(Some(*id)),
        Some(Term::Marker(marker)) => match bound.get(usize::from(marker.index)) {
            Some(Bound::Bytes(bytes)) => uuid(bytes).map(Some).ok_or_else(wrong),
            _ => Err(CqlError::invalid(
                "USING TRANSACTION names no transaction: its value is null or unset; leave USING \
                 TRANSACTION out for a statement of its own",
            )),
        },
        Some(_) => Err(wrong()),
    }
}

fn uuid(bytes: &Bytes) -> Option<Uuid> {
    match DataType::Uuid.deserialize(bytes) {
        Ok(Value::Uuid(id)) => Some(id),
        _ => None,
    }
}
