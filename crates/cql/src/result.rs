//! What a statement answers: rows with their columns' types, or what it changed.

use std::fmt;

use carnet::DataType;
use carnet::base::Bytes;

/// The type of a result's column.
///
/// Tables hold scalars only; the system's own tables also have collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// A scalar.
    Scalar(DataType),
    /// A duration: the type of a marker for a timeout. No column has it.
    Duration,
    /// A list.
    List(Box<Self>),
    /// A set.
    Set(Box<Self>),
    /// A map.
    Map(Box<Self>, Box<Self>),
    /// A tuple.
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
    /// The keyspace of its table.
    pub keyspace: String,
    /// Its table.
    pub table: String,
    /// Its name, or that of the marker.
    pub name: String,
    /// Its type.
    pub result_type: ResultType,
}

/// Rows: for each column its bytes in Cassandra's serialization, `None` for null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The columns.
    pub columns: Vec<ColumnSpec>,
    /// The rows.
    pub rows: Vec<Vec<Option<Bytes>>>,
    /// Where to go on; `None` when these are the last rows.
    pub paging_state: Option<Bytes>,
}

/// What happened to a part of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It is gone.
    Dropped,
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The keyspace that changed, or that holds what changed.
    pub keyspace: String,
    /// The table that changed; `None` when it was the keyspace itself.
    pub table: Option<String>,
}

/// What a statement answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// Nothing: it is done.
    Void,
    /// Rows.
    Rows(Rows),
    /// The session's keyspace is another one now.
    SetKeyspace(String),
    /// The schema changed.
    SchemaChange(SchemaChange),
}
