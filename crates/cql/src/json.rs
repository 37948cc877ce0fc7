//! Values as JSON, in the format of Cassandra's `toJson`.
//!
//! | type | JSON |
//! | --- | --- |
//! | integers, `varint`, `decimal` | a number |
//! | `float`, `double` | a number in Java's format (`1.0E10`); `null` if it is not finite |
//! | `boolean` | `true`, `false` |
//! | `timestamp` | `"2026-11-25 01:02:03.004Z"` |
//! | `inet` | its text in quotes, an IPv6 address with all its groups |
//! | every other scalar | its text in quotes, a blob in hexadecimal digits |
//! | list, set, tuple | an array |
//! | map | an object, whose keys are in quotes whatever their type |
//! | user-defined type | an object of its fields |

pub(crate) mod read;

use std::fmt::LowerExp;
use std::net::{IpAddr, Ipv6Addr};

use carnet::{DataType, Value};
use carnet_base::Bytes;
use carnet_data::{BigInt, Composite};

use crate::cql_error::CqlError;
use crate::parser::NUMBER_DIGITS_MAX;
use crate::result::ColumnSpec;

/// Maximum bytes of the JSON of a value.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Number of bits of the least number with more than [`NUMBER_DIGITS_MAX`] digits.
const REFUSED_BITS: u64 = 33_220;

/// Returns a value in Cassandra's serialization as JSON; null is `null`.
#[cfg(test)]
pub(crate) fn of_bytes(data_type: &DataType, bytes: Option<&Bytes>) -> Result<String, CqlError> {
    let mut out = String::new();
    write_bytes(&mut out, data_type, bytes)?;
    Ok(out)
}

fn write_bytes(
    out: &mut String,
    data_type: &DataType,
    bytes: Option<&Bytes>,
) -> Result<(), CqlError> {
    match bytes {
        Some(bytes) => return write(out, &data_type.deserialize_result(bytes)?),
        None => out.push_str("null"),
    }
    Ok(())
}

/// Returns the name of a field. One with upper-case letters is in quotes of its own, as in Cassandra.
fn field_name(name: &str) -> String {
    let has_upper = name.chars().any(char::is_uppercase);
    if has_upper { quoted(&format!("\"{name}\"")) } else { quoted(name) }
}

/// Returns a row as a JSON object. `charge` gets the bytes of the text so far.
///
/// # Errors
///
/// Errors of `charge`; `Invalid` for a value whose text is too long.
pub(crate) fn of_row(
    columns: &[ColumnSpec],
    row: &[Option<Bytes>],
    charge: impl Fn(usize) -> Result<(), CqlError>,
) -> Result<String, CqlError> {
    let mut out = String::from("{");
    for (place, (column, bytes)) in columns.iter().zip(row).enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        out.push_str(&field_name(&column.name));
        out.push_str(": ");
        charge(out.len() + bytes.as_ref().map_or(0, Bytes::len))?;
        write_bytes(&mut out, &column.data_type, bytes.as_ref())?;
        charge(out.len())?;
    }
    out.push('}');
    Ok(out)
}

/// Returns a value in JSON.
pub(crate) fn of_value(value: &Value) -> Result<String, CqlError> {
    let mut out = String::new();
    write(&mut out, value)?;
    Ok(out)
}

/// Appends a value in Cassandra's serialization for a program whose numbers are doubles, such as a page in a
/// browser.
///
/// | type | JSON |
/// | --- | --- |
/// | integers of 32 bits, finite floats | a number |
/// | `bigint`, `counter`, `varint`, `decimal`, other floats | the digits, or `NaN`, in quotes |
/// | collections, tuples, user-defined types | their JSON as text, in quotes |
/// | others | as in `toJson` |
///
/// # Errors
///
/// `Invalid` for a value that is not of the type, or whose text is too long.
pub fn write_shown(
    out: &mut String,
    data_type: &DataType,
    bytes: Option<&Bytes>,
) -> Result<(), CqlError> {
    let Some(bytes) = bytes else {
        out.push_str("null");
        return Ok(());
    };
    match &data_type.deserialize_result(bytes)? {
        value @ (Value::Bigint(_) | Value::Counter(_)) => out.push_str(&quoted(&value.to_string())),
        value @ (Value::Varint(_) | Value::Decimal { .. }) => {
            out.push_str(&quoted(&of_scalar(value)?));
        }
        Value::Float(number) if !number.is_finite() => out.push_str(&quoted(&number.to_string())),
        Value::Double(number) if !number.is_finite() => out.push_str(&quoted(&number.to_string())),
        value @ Value::Composite(_) => write_quoted(out, &of_value(value)?)?,
        value => write(out, value)?,
    }
    Ok(())
}

