//! Scalar functions.
//!
//! All are Cassandra's, by their names of version 5 and by the older ones (`maxTimeuuid`, `intAsBlob`). A function of
//! null is null, except `to_json`.

mod collection;
mod floor;
mod mask;
mod math;
mod vector;

use carnet::{DataType, Value};

use self::collection::CollectionFunction;
pub(super) use self::floor::other_types as floor_types;
pub(super) use self::mask::MaskFunction;
use self::math::MathFunction;
pub(crate) use self::vector::Similarity;
pub(super) use self::vector::{is_float_vector, is_zero};
use super::assignable::is_assignable;
use super::environment::Environment;
use super::times::{DAY_MILLIS, date, millis_of};
use crate::ast::FunctionCall;
use crate::cql_error::{CqlError, CqlErrorKind};
use crate::json;
use crate::shown::shown_value;
use crate::steps::Steps;
use crate::uuids::Uuids;

/// A scalar function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// A fresh version 1 UUID.
    Now,
    /// A fresh random UUID.
    Uuid,
    CurrentTimestamp,
    CurrentDate,
    CurrentTime,
    /// Timestamp of a timeuuid or a date.
    ToTimestamp,
    /// Date of a timeuuid or a timestamp.
    ToDate,
    /// Milliseconds since 1970 of a timeuuid, a timestamp or a date.
    ToUnixTimestamp,
    /// Least timeuuid of a timestamp.
    MinTimeuuid,
    /// Greatest timeuuid of a timestamp.
    MaxTimeuuid,
    /// JSON of any value.
    ToJson,
    /// Serialized bytes of a value of this type.
    AsBlob(DataType),
    /// Value of this type from its serialized bytes.
    BlobAs(DataType),
    Math(MathFunction),
    Collection(CollectionFunction),
    Similarity(Similarity),
    /// A masking function, and the type of its first argument.
    Mask(MaskFunction, DataType),
    /// Beginning of the interval of a time.
    Floor,
}

impl Function {
    pub(crate) fn find(call: &FunctionCall) -> Result<Self, CqlError> {
        let name = call.function.name.as_str();
        let keyspace = call.function.keyspace.as_ref().map(crate::ast::Name::as_str);
        if keyspace.is_some_and(|keyspace| keyspace != "system") {
            return Err(CqlError::unsupported("user-defined functions"));
        }
        Ok(match name {
            "now" | "currenttimeuuid" | "current_timeuuid" => Self::Now,
            "uuid" => Self::Uuid,
            "floor" => Self::Floor,
            "currenttimestamp" | "current_timestamp" => Self::CurrentTimestamp,
            "currentdate" | "current_date" => Self::CurrentDate,
            "currenttime" | "current_time" => Self::CurrentTime,
            "totimestamp" | "to_timestamp" | "dateof" => Self::ToTimestamp,
            "todate" | "to_date" => Self::ToDate,
            "tounixtimestamp" | "to_unix_timestamp" | "unixtimestampof" => Self::ToUnixTimestamp,
            "mintimeuuid" | "min_timeuuid" => Self::MinTimeuuid,
            "maxtimeuuid" | "max_timeuuid" => Self::MaxTimeuuid,
            "tojson" | "to_json" => Self::ToJson,
            "fromjson" | "from_json" => {
                return Err(CqlError::invalid(format!(
                    "{name}() cannot be used in the selection clause of a SELECT statement"
                )));
            }
            name => {
                let math = MathFunction::find(name).map(Self::Math);
                let collection = || CollectionFunction::find(name).map(Self::Collection);
                let similarity = || Similarity::find(name).map(Self::Similarity);
                let found = math.or_else(collection).or_else(similarity);
                let found = found.or_else(|| conversion(name));
                return found.ok_or_else(|| CqlError::unsupported(format!("function {name}")));
            }
        })
    }

