//! Results of statements: rows with their columns' types, or the change that was made.

use carnet::DataType;
use carnet::base::Bytes;

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Keyspace of its table.
    pub keyspace: String,
    /// Name of its table.
    pub table: String,
    /// Name of the column or marker.
    pub name: String,
    /// Type of the values.
    pub data_type: DataType,
}

/// Rows: for each column its bytes in Cassandra's serialization, `None` for null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Columns of the result.
    pub columns: Vec<ColumnSpec>,
    /// Values of the rows.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// Paging state of the next page; `None` after the last rows.
    pub paging_state: Option<Bytes>,
}

/// Kind of a schema change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Created,
    /// The object was altered.
    Updated,
    /// The object was dropped.
    Dropped,
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Keyspace that changed, or that contains the changed object.
    pub keyspace: String,
    /// Object that changed.
    pub target: ChangeTarget,
}

/// Object of a schema change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table of the keyspace.
    Table(String),
    /// A user-defined type of the keyspace.
    Type(String),
}

/// Result of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// The statement is done and has no result.
    Void,
    /// Rows of a query.
    Rows(Rows),
    /// The session's keyspace was changed to this one.
    SetKeyspace(String),
    /// The schema changed.
    SchemaChange(SchemaChange),
}
