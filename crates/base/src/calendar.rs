//! The proleptic Gregorian calendar, by arithmetic only.
//!
//! Both conversions count years from 1 March, so that the leap day is the last of its year, and
//! in eras of 400 years, which all have the same number of days.
//!
//! Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil` and
//! `civil_from_days`.

use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;

use crate::clock::WallTime;

/// A date of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// The month, 1 to 12.
    pub month: i64,
    /// The day, 1 to 31.
    pub day: i64,
}

/// Years that are printed as dates.
pub const YEARS: RangeInclusive<i64> = 1..=9999;

const DAY_MILLIS: i64 = 86_400_000;

const ERA_YEARS: i64 = 400;
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

impl Civil {
    /// Returns the date that lies `days` after 1970-01-01.
    ///
    /// `days` is within ±10¹⁷, so that nothing overflows.
    #[must_use]
    pub const fn from_days(days: i64) -> Self {
        let days = days + EPOCH_DAYS;
        let era = days.div_euclid(ERA_DAYS);
        let day_of_era = days.rem_euclid(ERA_DAYS);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let turn = if month <= 2 { 1 } else { 0 };
        Self { year: era * ERA_YEARS + year_of_era + turn, month, day }
    }

    /// Returns the date that lies `months` later. Its day is at most the last of the month.
    #[must_use]
    pub fn plus_months(self, months: i64) -> Self {
        let total = self.year * 12 + self.month - 1 + months;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        let at = |day| Self { year, month, day };
        // No month has fewer than 28 days.
        let last = (28..self.day).rev().find(|day| at(*day).to_days().is_some());
        if at(self.day).to_days().is_some() { at(self.day) } else { at(last.unwrap_or(28)) }
    }

    /// Returns the number of days from 1970-01-01 to the date, or `None` if there is no such date.
    ///
    /// `year` is within ±10¹⁴, so that nothing overflows.
    #[must_use]
    pub fn to_days(self) -> Option<i64> {
        let turn = i64::from(self.month <= 2);
        let year = self.year - turn;
        let era = year.div_euclid(ERA_YEARS);
        let year_of_era = year.rem_euclid(ERA_YEARS);
        let month_from_march = (self.month + 9).rem_euclid(12);
        let day_of_year = (153 * month_from_march + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = era * ERA_DAYS + day_of_era - EPOCH_DAYS;
        // A date like 30 February maps to another day.
        (Self::from_days(days) == self).then_some(days)
    }
}

impl Display for Civil {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Like CQL's `timestamp`, to the millisecond.
impl Display for WallTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_timestamp(f, self.millis())
    }
}

/// Writes milliseconds since 1970 as cqlsh does: as a number outside of [`YEARS`].
///
/// # Errors
///
/// Errors of the formatter.
pub fn write_timestamp(f: &mut Formatter<'_>, millis: i64) -> fmt::Result {
    let day = Civil::from_days(millis.div_euclid(DAY_MILLIS));
    if !YEARS.contains(&day.year) {
        return millis.fmt(f);
    }
    let millis = millis.rem_euclid(DAY_MILLIS);
    write!(f, "{day} ")?;
    write_time_of_day(f, millis / 1_000)?;
    write!(f, ".{:03}000+0000", millis % 1_000)
}

/// Writes the time of a day to the second.
///
/// # Errors
///
/// Errors of the formatter.
pub fn write_time_of_day(f: &mut Formatter<'_>, seconds: i64) -> fmt::Result {
    write!(f, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_goes_on_day_by_day() {
        let mut previous = Civil::from_days(-1_000_000);
        for days in -999_999..1_000_000 {
            let day = Civil::from_days(days);
            assert_eq!(day.to_days(), Some(days));
            let is_next =
                (day.year, day.month, day.day) == (previous.year, previous.month, previous.day + 1);
            let turns_month = day.day == 1
                && previous.day >= 28
                && (day.year * 12 + day.month) == (previous.year * 12 + previous.month + 1);
            assert!(is_next || turns_month, "{previous:?} is followed by {day:?}");
            previous = day;
        }
        assert_eq!(Civil { year: 2000, month: 2, day: 29 }.to_days(), Some(11_016));
        assert_eq!(Civil { year: 1900, month: 2, day: 29 }.to_days(), None);
    }
}
