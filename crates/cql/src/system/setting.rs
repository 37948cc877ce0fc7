//! Value of a table option.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::encode::{self, Cell};
use crate::ast::{Literal, OptionValue};

/// Value of an option.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    Text(String),
    Int(i32),
    Double(f64),
    Boolean(bool),
    Map(BTreeMap<String, String>),
    Blobs(BTreeMap<String, Vec<u8>>),
}

impl Setting {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(super) fn map<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        Self::Map(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
    }

    /// Returns the value in the form of a column of `system_schema.tables`.
    pub(crate) fn cell(&self) -> Cell {
        match self {
            Self::Text(text) => encode::text(text),
            Self::Int(number) => encode::int(*number),
            Self::Double(number) => encode::double(*number),
            Self::Boolean(value) => encode::boolean(*value),
            Self::Map(pairs) => {
                encode::text_map(pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())))
            }
            Self::Blobs(pairs) => {
                let parts = pairs.iter().flat_map(|(key, value)| [key.as_bytes(), value]);
                Some(encode::collection(pairs.len(), parts))
            }
        }
    }
}

/// Writes the value as a CQL term.
impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Int(number) => number.fmt(f),
            // Always with a fraction, even zero.
            Self::Double(number) => write!(f, "{number:?}"),
            Self::Boolean(value) => value.fmt(f),
            Self::Map(pairs) => f.write_str(&map_of(pairs.iter())),
            Self::Blobs(pairs) => {
                let blob = |(key, value): (&String, &Vec<u8>)| {
                    (Literal::String(key.clone()), Literal::Blob(value.clone()))
                };
                OptionValue::Map(pairs.iter().map(blob).collect()).fmt(f)
            }
        }
    }
}

/// Returns pairs as a CQL map of strings.
pub(crate) fn map_of<'a>(pairs: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let strings = |(key, value): (&String, &String)| {
        (Literal::String(key.clone()), Literal::String(value.clone()))
    };
    OptionValue::Map(pairs.map(strings).collect()).to_string()
}

pub(super) fn quoted(text: &str) -> String {
    Literal::String(text.to_owned()).to_string()
}
