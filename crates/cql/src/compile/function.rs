//! Scalar functions.

use carnet::{DataType, Value};

use super::environment::Environment;
use crate::ast::FunctionCall;
use crate::cql_error::CqlError;
use crate::json;
use crate::uuids::Uuids;

/// A scalar function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// JSON of any value.
    ToJson,
}

const DAY_MILLIS: i64 = 86_400_000;
/// Number of the day 1970-01-01.
const EPOCH_DAY: i64 = 1 << 31;

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
            "currenttimestamp" | "current_timestamp" => Self::CurrentTimestamp,
            "currentdate" | "current_date" => Self::CurrentDate,
            "currenttime" | "current_time" => Self::CurrentTime,
            "totimestamp" | "to_timestamp" | "dateof" => Self::ToTimestamp,
            "todate" | "to_date" => Self::ToDate,
            "tounixtimestamp" | "to_unix_timestamp" | "unixtimestampof" => Self::ToUnixTimestamp,
            "tojson" | "to_json" => Self::ToJson,
            _ => return Err(CqlError::unsupported(format!("function {name}"))),
        })
    }

    /// Returns the type of a call's result, if it does not depend on its arguments.
    pub(crate) fn result_type(call: &FunctionCall) -> Result<Option<DataType>, CqlError> {
        Self::find(call).map(|function| Some(function.returns()))
    }

    pub(crate) const fn returns(self) -> DataType {
        match self {
            Self::Now => DataType::Timeuuid,
            Self::Uuid => DataType::Uuid,
            Self::CurrentTimestamp | Self::ToTimestamp => DataType::Timestamp,
            Self::CurrentDate | Self::ToDate => DataType::Date,
            Self::CurrentTime => DataType::Time,
            Self::ToUnixTimestamp => DataType::Bigint,
            Self::ToJson => DataType::Text,
        }
    }

    /// Returns the type of an argument that has no type of its own, such as a marker.
    pub(crate) const fn argument_type(self) -> Option<DataType> {
        match self {
            Self::ToTimestamp | Self::ToDate | Self::ToUnixTimestamp => Some(DataType::Timeuuid),
            _ => None,
        }
    }

    pub(crate) fn check(self, arguments: &[DataType]) -> Result<(), CqlError> {
        let wanted = usize::from(self == Self::ToJson || self.argument_type().is_some());
        if arguments.len() != wanted {
            return Err(CqlError::invalid(format!(
                "{self:?} takes {wanted} arguments, not {}",
                arguments.len()
            )));
        }
        if self == Self::ToJson {
            return Ok(());
        }
        let accepted = arguments.iter().all(|argument| {
            matches!(argument, DataType::Timeuuid | DataType::Timestamp | DataType::Date)
        });
        if accepted {
            return Ok(());
        }
        Err(CqlError::invalid(format!("{self:?} takes a timeuuid, a timestamp or a date")))
    }

    pub(crate) fn call(
        self,
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
            Self::ToTimestamp | Self::ToDate | Self::ToUnixTimestamp => {
                let Some(Some(argument)) = arguments.first() else { return Ok(None) };
                let millis = millis_of(argument)?;
                match self {
                    Self::ToTimestamp => Value::Timestamp(millis),
                    Self::ToDate => date(millis)?,
                    _ => Value::Bigint(millis),
                }
            }
        }))
    }
}

pub(super) fn millis_of(value: &Value) -> Result<i64, CqlError> {
    match value {
        Value::Timestamp(millis) => Ok(*millis),
        Value::Date(day) => Ok((i64::from(*day) - EPOCH_DAY) * DAY_MILLIS),
        Value::Timeuuid(uuid) => Ok(Uuids::millis(*uuid)),
        other => {
            Err(CqlError::invalid(format!("a value of type {} has no time", other.data_type())))
        }
    }
}

pub(super) fn date(millis: i64) -> Result<Value, CqlError> {
    u32::try_from(millis.div_euclid(DAY_MILLIS) + EPOCH_DAY)
        .map(Value::Date)
        .map_err(|_| CqlError::invalid("the time lies outside of the range of dates"))
}
