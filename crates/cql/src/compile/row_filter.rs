//! Relations of a `WHERE` that are evaluated row by row, with their values evaluated once.
//!
//! A list after `IN` may have 10,000 values, and a scan may read millions of rows: values are
//! looked up by binary search.
//!
//! A column whose index folds texts has this meaning of equality in every `WHERE`, whether the entries
//! are read or not. Other relations, and an `IF`, compare the texts that are stored.

use std::cmp::Ordering;

use carnet::catalog::{IndexedPart, TableSchema};
use carnet::{DataType, Value};
use carnet_base::Bytes;
use carnet_data::Folding;
use carnet_data::key::{self, Order};

use super::environment::Environment;
use super::like::Pattern;
use super::operand::required;
use super::relation::{Filter, Resolved, Searched, holds_for, satisfies, stored};
use crate::ast::CompareOp;
use crate::cql_error::CqlError;

/// A relation with its values.
pub(crate) enum RowFilter {
    Compare(usize, CompareOp, Value),
    /// Position of a text, how it is folded, and the folded value that it has to equal.
    Folded(usize, Folding, Value),
    In(usize, ValueSet),
    CompareTuple(Vec<usize>, CompareOp, Vec<Value>),
    /// The tuples by their lengths, which may be less than the number of columns.
    InTuple(Vec<usize>, Vec<(usize, ValueSet)>),
    Contains(usize, Searched, Value),
    /// Position of a collection, its searched parts, how they are folded, and the folded value.
    ContainsFolded(usize, Searched, Folding, Value),
    /// Position of a map, a key, and what its value is compared with.
    Element(usize, Value, CompareOp, Value),
    Like(usize, Pattern),
}

/// A set of values, or of tuples of values.
pub(crate) enum ValueSet {
    /// Values encoded in the order of their types, sorted.
    Encoded(Vec<Bytes>),
    /// Values of types without such an encoding, or with one that takes no number of any length; sorted.
    Numbers(Vec<Value>),
}

impl ValueSet {
    fn new(mut values: Vec<Value>) -> Result<Self, CqlError> {
        if values.iter().all(|value| is_encoded(&value.data_type()))
            && let Ok(encoded) = Self::of_tuples(values.iter().map(std::slice::from_ref))
        {
            return Ok(encoded);
        }
        values.sort_by(Value::compare);
        Ok(Self::Numbers(values))
    }

    fn of_tuples<'v>(tuples: impl Iterator<Item = &'v [Value]>) -> Result<Self, CqlError> {
        let mut encoded = tuples.map(encode).collect::<Result<Vec<_>, _>>()?;
        encoded.sort_unstable();
        Ok(Self::Encoded(encoded))
    }

    fn contains(&self, values: &[Value]) -> Result<bool, CqlError> {
        Ok(match (self, values) {
            // The empty value has no encoding, and none of the set is one.
            (Self::Encoded(encoded), values) => {
                encode(values).is_ok_and(|values| encoded.binary_search(&values).is_ok())
            }
            (Self::Numbers(numbers), [value]) => {
                numbers.binary_search_by(|number| Value::compare(number, value)).is_ok()
            }
            (Self::Numbers(_), _) => false,
        })
    }
}

fn is_encoded(data_type: &DataType) -> bool {
    let is_number = matches!(data_type, DataType::Decimal | DataType::Varint);
    !is_number && data_type.is_key_type() && data_type.parts().into_iter().all(is_encoded)
}

fn encode(values: &[Value]) -> Result<Bytes, CqlError> {
    Ok(key::encode(values, &vec![Order::Asc; values.len()])?)
}

impl RowFilter {
    /// Evaluates the values of a relation.
    pub(crate) fn new(
        table: &TableSchema,
        filter: &Filter,
        environment: &Environment<'_>,
    ) -> Result<Self, CqlError> {
        Ok(match &filter.0 {
            Resolved::Compare(position, op, operand) => {
                let wanted = operand.compared(environment)?;
                match folding(table, *position, IndexedPart::Value) {
                    Some(folding) if *op == CompareOp::Equal => {
                        Self::Folded(*position, folding, folding.value(wanted))
                    }
                    _ => Self::Compare(*position, *op, wanted),
                }
            }
            Resolved::In(position, list) => {
                Self::In(*position, ValueSet::new(list.values(environment)?)?)
            }
            Resolved::CompareTuple(positions, op, operands) => {
                Self::CompareTuple(positions.clone(), *op, required(operands, environment)?)
            }
            Resolved::InTuple(positions, tuples) => {
                let tuples = tuples.values(environment)?;
                let of_length = |length: usize| {
                    let tuples = tuples.iter().filter(|tuple| tuple.len() == length);
                    let set = ValueSet::of_tuples(tuples.map(Vec::as_slice))?;
                    Ok((length, set))
                };
                let sets = (1..=positions.len()).map(of_length);
                Self::InTuple(positions.clone(), sets.collect::<Result<_, CqlError>>()?)
            }
            Resolved::Contains(position, searched, operand) => {
                let wanted = operand.required(environment)?;
                match folding(table, *position, searched.part()) {
                    Some(folding) => {
                        let wanted = folding.value(wanted);
                        Self::ContainsFolded(*position, *searched, folding, wanted)
                    }
                    None => Self::Contains(*position, *searched, wanted),
                }
            }
            Resolved::Element(position, at, op, operand) => {
                let at = at.required(environment)?;
                Self::Element(*position, at, *op, operand.compared(environment)?)
            }
            Resolved::Like(position, operand) => match operand.required(environment)? {
                Value::Text(pattern) | Value::Ascii(pattern) => {
                    Self::Like(*position, Pattern::parse(&pattern)?)
                }
                other => {
                    let found = other.data_type();
                    return Err(CqlError::invalid(format!("a pattern of type {found}")));
                }
            },
            Resolved::Token(..) | Resolved::Part(..) => {
                return Err(CqlError::unsupported("such a condition on each row"));
            }
        })
    }

