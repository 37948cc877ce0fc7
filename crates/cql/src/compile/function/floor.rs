//! `floor(time, duration[, start])`: the beginning of the interval that a time lies in. Intervals of the
//! duration follow each other from a start, which is 1970-01-01 unless given, and midnight for a `time`.

use carnet::{DataType, Value};
use carnet_data::CqlDuration;

use super::super::times::{DAY_MILLIS, date, millis_of};
use crate::cql_error::CqlError;

/// Length of the shortest month.
const MONTH_MILLIS: i128 = 28 * DAY_MILLIS as i128;
const DAY_NANOS: i64 = DAY_MILLIS * 1_000_000;

/// Returns the types of the arguments behind the first one, or why they are wrong.
pub(in super::super) fn other_types(
    first: &DataType,
    count: usize,
) -> Result<Vec<DataType>, CqlError> {
    let types = match first {
        DataType::Timestamp | DataType::Timeuuid => vec![DataType::Duration, DataType::Timestamp],
        DataType::Date => vec![DataType::Duration, DataType::Date],
        DataType::Time => vec![DataType::Duration],
        other => {
            return Err(CqlError::invalid(format!(
                "Invalid call to function floor: it takes a timestamp, a timeuuid, a date or a time, not \
                 a value of {other}"
            )));
        }
    };
    if count < 2 || count > types.len() + 1 {
        return Err(CqlError::invalid(format!(
            "Invalid number of arguments in call to function floor: it takes a time, a duration and, \
             but for a time of day, a start; {count} are given"
        )));
    }
    Ok(types)
}

/// Returns the type of the result for a first argument.
pub(super) fn returns(first: &DataType) -> DataType {
    match first {
        DataType::Timeuuid => DataType::Timestamp,
        other => other.clone(),
    }
}

/// Calculates the function.
pub(super) fn floor(
    time: &Value,
    duration: CqlDuration,
    start: Option<&Value>,
) -> Result<Value, CqlError> {
    if duration.months() < 0 || duration.days() < 0 || duration.nanos() < 0 {
        return Err(refused("Negative durations are not supported by the floor function"));
    }
    if let Value::Time(nanos) = time {
        return of_day(*nanos, duration);
    }
    check_precision(time, duration)?;
    let start = start.map_or(Ok(0), millis_of)?;
    let floor = of_millis(millis_of(time)?, duration, start)?;
    if matches!(time, Value::Date(_)) { date(floor) } else { Ok(Value::Timestamp(floor)) }
}

fn refused(why: &str) -> CqlError {
    CqlError::invalid(why)
}

/// Refuses a duration with a part that is more precise than the time.
fn check_precision(time: &Value, duration: CqlDuration) -> Result<(), CqlError> {
    if matches!(time, Value::Date(_)) && duration.nanos() != 0 {
        return Err(refused(&format!(
            "The floor on date values cannot be computed for the {duration} duration as precision is \
             below 1 day"
        )));
    }
    if duration.nanos() % 1_000_000 != 0 {
        return Err(refused(&format!(
            "The floor cannot be computed for the {duration} duration as precision is below 1 \
             millisecond"
        )));
    }
    Ok(())
}

fn of_day(nanos: i64, duration: CqlDuration) -> Result<Value, CqlError> {
    if duration.months() != 0 || duration.days() != 0 || duration.nanos() > DAY_NANOS {
        return Err(refused(
            "For time values, the floor can only be computed for durations smaller that a day",
        ));
    }
    Ok(Value::Time(match duration.nanos() {
        0 => nanos,
        interval => nanos - nanos % interval,
    }))
}

fn of_millis(time: i64, duration: CqlDuration, start: i64) -> Result<i64, CqlError> {
    if start > time {
        return Err(refused("The floor function starting time is greater than the provided time"));
    }
    let since = i128::from(time) - i128::from(start);
    if duration.months() == 0 {
        let interval = i64::from(duration.days()) * DAY_MILLIS + duration.nanos() / 1_000_000;
        let beyond = if interval == 0 { 0 } else { since % i128::from(interval) };
        return i64::try_from(i128::from(time) - beyond).map_err(|_| out_of_range());
    }
    // Months have several lengths, so the number of intervals is searched for.
    let at = |intervals: i64| duration.add_to_millis(start, intervals).filter(|at| *at <= time);
    let most = since / (MONTH_MILLIS * i128::from(duration.months()));
    let (mut within, mut beyond) = (0, i64::try_from(most).map_err(|_| out_of_range())? + 1);
    while beyond - within > 1 {
        let middle = within + (beyond - within) / 2;
        if at(middle).is_some() { within = middle } else { beyond = middle }
    }
    at(within).ok_or_else(out_of_range)
}

