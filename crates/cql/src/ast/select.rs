//! `SELECT`.

use super::name::{Name, TableName};
use super::relation::Relation;
use super::term::Term;

/// `SELECT … FROM …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// Whether partition keys are asked for once each.
    pub distinct: bool,
    /// What of the rows.
    pub selection: Selection,
    /// The table.
    pub from: TableName,
    /// Which rows; all that are given must hold.
    pub filter: Vec<Relation>,
    /// Columns to group by.
    pub group_by: Vec<Term>,
    /// The order asked for.
    pub order_by: Vec<Ordering>,
    /// How many rows of each partition: an integer or a marker.
    pub per_partition_limit: Option<Term>,
    /// How many rows: an integer or a marker.
    pub limit: Option<Term>,
    /// `ALLOW FILTERING`.
    pub allow_filtering: bool,
    /// `BYPASS CACHE`.
    pub bypass_cache: bool,
    /// `AS OF`: a timestamp of Carnet's or a wall time.
    pub as_of: Option<Term>,
    /// `USING TIMEOUT`: a duration or a marker.
    pub timeout: Option<Term>,
    /// `USING SERVICE LEVEL`.
    pub level: Option<Name>,
}

/// What of the rows is selected.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`.
    All,
    /// At least one item.
    Items(Vec<SelectItem>),
}

/// One selected column.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// What is selected.
    pub term: Term,
    /// `AS` what.
    pub alias: Option<Name>,
}

/// A column and a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordering {
    /// The column.
    pub column: Name,
    /// Whether the largest comes first.
    pub descending: bool,
}