    /// Returns the type of the result for arguments that [`Function::check`] accepts.
    pub(crate) fn returns(&self, arguments: &[DataType]) -> DataType {
        match self {
            Self::Now | Self::MinTimeuuid | Self::MaxTimeuuid => DataType::Timeuuid,
            Self::Uuid => DataType::Uuid,
            Self::CurrentTimestamp | Self::ToTimestamp => DataType::Timestamp,
            Self::CurrentDate | Self::ToDate => DataType::Date,
            Self::CurrentTime => DataType::Time,
            Self::ToUnixTimestamp => DataType::Bigint,
            Self::ToJson => DataType::Text,
            Self::AsBlob(_) => DataType::Blob,
            Self::BlobAs(data_type) => data_type.clone(),
            Self::Similarity(_) => DataType::Float,
            Self::Mask(function, data_type) => function.returns(data_type),
            Self::Floor => floor::returns(&arguments[0]),
            Self::Math(_) => arguments[0].clone(),
            Self::Collection(function) => function.returns(&arguments[0]),
        }
    }

    /// Returns the type of an argument that has no type of its own, such as a marker.
    pub(crate) fn argument_type(&self) -> Option<DataType> {
        match self {
            Self::ToTimestamp | Self::ToDate | Self::ToUnixTimestamp => Some(DataType::Timeuuid),
            Self::MinTimeuuid | Self::MaxTimeuuid => Some(DataType::Timestamp),
            Self::AsBlob(data_type) => Some(data_type.clone()),
            Self::BlobAs(_) => Some(DataType::Blob),
            _ => None,
        }
    }

    /// Returns the type of a constant as the argument, if of the types that the function takes one has
    /// such constants.
    pub(super) fn constant_type(&self, natural: &DataType) -> Option<DataType> {
        let is_time =
            matches!(natural, DataType::Text | DataType::Int | DataType::Bigint | DataType::Varint);
        match self {
            Self::ToDate if is_time => Some(DataType::Timestamp),
            Self::ToTimestamp if is_time => Some(DataType::Date),
            _ => None,
        }
    }

    /// Returns the parameter's type for an argument whose type does not follow from its use; `None` if it takes
    /// several types, of which none is chosen for this one.
    pub(super) fn parameter(&self, found: &DataType) -> Option<DataType> {
        match self {
            Self::ToDate | Self::ToUnixTimestamp => {
                (*found == DataType::Bigint).then_some(DataType::Timestamp)
            }
            // The bytes of an argument of another type stay as they are.
            Self::ToTimestamp | Self::AsBlob(_) => None,
            function => function.argument_type(),
        }
    }

    /// Returns `true` if arguments of several types are accepted, which follow from their terms.
    pub(super) const fn takes_several_types(&self) -> bool {
        matches!(self, Self::ToTimestamp | Self::ToDate | Self::ToUnixTimestamp)
    }

    const fn arity(&self) -> usize {
        match self {
            Self::Now
            | Self::Uuid
            | Self::CurrentTimestamp
            | Self::CurrentDate
            | Self::CurrentTime => 0,
            Self::Similarity(_) | Self::Floor => 2,
            _ => 1,
        }
    }

    /// Returns `true` if all arguments have one type.
    pub(super) const fn has_alike_arguments(&self) -> bool {
        matches!(self, Self::Similarity(_))
    }

    /// Returns `true` if an argument is not null for the function: the empty value is null for most.
    pub(super) const fn takes(&self, argument: &Value) -> bool {
        !matches!(argument, Value::Empty(_)) || matches!(self, Self::AsBlob(_) | Self::Mask(..))
    }

    /// Returns the masking function of a name.
    pub(super) fn find_mask(call: &FunctionCall) -> Option<MaskFunction> {
        MaskFunction::find(call.function.name.as_str())
    }

    /// Fails if the function, called by a name, does not take arguments of these types.
    pub(crate) fn check(&self, name: &str, arguments: &[DataType]) -> Result<(), CqlError> {
        // The first of its arguments has determined the others.
        if *self == Self::Floor && !arguments.is_empty() {
            return Ok(());
        }
        let wanted = self.arity();
        if arguments.len() != wanted {
            return Err(CqlError::invalid(format!(
                "Invalid number of arguments in call to function {name}: {wanted} required but {} \
                 provided",
                arguments.len()
            )));
        }
        let Some(argument) = arguments.first() else { return Ok(()) };
        let (is_accepted, accepted) = match self {
            Self::ToTimestamp | Self::ToDate | Self::ToUnixTimestamp => {
                let is_time =
                    matches!(argument, DataType::Timeuuid | DataType::Timestamp | DataType::Date);
                (is_time, "a timeuuid, a timestamp or a date".to_owned())
            }
            Self::MinTimeuuid | Self::MaxTimeuuid => {
                (*argument == DataType::Timestamp, "a timestamp".to_owned())
            }
            Self::AsBlob(data_type) => {
                (is_assignable(argument, data_type), format!("a value of {data_type}"))
            }
            Self::BlobAs(_) => (*argument == DataType::Blob, "a blob".to_owned()),
            Self::Math(function) => function.accepts(argument),
            Self::Collection(function) => function.accepts(argument),
            _ => return Ok(()),
        };
        if is_accepted {
            return Ok(());
        }
        Err(CqlError::invalid(format!(
            "Invalid call to function {name}: it takes {accepted}, not a value of {argument}"
        )))
    }

