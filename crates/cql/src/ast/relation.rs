//! Relations: what `WHERE` and `IF` of a single statement ask of a row.

use super::name::Name;
use super::term::{BindMarker, Term};

/// One of the conditions that `AND` joins.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// `column op value`.
    Compare {
        /// The column.
        column: Name,
        /// How.
        op: CompareOp,
        /// With what.
        value: Term,
    },
    /// `column IN …`.
    In {
        /// The column.
        column: Name,
        /// The values.
        values: InValues,
    },
    /// `(column, …) op (value, …)` or `op ?`.
    CompareTuple {
        /// The columns, at least one.
        columns: Vec<Name>,
        /// How.
        op: CompareOp,
        /// A [`Term::Tuple`] or a [`Term::Marker`].
        value: Term,
    },
    /// `(column, …) IN …`.
    InTuple {
        /// The columns, at least one.
        columns: Vec<Name>,
        /// Each a [`Term::Tuple`] or a [`Term::Marker`].
        values: InValues,
    },
    /// `token(column, …) op value`.
    Token {
        /// The columns, at least one.
        columns: Vec<Name>,
        /// How.
        op: CompareOp,
        /// With what.
        value: Term,
    },
    /// `column IS NOT NULL`.
    IsNotNull(Name),
    /// `column CONTAINS [KEY] value`.
    Contains {
        /// The column, a collection.
        column: Name,
        /// Whether a map's keys are meant.
        key: bool,
        /// The element.
        value: Term,
    },
    /// `column LIKE pattern`.
    Like {
        /// The column.
        column: Name,
        /// The pattern.
        pattern: Term,
    },
    /// `column[element] op value`.
    Element {
        /// The column, a collection.
        column: Name,
        /// Which element.
        element: Term,
        /// How.
        op: CompareOp,
        /// With what.
        value: Term,
    },
}

/// What stands behind `IN`.
#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    /// `(value, …)`, perhaps empty.
    List(Vec<Term>),
    /// `IN ?`: one marker for the whole list.
    Marker(BindMarker),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl CompareOp {
    /// Returns the operator's sign.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Relation {
    /// Returns the columns that it asks about.
    #[must_use]
    pub fn columns(&self) -> &[Name] {
        match self {
            Self::Compare { column, .. }
            | Self::In { column, .. }
            | Self::IsNotNull(column)
            | Self::Contains { column, .. }
            | Self::Like { column, .. }
            | Self::Element { column, .. } => std::slice::from_ref(column),
            Self::CompareTuple { columns, .. }
            | Self::InTuple { columns, .. }
            | Self::Token { columns, .. } => columns,
        }
    }
}
