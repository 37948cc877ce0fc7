//! Values of `USING TRANSACTION`.

use carnet::{DataType, Uuid, Value};
use carnet_base::Bytes;

use crate::ast::{Attribute, Literal, OpenStatement, Statement, Term, Using};
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

/// Returns `true` if a statement names a transaction that another server may hold.
pub(in crate::exec) fn names_transaction(statement: &Statement) -> bool {
    let using = match statement {
        Statement::Select(select) => &select.using,
        Statement::Write(write) => write.using(),
        Statement::Batch(batch) => &batch.using,
        Statement::Open(open) => return !matches!(open, OpenStatement::Start(_)),
        _ => return false,
    };
    using.get(Attribute::Transaction).is_some()
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