/// Appends a value in JSON.
fn write(out: &mut String, value: &Value) -> Result<(), CqlError> {
    match value {
        Value::Composite(composite) => write_composite(out, composite)?,
        Value::Text(text) | Value::Ascii(text) => write_quoted(out, text)?,
        value => out.push_str(&of_scalar(value)?),
    }
    if out.len() <= TEXT_BYTES_MAX { Ok(()) } else { Err(too_long()) }
}

fn too_long() -> CqlError {
    CqlError::invalid(format!("a value of more than {TEXT_BYTES_MAX} bytes as JSON"))
}

fn of_scalar(value: &Value) -> Result<String, CqlError> {
    Ok(match value {
        Value::Tinyint(_)
        | Value::Smallint(_)
        | Value::Int(_)
        | Value::Bigint(_)
        | Value::Counter(_) => value.to_string(),
        Value::Varint(number) | Value::Decimal { unscaled: number, .. } => {
            check_digits(number)?;
            value.to_string()
        }
        Value::Empty(_) => quoted(""),
        Value::Float(number) if !number.is_finite() => "null".to_owned(),
        Value::Double(number) if !number.is_finite() => "null".to_owned(),
        Value::Float(number) => java_float(&format!("{number:?}"), number),
        Value::Double(number) => java_float(&format!("{number:?}"), number),
        Value::Boolean(value) => value.to_string(),
        Value::Timestamp(_) => {
            let text = value.to_string();
            let millis = text.strip_suffix("000+0000");
            quoted(&millis.map_or(text.clone(), |millis| format!("{millis}Z")))
        }
        Value::Inet(IpAddr::V6(address)) => quoted(&ipv6(address)),
        value => quoted(&value.to_string()),
    })
}

fn write_composite(out: &mut String, composite: &Composite) -> Result<(), CqlError> {
    let data_type = composite.data_type();
    let is_object = matches!(data_type, DataType::Udt(_) | DataType::Map(_));
    out.push(if is_object { '{' } else { '[' });
    for (place, item) in composite.parts().chunks(composite.parts_per_item()).enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        let mut item = item.iter();
        match data_type {
            DataType::Udt(user_type) => {
                let name = user_type.fields.get(place).map_or("", |(name, _)| name);
                out.push_str(&field_name(name));
                out.push_str(": ");
            }
            DataType::Map(_) => {
                let mut key = String::new();
                write_part(&mut key, item.next().and_then(Option::as_ref))?;
                out.push_str(&in_quotes(key));
                out.push_str(": ");
            }
            _ => {}
        }
        write_part(out, item.next().and_then(Option::as_ref))?;
    }
    out.push(if is_object { '}' } else { ']' });
    Ok(())
}

fn write_part(out: &mut String, part: Option<&Value>) -> Result<(), CqlError> {
    match part {
        Some(value) => return write(out, value),
        None => out.push_str("null"),
    }
    Ok(())
}

/// Returns a value as text in Java's format.
pub(crate) fn java_text(value: &Value) -> Result<String, CqlError> {
    Ok(match value {
        Value::Boolean(value) => value.to_string(),
        Value::Float(number) if number.is_finite() => java_float(&format!("{number:?}"), number),
        Value::Double(number) if number.is_finite() => java_float(&format!("{number:?}"), number),
        Value::Varint(number) | Value::Decimal { unscaled: number, .. } => {
            check_digits(number)?;
            value.to_string()
        }
        Value::Timestamp(_) => {
            let text = value.to_string();
            match text.strip_suffix("000+0000") {
                Some(millis) => format!("{}Z", millis.replace(' ', "T")),
                None => text,
            }
        }
        Value::Inet(IpAddr::V6(address)) => ipv6(address),
        Value::Composite(parts) => {
            check_all_digits(parts)?;
            value.to_string()
        }
        value => value.to_string(),
    })
}

