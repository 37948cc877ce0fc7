//! `Display` of transactions.

use std::fmt::{self, Display, Formatter};

use super::{join, when};
use crate::ast::{Body, Branch, Condition, Let, Transaction, TransactionResult, Write};

impl Display for Let {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "LET {} = ({})", self.name, self.select)
    }
}

impl Display for TransactionResult {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Select(select) => select.fmt(f),
            Self::Items(items) => {
                f.write_str("SELECT ")?;
                join(f, items, ", ")
            }
        }
    }
}

impl Display for Transaction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("BEGIN TRANSACTION ")?;
        self.lets.iter().try_for_each(|read| write!(f, "{read}; "))?;
        match &self.result {
            Some(result) if self.shows_applied => {
                let result = result.to_string();
                let rest = result.strip_prefix("SELECT ").unwrap_or(&result);
                write!(f, "SELECT applied(), {rest}; ")?;
            }
            Some(result) => write!(f, "{result}; ")?,
            None => f.write_str(when(self.shows_applied, "SELECT applied(); "))?,
        }
        self.body.fmt(f)?;
        f.write_str("COMMIT TRANSACTION")
    }
}

fn statements(f: &mut Formatter<'_>, writes: &[Write]) -> fmt::Result {
    writes.iter().try_for_each(|write| write!(f, "{write}; "))
}

impl Display for Branch {
    /// Ends with a space unless it is empty.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        statements(f, &self.writes)?;
        self.raise.as_ref().map_or(Ok(()), |text| write!(f, "RAISE {text}; "))
    }
}

impl Display for Body {
    /// Ends with a space unless it is empty.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(writes) => statements(f, writes),
            Self::If { condition, then, otherwise } => {
                write!(f, "IF {condition} THEN ")?;
                then.fmt(f)?;
                if let Some(otherwise) = otherwise {
                    write!(f, "ELSE {otherwise}")?;
                }
                f.write_str("END IF ")
            }
        }
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::And(parts) => join(f, parts.iter().map(Part), " AND "),
            Self::Or(parts) => join(f, parts.iter().map(Part), " OR "),
            Self::Compare(left, op, right) => write!(f, "{left} {op} {right}"),
            Self::In(term, values) => write!(f, "{term} IN {values}"),
            Self::IsNull { term, negated: false } => write!(f, "{term} IS NULL"),
            Self::IsNull { term, negated: true } => write!(f, "{term} IS NOT NULL"),
        }
    }
}

/// A part of a condition, in parentheses if it has parts itself.
struct Part<'a>(&'a Condition);

impl Display for Part<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Condition::And(_) | Condition::Or(_) => write!(f, "({})", self.0),
            condition => condition.fmt(f),
        }
    }
}
