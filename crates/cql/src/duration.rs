//! Durations of timeouts: as text, or as the value of a bind marker.

use std::time::Duration;

use crate::cql_error::CqlError;

/// A duration: months, days and nanoseconds, which have no fixed ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CqlDuration {
    months: i128,
    days: i128,
    nanos: i128,
}

/// Units of the [`Lexer`](crate::lexer::Lexer) in months, days and nanoseconds.
const UNITS: [(&str, i128, i128, i128); 11] = [
    ("mo", 1, 0, 0),
    ("ms", 0, 0, 1_000_000),
    ("us", 0, 0, 1_000),
    ("µs", 0, 0, 1_000),
    ("ns", 0, 0, 1),
    ("y", 12, 0, 0),
    ("w", 0, 7, 0),
    ("d", 0, 1, 0),
    ("h", 0, 0, 3_600_000_000_000),
    ("m", 0, 0, 60_000_000_000),
    ("s", 0, 0, 1_000_000_000),
];

/// Maximum number of digits of one number: more would exceed any duration.
const DIGITS_MAX: usize = 19;

impl CqlDuration {
    /// Parses a duration such as `1h30m`, with a leading `-` if negative.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (sign, mut rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let mut duration = Self::default();
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=DIGITS_MAX).contains(&digits) {
                return None;
            }
            let number = sign * rest[..digits].parse::<i128>().ok()?;
            rest = &rest[digits..];
            let (unit, months, days, nanos) = UNITS.into_iter().find(|(unit, ..)| {
                rest.get(..unit.len()).is_some_and(|part| part.eq_ignore_ascii_case(unit))
            })?;
            rest = &rest[unit.len()..];
            duration.months = duration.months.checked_add(number * months)?;
            duration.days = duration.days.checked_add(number * days)?;
            duration.nanos = duration.nanos.checked_add(number.checked_mul(nanos)?)?;
        }
        Some(duration)
    }

    /// Decodes a value of the type `duration`: three signed vints.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut next = || {
            let (value, rest) = vint(bytes)?;
            bytes = rest;
            Some(i128::from(value))
        };
        let duration = Self { months: next()?, days: next()?, nanos: next()? };
        bytes.is_empty().then_some(duration)
    }

    /// Returns the duration as the value of a timeout called `what`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is negative, or has months, days, or fractions of a millisecond.
    pub(crate) fn timeout(self, what: &str) -> Result<Duration, CqlError> {
        let wrong = |why: &str| Err(CqlError::invalid(format!("{what} values {why}")));
        if self.months != 0 || self.days != 0 {
            return wrong("cannot be expressed in days/months");
        }
        if self.nanos < 0 {
            return wrong("must be non-negative");
        }
        if self.nanos % 1_000_000 != 0 {
            return wrong("cannot have granularity finer than milliseconds");
        }
        match u64::try_from(self.nanos) {
            Ok(nanos) if i64::try_from(nanos).is_ok() => Ok(Duration::from_nanos(nanos)),
            _ => wrong("cannot be that long"),
        }
    }
}

/// Decodes a signed vint: the leading ones of the first byte are the number of bytes after it.
fn vint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let more = first.leading_ones() as usize;
    let (behind, rest) = rest.split_at_checked(more)?;
    let first = if more < 8 { u64::from(first & (0xff >> more)) } else { 0 };
    let unsigned = behind.iter().fold(first, |value, byte| (value << 8) | u64::from(*byte));
    // Zigzag: the lowest bit is the sign.
    Some(((unsigned >> 1).cast_signed() ^ -(unsigned & 1).cast_signed(), rest))
}

#[cfg(test)]
mod tests {
    use carnet::base::{Rng, SeededRng};

    use super::*;

    fn timeout(text: &str) -> Result<Duration, String> {
        let duration = CqlDuration::parse(text).ok_or("unreadable")?;
        duration.timeout("Timeout").map_err(|error| error.message().to_owned())
    }

    #[test]
    fn timeouts_are_whole_milliseconds_without_days() {
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
            ("9999999999999999h", "that long"),
        ] {
            assert!(timeout(text).unwrap_err().contains(why), "{text}: {:?}", timeout(text));
        }
        for text in ["", "-", "5", "ms", "5 ms", "5x", "99999999999999999999ms"] {
            assert_eq!(CqlDuration::parse(text), None, "{text}");
        }
    }

    #[test]
    fn marker_values_of_drivers_are_decoded() {
        // Values of the Python driver for 500 ms, 1 month 2 days 3 ns, and -1 ns.
        let millis = [0, 0, 0xf0, 0x3b, 0x9a, 0xca, 0x00];
        let read = CqlDuration::decode(&millis).unwrap();
        assert_eq!(read.timeout("Timeout"), Ok(Duration::from_millis(500)));
        let mixed = CqlDuration { months: 1, days: 2, nanos: 3 };
        assert_eq!(CqlDuration::decode(&[2, 4, 6]), Some(mixed));
        let negative = CqlDuration { nanos: -1, ..CqlDuration::default() };
        assert_eq!(CqlDuration::decode(&[0, 0, 1]), Some(negative));
        let longest = [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let least = CqlDuration { nanos: i64::MIN.into(), ..CqlDuration::default() };
        assert_eq!(CqlDuration::decode(&longest), Some(least));
        for wrong in [&[][..], &[0, 0], &[0, 0, 0, 0], &[0, 0, 0xff]] {
            assert_eq!(CqlDuration::decode(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn hostile_values_do_not_panic() {
        let mut rng = SeededRng::new(33);
        for _ in 0..20_000 {
            let length = usize::try_from(rng.below(4) * 8).unwrap();
            let bytes: Vec<u8> =
                (0..4).flat_map(|_| rng.below(u64::MAX).to_le_bytes()).take(length).collect();
            let _ = CqlDuration::decode(&bytes).map(|duration| duration.timeout("Timeout"));
        }
    }
}