    pub(crate) fn call(
        &self,
        arguments: &[Option<Value>],
        environment: &Environment<'_>,
    ) -> Result<Option<Value>, CqlError> {
        let now = environment.now.millis();
        Ok(Some(match self {
            Self::Now => Value::Timeuuid(environment.uuids.time_based(environment.now)),
            Self::Uuid => Value::Uuid(environment.uuids.random()),
            Self::CurrentTimestamp => Value::Timestamp(now),
            Self::CurrentDate => date(now)?,
            Self::CurrentTime => Value::Time(now.rem_euclid(DAY_MILLIS) * 1_000_000),
            Self::ToJson => Value::Text(match arguments {
                [Some(argument)] => json::of_value(argument)?,
                _ => "null".to_owned(),
            }),
            Self::Mask(function, data_type) => return function.of(data_type, arguments),
            Self::Floor => {
                let [Some(time), Some(Value::Duration(duration)), start @ ..] = arguments else {
                    return Ok(None);
                };
                if start.contains(&None) {
                    return Ok(None);
                }
                floor::floor(time, *duration, start.first().and_then(Option::as_ref))?
            }
            Self::Similarity(similarity) => {
                let [Some(a), Some(b)] = arguments else { return Ok(None) };
                similarity.of_values(a, b)?
            }
            function => {
                let Some(Some(argument)) = arguments.first() else { return Ok(None) };
                return function.of(argument, environment.steps);
            }
        }))
    }

    /// Calculates a function of one argument.
    fn of(&self, argument: &Value, steps: &Steps<'_>) -> Result<Option<Value>, CqlError> {
        Ok(Some(match self {
            Self::ToTimestamp => Value::Timestamp(millis_of(argument)?),
            Self::ToDate => date(millis_of(argument)?)?,
            Self::MinTimeuuid => Value::Timeuuid(Uuids::least(millis_of(argument)?)),
            Self::MaxTimeuuid => Value::Timeuuid(Uuids::greatest(millis_of(argument)?)),
            Self::AsBlob(_) => Value::Blob(argument.serialize()),
            Self::BlobAs(data_type) => {
                let Value::Blob(bytes) = argument else { return Ok(None) };
                data_type.deserialize(bytes).map_err(|_| {
                    CqlError::invalid(format!(
                        "{} is not a valid binary representation for type {data_type}",
                        shown_value(argument)
                    ))
                })?
            }
            Self::Math(function) => function.of(argument)?,
            Self::Collection(function) => return function.of(argument, steps),
            _ => Value::Bigint(millis_of(argument)?),
        }))
    }
}

/// Returns the error of a function whose call failed.
pub(super) fn failed(name: &str, argument_types: &[DataType], why: &str) -> CqlError {
    let argument_types: Vec<String> = argument_types.iter().map(ToString::to_string).collect();
    let message =
        format!("execution of 'system.{name}[{}]' failed: {why}", argument_types.join(", "));
    let kind = CqlErrorKind::FunctionFailure {
        keyspace: "system".to_owned(),
        function: name.to_owned(),
        argument_types,
    };
    CqlError::new(kind, message)
}

/// Returns the conversion `type_as_blob` or `blob_as_type`, with or without underscores.
fn conversion(name: &str) -> Option<Function> {
    let name = name.replace('_', "");
    let scalar = |name: &str| DataType::from_name(name).filter(|found| *found != DataType::Blob);
    let as_blob = name.strip_suffix("asblob").and_then(scalar).map(Function::AsBlob);
    as_blob.or_else(|| name.strip_prefix("blobas").and_then(scalar).map(Function::BlobAs))
}
