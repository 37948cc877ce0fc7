//! Values as fields of CSV, and back.
//!
//! A field is the value as cqlsh prints it. Values of user-defined types differ from their literals
//! in CQL as far as cqlsh needs it to read them: fields that are null are left out, and names stand
//! without quotes.

use std::fmt::Write as _;

use carnet::{DataType, Value};
use carnet_cql::Bound;
use carnet_data::Composite;

use super::columns::Column;
use super::cqlsh_text::undisplay;
use super::datetime::TimestampFormat;
use super::dialect::Field;
use super::options::Options;

/// Returns the field for a value.
pub(super) fn write(
    data_type: &DataType,
    bytes: &[u8],
    timestamps: Option<&TimestampFormat>,
) -> carnet::Result<Field> {
    let value = data_type.deserialize_result(bytes)?;
    let text = match (&value, timestamps) {
        (Value::Timestamp(millis), Some(format)) => format.write(*millis),
        (Value::Composite(composite), _) => composite_text(composite),
        _ => value.to_string(),
    };
    Ok(Field { text, is_quoted: false })
}

fn part_text(part: Option<&Value>) -> String {
    match part {
        None => "null".to_owned(),
        Some(Value::Composite(composite)) => composite_text(composite),
        Some(value) => value.to_literal(),
    }
}

fn composite_text(composite: &Composite) -> String {
    let (open, close) = composite.data_type().brackets();
    let mut text = String::from(open);
    let fields = match composite.data_type() {
        DataType::Udt(user_type) => &user_type.fields[..],
        _ => &[],
    };
    for (place, item) in composite.parts().chunks(composite.parts_per_item()).enumerate() {
        if let Some((name, _)) = fields.get(place) {
            if item == [None] {
                continue;
            }
            separate(&mut text);
            let _ = write!(text, "{}: ", field_name(name));
        } else {
            separate(&mut text);
        }
        let parts: Vec<String> = item.iter().map(|part| part_text(part.as_ref())).collect();
        text.push_str(&parts.join(": "));
    }
    text.push(close);
    text
}

/// Separates an item from one before it.
fn separate(text: &mut String) {
    if text.len() > 1 {
        text.push_str(", ");
    }
}

/// Returns a field's name, in quotes only if it could not be read without them.
fn field_name(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == '_';
    if !name.is_empty() && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Reads the fields of one file.
pub(super) struct FieldReader<'a> {
    options: &'a Options,
    /// Whether texts have the form of an export of cqlsh.
    is_cqlsh_export: bool,
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(options: &'a Options, is_cqlsh_export: bool) -> Self {
        Self { options, is_cqlsh_export }
    }

    /// Returns the value of a field.
    ///
    /// # Errors
    ///
    /// Why it is no value of the column's type.
    pub(super) fn read(&self, column: &Column, field: &Field) -> Result<Bound, String> {
        let data_type = &column.data_type;
        if self.is_null(data_type, field) {
            return Ok(Bound::Null);
        }
        let undisplayed;
        let mut text = field.text.as_str();
        if self.is_cqlsh_export && holds_text(data_type) {
            undisplayed = undisplay(text)?;
            text = &undisplayed;
        }
        let timestamps = self.options.timestamps.as_ref();
        let in_format = match data_type {
            DataType::Timestamp => timestamps.and_then(|format| format.read(text)),
            _ => None,
        };
        let null = &self.options.dialect.null;
        let value = in_format.map_or_else(|| data_type.parse_field(text, null), Ok);
        let value = value.map_err(|error| error.to_string())?;
        Ok(Bound::Bytes(value.serialize()))
    }

    /// Returns `true` if a field is null: equal to the text for null, and not in quotes. Quotes
    /// around nothing make a text; programs that quote every field write null of other types so.
    fn is_null(&self, data_type: &DataType, field: &Field) -> bool {
        let is_text = matches!(data_type, DataType::Text | DataType::Ascii);
        let is_meant = !field.is_quoted || (field.text.is_empty() && !is_text);
        is_meant && field.text == self.options.dialect.null
    }
}

/// Returns `true` if values of the type may hold a text.
fn holds_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text | DataType::Ascii)
        || data_type.parts().into_iter().any(holds_text)
}
