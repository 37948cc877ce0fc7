//! Rows on their way from the source to the target.

use anyhow::{Context, Result};
use carnet::Bytes;

/// A row of the source: for each column its bytes, `None` for null.
pub(super) type Row = Vec<Option<Bytes>>;

/// Value of a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Value(Bytes),
    Null,
    /// The column stays as it is.
    Unset,
}

impl From<Option<Bytes>> for Field {
    fn from(value: Option<Bytes>) -> Self {
        value.map_or(Self::Null, Self::Value)
    }
}

/// Returns a text as a CQL literal.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Decodes a text that must not be null.
pub(super) fn text(value: &Option<Bytes>) -> Result<String> {
    let bytes = value.as_deref().context("the schema has a null where a text should be")?;
    Ok(std::str::from_utf8(bytes).context("the schema holds a text that is not UTF-8")?.to_owned())
}
