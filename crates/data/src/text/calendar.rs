//! The proleptic Gregorian calendar, by arithmetic only.
//!
//! Both conversions count years from 1 March, so that the leap day is the last of its year, and
//! in eras of 400 years, which all have the same number of days.
//!
//! Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `days_from_civil` and
//! `civil_from_days`.

/// A year, where 0 is 1 BC; a month, 1 to 12; a day, 1 to 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
}

const ERA_YEARS: i64 = 400;
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

impl Civil {
    /// Returns the date that lies `days` after 1970-01-01.
    ///
    /// `days` is within ±10¹⁷, so that nothing overflows.
    pub(crate) const fn from_days(days: i64) -> Self {
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
    pub(crate) fn plus_months(self, months: i64) -> Self {
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
    pub(crate) fn to_days(self) -> Option<i64> {
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
