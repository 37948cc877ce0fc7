//! Values after `IN`, and values of tuples that are bound to one marker.

use carnet::{DataType, Value};

use super::operand::{Environment, Operand, required};
use crate::ast::InValues;
use crate::compile::Compiler;
use crate::exec::{Bound, CqlError};
use crate::parser::IN_VALUES_MAX;
use crate::result::ResultType;

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
                items.into_iter().map(|item| value(item, *data_type, what)).collect()
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
                    values.map(|(part, of)| value(part, *of, what)?.ok_or_else(null)).collect()
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
        data_type: DataType,
        what: &str,
    ) -> Result<List, CqlError> {
        match values {
            InValues::List(terms) => {
                let each = terms.iter().map(|term| self.operand(term, data_type, what));
                Ok(List::Each(each.collect::<Result<_, _>>()?))
            }
            InValues::Marker(marker) => {
                let list = ResultType::List(Box::new(data_type.into()));
                self.type_marker(marker, &format!("in({what})"), list);
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

fn value(item: Option<&[u8]>, data_type: DataType, what: &str) -> Result<Option<Value>, CqlError> {
    let value = item.map(|bytes| data_type.deserialize(bytes)).transpose();
    value.map_err(|error| CqlError::invalid(format!("{what}: {}", error.message())))
}

/// Splits a list in the native protocol's serialization: a count, then each item with its length,
/// which is −1 for null.
fn items<'b>(bytes: &'b [u8], what: &str) -> Result<Vec<Option<&'b [u8]>>, CqlError> {
    let mut rest = Rest { bytes, what };
    let count = rest.number()?;
    let count = usize::try_from(count).map_err(|_| rest.wrong("the list has no length"))?;
    if count > IN_VALUES_MAX {
        return Err(rest.wrong(&format!(
            "the list behind IN has {count} values, more than the {IN_VALUES_MAX} that are allowed"
        )));
    }
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(rest.item()?);
    }
    rest.end()?;
    Ok(items)
}

/// Splits a tuple in the native protocol's serialization: each value with its length. Omitted
/// values at its end are null.
pub(super) fn parts<'b>(
    bytes: &'b [u8],
    count: usize,
    what: &str,
) -> Result<Vec<Option<&'b [u8]>>, CqlError> {
    let mut rest = Rest { bytes, what };
    let mut parts = Vec::new();
    for _ in 0..count {
        parts.push(if rest.bytes.is_empty() { None } else { rest.item()? });
    }
    rest.end()?;
    Ok(parts)
}

/// Unread bytes of a list or tuple.
struct Rest<'b, 'w> {
    bytes: &'b [u8],
    what: &'w str,
}

impl<'b> Rest<'b, '_> {
    fn wrong(&self, why: &str) -> CqlError {
        CqlError::invalid(format!("{}: {why}", self.what))
    }

    fn number(&mut self) -> Result<i32, CqlError> {
        let (word, rest) =
            self.bytes.split_first_chunk().ok_or_else(|| self.wrong("the value is cut short"))?;
        self.bytes = rest;
        Ok(i32::from_be_bytes(*word))
    }

    fn item(&mut self) -> Result<Option<&'b [u8]>, CqlError> {
        let length = self.number()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length)
            .map_err(|_| self.wrong("an item of the value has no length"))?;
        let (item, rest) = self
            .bytes
            .split_at_checked(length)
            .ok_or_else(|| self.wrong("the value is cut short"))?;
        self.bytes = rest;
        Ok(Some(item))
    }

    fn end(&self) -> Result<(), CqlError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(self.wrong("the value is too long")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_lists_are_refused() {
        let list = [0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 9];
        let (seven, nine): ([u8; 4], [u8; 4]) = ([0, 0, 0, 7], [0, 0, 0, 9]);
        assert_eq!(items(&list, "c").unwrap(), [Some(&seven[..]), Some(&nine[..])]);
        for end in 0..list.len() {
            assert!(items(&list[..end], "c").is_err());
        }
        assert!(items(&[list.as_slice(), &[0]].concat(), "c").is_err());
        assert_eq!(items(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff], "c").unwrap(), [None]);
        assert!(items(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe], "c").is_err());
        // A false count allocates nothing.
        assert!(items(&[0x7f, 0xff, 0xff, 0xff], "c").is_err());
        assert!(items(&[0xff; 4], "c").is_err());
    }

    #[test]
    fn omitted_tuple_values_are_null() {
        let tuple = [0, 0, 0, 1, 7];
        assert_eq!(parts(&tuple, 2, "c").unwrap(), [Some(&[7][..]), None]);
        assert_eq!(parts(&tuple, 1, "c").unwrap(), [Some(&[7][..])]);
        assert!(parts(&tuple, 0, "c").is_err());
        assert!(parts(&tuple[..4], 1, "c").is_err());
    }
}
