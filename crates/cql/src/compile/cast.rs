//! `CAST(term AS type)`, with the results of Cassandra, whose numbers are Java's.
//!
//! | from | to | how |
//! | --- | --- | --- |
//! | a number | an integer | a fraction is truncated; a larger integer keeps its low bits; a larger `float` or `double` becomes the largest `int` or `bigint` |
//! | a number | `varint` | through `bigint`, except from `varint` |
//! | a number | `float`, `double`, `decimal` | the nearest number |
//! | any type but `text` and `blob` | `text`, `ascii` | in Java's format |
//! | `timeuuid`, `timestamp`, `date` | `timestamp`, `date` | the time of the value |

use carnet::base::BigInt;
use carnet::{DataType, Value};

use super::number::is_number;
use super::times::{date, millis_of};
use crate::cql_error::CqlError;
use crate::json;

/// Fails if values of a type cannot be cast to another type.
pub(super) fn check(from: &DataType, to: &DataType, what: &str) -> Result<(), CqlError> {
    let is_text = matches!(to, DataType::Text | DataType::Ascii);
    let is_time = match to {
        DataType::Timestamp => matches!(from, DataType::Timeuuid | DataType::Date),
        DataType::Date => matches!(from, DataType::Timeuuid | DataType::Timestamp),
        _ => false,
    };
    let is_allowed = from == to
        || (is_number(from) && is_number(to) && *to != DataType::Counter)
        || (is_text && !matches!(from, DataType::Text | DataType::Blob))
        || is_time;
    if is_allowed {
        return Ok(());
    }
    Err(CqlError::invalid(format!("{what} of type {from} cannot be cast to {to}")))
}

/// Casts a value to a type that [`check`] allows.
pub(super) fn cast(value: Value, to: &DataType) -> Result<Value, CqlError> {
    if value.data_type() == *to {
        return Ok(value);
    }
    Ok(match to {
        DataType::Text => Value::Text(json::java_text(&value)?),
        DataType::Ascii => Value::Ascii(json::java_text(&value)?),
        DataType::Timestamp => Value::Timestamp(millis_of(&value)?),
        DataType::Date => date(millis_of(&value)?)?,
        DataType::Float => Value::Float(parsed(&value)?),
        DataType::Double => Value::Double(parsed(&value)?),
        DataType::Decimal => decimal(&value)?,
        DataType::Varint => Value::Varint(BigInt::from(long(&value)?)),
        DataType::Bigint => Value::Bigint(long(&value)?),
        DataType::Int | DataType::Smallint | DataType::Tinyint => {
            let low = narrowed(&value)?.to_le_bytes();
            match to {
                DataType::Int => Value::Int(i32::from_le_bytes(low)),
                DataType::Smallint => Value::Smallint(i16::from_le_bytes([low[0], low[1]])),
                _ => Value::Tinyint(i8::from_le_bytes([low[0]])),
            }
        }
        _ => return Err(CqlError::invalid(format!("a value cannot be cast to {to}"))),
    })
}

/// Returns the nearest float to a number.
fn parsed<T: std::str::FromStr>(value: &Value) -> Result<T, CqlError> {
    let text = json::java_text(value)?;
    text.parse().map_err(|_| CqlError::invalid(format!("{text} cannot be cast to a float")))
}

fn decimal(value: &Value) -> Result<Value, CqlError> {
    let text = match value {
        Value::Float(number) => json::java_text(&Value::Double(f64::from(*number)))?,
        value => json::java_text(value)?,
    };
    Ok(DataType::Decimal.parse_text(&text)?)
}

/// Returns the low 32 bits of an integer; for a float, the nearest `int`.
#[expect(clippy::cast_possible_truncation, reason = "as in Java")]
fn narrowed(value: &Value) -> Result<i32, CqlError> {
    Ok(match value {
        Value::Float(number) => *number as i32,
        Value::Double(number) => *number as i32,
        value => long(value)? as i32,
    })
}

