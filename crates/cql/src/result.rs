//! Results of statements: rows with their columns' types, or the change that was made.

use std::fmt;

use carnet::DataType;
use carnet::base::Bytes;

/// The type of a result's column.
///
/// Tables hold scalars only; system tables also have collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// A scalar type.
    Scalar(DataType),
    /// A duration: the type of a timeout's marker. No column has it.
    Duration,
    /// A list of values.
    List(Box<Self>),
    /// A set of values.
    Set(Box<Self>),
    /// A map of values.
    Map(Box<Self>, Box<Self>),
    /// A tuple of values.
    Tuple(Vec<Self>),
}

impl From<DataType> for ResultType {
    fn from(data_type: DataType) -> Self {
        Self::Scalar(data_type)
    }
}

impl fmt::Display for ResultType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(data_type) => data_type.fmt(f),
            Self::Duration => f.write_str("duration"),
            Self::List(item) => write!(f, "list<{item}>"),
            Self::Set(item) => write!(f, "set<{item}>"),
            Self::Map(key, value) => write!(f, "map<{key}, {value}>"),
            Self::Tuple(items) => {
                f.write_str("tuple<")?;
                for (n, item) in items.iter().enumerate() {
                    let comma = if n == 0 { "" } else { ", " };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str(">")
            }
        }
    }
}

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
    pub result_type: ResultType,
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
    /// Keyspace that changed, or that contains the changed table.
    pub keyspace: String,
    /// Table that changed; `None` if the keyspace itself changed.
    pub table: Option<String>,
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
