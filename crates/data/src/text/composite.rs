//! Lists, sets, maps, tuples and vectors as text, which is also their literal in CQL.
//!
//! ```text
//! list, vector [1, 2]    set {'a', 'b'}    map {'a': 1, 'b': 2}    tuple (1, 'a', null)
//! user-defined type {name: 'a', size: 2}
//! ```

use std::fmt::{self, Formatter};

use carnet_base::error::{Error, Result};

use super::quote::quoted;
use crate::value::{Composite, DataType, UserType, Value, quote_name};

impl DataType {
    /// Returns the brackets around the parts of a composite value.
    #[must_use]
    pub const fn brackets(&self) -> (char, char) {
        match self {
            Self::List(_) | Self::Vector(_) => ('[', ']'),
            Self::Tuple(_) => ('(', ')'),
            _ => ('{', '}'),
        }
    }
}

/// Writes a composite value as its literal.
pub(super) fn write(f: &mut Formatter<'_>, composite: &Composite) -> fmt::Result {
    let (open, close) = composite.data_type().brackets();
    write!(f, "{open}")?;
    let names = field_names(composite.data_type());
    for (n, item) in composite.parts().chunks(composite.parts_per_item()).enumerate() {
        if let Some(name) = names.get(n) {
            f.write_str(if n == 0 { "" } else { ", " })?;
            quote_name(f, name)?;
            f.write_str(": ")?;
        }
        for (place, part) in item.iter().enumerate() {
            f.write_str(match (n, place) {
                (_, 0) if !names.is_empty() => "",
                (0, 0) => "",
                (_, 0) => ", ",
                _ => ": ",
            })?;
            f.write_str(&part.as_ref().map_or_else(|| "null".to_owned(), Value::to_literal))?;
        }
    }
    write!(f, "{close}")
}

fn field_names(data_type: &DataType) -> Vec<&str> {
    let DataType::Udt(user_type) = data_type else { return Vec::new() };
    user_type.fields.iter().map(|(name, _)| name.as_str()).collect()
}

/// Parses a literal of a composite type, in which also the text `null` stands for null.
pub(super) fn parse(data_type: &DataType, text: &str, null: &str) -> Result<Value> {
    let (open, close) = data_type.brackets();
    let inside = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let wrong = || {
        let expected = format!("{open}value, …{close}");
        Error::invalid(format!("{} is no {data_type}: expected {expected}", quoted(text)))
    };
    let inside = inside.ok_or_else(wrong)?.trim_ascii();
    if let DataType::Udt(user_type) = data_type {
        return parse_fields(data_type, user_type, inside, null);
    }
    let types = data_type.parts();
    let mut types = types.iter().cycle();
    let mut parts = Vec::new();
    for item in split(inside, ',').ok_or_else(wrong)? {
        let texts = match data_type {
            DataType::Map(_) => split(item, ':').filter(|pair| pair.len() == 2),
            _ => Some(vec![item]),
        };
        for part in texts.ok_or_else(wrong)? {
            let part_type = types.next().ok_or_else(wrong)?;
            parts.push(parse_part(part_type, part.trim_ascii(), null)?);
        }
    }
    Composite::new(data_type.clone(), parts).map(Value::Composite)
}

/// Parses `name: value, …`; fields that are left out are null.
fn parse_fields(
    data_type: &DataType,
    user_type: &UserType,
    text: &str,
    null: &str,
) -> Result<Value> {
    let wrong = || {
        Error::invalid(format!("{} is no {data_type}: expected {{field: value, …}}", quoted(text)))
    };
    let mut parts = vec![None; user_type.fields.len()];
    for item in split(text, ',').ok_or_else(wrong)? {
        let (name, value) = item.split_once(':').ok_or_else(wrong)?;
        let name = name.trim_ascii();
        let quoted = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let place_of = |name: &str| user_type.fields.iter().position(|(field, _)| *field == name);
        let place = match quoted {
            Some(name) => place_of(&name.replace("\"\"", "\"")),
            // cqlsh prints all names without quotes.
            None => place_of(name).or_else(|| place_of(&name.to_lowercase())),
        };
        let place = place.ok_or_else(wrong)?;
        parts[place] = parse_part(&user_type.fields[place].1, value.trim_ascii(), null)?;
    }
    Composite::new(data_type.clone(), parts).map(Value::Composite)
}

