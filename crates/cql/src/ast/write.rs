//! `INSERT`, `UPDATE` and `DELETE`.

use super::name::{Name, TableName};
use super::relation::Relation;
use super::term::Term;

/// A statement that changes rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// `INSERT`.
    Insert(Insert),
    /// `UPDATE`.
    Update(Update),
    /// `DELETE`.
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

    /// Tells whether it has an `IF`.
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
    /// The table.
    pub table: TableName,
    /// The columns, at least one.
    pub columns: Vec<Name>,
    /// As many values.
    pub values: Vec<Term>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `USING …`.
    pub using: Using,
}

/// `UPDATE table SET … WHERE …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The table.
    pub table: TableName,
    /// `USING …`.
    pub using: Using,
    /// At least one.
    pub assignments: Vec<Assignment>,
    /// Which rows; all must hold.
    pub filter: Vec<Relation>,
    /// `IF …`.
    pub guard: Guard,
}

/// `DELETE … FROM table WHERE …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Which columns; without any, whole rows.
    pub columns: Vec<Name>,
    /// The table.
    pub table: TableName,
    /// `USING …`.
    pub using: Using,
    /// Which rows; all must hold.
    pub filter: Vec<Relation>,
    /// `IF …`.
    pub guard: Guard,
}

/// What `UPDATE` sets.
#[derive(Clone, Debug, PartialEq)]
pub enum Assignment {
    /// `column = term`; `column += term` is `column = column + term`.
    Column(Name, Term),
    /// `column[element] = term`.
    Element(Name, Term, Term),
    /// `column.field = term`.
    Field(Name, Name, Term),
}

/// The `IF` of one statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Guard {
    /// No `IF`.
    Always,
    /// `IF EXISTS`.
    Exists,
    /// `IF column = …`, at least one; all must hold.
    Columns(Vec<Relation>),
}

/// `USING … AND …`, in the order given (bind markers count by it), each attribute once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Using {
    /// `SERVICE LEVEL`.
    pub level: Option<Name>,
    /// What is given: an integer, a duration (for the time-out) or a marker.
    pub attributes: Vec<(Attribute, Term)>,
}

/// What `USING` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// `TIMESTAMP`, microseconds since 1970.
    Timestamp,
    /// `TTL`, seconds.
    Ttl,
    /// `TIMEOUT`, a duration.
    Timeout,
}

impl Attribute {
    /// Every attribute.
    pub const ALL: [Self; 3] = [Self::Timestamp, Self::Ttl, Self::Timeout];

    /// Returns its keyword.
    #[must_use]
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Timestamp => "TIMESTAMP",
            Self::Ttl => "TTL",
            Self::Timeout => "TIMEOUT",
        }
    }
}

impl Using {
    /// Tells whether nothing is given.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.attributes.is_empty() && self.level.is_none()
    }

    /// Returns `true` if it says how long the statement may take, or by which level it runs.
    #[must_use]
    pub fn limits(&self) -> bool {
        self.level.is_some() || self.get(Attribute::Timeout).is_some()
    }

    /// Returns what an attribute is set to.
    #[must_use]
    pub fn get(&self, attribute: Attribute) -> Option<&Term> {
        self.attributes.iter().find(|(given, _)| *given == attribute).map(|(_, term)| term)
    }
}
