//! Statements about secondary indexes.

use super::name::{Name, TableName};
use super::term::Literal;

/// A `CREATE INDEX` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// Whether it has `CUSTOM`.
    pub is_custom: bool,
    /// Whether it has `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name of the index, if given.
    pub name: Option<Name>,
    /// Table whose rows are indexed.
    pub table: TableName,
    /// Partition key of a local index of ScyllaDB, `((key), column)`.
    pub local: Option<Vec<Name>>,
    /// Indexed columns, possibly none.
    pub targets: Vec<IndexTarget>,
    /// Class of `USING`.
    pub class: Option<String>,
    /// Pairs of `WITH OPTIONS`.
    pub options: Vec<(Literal, Literal)>,
}

/// Indexed column, with its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    /// Which part of the column is named.
    pub part: TargetPart,
    /// Name of the column.
    pub column: Name,
}

/// Part of a column that an index target names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPart {
    /// A bare column.
    Plain,
    /// The keys of a map: `KEYS(column)`.
    Keys,
    /// The values of a collection: `VALUES(column)`.
    Values,
    /// The pairs of a map: `ENTRIES(column)`.
    Entries,
    /// A whole frozen collection: `FULL(column)`.
    Full,
}

impl TargetPart {
    /// Returns the function of the part in lower case; `None` for a bare column.
    #[must_use]
    pub const fn function(self) -> Option<&'static str> {
        Some(match self {
            Self::Plain => return None,
            Self::Keys => "keys",
            Self::Values => "values",
            Self::Entries => "entries",
            Self::Full => "full",
        })
    }
}

/// A `DROP INDEX` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIndex {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the index, with its keyspace if given.
    pub name: TableName,
}