/// Writes an IPv6 address with all its groups.
fn ipv6(address: &Ipv6Addr) -> String {
    address.segments().map(|group| format!("{group:x}")).join(":")
}

/// Writes a finite float like Java: without exponent from 10⁻³ to below 10⁷, otherwise with one.
fn java_float(plain: &str, number: impl LowerExp) -> String {
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let is_zero = digits.trim_start_matches('-') == "0";
    if is_zero || matches!(exponent.parse::<i32>(), Ok(-3..7)) {
        return plain.to_owned();
    }
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{digits}{point}E{exponent}")
}

/// Refuses a number with too many digits: writing them takes quadratic time.
pub(crate) fn check_digits(number: &BigInt) -> Result<(), CqlError> {
    let bits = number.bits();
    // Only a number of as many bits as the first refused one is compared with it.
    let is_short = bits < REFUSED_BITS
        || bits == REFUSED_BITS && {
            let refused =
                BigInt::from(10).pow(u32::try_from(NUMBER_DIGITS_MAX).unwrap_or(u32::MAX));
            -&refused < *number && *number < refused
        };
    if is_short {
        return Ok(());
    }
    let digits = bits * 30_103 / 100_000 + 1;
    Err(CqlError::invalid(format!(
        "a number of about {digits} digits cannot be written as text; at most {NUMBER_DIGITS_MAX} \
         digits can"
    )))
}

/// Refuses a value that has a number with too many digits somewhere within.
fn check_all_digits(composite: &Composite) -> Result<(), CqlError> {
    composite.parts().iter().flatten().try_for_each(|part| match part {
        Value::Varint(number) | Value::Decimal { unscaled: number, .. } => check_digits(number),
        Value::Composite(parts) => check_all_digits(parts),
        _ => Ok(()),
    })
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends a text in quotes, a part of it at a time: a control character takes six bytes.
fn write_quoted(out: &mut String, text: &str) -> Result<(), CqlError> {
    const PART_BYTES: usize = 64 << 10;
    if text.len() <= PART_BYTES {
        out.push_str(&quoted(text));
        return Ok(());
    }
    out.push('"');
    let mut rest = text;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        let part = quoted(part);
        out.push_str(&part[1..part.len() - 1]);
        if out.len() > TEXT_BYTES_MAX {
            return Err(too_long());
        }
        rest = behind;
    }
    out.push('"');
    Ok(())
}