    /// Returns `true` if a row satisfies it. Null in the row never does.
    pub(crate) fn holds(
        &self,
        table: &TableSchema,
        row: &[Option<Bytes>],
    ) -> Result<bool, CqlError> {
        Ok(match self {
            Self::Compare(position, op, wanted) => {
                holds_for(stored(table, row, *position)?.as_ref(), *op, Some(wanted))
            }
            Self::Folded(position, folding, wanted) => {
                let found = stored(table, row, *position)?;
                found.is_some_and(|found| folding.value(found).compare(wanted).is_eq())
            }
            Self::In(position, wanted) => match stored(table, row, *position)? {
                Some(found) => wanted.contains(std::slice::from_ref(&found))?,
                None => false,
            },
            Self::CompareTuple(positions, op, wanted) => {
                let Some(found) = tuple(table, row, positions)? else { return Ok(false) };
                let ordering =
                    found.iter().zip(wanted).map(|(found, wanted)| Value::compare(found, wanted));
                satisfies(ordering.fold(Ordering::Equal, Ordering::then), *op)
            }
            Self::InTuple(positions, sets) => {
                let Some(found) = tuple(table, row, positions)? else { return Ok(false) };
                for (length, wanted) in sets {
                    if wanted.contains(&found[..*length])? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::Contains(position, searched, wanted) => match stored(table, row, *position)? {
                Some(Value::Composite(found)) => searched.finds(&found, wanted),
                _ => false,
            },
            Self::ContainsFolded(position, searched, folding, wanted) => {
                let is_it = |part: &Value| folding.value(part.clone()).compare(wanted).is_eq();
                match stored(table, row, *position)? {
                    Some(Value::Composite(found)) => searched.parts(&found).any(is_it),
                    _ => false,
                }
            }
            Self::Like(position, pattern) => match stored(table, row, *position)? {
                Some(Value::Text(text) | Value::Ascii(text)) => pattern.matches(&text),
                _ => false,
            },
            Self::Element(position, at, op, wanted) => match stored(table, row, *position)? {
                Some(Value::Composite(found)) => holds_for(found.get(at), *op, Some(wanted)),
                _ => false,
            },
        })
    }
}

/// Returns how a part of a column is folded by its index; `None` if it is compared as it is stored.
fn folding(table: &TableSchema, position: usize, part: IndexedPart) -> Option<Folding> {
    let index = table.index_of(table.columns[position].id, part)?;
    Some(index.folding()).filter(|folding| !folding.is_none())
}

/// Returns a row's values of several columns; `None` if one is null.
fn tuple(
    table: &TableSchema,
    row: &[Option<Bytes>],
    positions: &[usize],
) -> Result<Option<Vec<Value>>, CqlError> {
    positions.iter().map(|position| stored(table, row, *position)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(data_type: &DataType, texts: &[&str]) -> ValueSet {
        ValueSet::new(texts.iter().map(|text| data_type.parse_text(text).unwrap()).collect())
            .unwrap()
    }

    #[test]
    fn equal_decimals_are_found() {
        let decimals = set(&DataType::Decimal, &["7", "1.50", "-3"]);
        let contains =
            |text: &str| decimals.contains(&[DataType::Decimal.parse_text(text).unwrap()]).unwrap();
        assert!(contains("1.5") && contains("-3.0") && !contains("1.51"));
        let texts = set(&DataType::Text, &["b", "", "a", "b"]);
        let contains = |text: &str| texts.contains(&[Value::Text(text.to_owned())]).unwrap();
        assert!(contains("") && contains("b") && !contains("c"));
        assert!(!set(&DataType::Int, &[]).contains(&[Value::Int(1)]).unwrap());
    }
}
