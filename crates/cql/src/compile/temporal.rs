//! `date` and `timestamp` plus or minus a `duration`.
//!
//! Months move the date within the calendar, and its day becomes the last of a shorter month; then come
//! days and nanoseconds.

use carnet::{DataType, Value};
use carnet_data::CqlDuration;

use super::times::{date, millis_of};
use crate::ast::ArithmeticOp;

/// Returns `true` for types to which a duration can be added.
pub(super) const fn is_temporal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date | DataType::Timestamp)
}

/// Adds a duration to a date or timestamp, or subtracts it.
///
/// # Errors
///
/// The reason, if the duration is too precise for the type or the result is out of its range.
pub(super) fn shift(
    time: &Value,
    op: ArithmeticOp,
    duration: CqlDuration,
) -> Result<Value, String> {
    let is_date = matches!(time, Value::Date(_));
    let (unit_nanos, unit) = if is_date { (i64::MAX, "day") } else { (1_000_000, "millisecond") };
    if duration.nanos() % unit_nanos != 0 {
        return Err(format!("The duration must have a {unit} precision. Was: {duration}"));
    }
    let out_of_range = || format!("the result is outside of the range of {}", time.data_type());
    let millis = millis_of(time).map_err(|_| out_of_range())?;
    let sign = if op == ArithmeticOp::Subtract { -1 } else { 1 };
    let millis = duration.add_to_millis(millis, sign).ok_or_else(out_of_range)?;
    if is_date { date(millis).map_err(|_| out_of_range()) } else { Ok(Value::Timestamp(millis)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_keep_to_the_calendar() {
        for (data_type, time, op, duration, expected) in [
            (DataType::Date, "2024-01-31", ArithmeticOp::Add, "1mo", "2024-02-29"),
            (DataType::Date, "2024-01-31", ArithmeticOp::Subtract, "1mo1d", "2023-12-30"),
            (DataType::Date, "2024-02-29", ArithmeticOp::Add, "1y", "2025-02-28"),
            (DataType::Date, "2023-11-30", ArithmeticOp::Add, "3mo1d", "2024-03-01"),
            (DataType::Date, "1970-01-01", ArithmeticOp::Subtract, "2w", "1969-12-18"),
            (
                DataType::Timestamp,
                "2024-01-31T10:00Z",
                ArithmeticOp::Add,
                "1mo1d2h5ms",
                "2024-03-01 12:00:00.005000+0000",
            ),
            (
                DataType::Timestamp,
                "2024-01-01T00:00Z",
                ArithmeticOp::Subtract,
                "1mo1h",
                "2023-11-30 23:00:00.000000+0000",
            ),
        ] {
            let value = data_type.parse_text(time).unwrap();
            let shifted = shift(&value, op, CqlDuration::parse(duration).unwrap()).unwrap();
            assert_eq!(shifted.to_string(), expected, "{time} {op:?} {duration}");
        }
    }

    #[test]
    fn precise_durations_and_far_times_are_refused() {
        let plus = |time: &Value, duration: &str| {
            shift(time, ArithmeticOp::Add, CqlDuration::parse(duration).unwrap())
        };
        let day = Value::Date(1 << 31);
        assert!(plus(&day, "1h").unwrap_err().contains("a day precision. Was: 1h"));
        let instant = Value::Timestamp(0);
        assert!(plus(&instant, "1us").unwrap_err().contains("a millisecond precision"));
        assert!(plus(&Value::Timestamp(i64::MAX), "1ms").unwrap_err().contains("range"));
        assert!(plus(&Value::Date(u32::MAX), "1d").unwrap_err().contains("range"));
    }
}
