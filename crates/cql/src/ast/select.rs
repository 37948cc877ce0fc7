//! `SELECT` statements.

use super::name::{Name, TableName};
use super::relation::Relation;
use super::term::Term;
use super::write::Using;

/// `SELECT … FROM …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Whether it has `JSON`: each row is one text.
    pub json: bool,
    /// Whether it has `DISTINCT`: each partition key once.
    pub distinct: bool,
    /// Columns of the result.
    pub selection: Selection,
    /// Name of the table.
    pub from: TableName,
    /// Conditions, which must all hold.
    pub filter: Vec<Relation>,
    /// Columns to group by.
    pub group_by: Vec<Term>,
    /// Columns of `ORDER BY`.
    pub order_by: Vec<Ordering>,
    /// `ORDER BY … ANN OF`: the rows near to a vector, instead of an order of columns.
    pub near: Option<Near>,
    /// Maximum number of rows per partition: an integer or a marker.
    pub per_partition_limit: Option<Term>,
    /// Maximum number of rows: an integer or a marker.
    pub limit: Option<Term>,
    /// Whether it has `ALLOW FILTERING`.
    pub allow_filtering: bool,
    /// Whether it has `BYPASS CACHE`.
    pub bypass_cache: bool,
    /// `AS OF`: a Carnet timestamp or a wall-clock time.
    pub as_of: Option<Term>,
    /// Attributes after `USING`: `TIMEOUT` and `TRANSACTION`.
    pub using: Using,
}

/// Selected columns of the rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`: all columns.
    All,
    /// At least one item.
    Items(Vec<SelectItem>),
}

/// One selected column.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// Term that is selected.
    pub term: Term,
    /// Name after `AS`.
    pub alias: Option<Name>,
}

/// `column ANN OF vector`.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// Name of the column.
    pub column: Name,
    /// Vector that the column is compared with.
    pub vector: Term,
}

/// A column and a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordering {
    /// Name of the column.
    pub column: Name,
    /// Whether the largest value comes first.
    pub descending: bool,
}
