//! Values from JSON, in the format of Cassandra's `fromJson` and `INSERT JSON`.
//!
//! Each type reads what [`super`] writes, and strings of its literals in CQL: `"1"` is an `int`, too.
//! The keys of a map are strings whatever their type.

use std::collections::BTreeMap;

use carnet::catalog::TableSchema;
use carnet::{DataType, Value};
use carnet_data::Composite;
use serde_json::value::RawValue;

use crate::cql_error::CqlError;
use crate::lexer::shorten;

/// Maximum length of a JSON text.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Returns the values of a table's columns in the object of an `INSERT JSON`: `None` if the object
/// does not have the column, `Some(None)` for null.
///
/// # Errors
///
/// `Invalid` if the text is no JSON object, if it has a field that is no column, or if a value is
/// not one of the column's type.
pub(crate) fn columns(
    text: &str,
    table: &TableSchema,
) -> Result<Vec<Option<Option<Value>>>, CqlError> {
    let mut found = vec![None; table.columns.len()];
    for (field, raw) in object(text)? {
        let name = column_name(&field);
        let Some(position) = table.columns.iter().position(|column| column.name == name) else {
            let name = shorten(&name);
            return Err(CqlError::invalid(format!(
                "JSON values map contains unrecognized column: {name}"
            )));
        };
        let value = value(raw, &table.columns[position].data_type);
        found[position] = Some(value.map_err(|error| of(&name, &error))?);
    }
    Ok(found)
}

/// Returns the value of a JSON text; `None` is null.
pub(crate) fn of_text(text: &str, data_type: &DataType) -> Result<Option<Value>, CqlError> {
    check_length(text)?;
    let raw = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    value(raw, data_type)
}

/// A name in quotes within the string is case-sensitive.
fn column_name(field: &str) -> String {
    let quoted = field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    quoted.map_or_else(|| field.to_lowercase(), ToOwned::to_owned)
}

fn object(text: &str) -> Result<BTreeMap<String, &RawValue>, CqlError> {
    check_length(text)?;
    serde_json::from_str(text).map_err(|error| malformed(&error))
}

fn check_length(text: &str) -> Result<(), CqlError> {
    if text.len() <= TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(CqlError::invalid(format!(
        "a JSON text of {} bytes; at most {TEXT_BYTES_MAX} are allowed",
        text.len()
    )))
}

fn malformed(error: &serde_json::Error) -> CqlError {
    CqlError::invalid(format!("Could not decode JSON: {error}"))
}

fn of(column: &str, error: &CqlError) -> CqlError {
    CqlError::invalid(format!("Error decoding JSON value for {column}: {}", error.message()))
}

fn value(raw: &RawValue, data_type: &DataType) -> Result<Option<Value>, CqlError> {
    let text = raw.get().trim();
    if text == "null" {
        return Ok(None);
    }
    let parts = match data_type {
        DataType::List(element) | DataType::Set(element) => {
            let items = array(text, data_type)?;
            items.into_iter().map(|item| value(item, element)).collect::<Result<_, _>>()?
        }
        DataType::Vector(vector) => {
            let items = array(text, data_type)?;
            items.into_iter().map(|item| value(item, &vector.0)).collect::<Result<_, _>>()?
        }
        DataType::Tuple(fields) => {
            let items = array(text, data_type)?;
            if items.len() > fields.len() {
                return Err(expected(&format!("at most {} values", fields.len()), text));
            }
            let items = items.into_iter().zip(fields.iter());
            items.map(|(item, field)| value(item, field)).collect::<Result<_, _>>()?
        }
        DataType::Map(pair) => {
            let fields: BTreeMap<String, &RawValue> =
                serde_json::from_str(text).map_err(|_| expected("an object", text))?;
            let mut parts = Vec::with_capacity(2 * fields.len());
            for (name, raw) in fields {
                parts.push(key(&name, &pair.0)?);
                parts.push(value(raw, &pair.1)?);
            }
            parts
        }
        DataType::Udt(user_type) => {
            let found = object(text)?;
            let mut parts = vec![None; user_type.fields.len()];
            for (field, raw) in found {
                let name = column_name(&field);
                let place = user_type.fields.iter().position(|(known, _)| *known == name);
                let place = place.ok_or_else(|| {
                    let name = shorten(&name);
                    CqlError::invalid(format!(
                        "Unknown field '{name}' in value of user defined type"
                    ))
                })?;
                parts[place] = value(raw, &user_type.fields[place].1)?;
            }
            parts
        }
        scalar => return self::scalar(text, scalar).map(Some),
    };
    Ok(Some(Value::Composite(Composite::new(data_type.clone(), parts)?)))
}

fn array<'t>(text: &'t str, data_type: &DataType) -> Result<Vec<&'t RawValue>, CqlError> {
    serde_json::from_str(text)
        .map_err(|_| expected(&format!("an array for a {}", data_type.name()), text))
}

/// Reads the key of a map: the text of a scalar, or the JSON of a composite value.
fn key(text: &str, data_type: &DataType) -> Result<Option<Value>, CqlError> {
    if data_type.is_composite() {
        of_text(text, data_type)
    } else {
        of_string(text, data_type).map(Some)
    }
}

