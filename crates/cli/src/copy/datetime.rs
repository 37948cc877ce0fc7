//! `DATETIMEFORMAT`: timestamps in a form of the user's.
//!
//! The directives are those of Python's `strftime`, which cqlsh uses, as far as `chrono` has them;
//! `%f` stands for microseconds.

use carnet::Value;
use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{DateTime, Utc};

/// Form of a timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimestampFormat(Vec<Item<'static>>);

impl TimestampFormat {
    /// Reads the directives.
    ///
    /// # Errors
    ///
    /// The form that was expected.
    pub(super) fn new(directives: &str) -> Result<Self, String> {
        // chrono's %f has nanoseconds and Python's microseconds.
        let directives = directives.replace("%f", "%6f");
        let items = StrftimeItems::new(&directives).parse_to_owned();
        let format = items.map(Self).map_err(|_| "a format of strftime, such as '%Y-%m-%d %H:%M'");
        Ok(format?)
    }

    /// Returns a timestamp as text; beyond the years that have a date, its milliseconds.
    pub(super) fn write(&self, millis: i64) -> String {
        DateTime::from_timestamp_millis(millis).map_or_else(
            || millis.to_string(),
            |time: DateTime<Utc>| time.format_with_items(self.0.iter()).to_string(),
        )
    }

    /// Returns the timestamp of a text in this form, in UTC unless it names another zone.
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        let mut parsed = Parsed::new();
        parse(&mut parsed, text, self.0.iter()).ok()?;
        let has_date_only = parsed.hour_div_12().is_none() && parsed.timestamp().is_none();
        if has_date_only {
            let midnight = parsed.to_naive_date().ok()?.and_hms_opt(0, 0, 0)?;
            return Some(Value::Timestamp(midnight.and_utc().timestamp_millis()));
        }
        let offset = parsed.offset().unwrap_or(0);
        let time = parsed.to_naive_datetime_with_offset(offset).ok()?;
        let millis = time.and_utc().timestamp_millis() - i64::from(offset) * 1_000;
        Some(Value::Timestamp(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_back() {
        let millis = 1_767_323_045_678;
        for (directives, written, read) in [
            ("%Y-%m-%d %H:%M:%S.%f%z", "2026-01-02 03:04:05.678000+0000", millis),
            ("%d.%m.%Y %H:%M:%S", "02.01.2026 03:04:05", millis - 678),
            ("%d/%m/%y", "02/01/26", 1_767_312_000_000),
            ("%s", "1767323045", millis - 678),
        ] {
            let format = TimestampFormat::new(directives).unwrap();
            assert_eq!(format.write(millis), written);
            assert_eq!(format.read(written), Some(Value::Timestamp(read)), "{directives}");
        }
        let format = TimestampFormat::new("%Y-%m-%d %H:%M%z").unwrap();
        let east = format.read("2026-01-02 05:04+0200");
        assert_eq!(east, format.read("2026-01-02 03:04+0000"));
        assert_eq!(format.read("yesterday"), None);
        assert_eq!(format.write(i64::MAX), i64::MAX.to_string());
    }
}
