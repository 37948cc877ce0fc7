//! Values as text, in the format of cqlsh.

use std::fmt::{self, Display, Formatter};

use carnet_base::calendar::{Civil, YEARS, write_time_of_day, write_timestamp};
use num_bigint::{BigInt, Sign};

use crate::value::Value;

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ascii(text) | Self::Text(text) => f.write_str(text),
            Self::Bigint(number) | Self::Counter(number) => number.fmt(f),
            Self::Int(number) => number.fmt(f),
            Self::Smallint(number) => number.fmt(f),
            Self::Tinyint(number) => number.fmt(f),
            Self::Varint(number) => number.fmt(f),
            Self::Decimal { unscaled, scale } => decimal(f, unscaled, *scale),
            Self::Double(number) => float(f, *number, number.is_finite()),
            Self::Float(number) => float(f, *number, number.is_finite()),
            Self::Boolean(true) => f.write_str("True"),
            Self::Boolean(false) => f.write_str("False"),
            Self::Uuid(uuid) | Self::Timeuuid(uuid) => uuid.hyphenated().fmt(f),
            Self::Inet(address) => address.fmt(f),
            Self::Blob(bytes) => write!(f, "0x{bytes:x}"),
            Self::Timestamp(millis) => write_timestamp(f, *millis),
            Self::Date(days) => date(f, *days),
            Self::Time(nanos) => write_time_of_day(f, nanos.div_euclid(1_000_000_000))
                .and_then(|()| write!(f, ".{:09}", nanos.rem_euclid(1_000_000_000))),
            Self::Duration(duration) => duration.fmt(f),
            Self::Composite(composite) => super::composite::write(f, composite),
            Self::Empty(_) => Ok(()),
        }
    }
}

impl Value {
    /// Returns the value as a term of CQL: its text, in quotes if the type needs them.
    #[must_use]
    pub fn to_literal(&self) -> String {
        match self {
            Self::Ascii(text) | Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Self::Inet(_) | Self::Timestamp(_) | Self::Date(_) | Self::Time(_) => {
                format!("'{self}'")
            }
            Self::Empty(data_type) => format!("blob_as_{data_type}(0x)"),
            _ => self.to_string(),
        }
    }
}

/// Writes a float like Python: plainly from 1e-4 and below 1e16, otherwise with an exponent.
fn float(
    f: &mut Formatter<'_>,
    number: impl Display + fmt::LowerExp,
    is_finite: bool,
) -> fmt::Result {
    if !is_finite {
        return f.write_str(match number.to_string().as_str() {
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            _ => "NaN",
        });
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..16 => Display::fmt(&number, f),
        exponent if exponent < 0 => write!(f, "{digits}e-{:02}", -exponent),
        exponent => write!(f, "{digits}e+{exponent:02}"),
    }
}

/// Writes a decimal like `java.math.BigDecimal.toString` and Python's `str`.
fn decimal(f: &mut Formatter<'_>, unscaled: &BigInt, scale: i32) -> fmt::Result {
    let digits = unscaled.magnitude().to_string();
    let scale = i64::from(scale);
    let exponent = i64::try_from(digits.len()).unwrap_or(i64::MAX) - 1 - scale;
    if unscaled.sign() == Sign::Minus {
        f.write_str("-")?;
    }
    if scale >= 0 && exponent >= -6 {
        let padded = if exponent < 0 {
            // At most six zeros, so that one digit stands before the point.
            "0".repeat(usize::try_from(-exponent).unwrap_or(0)) + &digits
        } else {
            digits
        };
        let behind = usize::try_from(scale).unwrap_or(0);
        let (whole, fraction) = padded.split_at(padded.len() - behind);
        return match fraction {
            "" => f.write_str(whole),
            _ => write!(f, "{whole}.{fraction}"),
        };
    }
    let (first, others) = digits.split_at(1);
    f.write_str(first)?;
    if !others.is_empty() {
        write!(f, ".{others}")?;
    }
    write!(f, "E{exponent:+}")
}

fn date(f: &mut Formatter<'_>, days: u32) -> fmt::Result {
    let day = Civil::from_days(i64::from(days) - (1 << 31));
    if YEARS.contains(&day.year) { day.fmt(f) } else { days.fmt(f) }
}