fn out_of_range() -> CqlError {
    refused("the result of floor is outside of the range of a timestamp")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(
        data_type: &DataType,
        time: &str,
        duration: &str,
        start: Option<&str>,
    ) -> Result<String, String> {
        let value = |text: &str| data_type.parse_text(text).unwrap();
        let start = start.map(value);
        let floor = floor(&value(time), CqlDuration::parse(duration).unwrap(), start.as_ref());
        floor.map(|floor| floor.to_string()).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn times_begin_their_intervals() {
        let far = "5000-12-31T23:59:59.999Z";
        for (data_type, time, duration, start, expected) in [
            (DataType::Timestamp, "2026-09-27T16:12:34Z", "2h", None, "2026-09-27 16:00"),
            (DataType::Timestamp, "2026-09-27T16:12Z", "0h", None, "2026-09-27 16:12"),
            (DataType::Timestamp, "2026-09-27T16:12Z", "1w", None, "2026-09-24 00:00"),
            (DataType::Timestamp, "2026-09-27T16:12Z", "1mo", None, "2026-09-01 00:00"),
            (DataType::Timestamp, "2026-09-27T16:12Z", "1y6mo", None, "2025-07-01 00:00"),
            (
                DataType::Timestamp,
                "2026-03-30T12:00Z",
                "1mo",
                Some("2026-01-31T10:00Z"),
                "2026-02-28 10:00",
            ),
            (
                DataType::Timestamp,
                "2026-03-31T10:00Z",
                "1mo",
                Some("2026-01-31T10:00Z"),
                "2026-03-31 10:00",
            ),
            (
                DataType::Timestamp,
                far,
                "1mo1d1ms",
                Some("1900-01-01T00:00Z"),
                "5000-12-21 00:00:36.028",
            ),
            (DataType::Timestamp, "1970-01-01T00:00Z", "7mo", None, "1970-01-01 00:00"),
            (DataType::Date, "2026-09-27", "2d", None, "2026-09-26"),
            (DataType::Date, "2026-09-27", "1y", Some("2020-02-29"), "2026-02-28"),
            (DataType::Time, "16:12:34.5", "90m", None, "15:00:00.000000000"),
            (DataType::Time, "16:12:34.5", "24h", None, "00:00:00.000000000"),
        ] {
            let found = of(&data_type, time, duration, start).unwrap();
            assert!(found.starts_with(expected), "{time} {duration} {start:?}: {found}");
        }
    }

    #[test]
    fn calendar_intervals_agree_with_steps() {
        let start = DataType::Timestamp.parse_text("1999-12-31T23:00Z").unwrap();
        let first = millis_of(&start).unwrap();
        for text in ["1mo", "5mo3d", "1y1h", "13mo"] {
            let duration = CqlDuration::parse(text).unwrap();
            for days in 0..1_500 {
                let time = first + days * DAY_MILLIS * 3 + 12_345;
                let steps = (0..).map(|step| duration.add_to_millis(first, step).unwrap());
                let expected = steps.take_while(|at| *at <= time).last().unwrap();
                assert_eq!(of_millis(time, duration, first).unwrap(), expected, "{text} {time}");
            }
        }
    }

    #[test]
    fn intervals_without_meaning_are_refused() {
        for (data_type, time, duration, start, expected) in [
            (DataType::Timestamp, "2026-01-01T00:00Z", "-2h", None, "Negative"),
            (DataType::Timestamp, "1969-01-01T00:00Z", "2h", None, "starting time is greater"),
            (DataType::Timestamp, "2026-01-01T00:00Z", "1us", None, "below 1 millisecond"),
            (DataType::Date, "2026-01-01", "1h", None, "below 1 day"),
            (DataType::Date, "2026-01-01", "1d", Some("2026-01-02"), "starting time is greater"),
            (DataType::Time, "16:00:00", "1d", None, "smaller that a day"),
            (DataType::Time, "16:00:00", "25h", None, "smaller that a day"),
        ] {
            let error = of(&data_type, time, duration, start).unwrap_err();
            assert!(error.contains(expected), "{time} {duration}: {error}");
        }
    }
}
