//! `CAST(term AS type)`, with the results of Cassandra where they are right.
//!
//! | from | to | how |
//! | --- | --- | --- |
//! | a number | an integer, `varint` | a fraction is truncated; a number outside of the type's range is refused, where Cassandra keeps its low bits or takes the nearest integer |
//! | a number | `float`, `double`, `decimal` | the nearest number |
//! | any type but `text` and `blob` | `text`, `ascii` | in Java's format |
//! | `timeuuid`, `timestamp`, `date` | `timestamp`, `date` | the time of the value |

use carnet::{DataType, Value};
use carnet_data::BigInt;

use super::decimal::digits;
use super::number::is_number;
use super::times::{date, millis_of};
use crate::cql_error::CqlError;
use crate::json;
use crate::parser::NUMBER_DIGITS_MAX;
use crate::shown::shown_value;

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
        DataType::Float => float(&value)?,
        DataType::Double => double(&value)?,
        DataType::Decimal => DataType::Decimal.parse_text(&json::java_text(&value)?)?,
        DataType::Varint => Value::Varint(whole(&value)?),
        DataType::Bigint => Value::Bigint(integer(&value, to)?),
        DataType::Int => Value::Int(integer(&value, to)?),
        DataType::Smallint => Value::Smallint(integer(&value, to)?),
        DataType::Tinyint => Value::Tinyint(integer(&value, to)?),
        _ => return Err(CqlError::invalid(format!("a value cannot be cast to {to}"))),
    })
}

/// Returns the float nearest to a number.
fn float(value: &Value) -> Result<Value, CqlError> {
    Ok(Value::Float(match value {
        #[expect(clippy::cast_possible_truncation, reason = "rounds")]
        Value::Double(number) => *number as f32,
        value => parsed(value)?,
    }))
}

/// Returns the double nearest to a number; a float is one.
fn double(value: &Value) -> Result<Value, CqlError> {
    Ok(Value::Double(match value {
        Value::Float(number) => f64::from(*number),
        value => parsed(value)?,
    }))
}

/// Returns the nearest number of a floating-point type.
fn parsed<T: std::str::FromStr>(value: &Value) -> Result<T, CqlError> {
    let text = json::java_text(value)?;
    text.parse().map_err(|_| CqlError::invalid(format!("{text} cannot be cast to a float")))
}

/// Returns the integer part of a number as an integer of a type.
fn integer<T: TryFrom<BigInt>>(value: &Value, to: &DataType) -> Result<T, CqlError> {
    T::try_from(whole(value)?).map_err(|_| {
        CqlError::invalid(format!(
            "{}, of type {}, is outside of the range of type {to}",
            shown_value(value),
            value.data_type()
        ))
    })
}

/// Returns the integer part of a number.
fn whole(value: &Value) -> Result<BigInt, CqlError> {
    Ok(match value {
        Value::Tinyint(number) => BigInt::from(*number),
        Value::Smallint(number) => BigInt::from(*number),
        Value::Int(number) => BigInt::from(*number),
        Value::Bigint(number) | Value::Counter(number) => BigInt::from(*number),
        Value::Float(number) => whole_float(f64::from(*number))?,
        Value::Double(number) => whole_float(*number)?,
        Value::Varint(number) => number.clone(),
        Value::Decimal { unscaled, scale } => whole_decimal(unscaled, *scale)?,
        other => {
            let data_type = other.data_type();
            return Err(CqlError::invalid(format!("a value of type {data_type} is no number")));
        }
    })
}

fn whole_float(number: f64) -> Result<BigInt, CqlError> {
    // The text of a finite float without an exponent has all its digits.
    let text = format!("{:.0}", number.trunc());
    text.parse().map_err(|_| CqlError::invalid(format!("{number} has no integer part")))
}