/// Reads a scalar from a string. An empty one is the empty value, but of a `varint`, as in Cassandra.
fn of_string(text: &str, data_type: &DataType) -> Result<Value, CqlError> {
    Ok(match (text, data_type) {
        ("", DataType::Boolean) => Value::Boolean(false),
        ("", data_type) if data_type.has_empty() && *data_type != DataType::Varint => {
            Value::Empty(data_type.clone())
        }
        _ => data_type.parse_text(text)?,
    })
}

fn scalar(text: &str, data_type: &DataType) -> Result<Value, CqlError> {
    if text.starts_with('"') {
        let string: String = serde_json::from_str(text).map_err(|error| malformed(&error))?;
        return of_string(&string, data_type);
    }
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let is_fitting = match data_type {
        DataType::Boolean => !is_number,
        DataType::Tinyint
        | DataType::Smallint
        | DataType::Int
        | DataType::Bigint
        | DataType::Varint
        | DataType::Float
        | DataType::Double
        | DataType::Decimal
        | DataType::Timestamp => is_number,
        _ => false,
    };
    if is_fitting {
        return Ok(data_type.parse_text(text)?);
    }
    Err(expected(&format!("a value of type {data_type}"), text))
}

fn expected(what: &str, text: &str) -> CqlError {
    CqlError::invalid(format!("Expected {what}, but got {}", shorten(text)))
}

#[cfg(test)]
mod tests {
    use carnet_base::{Rng, SeededRng};

    use super::*;
    use crate::json;

    fn data_type(text: &str) -> DataType {
        text.parse().unwrap()
    }

    #[test]
    fn written_values_are_read_back() {
        for (name, text) in [
            ("int", "-7"),
            ("bigint", "9223372036854775807"),
            ("varint", "100000000000000000000000000"),
            ("decimal", "1.50"),
            ("double", "1e300"),
            ("boolean", "true"),
            ("text", "say \"hi\""),
            ("blob", "0x00ff"),
            ("inet", "127.0.0.1"),
            ("uuid", "deadbeef-0000-4000-8000-00805f9b34fb"),
            ("timestamp", "2026-11-25 01:02:03.004Z"),
            ("date", "2026-11-25"),
            ("time", "01:02:03.5"),
            ("duration", "1h30m"),
            ("list<int>", "[3, 1]"),
            ("set<text>", "{'b', 'a'}"),
            ("map<int, frozen<list<text>>>", "{-1: ['x'], 2: []}"),
            ("map<frozen<tuple<int, int>>, boolean>", "{(1, 2): true}"),
            ("tuple<int, text>", "(1, null)"),
        ] {
            let data_type = data_type(name);
            let value = data_type.parse_text(text).unwrap();
            let json = json::of_value(&value).unwrap();
            assert_eq!(of_text(&json, &data_type).unwrap(), Some(value), "{name} {json}");
            assert_eq!(of_text(" null ", &data_type).unwrap(), None);
        }
    }

    #[test]
    fn strings_are_read_as_every_scalar() {
        assert_eq!(of_text("\"5\"", &DataType::Int).unwrap(), Some(Value::Int(5)));
        assert_eq!(of_text("\"TRUE\"", &DataType::Boolean).unwrap(), Some(Value::Boolean(true)));
        assert_eq!(of_text("1000", &DataType::Timestamp).unwrap(), Some(Value::Timestamp(1000)));
        let empty = Value::Empty(DataType::Int);
        assert_eq!(of_text("\"\"", &DataType::Int).unwrap(), Some(empty));
        assert_eq!(of_text("\"\"", &DataType::Boolean).unwrap(), Some(Value::Boolean(false)));
        assert!(of_text("\"\"", &DataType::Varint).is_err());
    }

    #[test]
    fn values_of_other_types_are_refused() {
        for (name, text) in [
            ("int", "1.5"),
            ("int", "true"),
            ("int", "[1]"),
            ("text", "5"),
            ("boolean", "1"),
            ("list<int>", "{}"),
            ("list<int>", "[null]"),
            ("set<int>", "[\"a\"]"),
            ("map<int, int>", "[1]"),
            ("map<int, int>", "{\"a\": 1}"),
            ("map<int, int>", "{1: 1}"),
            ("tuple<int>", "[1, 2]"),
            ("int", "5 6"),
            ("int", ""),
        ] {
            assert!(of_text(text, &data_type(name)).is_err(), "{name} {text}");
        }
    }

    #[test]
    fn hostile_texts_do_not_panic() {
        let types = ["map<text, frozen<list<int>>>", "tuple<double, varint>", "timestamp"];
        let types = types.map(data_type);
        let pieces =
            ["{", "}", "[", "]", ",", ":", "\"a\"", "1", "-", "1e9", "null", "\"", "\\u00"];
        let mut rng = SeededRng::new(5);
        for _ in 0..20_000 {
            let mut piece = || pieces[usize::try_from(rng.below(pieces.len() as u64)).unwrap()];
            let text: String = (0..8).map(|_| piece()).collect();
            for data_type in &types {
                let _ = of_text(&text, data_type);
            }
            let _ = object(&text);
        }
        let deep = "[".repeat(100_000);
        assert!(of_text(&deep, &data_type("list<int>")).is_err());
        assert!(of_text(&" ".repeat(TEXT_BYTES_MAX + 1), &DataType::Int).is_err());
    }
}
