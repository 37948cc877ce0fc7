//! Sums and products of terms.
//!
//! The type of `a op b` follows from the types of both, and a constant has its own type: the least of
//! `int`, `bigint` and `varint` that has it, or `double`. A value of a known type, such as the new one
//! of a column, is calculated in this type.

use carnet::DataType;

use super::compiler::Compiler;
use super::names::column_name;
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
        if !number::is_number(data_type) {
            return Err(CqlError::invalid(format!(
                "{what} is of type {data_type}, which has no negative"
            )));
        }
        // A product keeps the scale of a decimal, and makes -0.0 of 0.0.
        let minus_one = Term::Literal(Literal::Integer("-1".to_owned()));
        let first = self.operand(&minus_one, data_type, what)?;
        let operand = self.arithmetic_operand(term, data_type, what)?;
        let step =
            ArithmeticStep { op: ArithmeticOp::Multiply, operand, data_type: data_type.clone() };
        Ok(Operand::arithmetic(first, vec![step], data_type.clone(), what))
    }

    /// Compiles arithmetic whose operands determine its type.
    pub(super) fn untyped_arithmetic(
        &mut self,
        first: &Term,
        rest: &[(ArithmeticOp, Term)],
        what: &str,
    ) -> Result<Operand, CqlError> {
        let types = self.arithmetic_types(first, rest)?;
        let first = self.operand_of(first, &types[0].0, what)?;
        let mut steps = Vec::with_capacity(rest.len());
        for ((op, term), (right, result)) in rest.iter().zip(&types[1..]) {
            let operand = self.operand_of(term, right, what)?;
            steps.push(ArithmeticStep { op: *op, operand, data_type: result.clone() });
        }
        let data_type = types.last().map_or(DataType::Int, |(_, result)| result.clone());
        Ok(Operand::arithmetic(first, steps, data_type, what))
    }

    /// Compiles an operand of a type that was inferred from it, or from its neighbour.
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

    pub(super) fn arithmetic_type(
        &mut self,
        first: &Term,
        rest: &[(ArithmeticOp, Term)],
    ) -> Result<Option<DataType>, CqlError> {
        let types = self.arithmetic_types(first, rest)?;
        Ok(types.last().map(|(_, result)| result.clone()))
    }

    /// Returns for each operand its type, and the type of the result up to it. A marker, and null, have
    /// the type of their neighbour.
    fn arithmetic_types(
        &mut self,
        first: &Term,
        rest: &[(ArithmeticOp, Term)],
    ) -> Result<Vec<(DataType, DataType)>, CqlError> {
        let mut left = self.type_of(first)?;
        let mut types: Vec<(DataType, DataType)> = Vec::with_capacity(rest.len() + 1);
        for (place, (op, term)) in rest.iter().enumerate() {
            let right = self.type_of(term)?;
            let Some(known) = left.clone().or_else(|| right.clone()) else {
                return Err(CqlError::invalid(format!(
                    "Ambiguous '{}' operation with args {} and {}: use type hint to disambiguate, \
                     example '(int) ?'",
                    op.symbol(),
                    column_name(first),
                    column_name(term)
                )));
            };
            let before = left.unwrap_or_else(|| known.clone());
            let neighbour = if is_temporal(&known) { DataType::Duration } else { known };
            let right = right.unwrap_or(neighbour);
            let Some(result) = number::result_type(&before, *op, &right) else {
                let shown = match rest.get(..place) {
                    Some([]) | None => column_name(first),
                    Some(some) => column_name(&Term::Arithmetic {
                        first: Box::new(first.clone()),
                        rest: some.to_vec(),
                    }),
                };
                return Err(CqlError::invalid(format!(
                    "the '{}' operation is not supported between {shown} and {}",
                    op.symbol(),
                    column_name(term)
                )));
            };
            if types.is_empty() {
                types.push((before.clone(), before));
            }
            types.push((right, result.clone()));
            left = Some(result);
        }
        Ok(types)
    }
}
