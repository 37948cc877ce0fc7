//! Constants of schema statements.

use carnet::{DataType, Value};

use super::compiler::Compiler;
use super::environment::Environment;
use crate::ast::Term;
use crate::cql_error::CqlError;
use crate::shown::shown;
use crate::timestamps::Timestamps;

/// Evaluates a term that must be a constant of a type.
///
/// # Errors
///
/// `Unsupported` for a term that is not constant; `Invalid` for null, and for a value of another type.
pub(crate) fn constant(
    term: &Term,
    data_type: &DataType,
    what: &str,
    environment: &Environment<'_>,
) -> Result<Value, CqlError> {
    if !is_constant(term) {
        let term = shown(term);
        return Err(CqlError::unsupported(format!("{term} in a schema; write a constant")));
    }
    let operand =
        Compiler::new(Timestamps::Refuse, environment.steps).operand(term, data_type, what)?;
    operand.required(environment)
}

fn is_constant(term: &Term) -> bool {
    match term {
        Term::Literal(_) => true,
        Term::Hint(_, inner) | Term::Negate(inner) => is_constant(inner),
        Term::List(items) | Term::Set(items) | Term::Tuple(items) => items.iter().all(is_constant),
        Term::Map(pairs) => pairs.iter().all(|(key, value)| is_constant(key) && is_constant(value)),
        Term::Fields(fields) => fields.iter().all(|(_, value)| is_constant(value)),
        _ => false,
    }
}
