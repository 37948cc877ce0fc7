//! The statements of a batch.

use std::sync::Arc;

use carnet::Uuid;

use super::open::using_transaction;
use super::parameters::{BatchItem, Parameters, Session};
use super::prepared::Statements;
use crate::ast::{Attribute, Statement};
use crate::bound::Bound;
use crate::cql_error::CqlError;
use crate::parser::TERMS_MAX;

/// A statement of a batch, with its keyspace and the values of its markers.
pub(super) struct BatchPart {
    pub(super) statements: Arc<Statements>,
    pub(super) keyspace: Option<String>,
    pub(super) bound: Vec<Bound>,
}

/// Parses the statements of a batch, and checks that each changes rows.
pub(super) fn batch_parts(
    session: &Session,
    items: Vec<BatchItem>,
    parameters: &Parameters,
) -> Result<Vec<BatchPart>, CqlError> {
    let mut parts = Vec::with_capacity(items.len());
    let mut terms = 0;
    for item in items {
        let (statements, keyspace, values) = match item {
            BatchItem::Text { text, values } => {
                let keyspace = parameters.keyspace.clone().or_else(|| session.keyspace());
                let statements = Statements::parse(&text)?;
                terms += statements.parsed.terms;
                check_batch_terms(terms)?;
                (Arc::new(statements), keyspace, values)
            }
            BatchItem::Prepared { prepared, values } => {
                (Arc::clone(&prepared.statements), prepared.keyspace.clone(), values)
            }
        };
        let Statement::Write(write) = &statements.parsed.statement else {
            return Err(CqlError::invalid(
                "a batch holds INSERT, UPDATE and DELETE statements only",
            ));
        };
        let using = write.using();
        if using.level.is_some() || using.get(Attribute::Timeout).is_some() {
            return Err(CqlError::invalid(
                "USING TIMEOUT and SERVICE LEVEL belong to a whole batch, not to a statement in it",
            ));
        }
        let bound = values.resolve(&statements.parsed.markers)?;
        parts.push(BatchPart { statements, keyspace, bound });
    }
    Ok(parts)
}

/// Returns the transaction that the statements of a batch name, all of them or none.
pub(super) fn batch_transaction(parts: &[BatchPart]) -> Result<Option<Uuid>, CqlError> {
    let named =
        |part: &BatchPart| using_transaction(&part.statements.parsed.statement, &part.bound);
    let Some((first, rest)) = parts.split_first() else { return Ok(None) };
    let transaction = named(first)?;
    for part in rest {
        if named(part)? != transaction {
            return Err(CqlError::invalid(
                "the statements of a batch name the same transaction, or none: a batch runs as a whole",
            ));
        }
    }
    Ok(transaction)
}

/// Refuses a batch whose statements have too many terms in total.
fn check_batch_terms(terms: usize) -> Result<(), CqlError> {
    if terms <= TERMS_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "the statements of the batch have more than {TERMS_MAX} terms together; send them in \
         several batches, or prepare them"
    )))
}