fn in_quotes(json: String) -> String {
    if json.starts_with('"') { json } else { quoted(&json) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::{collection, text};

    fn json(data_type: &DataType, text: &str) -> String {
        of_value(&data_type.parse_text(text).unwrap()).unwrap()
    }

    /// Writing a number takes quadratic time wherever it stands.
    #[test]
    fn numbers_within_a_collection_have_ten_thousand_digits_at_most() {
        let long = BigInt::from(10).pow(10_000);
        let inner = DataType::list(DataType::Varint);
        let list = Composite::new(inner.clone(), vec![Some(Value::Varint(long))]).unwrap();
        let outer = Composite::new(DataType::list(inner), vec![Some(Value::Composite(list))]);
        let error = java_text(&Value::Composite(outer.unwrap())).unwrap_err().to_string();
        assert!(error.contains("about 10001 digits"), "{error}");
    }

    #[test]
    fn longest_number_has_ten_thousand_digits() {
        let refused = BigInt::from(10).pow(10_000);
        let longest = &refused - BigInt::from(1);
        for number in [longest.clone(), -longest] {
            assert!(of_value(&Value::Varint(number.clone())).unwrap().len() >= 10_000);
            of_value(&Value::Decimal { unscaled: number, scale: 7 }).unwrap();
        }
        for number in [refused.clone(), -refused] {
            let error = of_value(&Value::Varint(number)).unwrap_err().to_string();
            assert!(
                error.contains("about 10001 digits") && error.contains("at most 10000"),
                "{error}"
            );
        }
    }

    #[test]
    fn scalars_are_written_as_cassandra_does() {
        for (data_type, text, expected) in [
            (DataType::Ascii, "a", "\"a\""),
            (DataType::Text, "say \"hi\"\n\\", r#""say \"hi\"\n\\""#),
            (DataType::Tinyint, "-1", "-1"),
            (DataType::Smallint, "2", "2"),
            (DataType::Int, "3", "3"),
            (DataType::Bigint, "9223372036854775807", "9223372036854775807"),
            (DataType::Varint, "100000000000000000000", "100000000000000000000"),
            (DataType::Decimal, "1.50", "1.50"),
            (DataType::Float, "1", "1.0"),
            (DataType::Double, "0.001", "0.001"),
            (DataType::Double, "0.0001", "1.0E-4"),
            (DataType::Double, "9999999.5", "9999999.5"),
            (DataType::Double, "12345678", "1.2345678E7"),
            (DataType::Double, "-0", "-0.0"),
            (DataType::Double, "NaN", "null"),
            (DataType::Float, "Infinity", "null"),
            (DataType::Boolean, "true", "true"),
            (DataType::Blob, "0x00fF", "\"0x00ff\""),
            (DataType::Inet, "127.0.0.1", "\"127.0.0.1\""),
            (DataType::Inet, "2001:db8::1", "\"2001:db8:0:0:0:0:0:1\""),
            (DataType::Timestamp, "2026-11-25 01:02:03.004Z", "\"2026-11-25 01:02:03.004Z\""),
            (DataType::Date, "2026-11-25", "\"2026-11-25\""),
            (DataType::Time, "01:02:03.5", "\"01:02:03.500000000\""),
            (
                DataType::Uuid,
                "deadbeef-0000-4000-8000-00805f9b34fb",
                "\"deadbeef-0000-4000-8000-00805f9b34fb\"",
            ),
            (
                DataType::Timeuuid,
                "deadbeef-0000-1000-8000-00805f9b34fb",
                "\"deadbeef-0000-1000-8000-00805f9b34fb\"",
            ),
        ] {
            assert_eq!(json(&data_type, text), expected, "{data_type} {text}");
        }
    }

    #[test]
    fn shown_numbers_are_exact() {
        let shown = |data_type: DataType, text: &str| {
            let bytes = data_type.parse_text(text).unwrap().serialize();
            let mut out = String::new();
            write_shown(&mut out, &data_type, Some(&bytes)).unwrap();
            out
        };
        assert_eq!(shown(DataType::Int, "-7"), "-7");
        assert_eq!(shown(DataType::Double, "0.5"), "0.5");
        assert_eq!(shown(DataType::Double, "NaN"), "\"NaN\"");
        assert_eq!(shown(DataType::Bigint, "9007199254740993"), "\"9007199254740993\"");
        assert_eq!(shown(DataType::Decimal, "1.50"), "\"1.50\"");
        assert_eq!(shown(DataType::Text, "a\"b"), r#""a\"b""#);
        let one = Value::Int(1).serialize();
        let list = collection(1, [&one[..]].into_iter());
        let mut out = String::new();
        write_shown(&mut out, &DataType::set(DataType::Int), Some(&list)).unwrap();
        write_shown(&mut out, &DataType::Int, None).unwrap();
        assert_eq!(out, "\"[1]\"null");
        assert!(write_shown(&mut out, &DataType::Int, Some(&Bytes::from_static(b"xx"))).is_err());
    }

    #[test]
    fn collections_are_arrays_and_objects() {
        let (int, text_type) = (DataType::Int, DataType::Text);
        let (one, two) = (Value::Int(1).serialize(), Value::Int(2).serialize());
        let list = collection(2, [&one[..], &two[..]].into_iter());
        let set = DataType::set(int.clone());
        assert_eq!(of_bytes(&set, Some(&list)).unwrap(), "[1, 2]");
        let map = DataType::map(int, text_type);
        let pairs = collection(1, [&one[..], &text("a").unwrap()[..]].into_iter());
        assert_eq!(of_bytes(&map, Some(&pairs)).unwrap(), r#"{"1": "a"}"#);
        assert_eq!(of_bytes(&map, None).unwrap(), "null");
        for end in 0..pairs.len() {
            assert!(of_bytes(&map, Some(&pairs.slice(..end))).is_err());
        }
    }

    #[test]
    fn number_of_too_many_digits_is_refused() {
        let number = BigInt::from(1) << 200_000_u32;
        assert!(of_value(&Value::Varint(number)).is_err());
    }
}
