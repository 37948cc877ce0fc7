//! Parses values from string literals of CQL and fields of CSV files.

use std::net::IpAddr;
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

use bytes::Bytes;
use carnet_base::calendar::Civil;
use carnet_base::error::{Error, Result};
use num_bigint::BigInt;
use uuid::Uuid;

use super::quote::quoted;
use crate::duration::CqlDuration;
use crate::value::{DataType, Value};

/// Maximum number of digits of a `varint` or `decimal` as text: parsing takes quadratic time.
const DIGITS_MAX: usize = 65_536;

impl DataType {
    /// Parses a value of this type; the documentation of [`crate::text`] lists the forms.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the text and the expected form.
    pub fn parse_text(&self, text: &str) -> Result<Value> {
        self.parse_field(text, "")
    }

    /// Parses a value of this type, within which also the text `null` stands for null.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the text and the expected form.
    pub fn parse_field(&self, text: &str, null: &str) -> Result<Value> {
        let trimmed = text.trim_ascii();
        let value = match self {
            Self::Text => Some(Value::Text(text.to_owned())),
            Self::Ascii => Some(Value::Ascii(text.to_owned())),
            Self::Bigint => Some(Value::Bigint(integer(self, trimmed)?)),
            Self::Counter => Some(Value::Counter(integer(self, trimmed)?)),
            Self::Int => Some(Value::Int(integer(self, trimmed)?)),
            Self::Smallint => Some(Value::Smallint(integer(self, trimmed)?)),
            Self::Tinyint => Some(Value::Tinyint(integer(self, trimmed)?)),
            Self::Double => float(trimmed, f64::is_infinite).map(Value::Double),
            Self::Float => float(trimmed, f32::is_infinite).map(Value::Float),
            Self::Varint => varint(trimmed).map(Value::Varint),
            Self::Decimal => decimal(trimmed),
            Self::Boolean => boolean(trimmed),
            Self::Uuid => uuid(trimmed).map(Value::Uuid),
            Self::Timeuuid => uuid(trimmed).map(Value::Timeuuid),
            Self::Inet => {
                IpAddr::from_str(trimmed).ok().map(|address| Value::Inet(address.to_canonical()))
            }
            Self::Blob => blob(trimmed).map(Value::Blob),
            Self::Timestamp => timestamp(trimmed).map(Value::Timestamp),
            Self::Date => date(trimmed).map(Value::Date),
            Self::Time => time(trimmed).map(Value::Time),
            Self::Duration => CqlDuration::parse(trimmed).map(Value::Duration),
            Self::List(_)
            | Self::Map(_)
            | Self::Set(_)
            | Self::Tuple(_)
            | Self::Udt(_)
            | Self::Vector(_) => {
                return super::composite::parse(self, trimmed, null);
            }
        };
        let value = value.ok_or_else(|| wrong(self, text))?;
        value.validate()?;
        Ok(value)
    }
}

fn wrong(data_type: &DataType, text: &str) -> Error {
    let expected = match data_type {
        DataType::Double | DataType::Float => "a number within its range, NaN or Infinity",
        DataType::Varint | DataType::Decimal => "a number of at most 65536 digits",
        DataType::Boolean => "true or false",
        DataType::Uuid | DataType::Timeuuid => "8-4-4-4-12 hexadecimal digits",
        DataType::Inet => "an IPv4 or IPv6 address",
        DataType::Blob => "0x and an even number of hexadecimal digits",
        DataType::Timestamp => {
            "milliseconds since 1970 or yyyy-mm-dd[(T| )HH:MM[:SS[.fff]]][zone], zone Z or ±hh[:mm]"
        }
        DataType::Date => "yyyy-mm-dd or days, with 1970-01-01 at 2147483648",
        DataType::Time => "HH:MM:SS[.fffffffff] or nanoseconds since midnight",
        DataType::Duration => "numbers with units, as in 1h30m, or P1Y2M3DT4H5M6S",
        _ => "an integer",
    };
    Error::invalid(format!("{} is no {data_type}: expected {expected}", quoted(text)))
}

fn integer<T: FromStr<Err = ParseIntError>>(data_type: &DataType, text: &str) -> Result<T> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
            Error::invalid(format!("{} is out of the range of {data_type}", quoted(text)))
        }
        _ => wrong(data_type, text),
    })
}

fn float<T: FromStr + Copy>(text: &str, is_infinite: impl Fn(T) -> bool) -> Option<T> {
    let number = text.parse().ok()?;
    // Digits with an infinite value are a mistake; infinity is spelled out.
    let is_spelled = !text.bytes().any(|byte| byte.is_ascii_digit());
    (is_spelled || !is_infinite(number)).then_some(number)
}

fn varint(text: &str) -> Option<BigInt> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && digits.len() <= DIGITS_MAX { text.parse().ok() } else { None }
}

