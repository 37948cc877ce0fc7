//! `Display` of terms and relations.

use std::fmt::{self, Display, Formatter};

use super::{is_type, join, when, write_quoted, write_string};
use crate::ast::{
    Arguments, BindMarker, CompareOp, FunctionCall, FunctionName, InValues, Literal, Name,
    Reference, Relation, Slice, Term, TermPart,
};

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => value.fmt(f),
            Self::Integer(text) | Self::Float(text) | Self::Duration(text) => f.write_str(text),
            Self::String(text) => write_string(f, text),
            Self::Blob(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Uuid(uuid) => uuid.hyphenated().fmt(f),
        }
    }
}

impl Display for BindMarker {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, ":{}", Name::new(name)),
            None => f.write_str("?"),
        }
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{}.{field}", self.name),
            None => self.name.fmt(f),
        }
    }
}

impl Display for FunctionName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(keyspace) => write!(f, "{keyspace}.{}", self.name),
            // A reserved word, but also a function.
            None if self.name.text == "token" => f.write_str("token"),
            None => self.name.fmt(f),
        }
    }
}

impl Display for FunctionCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.function)?;
        match &self.arguments {
            Arguments::Star => f.write_str("*")?,
            Arguments::Terms(terms) => join(f, terms, ", ")?,
        }
        f.write_str(")")
    }
}

impl Display for Slice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bound = |term: &Option<Term>| term.as_ref().map(Term::to_string).unwrap_or_default();
        write!(f, "{}..{}", bound(&self.from), bound(&self.to))
    }
}

impl Display for TermPart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => write!(f, ".{field}"),
            Self::Element(element) => write!(f, "[{element}]"),
            Self::Slice(slice) => write!(f, "[{slice}]"),
        }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => literal.fmt(f),
            Self::Marker(marker) => marker.fmt(f),
            Self::Reference(reference) => reference.fmt(f),
            Self::Element(reference, element) => write!(f, "{reference}[{element}]"),
            Self::Slice(reference, slice) => write!(f, "{reference}[{slice}]"),
            Self::Part(whole, part) => write!(f, "{whole}{part}"),
            Self::Call(call) => call.fmt(f),
            Self::Cast(term, type_name) => write!(f, "CAST({term} AS {type_name})"),
            Self::Hint(type_name, term) if is_bare_behind_hint(term) => {
                write!(f, "({type_name}) {term}")
            }
            Self::Hint(type_name, term) => {
                write!(f, "({type_name}) (")?;
                match &**term {
                    // `(text)` would be another hint if a sign follows.
                    Self::Reference(Reference { name, field: None }) if is_type(&name.text) => {
                        write_quoted(f, &name.text)?;
                    }
                    term => term.fmt(f)?,
                }
                f.write_str(")")
            }
            Self::Negate(term) if matches!(**term, Self::Reference(_) | Self::Call(_)) => {
                write!(f, "-{term}")
            }
            Self::Negate(term) => write!(f, "-({term})"),
            Self::Arithmetic { first, rest } => {
                let in_product = rest.iter().any(|(op, _)| !op.is_sum());
                write_operand(f, first, in_product)?;
                for (op, operand) in rest {
                    write!(f, " {} ", op.symbol())?;
                    write_operand(f, operand, in_product)?;
                }
                Ok(())
            }
            Self::List(terms) => enclosed(f, "[", terms, "]"),
            Self::Set(terms) => enclosed(f, "{", terms, "}"),
            Self::Tuple(terms) => enclosed(f, "(", terms, ")"),
            Self::Map(pairs) => {
                let pairs = pairs.iter().map(|(key, value)| Pair(key, value));
                enclosed(f, "{", pairs, "}")
            }
            Self::Fields(fields) => {
                let fields = fields.iter().map(|(name, value)| Pair(name, value));
                enclosed(f, "{", fields, "}")
            }
        }
    }
}

/// `key: value` of a map.
struct Pair<'a, K>(&'a K, &'a Term);

impl<K: Display> Display for Pair<'_, K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

fn enclosed<T: Display>(
    f: &mut Formatter<'_>,
    open: &str,
    terms: impl IntoIterator<Item = T>,
    close: &str,
) -> fmt::Result {
    f.write_str(open)?;
    join(f, terms, ", ")?;
    f.write_str(close)
}

/// Returns `true` if a term after a type hint is unambiguous: `(a) -1` is a subtraction if `a` may
/// be a column.
fn is_bare_behind_hint(term: &Term) -> bool {
    match term {
        Term::Literal(Literal::Null | Literal::Boolean(_)) => false,
        Term::Literal(Literal::Integer(text) | Literal::Float(text) | Literal::Duration(text)) => {
            text.starts_with(|first: char| first.is_ascii_digit())
        }
        Term::Literal(_)
        | Term::Marker(_)
        | Term::List(_)
        | Term::Set(_)
        | Term::Map(_)
        | Term::Fields(_)
        | Term::Tuple(_) => true,
        _ => false,
    }
}

/// Encloses an operand in parentheses if the surrounding operators would split it.
fn write_operand(f: &mut Formatter<'_>, term: &Term, in_product: bool) -> fmt::Result {
    match term {
        Term::Arithmetic { rest, .. } if in_product || rest.iter().any(|(op, _)| op.is_sum()) => {
            write!(f, "({term})")
        }
        term => term.fmt(f),
    }
}

impl Display for CompareOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

impl Display for InValues {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(terms) => enclosed(f, "(", terms, ")"),
            Self::Marker(marker) => marker.fmt(f),
        }
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { column, op, value } => write!(f, "{column} {op} {value}"),
            Self::In { column, values } => write!(f, "{column} IN {values}"),
            Self::CompareTuple { columns, op, value } => {
                enclosed(f, "(", columns, ")")?;
                write!(f, " {op} {value}")
            }
            Self::InTuple { columns, values } => {
                enclosed(f, "(", columns, ")")?;
                write!(f, " IN {values}")
            }
            Self::Token { columns, op, value } => {
                enclosed(f, "token(", columns, ")")?;
                write!(f, " {op} {value}")
            }
            Self::IsNotNull(column) => write!(f, "{column} IS NOT NULL"),
            Self::Contains { column, key: false, value } => {
                let value = value.to_string();
                let is_key = value.strip_prefix("key").is_some_and(|rest| {
                    !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_')
                });
                // A name that would be parsed as the keyword.
                let (open, close) = (when(is_key, "("), when(is_key, ")"));
                write!(f, "{column} CONTAINS {open}{value}{close}")
            }
            Self::Contains { column, key: true, value } => {
                write!(f, "{column} CONTAINS KEY {value}")
            }
            Self::Like { column, pattern } => write!(f, "{column} LIKE {pattern}"),
            Self::Element { column, element, op, value } => {
                write!(f, "{column}[{element}] {op} {value}")
            }
            Self::ElementIn { column, element, values } => {
                write!(f, "{column}[{element}] IN {values}")
            }
            Self::Field { column, field, op, value } => write!(f, "{column}.{field} {op} {value}"),
            Self::FieldIn { column, field, values } => write!(f, "{column}.{field} IN {values}"),
        }
    }
}
