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
use crate::steps::Steps;

/// A statement of a batch, with its keyspace and the values of its markers.
pub(super) struct BatchPart {
    pub(super) statements: Arc<Statements>,
    pub(super) keyspace: Option<String>,
    pub(super) bound: Vec<Bound>,
}

/// Collects the statements of a batch, each of which changes rows.
pub(super) struct BatchParts<'a> {
    session: &'a Session,
    parameters: &'a Parameters,
    parts: Vec<BatchPart>,
    /// Number of terms of the texts so far.
    terms: usize,
}

impl<'a> BatchParts<'a> {
    pub(super) fn new(session: &'a Session, parameters: &'a Parameters, count: usize) -> Self {
        Self { session, parameters, parts: Vec::with_capacity(count), terms: 0 }
    }

    pub(super) fn into_parts(self) -> Vec<BatchPart> {
        self.parts
    }

    /// Parses a statement, and checks that it changes rows.
    pub(super) fn push(&mut self, item: BatchItem, steps: &Steps<'_>) -> Result<(), CqlError> {
        let (statements, keyspace, values) = match item {
            BatchItem::Text { text, values } => {
                let keyspace = &self.parameters.keyspace;
                let keyspace = keyspace.clone().or_else(|| self.session.keyspace());
                let statements = Statements::parse(&text)?;
                steps.take(statements.parsed.steps)?;
                self.terms += statements.parsed.terms;
                check_batch_terms(self.terms, self.parts.len() + 1)?;
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
        let bound = values.into_resolved(&statements.parsed.markers)?;
        steps.take(1 + bound.len() as u64)?;
        self.parts.push(BatchPart { statements, keyspace, bound });
        Ok(())
    }
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
fn check_batch_terms(terms: usize, statements: usize) -> Result<(), CqlError> {
    if terms <= TERMS_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "the first {statements} statements of the batch have {terms} terms together, more than the \
         {TERMS_MAX} that are allowed; send them in several batches, or prepare them"
    )))
}
