//! `DESCRIBE`, which cqlsh sends to the server.

use super::name::{Name, TableName};

/// `DESCRIBE …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    /// What.
    pub target: DescribeTarget,
    /// `WITH INTERNALS`.
    pub internals: bool,
}

/// What is described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribeTarget {
    /// `CLUSTER`.
    Cluster,
    /// `[FULL] SCHEMA`: all keyspaces' statements, with `FULL` the system's, too.
    Schema {
        /// `FULL`.
        full: bool,
    },
    /// `KEYSPACES`: their names.
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`: its statements, with `ONLY` without its tables'.
    Keyspace {
        /// `ONLY`.
        only: bool,
        /// Without it, the one in use.
        name: Option<Name>,
    },
    /// `TABLES`: their names.
    Tables,
    /// `TABLE name`.
    Table(TableName),
    /// `INDEX name`.
    Index(TableName),
    /// `MATERIALIZED VIEW name`.
    View(TableName),
    /// `TYPES`: their names.
    Types,
    /// `TYPE name`.
    Type(TableName),
    /// `FUNCTIONS`: their names.
    Functions,
    /// `FUNCTION name`.
    Function(TableName),
    /// `AGGREGATES`: their names.
    Aggregates,
    /// `AGGREGATE name`.
    Aggregate(TableName),
    /// A bare name: a keyspace, else a table, else an index.
    Any(TableName),
}
