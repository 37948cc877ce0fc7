//! Terms: expressions that have a value.
//!
//! Selected columns, assigned values and the sides of comparisons are all terms. The parser and the
//! executor decide which kinds are allowed where: a bare name in `WHERE a = b`, for example, is no
//! value.

use carnet_base::Uuid;

use super::name::Name;
use super::types::TypeName;
use crate::position::Position;

/// Expression that has a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// A constant value.
    Literal(Literal),
    /// `?` or `:name`.
    Marker(BindMarker),
    /// A column, or in a transaction a value that a `LET` read.
    Reference(Reference),
    /// `column[element]`: an element of a list or map.
    Element(Reference, Box<Term>),
    /// `column[from..to]`: the elements of a set or map between two.
    Slice(Reference, Box<Slice>),
    /// `term.field`, `term[element]` or `term[from..to]`: a part of a part, or of a function's result.
    Part(Box<Term>, Box<TermPart>),
    /// `name(…)`: a function call.
    Call(FunctionCall),
    /// `CAST(term AS type)`.
    Cast(Box<Term>, TypeName),
    /// `(type) term`: a type hint.
    Hint(TypeName, Box<Term>),
    /// `-term`, if the term is not a number.
    Negate(Box<Term>),
    /// A chain of sums or of products, evaluated from the left.
    ///
    /// A chain is flat, so that a large number of operators does not make the tree deep. All its
    /// operators have one precedence.
    Arithmetic {
        /// The first operand.
        first: Box<Term>,
        /// Operators, each with the operand after it; at least one.
        rest: Vec<(ArithmeticOp, Term)>,
    },
    /// `[…]`: a list.
    List(Vec<Term>),
    /// `{…}`: a set. `{}` is parsed as a set, too, whatever its use.
    Set(Vec<Term>),
    /// `{key: value, …}`, not empty.
    Map(Vec<(Term, Term)>),
    /// `{field: value, …}`, not empty: a value of a user-defined type.
    Fields(Vec<(Name, Term)>),
    /// `(…, …)`. One term in parentheses is that term, except where a relation compares tuples.
    Tuple(Vec<Term>),
}

/// A constant, in its written form: its type follows from its use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// The constant `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// Digits, with a leading `-` if negative.
    Integer(String),
    /// A number with a fraction or an exponent, or `NaN`, `Infinity`, `-Infinity`.
    Float(String),
    /// A string, without quotes.
    String(String),
    /// Bytes of a blob.
    Blob(Vec<u8>),
    /// A UUID constant.
    Uuid(Uuid),
    /// A duration such as `1h30m` or `P1Y`, with a leading `-` if negative.
    Duration(String),
}

impl Literal {
    /// Returns the text of the constant without quotes.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// `?` or `:name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BindMarker {
    /// Index of the marker in the order of the text, from 0.
    pub index: u16,
    /// Name, which several markers may share.
    pub name: Option<String>,
    /// Position in the text.
    pub at: Position,
}

/// `name` or `name.field`.
///
/// Outside of transactions the name is a column and the field one of a user-defined type. Inside,
/// the name may also be a `LET`'s, and the field a column that it read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// Column, or name of a `LET`.
    pub name: Name,
    /// Field of the value, if one is selected.
    pub field: Option<Name>,
}

/// Part of a composite value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TermPart {
    /// A field of a user-defined type.
    Field(Name),
    /// An element of a set or list, or the value of a key of a map.
    Element(Term),
    /// The elements of a set or map between two.
    Slice(Slice),
}

impl TermPart {
    fn terms(&self) -> Vec<&Term> {
        match self {
            Self::Field(_) => Vec::new(),
            Self::Element(element) => vec![element],
            Self::Slice(slice) => slice.from.iter().chain(&slice.to).collect(),
        }
    }
}

/// `from..to`: bounds of a slice, both included. At least one is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// First element of a set, or key of a map.
    pub from: Option<Term>,
    /// Last element or key.
    pub to: Option<Term>,
}

/// `name(…)`: a function call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionCall {
    /// Name of the function.
    pub function: FunctionName,
    /// Arguments of the call.
    pub arguments: Arguments,
}

/// Name of a function, with its keyspace if that is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionName {
    /// Keyspace of a user-defined function.
    pub keyspace: Option<Name>,
    /// Name of the function.
    pub name: Name,
}

/// Arguments of a function call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Arguments {
    /// `*`, as in `count(*)`.
    Star,
    /// Terms between the parentheses.
    Terms(Vec<Term>),
}

/// An operator between numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArithmeticOp {
    /// The operator `+`.
    Add,
    /// The operator `-`.
    Subtract,
    /// The operator `*`.
    Multiply,
    /// The operator `/`.
    Divide,
    /// The operator `%`.
    Remainder,
}

impl ArithmeticOp {
    /// Returns `true` for `+` and `-`; the other operators bind closer.
    #[must_use]
    pub const fn is_sum(self) -> bool {
        matches!(self, Self::Add | Self::Subtract)
    }

    /// Returns the operator's symbol.
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

    /// Returns the direct subterms, in the order of the text.
    #[must_use]
    pub fn children(&self) -> Vec<&Self> {
        match self {
            Self::Literal(_) | Self::Marker(_) | Self::Reference(_) => Vec::new(),
            Self::Call(call) => match &call.arguments {
                Arguments::Star => Vec::new(),
                Arguments::Terms(terms) => terms.iter().collect(),
            },
            Self::Cast(term, _)
            | Self::Hint(_, term)
            | Self::Negate(term)
            | Self::Element(_, term) => vec![term],
            Self::Slice(_, slice) => slice.from.iter().chain(&slice.to).collect(),
            Self::Part(whole, part) => [vec![&**whole], part.terms()].concat(),
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
            Self::Reference(reference)
            | Self::Element(reference, _)
            | Self::Slice(reference, _) => Some(reference),
            term => term.children().into_iter().find_map(Self::first_reference),
        }
    }
}