fn whole_decimal(unscaled: &BigInt, scale: i32) -> Result<BigInt, CqlError> {
    if *unscaled == BigInt::ZERO {
        return Ok(BigInt::ZERO);
    }
    json::check_digits(unscaled)?;
    let places = scale.unsigned_abs();
    let power = || BigInt::from(10).pow(places);
    if scale < 0 {
        let count = digits(unscaled) as u64 + u64::from(places);
        if count > NUMBER_DIGITS_MAX as u64 {
            return Err(CqlError::invalid(format!(
                "a decimal with an integer part of {count} digits cannot be cast to an integer; at most \
                 {NUMBER_DIGITS_MAX} digits can"
            )));
        }
        return Ok(unscaled * power());
    }
    // Dividing by more digits than the number has leaves zero.
    Ok(if u64::from(places) > unscaled.bits() { BigInt::ZERO } else { unscaled / power() })
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
            (Smallint, "127", Tinyint, "127"),
            (Int, "-1", Varint, "-1"),
            (Varint, "100000000000000000000", Float, "1e+20"),
            (Varint, "-5", Tinyint, "-5"),
            (Decimal, "-12.75", Int, "-12"),
            (Decimal, "1e-2000000000", Bigint, "0"),
            (Decimal, "1e25", Double, "1e+25"),
            (Float, "1e10", Bigint, "10000000000"),
            (Float, "1e10", Decimal, "1.0E+10"),
            (Float, "1e10", Text, "1.0E10"),
            (Float, "0.1", Double, "0.10000000149011612"),
            (Float, "0.1", Decimal, "0.1"),
            (Double, "0.1", Float, "0.1"),
            // The double below the midpoint of two floats; its shortest text is above it.
            (Double, "1.00000005960464477", Float, "1"),
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

    /// Cassandra 5.0.6 gives the number behind each, which is another one.
    #[test]
    fn numbers_outside_of_a_type_are_refused() {
        use DataType::{Bigint, Decimal, Double, Float, Int, Smallint, Tinyint, Varint};
        for (from, text, to, _) in [
            (Smallint, "300", Tinyint, "44"),
            (Int, "70000", Smallint, "4464"),
            (Bigint, "5000000000", Int, "705032704"),
            (Bigint, "5000000000", Smallint, "-3584"),
            (Varint, "100000000000000000000", Bigint, "7766279631452241920"),
            (Decimal, "1e25", Int, "1241513984"),
            (Decimal, "1e2000000000", Bigint, "0"),
            (Decimal, "1e999999999", Varint, "0"),
            (Float, "1e10", Tinyint, "-1"),
            (Float, "1e10", Int, "2147483647"),
            (Float, "NaN", Int, "0"),
            (Double, "-300.7", Tinyint, "-44"),
            (Double, "1e300", Bigint, "9223372036854775807"),
            (Double, "Infinity", Varint, "9223372036854775807"),
        ] {
            let value = from.parse_text(text).unwrap();
            let error = cast(value, &to).expect_err(text);
            assert_eq!(error.kind(), &crate::cql_error::CqlErrorKind::Invalid, "{text}: {error}");
        }
    }

    /// Cassandra 5.0.6 gives the low 64 bits.
    #[test]
    fn long_integers_are_exact() {
        use DataType::{Decimal, Double, Varint};
        for (from, text, expected) in [
            (Decimal, "1E+30", "1000000000000000000000000000000"),
            (Decimal, "1e25", "10000000000000000000000000"),
            (Decimal, "-123456789012345678901234567890.99", "-123456789012345678901234567890"),
            (Double, "1e30", "1000000000000000019884624838656"),
            (Decimal, "0e-5", "0"),
            (Decimal, "0e20000", "0"),
        ] {
            let value = from.parse_text(text).unwrap();
            assert_eq!(cast(value, &Varint).unwrap().to_string(), expected, "{text}");
        }
        let cast = |text: &str| cast(Decimal.parse_text(text).unwrap(), &Varint);
        assert_eq!(cast("-12345e9995").unwrap().to_string().len(), 1 + 10_000);
        let error = cast("12345e9996").unwrap_err().to_string();
        assert!(error.contains("10001 digits") && error.contains("at most 10000"), "{error}");
    }
}
