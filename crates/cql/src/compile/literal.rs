//! Constants as values of the type of their use.

use carnet::{DataType, Value};
use carnet_base::Bytes;
use carnet_data::BigInt;

use crate::ast::Literal;
use crate::cql_error::CqlError;
use crate::lexer::shorten;
use crate::shown::shown;

/// Serializes a constant as a type; `None` is null.
pub(crate) fn serialize(
    literal: &Literal,
    data_type: &DataType,
    what: &str,
) -> Result<Option<Bytes>, CqlError> {
    let value = match literal {
        Literal::Null => return Ok(None),
        Literal::Boolean(value) if *data_type == DataType::Boolean => Value::Boolean(*value),
        Literal::Integer(digits) => integer(digits, data_type).ok_or_else(|| {
            CqlError::invalid(format!(
                "{what}: {} is not a value of type {data_type}",
                shorten(digits)
            ))
        })?,
        Literal::Float(text) if is_fractional(data_type) => parse(data_type, text, what)?,
        Literal::String(text) if takes_strings(data_type) => parse(data_type, text, what)?,
        Literal::Blob(bytes) if *data_type == DataType::Blob => {
            Value::Blob(Bytes::copy_from_slice(bytes))
        }
        Literal::Uuid(uuid) if *data_type == DataType::Uuid => Value::Uuid(*uuid),
        Literal::Uuid(uuid) if *data_type == DataType::Timeuuid => Value::Timeuuid(*uuid),
        Literal::Duration(text) if *data_type == DataType::Duration => {
            parse(data_type, text, what)?
        }
        other => {
            return Err(CqlError::invalid(format!(
                "{what}: {} is not a value of type {data_type}",
                shown(other)
            )));
        }
    };
    value.validate().map_err(|error| CqlError::invalid(format!("{what}: {}", error.message())))?;
    Ok(Some(value.serialize()))
}

/// Returns `true` for the text `now` as a timestamp: the time of the statement, as in Cassandra.
pub(crate) fn is_now(literal: &Literal, data_type: &DataType) -> bool {
    let is_word = matches!(literal, Literal::String(text) if text.eq_ignore_ascii_case("now"));
    is_word && *data_type == DataType::Timestamp
}

fn parse(data_type: &DataType, text: &str, what: &str) -> Result<Value, CqlError> {
    data_type
        .parse_text(text)
        .map_err(|error| CqlError::invalid(format!("{what}: {}", error.message())))
}

fn integer(digits: &str, data_type: &DataType) -> Option<Value> {
    Some(match data_type {
        DataType::Tinyint => Value::Tinyint(digits.parse().ok()?),
        DataType::Smallint => Value::Smallint(digits.parse().ok()?),
        DataType::Int => Value::Int(digits.parse().ok()?),
        DataType::Bigint => Value::Bigint(digits.parse().ok()?),
        DataType::Counter => Value::Counter(digits.parse().ok()?),
        DataType::Timestamp => Value::Timestamp(digits.parse().ok()?),
        DataType::Date => Value::Date(digits.parse().ok()?),
        DataType::Time => Value::Time(digits.parse().ok()?),
        DataType::Varint => Value::Varint(digits.parse::<BigInt>().ok()?),
        DataType::Decimal => Value::Decimal { unscaled: digits.parse::<BigInt>().ok()?, scale: 0 },
        DataType::Float => Value::Float(digits.parse().ok()?),
        DataType::Double => Value::Double(digits.parse().ok()?),
        _ => return None,
    })
}

const fn is_fractional(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float | DataType::Double | DataType::Decimal)
}

const fn takes_strings(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Ascii
            | DataType::Text
            | DataType::Inet
            | DataType::Timestamp
            | DataType::Date
            | DataType::Time
    )
}

/// Returns `double` for a constant that the nearest double writes with the same digits, and else
/// `decimal`.
fn fraction_type(text: &str) -> DataType {
    let Ok(exact) = DataType::Decimal.parse_text(text) else { return DataType::Double };
    let double = text.parse::<f64>().ok().filter(|double| double.is_finite());
    let double =
        double.and_then(|double| DataType::Decimal.parse_text(&format!("{double:e}")).ok());
    let is_double = double.is_some_and(|double| double.compare(&exact).is_eq());
    if is_double { DataType::Double } else { DataType::Decimal }
}

/// Returns the type of a constant whose context implies none.
pub(crate) fn natural_type(literal: &Literal) -> Option<DataType> {
    Some(match literal {
        Literal::Null => return None,
        Literal::Boolean(_) => DataType::Boolean,
        Literal::Integer(digits) if digits.parse::<i32>().is_ok() => DataType::Int,
        Literal::Integer(digits) if digits.parse::<i64>().is_ok() => DataType::Bigint,
        Literal::Integer(_) => DataType::Varint,
        Literal::Float(text) => fraction_type(text),
        Literal::String(_) => DataType::Text,
        Literal::Blob(_) => DataType::Blob,
        Literal::Uuid(_) => DataType::Uuid,
        Literal::Duration(_) => DataType::Duration,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_without_a_double_are_decimals() {
        for (text, expected) in [
            ("1.5", DataType::Double),
            ("0.1", DataType::Double),
            ("3e10", DataType::Double),
            ("NaN", DataType::Double),
            ("0.12345678901234567890", DataType::Decimal),
            ("1e400", DataType::Decimal),
        ] {
            assert_eq!(natural_type(&Literal::Float(text.to_owned())), Some(expected), "{text}");
        }
    }
}
