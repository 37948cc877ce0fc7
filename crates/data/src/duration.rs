//! Durations: months, days and nanoseconds, which have no fixed ratio.
//!
//! ```text
//! text    1y2mo3d4h5m6s7ms8us9ns    -5m    P1Y2M3DT4H5M6S    P3W    P0001-02-03T04:05:06
//! bytes   three signed vints: months, days, nanoseconds
//! ```
//!
//! A signed vint is Cassandra's: the sign in the lowest bit (zigzag), then as many leading ones as
//! further bytes.

use std::fmt::{self, Display, Formatter};

use bytes::{BufMut, BytesMut};

use carnet_base::calendar::Civil;
use carnet_base::error::{Error, Result};

/// A duration. Its parts have one sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CqlDuration {
    months: i32,
    days: i32,
    nanos: i64,
}

/// Units of a text in months, days and nanoseconds, in the order in which a text may have them.
const UNITS: [(&str, i128, i128, i128); 11] = [
    ("y", 12, 0, 0),
    ("mo", 1, 0, 0),
    ("w", 0, 7, 0),
    ("d", 0, 1, 0),
    ("h", 0, 0, 3_600_000_000_000),
    ("m", 0, 0, 60_000_000_000),
    ("s", 0, 0, 1_000_000_000),
    ("ms", 0, 0, 1_000_000),
    ("us", 0, 0, 1_000),
    ("µs", 0, 0, 1_000),
    ("ns", 0, 0, 1),
];
/// Units that are printed, of nanoseconds.
const PRINTED: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
/// More months than lie between any two times of 64 bits of milliseconds.
const MONTHS_MAX: u64 = 1 << 33;
/// Maximum number of digits of one number: more would exceed any duration.
const DIGITS_MAX: usize = 19;

impl CqlDuration {
    /// Makes a duration.
    ///
    /// # Errors
    ///
    /// `Invalid` if the parts have different signs.
    pub fn new(months: i32, days: i32, nanos: i64) -> Result<Self> {
        let parts = [i64::from(months), i64::from(days), nanos];
        if parts.iter().any(|part| *part < 0) && parts.iter().any(|part| *part > 0) {
            return Err(Error::invalid(format!(
                "The duration months, days and nanoseconds must be all of the same sign \
                 ({months}, {days}, {nanos})"
            )));
        }
        Ok(Self { months, days, nanos })
    }

    /// Returns the months.
    #[must_use]
    pub const fn months(self) -> i32 {
        self.months
    }

    /// Returns the days.
    #[must_use]
    pub const fn days(self) -> i32 {
        self.days
    }

    /// Returns the nanoseconds.
    #[must_use]
    pub const fn nanos(self) -> i64 {
        self.nanos
    }

    /// Parses a duration, with a leading `-` if negative; `None` if it is malformed or too long.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let sum = match rest.strip_prefix(['P', 'p']) {
            Some(rest) => Sum::of_iso(rest)?,
            None => Sum::of_units(rest)?,
        };
        sum.signed(sign)
    }

    /// Adds this duration some times to milliseconds since 1970: months within the calendar of UTC, then
    /// days, then whole milliseconds. `None` if the result has more than 64 bits.
    #[must_use]
    pub fn add_to_millis(self, millis: i64, times: i64) -> Option<i64> {
        const DAY_MILLIS: i64 = 86_400_000;
        let mut days = millis.div_euclid(DAY_MILLIS);
        if self.months != 0 {
            let months = times.checked_mul(i64::from(self.months))?;
            if months.unsigned_abs() > MONTHS_MAX {
                return None;
            }
            days = Civil::from_days(days).plus_months(months).to_days()?;
        }
        let more = times.checked_mul(i64::from(self.days))?;
        let days = days.checked_add(more)?.checked_mul(DAY_MILLIS)?;
        let more = times.checked_mul(self.nanos / 1_000_000)?;
        days.checked_add(more.checked_add(millis.rem_euclid(DAY_MILLIS))?)
    }

    pub(crate) fn serialize_into(self, out: &mut BytesMut) {
        for part in [i64::from(self.months), i64::from(self.days), self.nanos] {
            put_vint(out, part);
        }
    }

    /// Decodes the serialized form.
    ///
    /// # Errors
    ///
    /// `Invalid` if the bytes are no three vints, a part is out of its range, or the signs differ.
    pub fn deserialize(mut bytes: &[u8]) -> Result<Self> {
        let wrong = || Error::invalid("a value of type duration is three vints of one sign");
        let mut next = || {
            let (value, rest) = vint(bytes).ok_or_else(wrong)?;
            bytes = rest;
            Ok(value)
        };
        let parts: [i64; 3] = [next()?, next()?, next()?];
        let small = |part: i64| i32::try_from(part).map_err(|_| wrong());
        if bytes.is_empty() {
            Self::new(small(parts[0])?, small(parts[1])?, parts[2])
        } else {
            Err(wrong())
        }
    }
}

