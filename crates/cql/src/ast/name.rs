//! Names of keyspaces, tables, columns and other objects.

use crate::position::Position;

/// A name: of a keyspace, table, column, variable or alias.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The name, in lower case unless it was quoted.
    pub text: String,
    /// Position in the text.
    pub at: Position,
}

impl Name {
    /// Creates a name that was not read from a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), at: Position::default() }
    }

    /// Returns the name without quotes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Name of a table, user-defined type or index, with its keyspace if that is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    /// Keyspace; by default the current one.
    pub keyspace: Option<Name>,
    /// Name within the keyspace.
    pub table: Name,
}
