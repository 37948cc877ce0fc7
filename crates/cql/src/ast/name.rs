//! Names.

use crate::position::Position;

/// A name: of a keyspace, table, column, variable or alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name, in lower case unless it was quoted.
    pub text: String,
    /// Where it was read.
    pub at: Position,
}

impl Name {
    /// Makes a name that was not read from a text.
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

/// A name of a table, user-defined type or index, with its keyspace where that is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// The keyspace; without it, the one in use.
    pub keyspace: Option<Name>,
    /// The name in the keyspace.
    pub table: Name,
}
