//! Statements about transactions that stay open.

use carnet::{DataType, Timestamp, Uuid, Value};

use super::compiler::Compiler;
use super::environment::Environment;
use super::number::is_number;
use super::operand::Operand;
use crate::ast::{OpenStatement, Term};
use crate::cql_error::CqlError;

/// Compiled statement about transactions that stay open.
pub(crate) struct OpenPlan {
    id: Option<Operand>,
    /// Transactions that a statement names.
    ids: Vec<Operand>,
}

/// Name of a transaction in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedTransaction {
    /// By its id.
    Id(Uuid),
    /// By its start timestamp.
    Start(Timestamp),
}

impl OpenPlan {
    /// Returns the transaction that the statement names.
    pub(crate) fn named(
        &self,
        environment: &Environment<'_>,
    ) -> Result<Option<NamedTransaction>, CqlError> {
        self.id.as_ref().map(|id| name_of(id, environment)).transpose()
    }

    /// Returns the transactions if the statement names several.
    pub(crate) fn all_named(
        &self,
        environment: &Environment<'_>,
    ) -> Result<Vec<NamedTransaction>, CqlError> {
        self.ids.iter().map(|id| name_of(id, environment)).collect()
    }
}

fn name_of(id: &Operand, environment: &Environment<'_>) -> Result<NamedTransaction, CqlError> {
    let wrong = || CqlError::invalid("the value is not a transaction's start timestamp");
    match id.required(environment)? {
        Value::Uuid(id) => Ok(NamedTransaction::Id(id)),
        Value::Bigint(start) => {
            let start = u64::try_from(start).ok().and_then(Timestamp::new);
            Ok(NamedTransaction::Start(start.ok_or_else(wrong)?))
        }
        _ => Err(wrong()),
    }
}

impl Compiler<'_> {
    /// Compiles a statement about transactions that stay open.
    pub(crate) fn open_statement(
        &mut self,
        statement: &OpenStatement,
    ) -> Result<OpenPlan, CqlError> {
        let as_of = match statement {
            OpenStatement::Start(start) => start.as_of.as_ref(),
            _ => None,
        };
        if let Some(term) = as_of {
            // For the type of its marker.
            self.as_of(term)?;
        }
        let mut ids = Vec::new();
        let id = match statement {
            OpenStatement::Outcome(id) | OpenStatement::Kill(id) => {
                let data_type = self.id_type(id)?;
                Some(self.operand(id, &data_type, "transaction")?)
            }
            OpenStatement::Outcomes(terms) => {
                for term in terms {
                    let data_type = self.id_type(term)?;
                    ids.push(self.operand(term, &data_type, "outcome")?);
                }
                None
            }
            other => {
                let id = other.id().map(|id| self.operand(id, &DataType::Uuid, "transaction"));
                id.transpose()?
            }
        };
        Ok(OpenPlan { id, ids })
    }

    /// Returns the type of the name of a transaction: a marker is an id.
    fn id_type(&mut self, term: &Term) -> Result<DataType, CqlError> {
        Ok(match self.type_of(term)? {
            Some(data_type) if is_number(&data_type) => DataType::Bigint,
            _ => DataType::Uuid,
        })
    }
}
