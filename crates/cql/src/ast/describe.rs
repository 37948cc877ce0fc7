//! `DESCRIBE` statements, which cqlsh sends to the server.

use super::name::{Name, TableName};

/// A `DESCRIBE …` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    /// Object to describe.
    pub target: DescribeTarget,
    /// Whether it has `WITH INTERNALS`.
    pub internals: bool,
}

/// Object of a `DESCRIBE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribeTarget {
    /// `CLUSTER`: the cluster itself.
    Cluster,
    /// `[FULL] SCHEMA`: statements of all keyspaces, with `FULL` including the system keyspaces.
    Schema {
        /// Whether it has `FULL`.
        full: bool,
    },
    /// `KEYSPACES`: their names.
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`: its statements, with `ONLY` without those of its tables.
    Keyspace {
        /// Whether it has `ONLY`.
        only: bool,
        /// Name; by default the current keyspace.
        name: Option<Name>,
    },
    /// `TABLES`: their names.
    Tables,
    /// `TABLE name`: one table.
    Table(TableName),
    /// `INDEX name`: one index.
    Index(TableName),
    /// `MATERIALIZED VIEW name`.
    View(TableName),
    /// `TYPES`: their names.
    Types,
    /// `TYPE name`: one user-defined type.
    Type(TableName),
    /// `FUNCTIONS`: their names.
    Functions,
    /// `FUNCTION name`: one user-defined function.
    Function(TableName),
    /// `AGGREGATES`: their names.
    Aggregates,
    /// `AGGREGATE name`: one user-defined aggregate.
    Aggregate(TableName),
    /// A bare name: a keyspace, else a table, else an index.
    Any(TableName),
}
