//! Statements about materialized views.

use super::ddl::{Options, PrimaryKey};
use super::name::TableName;
use super::relation::Relation;
use super::select::{Ordering, Selection};

/// A `CREATE MATERIALIZED VIEW` statement.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// Whether it has `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Name of the view.
    pub name: TableName,
    /// Selected columns of the base table.
    pub selection: Selection,
    /// Name of the base table.
    pub table: TableName,
    /// Conditions on base rows, at least one.
    pub filter: Vec<Relation>,
    /// Primary key of the view.
    pub key: PrimaryKey,
    /// Columns of `CLUSTERING ORDER BY`.
    pub clustering_order: Vec<Ordering>,
    /// Other options of the view.
    pub options: Options,
}

/// An `ALTER MATERIALIZED VIEW` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the view.
    pub name: TableName,
    /// New options of the view.
    pub options: Options,
}

/// A `DROP MATERIALIZED VIEW` statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropView {
    /// Whether it has `IF EXISTS`.
    pub if_exists: bool,
    /// Name of the view.
    pub name: TableName,
}