fn decimal(text: &str) -> Option<Value> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let unscaled = varint(&format!("{whole}{fraction}"))?;
    let scale = i64::try_from(fraction.len()).ok()? - i64::from(exponent);
    Some(Value::Decimal { unscaled, scale: i32::try_from(scale).ok()? })
}

fn boolean(text: &str) -> Option<Value> {
    if text.eq_ignore_ascii_case("true") {
        Some(Value::Boolean(true))
    } else if text.eq_ignore_ascii_case("false") {
        Some(Value::Boolean(false))
    } else {
        None
    }
}

fn uuid(text: &str) -> Option<Uuid> {
    const HYPHENATED_LEN: usize = 36;
    if text.len() == HYPHENATED_LEN { Uuid::try_parse(text).ok() } else { None }
}

fn blob(text: &str) -> Option<Bytes> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect()
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|nibble| u8::try_from(nibble).ok())
}

fn timestamp(text: &str) -> Option<i64> {
    if is_integer(text) {
        return text.parse().ok();
    }
    let mut scan = Scan(text);
    let days = scan.date()?;
    let nanos = if scan.take(|first| matches!(first, 'T' | 't' | ' ')).is_some() {
        scan.time_of_day(false)?
    } else {
        0
    };
    let offset_minutes = scan.zone()?;
    scan.end()?;
    days.checked_mul(86_400_000)?
        .checked_add(nanos / 1_000_000)?
        .checked_sub(offset_minutes.checked_mul(60_000)?)
}

fn date(text: &str) -> Option<u32> {
    if is_integer(text) {
        return text.parse().ok();
    }
    let mut scan = Scan(text);
    let days = scan.date()?;
    scan.end()?;
    u32::try_from(days + (1 << 31)).ok()
}

fn time(text: &str) -> Option<i64> {
    if is_integer(text) {
        return text.parse().ok();
    }
    let mut scan = Scan(text);
    let nanos = scan.time_of_day(true)?;
    scan.end()?;
    Some(nanos)
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The rest of a date or time. Each method takes something off its front.
struct Scan<'a>(&'a str);

impl Scan<'_> {
    fn take(&mut self, is_wanted: impl Fn(char) -> bool) -> Option<char> {
        let first = self.0.chars().next().filter(|first| is_wanted(*first))?;
        self.0 = &self.0[first.len_utf8()..];
        Some(first)
    }

    fn one(&mut self, wanted: char) -> Option<()> {
        self.take(|first| first == wanted).map(|_| ())
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// Takes as many digits as there are, at most `max` and at least `min` (1 to 9).
    fn digits(&mut self, min: usize, max: usize) -> Option<&str> {
        let count = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        if count < min {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(digits)
    }

    fn number(&mut self, min: usize, max: usize) -> Option<i64> {
        self.digits(min, max)?.parse().ok()
    }

    fn number_below(&mut self, bound: i64) -> Option<i64> {
        self.number(1, 2).filter(|number| *number < bound)
    }

    /// Takes a date, as days since 1970-01-01.
    fn date(&mut self) -> Option<i64> {
        let sign = match self.take(|first| matches!(first, '-' | '+')) {
            Some('-') => -1,
            _ => 1,
        };
        let year = sign * self.number(4, 9)?;
        self.one('-')?;
        let month = self.number(1, 2)?;
        self.one('-')?;
        let day = self.number(1, 2)?;
        Civil { year, month, day }.to_days()
    }

    /// Takes a time, as nanoseconds since midnight; the seconds are optional unless needed.
    fn time_of_day(&mut self, needs_seconds: bool) -> Option<i64> {
        let hours = self.number_below(24)?;
        self.one(':')?;
        let minutes = self.number_below(60)?;
        let (mut seconds, mut nanos) = (0, 0);
        if self.one(':').is_some() {
            seconds = self.number_below(60)?;
            if self.one('.').is_some() {
                nanos = format!("{:0<9}", self.digits(1, 9)?).parse().ok()?;
            }
        } else if needs_seconds {
            return None;
        }
        Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos)
    }

    /// Takes a zone, as minutes east of UTC; none at all is UTC.
    fn zone(&mut self) -> Option<i64> {
        self.0 = self.0.strip_prefix(' ').unwrap_or(self.0);
        if ["", "Z", "z", "UTC", "GMT"].contains(&self.0) {
            self.0 = "";
            return Some(0);
        }
        let sign = if self.take(|first| matches!(first, '+' | '-'))? == '-' { -1 } else { 1 };
        // No place on earth is further from UTC than 14 hours; Java accepts 18.
        let hours = self.number(2, 2).filter(|hours| *hours <= 18)?;
        let has_colon = self.one(':').is_some();
        let minutes = if has_colon || !self.0.is_empty() {
            self.number(2, 2).filter(|minutes| *minutes < 60)?
        } else {
            0
        };
        Some(sign * (hours * 60 + minutes))
    }
}
