//! Data model common to EDN and JSON.

use std::borrow::Cow;
use std::fmt;

/// A piece of data. Kinds that no history needs (fractions, symbols, booleans) are
/// [`Datum::Other`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum<'t> {
    Nil,
    Int(i64),
    Text(Cow<'t, str>),
    Keyword(&'t str),
    List(Vec<Datum<'t>>),
    Map(Vec<(Datum<'t>, Datum<'t>)>),
    Other,
}

impl<'t> Datum<'t> {
    /// Returns the value of a map whose key is a keyword or string with this name.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|(key, _)| key.name() == Some(name)).map(|(_, value)| value)
    }

    /// Returns the name of a keyword or string; a string may have the colon of a keyword.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.strip_prefix(':').unwrap_or(text)),
            Self::Keyword(name) => Some(name),
            _ => None,
        }
    }
}

impl<'t> From<&'t serde_json::Value> for Datum<'t> {
    fn from(value: &'t serde_json::Value) -> Self {
        use serde_json::Value;
        match value {
            Value::Null => Self::Nil,
            Value::Bool(_) => Self::Other,
            Value::Number(number) => number.as_i64().map_or(Self::Other, Self::Int),
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Object(fields) => {
                let entry = |(key, value): (&'t String, &'t Value)| {
                    (Self::Text(Cow::Borrowed(key)), Self::from(value))
                };
                Self::Map(fields.iter().map(entry).collect())
            }
        }
    }
}

impl fmt::Display for Datum<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Keyword(name) => write!(f, ":{name}"),
            Self::List(items) => write!(f, "a list of {}", items.len()),
            Self::Map(entries) => write!(f, "a map of {}", entries.len()),
            Self::Other => f.write_str("something else"),
        }
    }
}