/// Prints years, months, days, hours and smaller units; `0ns` if it is zero.
impl Display for CqlDuration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("0ns");
        }
        if self.months < 0 || self.days < 0 || self.nanos < 0 {
            f.write_str("-")?;
        }
        let months = self.months.unsigned_abs();
        let mut nanos = self.nanos.unsigned_abs();
        let mut write = |number: u64, unit| match number {
            0 => Ok(()),
            number => write!(f, "{number}{unit}"),
        };
        write(u64::from(months / 12), "y")?;
        write(u64::from(months % 12), "mo")?;
        write(u64::from(self.days.unsigned_abs()), "d")?;
        for (unit, unit_nanos) in PRINTED {
            write(nanos / unit_nanos, unit)?;
            nanos %= unit_nanos;
        }
        Ok(())
    }
}

/// Sums of the parts of a text.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
    /// Amount of the last unit: the next one has to be smaller.
    last: Option<(i128, i128, i128)>,
}

impl Sum {
    fn add(&mut self, number: i128, unit: (i128, i128, i128)) -> Option<()> {
        self.months = self.months.checked_add(number * unit.0)?;
        self.days = self.days.checked_add(number * unit.1)?;
        self.nanos = self.nanos.checked_add(number.checked_mul(unit.2)?)?;
        Some(())
    }

    fn add_named(&mut self, number: i128, name: &str) -> Option<()> {
        let found = UNITS.into_iter().find(|(unit, ..)| unit.eq_ignore_ascii_case(name))?;
        let unit = (found.1, found.2, found.3);
        if self.last.is_some_and(|last| last <= unit) {
            return None;
        }
        self.last = Some(unit);
        self.add(number, unit)
    }

    fn signed(self, sign: i128) -> Option<CqlDuration> {
        let months = i32::try_from(self.months * sign).ok()?;
        let days = i32::try_from(self.days * sign).ok()?;
        CqlDuration::new(months, days, i64::try_from(self.nanos * sign).ok()?).ok()
    }

    /// Parses numbers with units: `1y2mo3w4d5h6m7s8ms9us10ns`.
    fn of_units(mut text: &str) -> Option<Self> {
        let mut sum = Self::default();
        if text.is_empty() {
            return None;
        }
        while !text.is_empty() {
            let (number, rest) = number(text)?;
            let unit = rest.bytes().take_while(|byte| !byte.is_ascii_digit()).count();
            sum.add_named(number, &rest[..unit])?;
            text = &rest[unit..];
        }
        Some(sum)
    }

