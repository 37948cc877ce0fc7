//! Terms: whatever stands for a value.
//!
//! Selected columns, assigned values and the sides of comparisons are all terms. Which kinds may
//! stand where is the parser's (a name is no value in `WHERE a = b`) and the executor's business.

use super::name::Name;
use super::types::TypeName;
use crate::base::Uuid;
use crate::position::Position;

/// Whatever stands for a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A constant.
    Literal(Literal),
    /// `?` or `:name`.
    Marker(BindMarker),
    /// A column, or in a transaction what a `LET` read.
    Reference(Reference),
    /// `name(…)`.
    Call(FunctionCall),
    /// `CAST(term AS type)`.
    Cast(Box<Term>, TypeName),
    /// `(type) term`.
    Hint(TypeName, Box<Term>),
    /// `-term`, where the term is no number.
    Negate(Box<Term>),
    /// A chain of sums or of products, evaluated from the left.
    ///
    /// A chain is flat, so that no number of operators makes a tree deep; it holds operators of
    /// one precedence only.
    Arithmetic {
        /// The first operand.
        first: Box<Term>,
        /// Each operator with the operand behind it; at least one.
        rest: Vec<(ArithmeticOp, Term)>,
    },
    /// `[…]`.
    List(Vec<Term>),
    /// `{…}`; `{}` is this, too, whatever it will be used for.
    Set(Vec<Term>),
    /// `{key: value, …}`, not empty.
    Map(Vec<(Term, Term)>),
    /// `{field: value, …}`, not empty: a value of a user-defined type.
    Fields(Vec<(Name, Term)>),
    /// `(…, …)`. One term in parentheses is that term, except where a relation compares tuples.
    Tuple(Vec<Term>),
}

/// A constant, in the form it was written: its type comes from where it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// Digits, with `-` in front where negative.
    Integer(String),
    /// A number with a fraction or an exponent, or `NaN`, `Infinity`, `-Infinity`.
    Float(String),
    /// A string, without quotes.
    String(String),
    /// Bytes.
    Blob(Vec<u8>),
    /// A UUID.
    Uuid(Uuid),
    /// A duration, as `1h30m` or `P1Y`, with `-` in front where negative.
    Duration(String),
}

/// `?` or `:name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMarker {
    /// Counts the markers of the statement in the order of its text, from 0.
    pub index: u16,
    /// The name, which several markers may share.
    pub name: Option<String>,
    /// Where it was read.
    pub at: Position,
}

/// `name` or `name.field`.
///
/// Outside transactions the name is a column and the field a user-defined type's. Inside, the name
/// may also be a `LET`'s, and the field a column that it read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// A column, or a `LET`'s name.
    pub name: Name,
    /// What of it.
    pub field: Option<Name>,
}

/// `name(…)`.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCall {
    /// Which function.
    pub function: FunctionName,
    /// Its arguments.
    pub arguments: Arguments,
}

/// A function's name, with its keyspace where that is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// The keyspace of a user-defined function.
    pub keyspace: Option<Name>,
    /// The name.
    pub name: Name,
}

/// What stands between a function's parentheses.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// `*`, as in `count(*)`.
    Star,
    /// Terms.
    Terms(Vec<Term>),
}

/// An operator between numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

impl ArithmeticOp {
    /// Tells a sum's operators from a product's, which bind closer.
    #[must_use]
    pub const fn is_sum(self) -> bool {
        matches!(self, Self::Add | Self::Subtract)
    }

    /// Returns the operator's sign.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

impl Term {
    /// Returns the constant `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self::Literal(Literal::Null)
    }

    /// Returns the terms right below this one, in the order of the text.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        match self {
            Self::Literal(_) | Self::Marker(_) | Self::Reference(_) => Vec::new(),
            Self::Call(call) => match &call.arguments {
                Arguments::Star => Vec::new(),
                Arguments::Terms(terms) => terms.iter().collect(),
            },
            Self::Cast(term, _) | Self::Hint(_, term) | Self::Negate(term) => vec![term],
            Self::Arithmetic { first, rest } => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, term)| term)).collect()
            }
            Self::List(terms) | Self::Set(terms) | Self::Tuple(terms) => terms.iter().collect(),
            Self::Map(pairs) => pairs.iter().flat_map(|(key, value)| [key, value]).collect(),
            Self::Fields(fields) => fields.iter().map(|(_, value)| value).collect(),
        }
    }

    /// Returns the first reference in it, in the order of the text.
    #[must_use]
    pub fn first_reference(&self) -> Option<&Reference> {
        match self {
            Self::Reference(reference) => Some(reference),
            term => term.children().into_iter().find_map(Self::first_reference),
        }
    }
}