fn parse_part(data_type: &DataType, text: &str, null: &str) -> Result<Option<Value>> {
    // cqlsh prints nothing for null, or the text that its user chose.
    if text.is_empty() || text.eq_ignore_ascii_case("null") || text == null {
        return Ok(None);
    }
    let unquoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let unquoted = unquoted.map(|text| text.replace("''", "'"));
    data_type.parse_field(unquoted.as_deref().unwrap_or(text), null).map(Some)
}

/// Splits a text at a separator that is in no quotes and no brackets. `None` if quotes or brackets
/// are not closed. An empty text has no parts.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut depth, mut is_quoted) = (0_usize, false);
    for (at, found) in text.char_indices() {
        match found {
            '\'' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth = depth.checked_sub(1)?,
            _ if found == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + found.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (depth == 0 && !is_quoted).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(data_type: &DataType, text: &str) -> String {
        let value = data_type.parse_text(text).unwrap();
        assert_eq!(data_type.parse_text(&value.to_string()).unwrap(), value);
        assert_eq!(value.to_literal(), value.to_string());
        value.to_string()
    }

    #[test]
    fn composite_literals_round_trip() {
        let texts = DataType::set(DataType::Text);
        assert_eq!(
            round_trip(&texts, "{'b', 'it''s', ' a, b: {c '}"),
            "{' a, b: {c ', 'b', 'it''s'}"
        );
        assert_eq!(round_trip(&texts, " {} "), "{}");
        let nested = DataType::map(DataType::Text, DataType::list(DataType::Timestamp));
        assert_eq!(
            round_trip(&nested, "{'a': ['2026-01-02'], 'b':[]}"),
            "{'a': ['2026-01-02 00:00:00.000000+0000'], 'b': []}"
        );
        let tuple = DataType::tuple([DataType::Int, DataType::Text, DataType::Blob]);
        assert_eq!(round_trip(&tuple, "(1, NULL, 0x00ff)"), "(1, null, 0x00ff)");
        assert_eq!(round_trip(&tuple, "(1)"), "(1, null, null)");
        assert_eq!(round_trip(&tuple, "(1, , 0x)"), "(1, null, 0x)");
    }

    #[test]
    fn fields_are_found_by_their_names() {
        let fields = [("name", DataType::Text), ("Size", DataType::list(DataType::Int))];
        let user_type = DataType::Udt(std::sync::Arc::new(UserType {
            keyspace: "ks".to_owned(),
            name: "box".to_owned(),
            fields: fields.map(|(name, field)| (name.to_owned(), field)).to_vec(),
            reference: crate::value::TypeReference::default(),
            keys: crate::value::FieldKeys::Open,
        }));
        let shown = "{name: 'a, b: c', \"Size\": [1, 2]}";
        assert_eq!(round_trip(&user_type, "{\"Size\":[1,2], NAME: 'a, b: c'}"), shown);
        assert_eq!(round_trip(&user_type, "{}"), "{name: null, \"Size\": null}");
        assert_eq!(round_trip(&user_type, "{Size: [1], name: }"), "{name: null, \"Size\": [1]}");
        let marked = user_type.parse_field("{name: N/A, Size: [2]}", "N/A").unwrap();
        assert_eq!(marked.to_string(), "{name: null, \"Size\": [2]}");
        for text in ["{size: [1]}", "{name}", "{'name': 'a'}", "[]", "{name: 'a}"] {
            assert!(user_type.parse_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn vectors_have_all_their_elements() {
        let vector = DataType::vector(DataType::Float, 2);
        assert_eq!(round_trip(&vector, "[1.5,-2]"), "[1.5, -2]");
        for text in ["[1]", "[1, 2, 3]", "[]", "[1, null]", "{1, 2}"] {
            assert!(vector.parse_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn malformed_composites_are_refused() {
        let map = DataType::map(DataType::Int, DataType::Int);
        for text in
            ["{1: 2", "1: 2}", "{1}", "{1: 2: 3}", "{1: null}", "{1: 2,}", "[1: 2]", "{a: 1}"]
        {
            assert!(map.parse_text(text).is_err(), "{text}");
        }
        let list = DataType::list(DataType::Text);
        for text in ["['a]", "['a', 'b]", "[null]", "['a'"] {
            assert!(list.parse_text(text).is_err(), "{text}");
        }
        let tuple = DataType::tuple([DataType::Int]);
        assert!(tuple.parse_text("(1, 2)").is_err());
    }
}