    /// Parses the text after the `P` of ISO 8601: `1Y2M3DT4H5M6S`, `3W`, `0001-02-03T04:05:06`.
    fn of_iso(text: &str) -> Option<Self> {
        let (date, time) = match text.split_once(['T', 't']) {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        let mut sum = Self::default();
        if date.contains('-') {
            sum.add_fields(date, '-', [("y", 4), ("mo", 2), ("d", 2)])?;
            sum.add_fields(time?, ':', [("h", 2), ("m", 2), ("s", 2)])?;
            return Some(sum);
        }
        sum.add_designated(date, &[('y', "y"), ('m', "mo"), ('w', "w"), ('d', "d")])?;
        match time {
            Some("") => return None,
            Some(time) => sum.add_designated(time, &[('h', "h"), ('m', "m"), ('s', "s")])?,
            None if date.is_empty() => return None,
            None => {}
        }
        Some(sum)
    }

    fn add_fields(&mut self, text: &str, separator: char, of: [(&str, usize); 3]) -> Option<()> {
        let mut fields = text.split(separator);
        for (unit, digits) in of {
            let field = fields.next().filter(|field| field.len() == digits)?;
            let (number, "") = number(field)? else { return None };
            self.add_named(number, unit)?;
        }
        fields.next().is_none().then_some(())
    }

    fn add_designated(&mut self, mut text: &str, units: &[(char, &str)]) -> Option<()> {
        while !text.is_empty() {
            let (number, rest) = number(text)?;
            let designator = rest.chars().next()?.to_ascii_lowercase();
            let (_, unit) = units.iter().find(|(letter, _)| *letter == designator)?;
            self.add_named(number, unit)?;
            text = &rest[1..];
        }
        Some(())
    }
}

/// Takes a number off the front of a text.
fn number(text: &str) -> Option<(i128, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=DIGITS_MAX).contains(&digits) {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

fn put_vint(out: &mut BytesMut, value: i64) {
    let zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let bits = (64 - zigzag.leading_zeros()).max(1) as usize;
    // Each further byte takes one bit of the first one; nine bytes hold any number.
    let more = if bits > 56 { 8 } else { (bits - 1) / 7 };
    let bytes = zigzag.to_be_bytes();
    if more == 8 {
        out.put_u8(0xff);
        out.put_slice(&bytes);
    } else {
        let ones = !(0xff_u8.checked_shr(u32::try_from(more).unwrap_or(0)).unwrap_or(0));
        out.put_u8(bytes[7 - more] | ones);
        out.put_slice(&bytes[8 - more..]);
    }
}

/// Decodes a signed vint.
fn vint(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let more = first.leading_ones() as usize;
    let (behind, rest) = rest.split_at_checked(more)?;
    let first = if more < 8 { u64::from(first & (0xff >> more)) } else { 0 };
    let unsigned = behind.iter().fold(first, |value, byte| (value << 8) | u64::from(*byte));
    Some(((unsigned >> 1).cast_signed() ^ -(unsigned & 1).cast_signed(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use carnet_base::rng::Rng;

    fn bytes(duration: CqlDuration) -> Vec<u8> {
        let mut out = BytesMut::new();
        duration.serialize_into(&mut out);
        out.to_vec()
    }

    #[test]
    fn bytes_match_a_stock_driver() {
        // Of the Python driver: 500 ms, 1 month 2 days 3 ns, and -1 ns.
        let half_second = CqlDuration::new(0, 0, 500_000_000).unwrap();
        assert_eq!(bytes(half_second), [0, 0, 0xf0, 0x3b, 0x9a, 0xca, 0x00]);
        assert_eq!(bytes(CqlDuration::new(1, 2, 3).unwrap()), [2, 4, 6]);
        assert_eq!(bytes(CqlDuration::new(0, 0, -1).unwrap()), [0, 0, 1]);
        let least = CqlDuration::new(0, 0, i64::MIN).unwrap();
        assert_eq!(bytes(least), [&[0, 0][..], &[0xff; 9]].concat());
    }

    #[test]
    fn serialized_durations_round_trip() {
        testing::with_seeds(|rng| {
            let shift = rng.below(64);
            let nanos = (rng.below(u64::MAX) >> shift >> 1).cast_signed();
            let small =
                |rng: &mut dyn Rng| i32::try_from(rng.below(1 << 31) >> rng.below(31)).unwrap();
            let (months, days) = (small(rng), small(rng));
            for sign in [1, -1] {
                let duration = CqlDuration::new(
                    months * i32::try_from(sign).unwrap(),
                    days * i32::try_from(sign).unwrap(),
                    nanos * sign,
                )
                .unwrap();
                assert_eq!(CqlDuration::deserialize(&bytes(duration)).unwrap(), duration);
                assert_eq!(CqlDuration::parse(&duration.to_string()), Some(duration));
            }
        });
    }

    #[test]
    fn all_forms_of_text_are_read() {
        for (text, printed) in [
            ("1y2mo3w4d5h6m7s8ms9us10ns", "1y2mo25d5h6m7s8ms9us10ns"),
            ("-2W5MS", "-14d5ms"),
            ("3µs", "3us"),
            ("0s", "0ns"),
            ("90m", "1h30m"),
            ("P1Y2M3DT4H5M6S", "1y2mo3d4h5m6s"),
            ("-P2W", "-14d"),
            ("PT1M", "1m"),
            ("P0001-02-03T04:05:06", "1y2mo3d4h5m6s"),
        ] {
            assert_eq!(CqlDuration::parse(text).unwrap().to_string(), printed, "{text}");
        }
        for text in [
            "",
            "-",
            "5",
            "ms",
            "5 ms",
            "5x",
            "99999999999999999999ms",
            "P",
            "PT",
            "P1H",
            "PT1D",
            "P1-02-03T04:05:06",
            "P0001-02-03",
            "2147483648mo",
            "9223372036854775808ns",
            "1d1y",
            "1h1h",
            "1us1µs",
            "1s1m",
            "P1D1Y",
            "PT1S1M",
        ] {
            assert_eq!(CqlDuration::parse(text), None, "{text}");
        }
    }

    #[test]
    fn malformed_durations_are_refused() {
        for wrong in [&[][..], &[0, 0], &[0, 0, 0, 0], &[0, 0, 0xff], &[1, 2, 0]] {
            assert!(CqlDuration::deserialize(wrong).is_err(), "{wrong:?}");
        }
        // A number of months beyond 32 bits.
        assert!(CqlDuration::deserialize(&[0xf2, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(CqlDuration::new(1, -1, 0).is_err());
        testing::with_seeds(|rng| {
            let bytes = testing::random_bytes(rng, 24);
            let _ = CqlDuration::deserialize(&bytes);
        });
    }
}
