//! Text of a statement that has not begun.

use std::sync::Arc;

use carnet_admission::diagnosis::Named;

use super::super::named::name_of_text;
use super::super::prepared::Prepared;

/// Maximum bytes that are kept of the text of a statement.
const TEXT_LEN_MAX: usize = 1 << 10;

/// Text of a statement that waits for its admission; one that has begun is named by its execution.
#[derive(Clone, Debug, Default)]
pub enum StatementSource {
    /// The beginning of a text.
    Text(Box<str>),
    /// A prepared statement.
    Prepared(Arc<Prepared>),
    /// The number of statements of a batch, and the first of them.
    Batch(usize, Box<Self>),
    /// The source of a statement whose text is not known here.
    #[default]
    Unknown,
}

impl StatementSource {
    /// Returns the source of a text. Only its beginning is kept.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text[..text.floor_char_boundary(TEXT_LEN_MAX)].into())
    }

    /// Returns the name of the statement, without values.
    pub(in crate::exec) fn named(&self, keyspace: Option<&str>) -> Option<Arc<Named>> {
        match self {
            Self::Text(text) => Some(Arc::new(Named::new("", &name_of_text(text)))),
            Self::Prepared(prepared) => {
                let keyspace = prepared.keyspace.as_deref().or(keyspace);
                Some(prepared.statements.named(keyspace))
            }
            Self::Batch(count, first) => {
                let first = first.named(keyspace)?;
                let text = format!("BATCH of {count}: {}", first.statement());
                Some(Arc::new(Named::new(first.table(), &text)))
            }
            Self::Unknown => None,
        }
    }
}
