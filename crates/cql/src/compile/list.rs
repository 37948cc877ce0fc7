//! Values after `IN`, and values of tuples that are bound to one marker.

use carnet::{DataType, Value};

use super::compiler::Compiler;
use super::environment::Environment;
use super::items::{items, parts};
use super::operand::{Operand, required};
use crate::ast::InValues;
use crate::bound::Bound;
use crate::cql_error::CqlError;

/// The values after `IN`.
#[derive(Clone, Debug)]
pub(crate) enum List {
    Each(Vec<Operand>),
    Marker { index: u16, data_type: DataType, what: String },
}

/// The tuples after `(column, …) IN`.
#[derive(Clone, Debug)]
pub(super) enum Tuples {
    Each(Vec<Vec<Operand>>),
    Marker { index: u16, types: Vec<DataType>, what: String },
}

impl List {
    /// Returns the only value of a list of one, which is equivalent to `=`; otherwise the list.
    pub(super) fn into_only(self) -> Result<Operand, Self> {
        match self {
            Self::Each(mut operands) if operands.len() == 1 => {
                operands.pop().ok_or(Self::Each(operands))
            }
            list => Err(list),
        }
    }

    /// Returns the marker of the last value, if it is a marker.
    pub(super) fn last_marker(&self) -> Option<u16> {
        match self {
            Self::Each(operands) => operands.last()?.marker(),
            Self::Marker { .. } => None,
        }
    }

    /// Evaluates to the values; none is null.
    pub(crate) fn values(&self, environment: &Environment<'_>) -> Result<Vec<Value>, CqlError> {
        match self {
            Self::Each(operands) => required(operands, environment),
            Self::Marker { what, .. } => {
                let values = self.nullable_values(environment)?.into_iter();
                let null = || CqlError::invalid(format!("{what}: an item of the list is null"));
                values.map(|value| value.ok_or_else(null)).collect()
            }
        }
    }

    /// Evaluates to the values, of which some may be null.
    pub(crate) fn nullable_values(
        &self,
        environment: &Environment<'_>,
    ) -> Result<Vec<Option<Value>>, CqlError> {
        match self {
            Self::Each(operands) => {
                operands.iter().map(|operand| operand.value(environment)).collect()
            }
            Self::Marker { index, data_type, what } => {
                let items = items(bound_list(*index, what, environment)?, what)?;
                items.into_iter().map(|item| value(item, data_type, what)).collect()
            }
        }
    }
}

impl Tuples {
    /// Returns `true` if it has exactly one tuple, whatever values are bound.
    pub(super) const fn is_one(&self) -> bool {
        match self {
            Self::Each(tuples) => tuples.len() == 1,
            Self::Marker { .. } => false,
        }
    }

    /// Returns `true` if each tuple has this number of values.
    pub(super) fn are_of(&self, count: usize) -> bool {
        match self {
            Self::Each(tuples) => tuples.iter().all(|tuple| tuple.len() == count),
            Self::Marker { types, .. } => types.len() == count,
        }
    }

    /// Evaluates to the tuples; none of their values is null.
    pub(super) fn values(
        &self,
        environment: &Environment<'_>,
    ) -> Result<Vec<Vec<Value>>, CqlError> {
        match self {
            Self::Each(tuples) => tuples.iter().map(|tuple| required(tuple, environment)).collect(),
            Self::Marker { index, types, what } => {
                let null = || CqlError::invalid(format!("{what}: a value of a tuple is null"));
                let tuple = |item: Option<&[u8]>| -> Result<Vec<Value>, CqlError> {
                    let parts = parts(item.ok_or_else(null)?, types.len(), what)?;
                    let values = parts.into_iter().zip(types);
                    values.map(|(part, of)| value(part, of, what)?.ok_or_else(null)).collect()
                };
                let items = items(bound_list(*index, what, environment)?, what)?;
                items.into_iter().map(tuple).collect()
            }
        }
    }
}

impl Compiler<'_> {
    pub(super) fn list(
        &mut self,
        values: &InValues,
        data_type: &DataType,
        what: &str,
    ) -> Result<List, CqlError> {
        match values {
            InValues::List(terms) => {
                let each = terms.iter().map(|term| self.operand(term, data_type, what));
                Ok(List::Each(each.collect::<Result<_, _>>()?))
            }
            InValues::Marker(marker) => {
                let list = DataType::list(data_type.clone());
                self.type_marker(marker, &format!("in({what})"), list);
                let data_type = data_type.clone();
                Ok(List::Marker { index: marker.index, data_type, what: what.to_owned() })
            }
        }
    }
}

fn bound_list<'b>(
    index: u16,
    what: &str,
    environment: &Environment<'b>,
) -> Result<&'b [u8], CqlError> {
    match environment.bound.get(usize::from(index)) {
        Some(Bound::Bytes(bytes)) => Ok(bytes),
        Some(Bound::Null | Bound::Unset) => {
            Err(CqlError::invalid(format!("{what}: the list behind IN is null or unset")))
        }
        None => Err(CqlError::invalid(format!("{what}: no value was sent for its bind marker"))),
    }
}

fn value(item: Option<&[u8]>, data_type: &DataType, what: &str) -> Result<Option<Value>, CqlError> {
    let value = item.map(|bytes| data_type.deserialize(bytes)).transpose();
    value.map_err(|error| CqlError::invalid(format!("{what}: {}", error.message())))
}
