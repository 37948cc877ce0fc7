//! Sums and products of terms.
//!
//! The type of `a op b` follows from the types of both, and a constant has its own type: the least of
//! `int`, `bigint` and `varint` that has it, or `double`. A value of a known type, such as the new one
//! of a column, is calculated in this type.

use carnet::DataType;

use super::compiler::Compiler;
use super::names::shown_name;
use super::number;
use super::operand::{ArithmeticStep, Operand, fits};
use super::temporal::is_temporal;
use crate::ast::{ArithmeticOp, Literal, Term};
use crate::cql_error::CqlError;

impl Compiler<'_> {
    /// Compiles arithmetic whose result is of a known type.
    pub(super) fn arithmetic(
        &mut self,
        first: &Term,
        rest: &[(ArithmeticOp, Term)],
        data_type: &DataType,
        what: &str,
    ) -> Result<Operand, CqlError> {
        let is_sum = rest.iter().all(|(op, _)| op.is_sum());
        let is_join = rest.iter().all(|(op, _)| *op == ArithmeticOp::Add);
        let is_text = matches!(data_type, DataType::Text | DataType::Ascii);
        let right_type = match data_type {
            number if number::is_number(number) => number,
            time if is_temporal(time) && is_sum => &DataType::Duration,
            text if is_text && is_join => text,
            _ => {
                return Err(CqlError::invalid(format!(
                    "{what} is of type {data_type}, which cannot be calculated with"
                )));
            }
        };
        let first = self.arithmetic_operand(first, data_type, what)?;
        let step = |(op, term): &(ArithmeticOp, Term)| {
            let operand = self.arithmetic_operand(term, right_type, what)?;
            Ok(ArithmeticStep { op: *op, operand, data_type: data_type.clone() })
        };
        let rest = rest.iter().map(step).collect::<Result<_, CqlError>>()?;
        Ok(Operand::arithmetic(first, rest, data_type.clone(), what))
    }

    fn arithmetic_operand(
        &mut self,
        term: &Term,
        data_type: &DataType,
        what: &str,
    ) -> Result<Operand, CqlError> {
        match term {
            // Other numeric types are converted in calculations.
            Term::Reference(reference) => {
                let found = self.reference(reference)?;
                let are_numbers =
                    number::is_number(&found.data_type) && number::is_number(data_type);
                if are_numbers { Ok(found) } else { fits(found, data_type, what) }
            }
            term => self.operand(term, data_type, what),
        }
    }

    /// Compiles the negative of a term.
    pub(super) fn negation(
        &mut self,
        term: &Term,
        data_type: &DataType,
        what: &str,
    ) -> Result<Operand, CqlError> {
        check_negative(data_type, what)?;
        let operand = self.arithmetic_operand(term, data_type, what)?;
        self.minus(operand, data_type, what)
    }

    /// Returns the negative of a compiled term.
    pub(super) fn negative(&mut self, operand: Operand, what: &str) -> Result<Operand, CqlError> {
        let data_type = operand.data_type.clone();
        check_negative(&data_type, what)?;
        self.minus(operand, &data_type, what)
    }

    fn minus(
        &mut self,
        operand: Operand,
        data_type: &DataType,
        what: &str,
    ) -> Result<Operand, CqlError> {
        // A product keeps the scale of a decimal, and makes -0.0 of 0.0.
        let minus_one = Term::Literal(Literal::Integer("-1".to_owned()));
        let first = self.operand(&minus_one, data_type, what)?;
        let step =
            ArithmeticStep { op: ArithmeticOp::Multiply, operand, data_type: data_type.clone() };
        Ok(Operand::arithmetic(first, vec![step], data_type.clone(), what))
    }

    /// Compiles arithmetic whose operands determine its type. A marker, and null, have the type of
    /// their neighbour.
    pub(super) fn untyped_arithmetic(
        &mut self,
        first: &Term,
        rest: &[(ArithmeticOp, Term)],
        what: &str,
    ) -> Result<Operand, CqlError> {
        let mut left = Left::First(self.inferred(first, what)?);
        let mut steps = Vec::with_capacity(rest.len());
        for (place, (op, term)) in rest.iter().enumerate() {
            let right = self.inferred(term, what)?;
            let known = left.data_type().or(right.as_ref().map(|right| &right.data_type));
            let Some(known) = known.cloned() else {
                return Err(ambiguous(*op, first, term));
            };
            let (before, head) = match left {
                Left::First(Some(operand)) => (operand.data_type.clone(), operand),
                Left::First(None) => (known.clone(), self.operand_of(first, &known, what)?),
                Left::Result(data_type, operand) => (data_type, operand),
            };
            let right = match right {
                Some(operand) => operand,
                None => {
                    let neighbour = if is_temporal(&known) { DataType::Duration } else { known };
                    self.operand_of(term, &neighbour, what)?
                }
            };
            let result = number::result_type(&before, *op, &right.data_type);
            let result = result.ok_or_else(|| unsupported(*op, first, &rest[..place], term))?;
            steps.push(ArithmeticStep { op: *op, operand: right, data_type: result.clone() });
            left = Left::Result(result, head);
        }
        match left {
            Left::Result(data_type, first) => {
                Ok(Operand::arithmetic(first, steps, data_type, what))
            }
            Left::First(_) => self.untyped_operand(first, what),
        }
    }

    /// Compiles an operand that has the type of its neighbour.
    fn operand_of(
        &mut self,
        term: &Term,
        data_type: &DataType,
        what: &str,
    ) -> Result<Operand, CqlError> {
        match term {
            Term::Literal(_) | Term::Marker(_) => self.operand(term, data_type, what),
            term => self.untyped_operand(term, what),
        }
    }
}

/// Operands to the left of an operator.
enum Left {
    /// The first operand; `None` if it has no type of its own.
    First(Option<Operand>),
    /// Type of the result so far, and the first operand.
    Result(DataType, Operand),
}

impl Left {
    const fn data_type(&self) -> Option<&DataType> {
        match self {
            Self::First(Some(operand)) => Some(&operand.data_type),
            Self::First(None) => None,
            Self::Result(data_type, _) => Some(data_type),
        }
    }
}

fn check_negative(data_type: &DataType, what: &str) -> Result<(), CqlError> {
    if number::is_number(data_type) {
        return Ok(());
    }
    Err(CqlError::invalid(format!("{what} is of type {data_type}, which has no negative")))
}

fn ambiguous(op: ArithmeticOp, first: &Term, term: &Term) -> CqlError {
    CqlError::invalid(format!(
        "Ambiguous '{}' operation with args {} and {}: use type hint to disambiguate, example \
         '(int) ?'",
        op.symbol(),
        shown_name(first),
        shown_name(term)
    ))
}

/// Returns the error of an operator that the types before and after it do not have.
fn unsupported(
    op: ArithmeticOp,
    first: &Term,
    before: &[(ArithmeticOp, Term)],
    term: &Term,
) -> CqlError {
    let left = if before.is_empty() {
        shown_name(first)
    } else {
        shown_name(&Term::Arithmetic { first: Box::new(first.clone()), rest: before.to_vec() })
    };
    CqlError::invalid(format!(
        "the '{}' operation is not supported between {left} and {}",
        op.symbol(),
        shown_name(term)
    ))
}
