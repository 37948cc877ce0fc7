//! Dates, timestamps and timeuuids as milliseconds since 1970.

use carnet::Value;

use crate::cql_error::CqlError;
use crate::uuids::Uuids;

/// Milliseconds of a day.
pub(super) const DAY_MILLIS: i64 = 86_400_000;
/// Number of the day 1970-01-01.
const EPOCH_DAY: i64 = 1 << 31;

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
