//! What stands behind `IN`.

use carnet::{DataType, Value};

use super::operand::{Environment, Operand};
use crate::ast::InValues;
use crate::compile::Compiler;
use crate::exec::{Bound, CqlError};
use crate::parser::IN_VALUES_MAX;
use crate::result::ResultType;

/// The values behind `IN`.
#[derive(Clone, Debug)]
pub(crate) enum List {
    Each(Vec<Operand>),
    Marker { index: u16, data_type: DataType, what: String },
}

impl List {
    /// Returns the only value of a list that has one, which is as good as `=`; else the list.
    pub(super) fn into_only(self) -> Result<Operand, Self> {
        match self {
            Self::Each(mut operands) if operands.len() == 1 => {
                operands.pop().ok_or(Self::Each(operands))
            }
            list => Err(list),
        }
    }

    /// Evaluates to the values; none is null.
    pub(crate) fn values(&self, environment: &Environment<'_>) -> Result<Vec<Value>, CqlError> {
        match self {
            Self::Each(operands) => {
                operands.iter().map(|operand| operand.required(environment)).collect()
            }
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
                match environment.bound.get(usize::from(*index)) {
                    Some(Bound::Bytes(bytes)) => decode(bytes, *data_type, what),
                    Some(Bound::Null | Bound::Unset) => Err(CqlError::invalid(format!(
                        "{what}: the list behind IN is null or unset"
                    ))),
                    None => Err(CqlError::invalid(format!(
                        "{what}: no value was sent for its bind marker"
                    ))),
                }
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

/// Decodes a list as the native protocol serializes it: a count, then each item with its length,
/// which is −1 for null.
fn decode(bytes: &[u8], data_type: DataType, what: &str) -> Result<Vec<Option<Value>>, CqlError> {
    let wrong = |why: &str| CqlError::invalid(format!("{what}: {why}"));
    let mut rest = bytes;
    let mut take = |length: usize| -> Result<&[u8], CqlError> {
        let (taken, left) =
            rest.split_at_checked(length).ok_or_else(|| wrong("the list is cut short"))?;
        rest = left;
        Ok(taken)
    };
    let number =
        |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().expect("four bytes were taken"));
    let count = usize::try_from(number(take(4)?)).map_err(|_| wrong("the list has no length"))?;
    if count > IN_VALUES_MAX {
        return Err(wrong(&format!(
            "the list behind IN has {count} values, more than the {IN_VALUES_MAX} that are allowed"
        )));
    }
    let mut values = Vec::new();
    for _ in 0..count {
        let length = number(take(4)?);
        if length == -1 {
            values.push(None);
            continue;
        }
        let length =
            usize::try_from(length).map_err(|_| wrong("an item of the list has no length"))?;
        let value = data_type.deserialize(take(length)?);
        values.push(Some(value.map_err(|error| wrong(error.message()))?));
    }
    if rest.is_empty() { Ok(values) } else { Err(wrong("the list is longer than it says")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_decoded_whole_or_refused() {
        let list = [0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 9];
        let (seven, nine) = (Some(Value::Int(7)), Some(Value::Int(9)));
        assert_eq!(decode(&list, DataType::Int, "c").unwrap(), [seven, nine]);
        let null = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(decode(&null, DataType::Int, "c").unwrap(), [None]);
        assert!(decode(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe], DataType::Int, "c").is_err());
        for end in 0..list.len() {
            assert!(decode(&list[..end], DataType::Int, "c").is_err());
        }
        assert!(decode(&[list.as_slice(), &[0]].concat(), DataType::Int, "c").is_err());
        // A count that is a lie allocates nothing.
        assert!(decode(&[0x7f, 0xff, 0xff, 0xff], DataType::Int, "c").is_err());
        assert!(decode(&[0xff; 4], DataType::Int, "c").is_err());
    }
}
