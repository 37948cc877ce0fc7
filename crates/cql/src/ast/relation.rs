//! Relations: conditions on a row in `WHERE`, and in the `IF` of a single statement.

use super::name::Name;
use super::term::{BindMarker, Term};

/// One of the conditions joined by `AND`.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// `column op value`.
    Compare {
        /// Name of the column.
        column: Name,
        /// Operator of the comparison.
        op: CompareOp,
        /// Value to compare with.
        value: Term,
    },
    /// `column IN …`.
    In {
        /// Name of the column.
        column: Name,
        /// Values of the list.
        values: InValues,
    },
    /// `(column, …) op (value, …)` or `op ?`.
    CompareTuple {
        /// The columns, at least one.
        columns: Vec<Name>,
        /// Operator of the comparison.
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
        /// Operator of the comparison.
        op: CompareOp,
        /// Value to compare with.
        value: Term,
    },
    /// `column IS NOT NULL`.
    IsNotNull(Name),
    /// `column CONTAINS [KEY] value`.
    Contains {
        /// Name of the column, a collection.
        column: Name,
        /// Whether it searches a map's keys.
        key: bool,
        /// Element to search.
        value: Term,
    },
    /// `column LIKE pattern`.
    Like {
        /// Name of the column.
        column: Name,
        /// Pattern to match.
        pattern: Term,
    },
    /// `column[element] op value`.
    Element {
        /// Name of the column, a collection.
        column: Name,
        /// Key or index of the element.
        element: Term,
        /// Operator of the comparison.
        op: CompareOp,
        /// Value to compare with.
        value: Term,
    },
    /// `column[element] IN …`.
    ElementIn {
        /// Name of the column, a collection.
        column: Name,
        /// Key or index of the element.
        element: Term,
        /// Values of the list.
        values: InValues,
    },
    /// `column.field op value`.
    Field {
        /// Name of the column, of a user-defined type.
        column: Name,
        /// Name of the field.
        field: Name,
        /// Operator of the comparison.
        op: CompareOp,
        /// Value to compare with.
        value: Term,
    },
    /// `column.field IN …`.
    FieldIn {
        /// Name of the column, of a user-defined type.
        column: Name,
        /// Name of the field.
        field: Name,
        /// Values of the list.
        values: InValues,
    },
}

/// Values after `IN`.
#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    /// `(value, …)`, possibly empty.
    List(Vec<Term>),
    /// `IN ?`: one marker for the whole list.
    Marker(BindMarker),
}

/// Comparison operator of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// The operator `=`.
    Equal,
    /// The operator `!=`.
    NotEqual,
    /// The operator `<`.
    Less,
    /// The operator `<=`.
    LessOrEqual,
    /// The operator `>`.
    Greater,
    /// The operator `>=`.
    GreaterOrEqual,
}

impl CompareOp {
    /// Returns the operator's symbol.
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
    /// Returns the columns of the relation.
    #[must_use]
    pub fn columns(&self) -> &[Name] {
        match self {
            Self::Compare { column, .. }
            | Self::In { column, .. }
            | Self::IsNotNull(column)
            | Self::Contains { column, .. }
            | Self::Like { column, .. }
            | Self::Element { column, .. }
            | Self::ElementIn { column, .. }
            | Self::Field { column, .. }
            | Self::FieldIn { column, .. } => std::slice::from_ref(column),
            Self::CompareTuple { columns, .. }
            | Self::InTuple { columns, .. }
            | Self::Token { columns, .. } => columns,
        }
    }
}

impl Relation {
    /// Returns its terms, in the order of the text.
    pub(super) fn terms(&self) -> Vec<&Term> {
        match self {
            Self::Compare { value, .. }
            | Self::CompareTuple { value, .. }
            | Self::Token { value, .. }
            | Self::Contains { value, .. }
            | Self::Like { pattern: value, .. }
            | Self::Field { value, .. } => vec![value],
            Self::In { values, .. }
            | Self::InTuple { values, .. }
            | Self::FieldIn { values, .. } => values.terms(),
            Self::IsNotNull(_) => Vec::new(),
            Self::Element { element, value, .. } => vec![element, value],
            Self::ElementIn { element, values, .. } => [vec![element], values.terms()].concat(),
        }
    }
}

impl InValues {
    fn terms(&self) -> Vec<&Term> {
        match self {
            Self::List(terms) => terms.iter().collect(),
            Self::Marker(_) => Vec::new(),
        }
    }
}