/// Returns the low 64 bits of an integer; for a float, the nearest `bigint`.
#[expect(clippy::cast_possible_truncation, reason = "as in Java")]
fn long(value: &Value) -> Result<i64, CqlError> {
    Ok(match value {
        Value::Tinyint(number) => i64::from(*number),
        Value::Smallint(number) => i64::from(*number),
        Value::Int(number) => i64::from(*number),
        Value::Bigint(number) | Value::Counter(number) => *number,
        Value::Float(number) => *number as i64,
        Value::Double(number) => *number as i64,
        Value::Varint(number) => low_bits(number),
        Value::Decimal { unscaled, scale } => {
            json::check_digits(unscaled)?;
            low_bits(&whole_part(unscaled, *scale))
        }
        other => {
            let data_type = other.data_type();
            return Err(CqlError::invalid(format!("a value of type {data_type} is no number")));
        }
    })
}

/// Returns the integer part of a decimal, or a number with the same low 64 bits.
fn whole_part(unscaled: &BigInt, scale: i32) -> BigInt {
    let power = |exponent: u32| BigInt::from(10).pow(exponent);
    // 10⁶⁴ has no low bits; dividing by more digits than the number has leaves zero.
    match u64::from(scale.unsigned_abs()) {
        exponent if scale < 0 && exponent >= 64 => BigInt::ZERO,
        exponent if scale > 0 && exponent > unscaled.bits() => BigInt::ZERO,
        _ if scale < 0 => unscaled * power(scale.unsigned_abs()),
        _ => unscaled / power(scale.unsigned_abs()),
    }
}

fn low_bits(number: &BigInt) -> i64 {
    let bytes = number.to_signed_bytes_le();
    let fill = if *number < BigInt::ZERO { 0xff } else { 0 };
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(fill);
    i64::from_le_bytes(std::array::from_fn(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of Cassandra 5.0.6.
    #[test]
    fn casts_are_those_of_java() {
        use DataType::{
            Ascii, Bigint, Boolean, Date, Decimal, Double, Float, Inet, Int, Smallint, Text, Time,
            Timestamp, Timeuuid, Tinyint, Varint,
        };
        for (from, text, to, expected) in [
            (Smallint, "300", Tinyint, "44"),
            (Int, "70000", Smallint, "4464"),
            (Int, "-1", Varint, "-1"),
            (Bigint, "5000000000", Int, "705032704"),
            (Bigint, "5000000000", Smallint, "-3584"),
            (Varint, "100000000000000000000", Bigint, "7766279631452241920"),
            (Varint, "100000000000000000000", Float, "1e+20"),
            (Varint, "-5", Tinyint, "-5"),
            (Decimal, "-12.75", Int, "-12"),
            (Decimal, "1e25", Int, "1241513984"),
            (Decimal, "1e25", Varint, "1590897978359414784"),
            (Decimal, "1e2000000000", Bigint, "0"),
            (Decimal, "1e-2000000000", Bigint, "0"),
            (Decimal, "1e25", Double, "1e+25"),
            (Float, "1e10", Tinyint, "-1"),
            (Float, "1e10", Int, "2147483647"),
            (Float, "1e10", Bigint, "10000000000"),
            (Float, "1e10", Decimal, "1.0E+10"),
            (Float, "1e10", Text, "1.0E10"),
            (Float, "NaN", Int, "0"),
            (Double, "-300.7", Tinyint, "-44"),
            (Double, "1e300", Bigint, "9223372036854775807"),
            (Double, "1e300", Float, "Infinity"),
            (Double, "Infinity", Ascii, "Infinity"),
            (Double, "2.5", Decimal, "2.5"),
            (Boolean, "true", Text, "true"),
            (Inet, "::1", Text, "0:0:0:0:0:0:0:1"),
            (Timestamp, "2026-11-25 01:02:03.004Z", Text, "2026-11-25T01:02:03.004Z"),
            (Timestamp, "2026-11-25 01:02:03.004Z", Date, "2026-11-25"),
            (Date, "2026-11-25", Timestamp, "2026-11-25 00:00:00.000000+0000"),
            (Time, "01:02:03.5", Text, "01:02:03.500000000"),
            (Timeuuid, "50554d6e-29bb-11e5-b345-feff819cdc9f", Date, "2015-07-14"),
        ] {
            let value = from.parse_text(text).unwrap();
            check(&from, &to, text).unwrap();
            assert_eq!(cast(value, &to).unwrap().to_string(), expected, "{from} {text} as {to}");
        }
        for (from, to) in [(DataType::Blob, Text), (Text, Ascii), (Text, Int), (Boolean, Int)] {
            assert!(check(&from, &to, "it").is_err());
        }
        let nan = cast(Value::Double(f64::NAN), &Decimal);
        assert!(nan.is_err());
    }
}
