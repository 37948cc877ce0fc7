//! Durations of timeouts.

use std::time::Duration;

use carnet_data::CqlDuration;

use crate::cql_error::CqlError;

/// Returns a duration as the value of a timeout called `what`.
///
/// # Errors
///
/// `Invalid` if it is negative, or has months, days, or fractions of a millisecond.
pub(crate) fn timeout(duration: CqlDuration, what: &str) -> Result<Duration, CqlError> {
    let wrong = |why: &str| Err(CqlError::invalid(format!("{what} values {why}")));
    if duration.months() != 0 || duration.days() != 0 {
        return wrong("cannot be expressed in days/months");
    }
    let Ok(nanos) = u64::try_from(duration.nanos()) else {
        return wrong("must be non-negative");
    };
    if nanos % 1_000_000 != 0 {
        return wrong("cannot have granularity finer than milliseconds");
    }
    Ok(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_whole_milliseconds_without_days() {
        let timeout = |text: &str| {
            let duration = CqlDuration::parse(text).unwrap();
            timeout(duration, "Timeout").map_err(|error| error.message().to_owned())
        };
        assert_eq!(timeout("0s"), Ok(Duration::ZERO));
        assert_eq!(timeout("1h1m1s1ms"), Ok(Duration::from_millis(3_661_001)));
        assert_eq!(timeout("2000us"), Ok(Duration::from_millis(2)));
        for (text, why) in [
            ("1500us", "granularity"),
            ("1ns", "granularity"),
            ("-5ms", "non-negative"),
            ("1d", "days/months"),
            ("1mo", "days/months"),
            ("1y", "days/months"),
            ("2w5ms", "days/months"),
        ] {
            assert!(timeout(text).unwrap_err().contains(why), "{text}: {:?}", timeout(text));
        }
    }
}
