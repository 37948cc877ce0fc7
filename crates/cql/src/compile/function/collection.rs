//! Functions of collections.

use carnet::{DataType, Value};
use carnet_data::Composite;

use super::super::decimal::{Decimal, NUMBER_BITS_MAX};
use super::super::number;
use crate::ast::ArithmeticOp;
use crate::cql_error::CqlError;
use crate::steps::Steps;

/// A function of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectionFunction {
    /// Set of the keys of a map.
    MapKeys,
    /// List of the values of a map, in the order of its keys.
    MapValues,
    /// Number of elements.
    Count,
    /// Least element of a list or set.
    Min,
    /// Greatest element of a list or set.
    Max,
    /// Sum of the elements of a list or set of numbers, in their type.
    Sum,
    /// Average of the elements of a list or set of numbers, in their type.
    Avg,
}

impl CollectionFunction {
    pub(super) fn find(name: &str) -> Option<Self> {
        Some(match name {
            "map_keys" => Self::MapKeys,
            "map_values" => Self::MapValues,
            "collection_count" => Self::Count,
            "collection_min" => Self::Min,
            "collection_max" => Self::Max,
            "collection_sum" => Self::Sum,
            "collection_avg" => Self::Avg,
            _ => return None,
        })
    }

    /// Returns `true` if the function takes a type, and the types that it takes.
    pub(super) fn accepts(self, data_type: &DataType) -> (bool, String) {
        let is_map = matches!(data_type, DataType::Map(_));
        let element = element_of(data_type);
        let (is_accepted, accepted) = match self {
            Self::MapKeys | Self::MapValues => (is_map, "a map"),
            Self::Count => (is_map || element.is_some(), "a collection"),
            Self::Min | Self::Max => (element.is_some(), "a list or set"),
            Self::Sum | Self::Avg => {
                (element.is_some_and(number::is_number), "a list or set of numbers")
            }
        };
        (is_accepted, accepted.to_owned())
    }

    pub(super) fn returns(self, argument: &DataType) -> DataType {
        match (self, argument) {
            (Self::MapKeys, DataType::Map(pair)) => DataType::set(pair.0.clone()),
            (Self::MapValues, DataType::Map(pair)) => DataType::list(pair.1.clone()),
            (Self::Count, _) => DataType::Int,
            (_, argument) => element_of(argument).cloned().unwrap_or(DataType::Int),
        }
    }

    /// Calculates the function; `None` is null.
    pub(super) fn of(
        self,
        collection: &Value,
        steps: &Steps<'_>,
    ) -> Result<Option<Value>, CqlError> {
        let Value::Composite(collection) = collection else { return Ok(None) };
        let parts = collection.parts();
        let of_map = |place: usize| {
            let parts = parts.iter().skip(place).step_by(2).cloned().collect();
            Composite::new(self.returns(collection.data_type()), parts).map(Value::Composite)
        };
        let values = || parts.iter().flatten();
        steps.take(parts.len() as u64)?;
        Ok(match self {
            Self::MapKeys => Some(of_map(0)?),
            Self::MapValues => Some(of_map(1)?),
            Self::Count => {
                let count = parts.len() / collection.parts_per_item();
                Some(Value::Int(i32::try_from(count).unwrap_or(i32::MAX)))
            }
            Self::Min => values().min_by(|a, b| a.compare(b)).cloned(),
            Self::Max => values().max_by(|a, b| a.compare(b)).cloned(),
            Self::Sum => Some(sum(collection, steps)?),
            Self::Avg if numbers(collection).next().is_none() => Some(sum(collection, steps)?),
            Self::Avg if element_of(collection.data_type()) == Some(&DataType::Decimal) => {
                let numbers = values().filter_map(Decimal::of).zip(1..);
                let average =
                    numbers.into_iter().try_fold(Decimal::ZERO, |average, (next, count)| {
                        steps.take(number::steps_of_sum(&average, &next))?;
                        average.average_with(&next, count).map_err(|_| too_different())
                    });
                Some(average?.into())
            }
            Self::Avg => {
                let (sum, data_type) =
                    (sum(collection, steps)?, self.returns(collection.data_type()));
                let count = data_type.parse_text(&numbers(collection).count().to_string())?;
                Some(number::calculate(&sum, ArithmeticOp::Divide, &count)?)
            }
        })
    }
}

fn too_different() -> CqlError {
    CqlError::invalid(format!(
        "the decimals of a collection differ too much in their scales, or have more than \
         {NUMBER_BITS_MAX} bits together"
    ))
}

fn element_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(element) | DataType::Set(element) => Some(element),
        _ => None,
    }
}

/// Returns the elements without empty values.
fn numbers(collection: &Composite) -> impl Iterator<Item = &Value> {
    collection.parts().iter().flatten().filter(|part| !matches!(part, Value::Empty(_)))
}

fn sum(collection: &Composite, steps: &Steps<'_>) -> Result<Value, CqlError> {
    let element = element_of(collection.data_type()).unwrap_or(&DataType::Int);
    let zero = element.parse_text("0")?;
    numbers(collection).try_fold(zero, |sum, part| {
        steps.take(number::steps(&sum, part))?;
        number::calculate(&sum, ArithmeticOp::Add, part)
    })
}
