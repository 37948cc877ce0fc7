//! Counters: columns that statements only add to.
//!
//! Additions commute, and many clients add to one counter without a conflict. A statement that sets a
//! counter, or that decides by its value, would not commute: as in Cassandra, there is none.

use carnet::{DataType, Value};

use super::compiler::Compiler;
use super::environment::Environment;
use super::evaluated::Evaluated;
use super::operand::Operand;
use crate::ast::{ArithmeticOp, Attribute, Term, Write};
use crate::cql_error::CqlError;

/// Amount that a statement adds to a counter, or subtracts from it.
#[derive(Clone, Debug)]
pub(crate) struct Addition {
    operand: Operand,
    subtracts: bool,
}

impl Addition {
    /// Returns the amount; `None` if it was left unset.
    pub(crate) fn amount(&self, environment: &Environment<'_>) -> Result<Option<i64>, CqlError> {
        if self.operand.evaluate(environment)? == Evaluated::Unset {
            return Ok(None);
        }
        match self.operand.value(environment)? {
            Some(Value::Counter(amount)) if self.subtracts => {
                amount.checked_neg().map(Some).ok_or_else(|| {
                    CqlError::invalid(format!(
                        "The negation of {amount} overflows supported counter precision (signed 8 \
                         bytes integer)"
                    ))
                })
            }
            Some(Value::Counter(amount)) => Ok(Some(amount)),
            _ => Err(CqlError::invalid("Invalid null value for counter increment")),
        }
    }
}

impl Compiler<'_> {
    /// Compiles `column + amount` or `column - amount`, the new value of a counter.
    pub(super) fn addition(&mut self, term: &Term, column: &str) -> Result<Addition, CqlError> {
        let is_column = |term: &Term| {
            matches!(term, Term::Reference(reference)
                if reference.field.is_none() && reference.name.as_str() == column)
        };
        let (op, amount) = match term {
            Term::Arithmetic { first, rest } if is_column(first) => match rest.as_slice() {
                [(op @ (ArithmeticOp::Add | ArithmeticOp::Subtract), amount)] => (*op, amount),
                _ => return Err(not_an_addition(column)),
            },
            _ => return Err(not_an_addition(column)),
        };
        let operand = self.operand(amount, &DataType::Counter, column)?;
        Ok(Addition { operand, subtracts: op == ArithmeticOp::Subtract })
    }
}

fn not_an_addition(column: &str) -> CqlError {
    CqlError::invalid(format!(
        "Cannot set the value of counter column {column} (counters can only be \
         incremented/decremented, not set)"
    ))
}

/// Refuses statements that a table of counters does not take.
pub(super) fn check(write: &Write) -> Result<(), CqlError> {
    if matches!(write, Write::Insert(_)) {
        return Err(CqlError::invalid(
            "INSERT statements are not allowed on counter tables, use UPDATE instead",
        ));
    }
    if write.is_conditional() {
        return Err(CqlError::invalid("Conditional updates are not supported on counter tables"));
    }
    let is_given = |attribute| write.using().get(attribute).is_some();
    if matches!(write, Write::Update(_)) && is_given(Attribute::Timestamp) {
        return Err(CqlError::invalid("Cannot provide custom timestamp for counter updates"));
    }
    if is_given(Attribute::Ttl) {
        return Err(CqlError::invalid("Cannot provide custom TTL for counter updates"));
    }
    Ok(())
}
