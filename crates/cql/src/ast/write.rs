//! `INSERT`, `UPDATE` and `DELETE`.

use super::name::{Name, TableName};
use super::relation::Relation;
use super::term::Term;

/// A statement that changes rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// An `INSERT` statement.
    Insert(Insert),
    /// An `UPDATE` statement.
    Update(Update),
    /// A `DELETE` statement.
    Delete(Delete),
}

impl Write {
    /// Returns the table that it changes.
    #[must_use]
    pub const fn table(&self) -> &TableName {
        match self {
            Self::Insert(insert) => &insert.table,
            Self::Update(update) => &update.table,
            Self::Delete(delete) => &delete.table,
        }
    }

    /// Returns its `USING`.
    #[must_use]
    pub const fn using(&self) -> &Using {
        match self {
            Self::Insert(insert) => &insert.using,
            Self::Update(update) => &update.using,
            Self::Delete(delete) => &delete.using,
        }
    }

    /// Returns `true` if it has an `IF`.
    #[must_use]
    pub const fn is_conditional(&self) -> bool {
        match self {
            Self::Insert(insert) => insert.if_not_exists,
            Self::Update(update) => !matches!(update.guard, Guard::Always),
            Self::Delete(delete) => !matches!(delete.guard, Guard::Always),
        }
    }
}

/// `INSERT INTO table (column, …) VALUES (value, …)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// Name of the table.
    pub table: TableName,
    /// Columns to set; at least one, or none with `json`.
    pub columns: Vec<Name>,
    /// Values, one for each column.
    pub values: Vec<Term>,
    /// `JSON value`: an object with the values of the columns.
    pub json: Option<JsonRow>,
    /// Whether it has `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Attributes after `USING`.
    pub using: Using,
}

/// Row of an `INSERT JSON`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonRow {
    /// A string or a marker.
    pub value: Term,
    /// Whether columns that the object does not have stay as they are (`DEFAULT UNSET`); otherwise
    /// they become null.
    pub default_unset: bool,
}

/// `UPDATE table SET … WHERE …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Name of the table.
    pub table: TableName,
    /// Attributes after `USING`.
    pub using: Using,
    /// Assignments, at least one.
    pub assignments: Vec<Assignment>,
    /// Conditions on the rows, which must all hold.
    pub filter: Vec<Relation>,
    /// Condition after `IF`.
    pub guard: Guard,
}

/// `DELETE … FROM table WHERE …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Columns and elements to delete; if empty, whole rows.
    pub deletions: Vec<Deletion>,
    /// Name of the table.
    pub table: TableName,
    /// Attributes after `USING`.
    pub using: Using,
    /// Conditions on the rows, which must all hold.
    pub filter: Vec<Relation>,
    /// Condition after `IF`.
    pub guard: Guard,
}

/// Part of a row that a `DELETE` deletes.
#[derive(Clone, Debug, PartialEq)]
pub enum Deletion {
    /// `column`: a whole column.
    Column(Name),
    /// `column[element]`: one element of a collection.
    Element(Name, Term),
    /// `column.field`: one field of a user-defined type.
    Field(Name, Name),
}

/// Assignment of an `UPDATE`.
#[derive(Clone, Debug, PartialEq)]
pub enum Assignment {
    /// `column = term`; `column += term` is parsed as `column = column + term`.
    Column(Name, Term),
    /// `column[element] = term`.
    Element(Name, Term, Term),
    /// `column.field = term`.
    Field(Name, Name, Term),
}

/// The `IF` of one statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Guard {
    /// No `IF` clause.
    Always,
    /// `IF EXISTS`: the row exists.
    Exists,
    /// `IF column = …`, at least one; all must hold.
    Columns(Vec<Relation>),
}

/// `USING … AND …`, in the order of the text, which numbers the bind markers; each attribute once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Using {
    /// Level after `SERVICE LEVEL`.
    pub level: Option<Name>,
    /// Attributes with their values: an integer, a duration (for the timeout) or a marker.
    pub attributes: Vec<(Attribute, Term)>,
}

/// Attribute that `USING` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// `TIMESTAMP`, microseconds since 1970.
    Timestamp,
    /// `TTL`, in seconds.
    Ttl,
    /// `TIMEOUT`, as a duration.
    Timeout,
    /// `TRANSACTION`, the id of one that stays open.
    Transaction,
}

impl Attribute {
    /// All attributes, in declaration order.
    pub const ALL: [Self; 4] = [Self::Timestamp, Self::Ttl, Self::Timeout, Self::Transaction];

    /// Returns its keyword.
    #[must_use]
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Timestamp => "TIMESTAMP",
            Self::Ttl => "TTL",
            Self::Timeout => "TIMEOUT",
            Self::Transaction => "TRANSACTION",
        }
    }
}

impl Using {
    /// Returns `true` if it has no attributes and no level.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.attributes.is_empty() && self.level.is_none()
    }

    /// Returns the name after `SERVICE LEVEL`.
    #[must_use]
    pub fn level(&self) -> Option<&str> {
        self.level.as_ref().map(Name::as_str)
    }

    /// Returns `true` if it sets a timeout, a service level or a transaction, which belong to a whole
    /// batch.
    #[must_use]
    pub fn concerns_whole(&self) -> bool {
        let is_set = |attribute| self.get(attribute).is_some();
        self.level.is_some() || is_set(Attribute::Timeout) || is_set(Attribute::Transaction)
    }

    /// Returns the value of an attribute.
    #[must_use]
    pub fn get(&self, attribute: Attribute) -> Option<&Term> {
        self.attributes.iter().find(|(given, _)| *given == attribute).map(|(_, term)| term)
    }
}
