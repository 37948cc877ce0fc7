//! Arguments of the functions of similarity: two vectors of floats of one length.
//!
//! A marker, null or list has the type of the other argument. The messages are Cassandra's.

use carnet::DataType;

use super::compiler::Compiler;
use super::function::is_float_vector;
use super::operand::{Operand, fits, is_typed};
use crate::ast::{Literal, Term};
use crate::cql_error::CqlError;

impl Compiler<'_> {
    /// Compiles the arguments, of the type of the first one that has a type, or of a list of numbers if
    /// none has one.
    pub(super) fn similar_vectors(
        &mut self,
        name: &str,
        terms: &[Term],
        what: impl Fn(usize) -> String,
    ) -> Result<Vec<Operand>, CqlError> {
        let signature = format!("system.{name}(vector<float, n>, vector<float, n>)");
        if terms.len() != 2 {
            return Err(CqlError::invalid(format!(
                "Invalid number of arguments for function {signature}"
            )));
        }
        let mut found: Vec<Option<Operand>> = Vec::with_capacity(terms.len());
        for (place, term) in terms.iter().enumerate() {
            found.push(self.inferred(term, &what(place))?);
        }
        for (term, operand) in terms.iter().zip(&found) {
            if let Some(operand) = operand.as_ref().filter(|it| !is_float_vector(&it.data_type)) {
                return Err(CqlError::invalid(format!(
                    "Function system.{name} requires a float vector argument, but found argument \
                     {term} of type {}",
                    operand.data_type
                )));
            }
        }
        let shared = found.iter().flatten().map(|operand| operand.data_type.clone()).next();
        let Some(shared) = shared.or_else(|| vector_type(terms)) else {
            return Err(not_inferred(terms, &signature));
        };
        let mut arguments = Vec::with_capacity(terms.len());
        for (place, (term, found)) in terms.iter().zip(found).enumerate() {
            check_dimensions(term, found.as_ref(), &shared)?;
            arguments.push(match found {
                Some(operand) if !is_typed(term) => fits(operand, &shared, &what(place))?,
                Some(operand) => operand,
                None => self.operand(term, &shared, &what(place))?,
            });
        }
        Ok(arguments)
    }
}

fn not_inferred(terms: &[Term], signature: &str) -> CqlError {
    let argument = match terms.first() {
        Some(Term::Literal(Literal::Null)) => "NULL".to_owned(),
        Some(term) => term.to_string(),
        None => String::new(),
    };
    CqlError::invalid(format!(
        "Cannot infer type of argument {argument} in call to function {signature}: use type casts to \
         disambiguate"
    ))
}

fn check_dimensions(
    term: &Term,
    found: Option<&Operand>,
    shared: &DataType,
) -> Result<(), CqlError> {
    let DataType::Vector(vector) = shared else { return Ok(()) };
    let are_alike = match (found, term) {
        (Some(operand), _) => operand.data_type == *shared,
        (None, Term::List(elements)) => elements.len() == usize::from(vector.1),
        _ => true,
    };
    if are_alike {
        return Ok(());
    }
    Err(CqlError::invalid("All arguments must have the same vector dimensions"))
}

/// Returns the type of a vector with as many numbers as the first list.
fn vector_type(terms: &[Term]) -> Option<DataType> {
    let literal = terms.iter().find_map(|term| match term {
        Term::List(elements) => u16::try_from(elements.len()).ok().filter(|count| *count > 0),
        _ => None,
    });
    literal.map(|dimensions| DataType::vector(DataType::Float, dimensions))
}
