//! Names of result columns that are not columns of the table.
//!
//! They are Cassandra's, because clients read results by these names: `system.max(n)`,
//! `system.totimestamp(system.now())`, `(int)n`, `cast(n as text)`, `n + 1`. Columns are not quoted
//! in them.

use std::fmt::{self, Write};

use crate::ast::{Arguments, FunctionCall, Literal, Term, TermPart};
use crate::shown::Beginning;

/// Returns the name of the result column of a selected term.
pub(super) fn column_name(term: &Term) -> String {
    let mut name = String::new();
    write_name(term, &mut name).expect("a string takes every text");
    name
}

/// Returns the beginning of the name of a term, for messages.
pub(super) fn shown_name(term: &Term) -> String {
    let mut name = Beginning::default();
    // An error ends the name where it is long enough.
    let _ = write_name(term, &mut name);
    name.finish()
}

fn write_name(term: &Term, out: &mut impl Write) -> fmt::Result {
    match term {
        Term::Reference(reference) => {
            out.write_str(reference.name.as_str())?;
            match &reference.field {
                Some(field) => write!(out, ".{}", field.as_str()),
                None => Ok(()),
            }
        }
        Term::Part(whole, part) => {
            write_name(whole, out)?;
            match &**part {
                TermPart::Field(field) => write!(out, ".{}", field.as_str()),
                part => write!(out, "{part}"),
            }
        }
        Term::Call(call) => write_call(call, out),
        Term::Literal(Literal::Null) => out.write_str("NULL"),
        Term::Cast(term, type_name) => {
            out.write_str("cast(")?;
            write_name(term, out)?;
            write!(out, " as {type_name})")
        }
        Term::Hint(type_name, term) => {
            write!(out, "({type_name})")?;
            write_name(term, out)
        }
        Term::Negate(term) => {
            out.write_char('-')?;
            write_enclosed(term, matches!(**term, Term::Arithmetic { .. }), out)
        }
        Term::Arithmetic { first, rest } => {
            let in_product = rest.iter().any(|(op, _)| !op.is_sum());
            write_operand(first, in_product, out)?;
            rest.iter().try_for_each(|(op, term)| {
                write!(out, " {} ", op.symbol())?;
                write_operand(term, in_product, out)
            })
        }
        term => write!(out, "{term}"),
    }
}

/// Encloses an operand in parentheses if the surrounding operators would split it.
fn write_operand(term: &Term, in_product: bool, out: &mut impl Write) -> fmt::Result {
    let is_split = match term {
        Term::Arithmetic { rest, .. } => in_product || rest.iter().any(|(op, _)| op.is_sum()),
        _ => false,
    };
    write_enclosed(term, is_split, out)
}

fn write_enclosed(term: &Term, in_parentheses: bool, out: &mut impl Write) -> fmt::Result {
    if !in_parentheses {
        return write_name(term, out);
    }
    out.write_char('(')?;
    write_name(term, out)?;
    out.write_char(')')
}

fn write_call(call: &FunctionCall, out: &mut impl Write) -> fmt::Result {
    let name = call.function.name.as_str();
    // Like Cassandra: these are no functions of its catalog.
    let is_time = matches!(name, "maxwritetime" | "ttl" | "writetime");
    let keyspace = if is_time { "" } else { "system." };
    write!(out, "{keyspace}{name}(")?;
    match &call.arguments {
        Arguments::Star => out.write_char('*')?,
        Arguments::Terms(terms) => {
            for (place, term) in terms.iter().enumerate() {
                if place > 0 {
                    out.write_str(", ")?;
                }
                write_name(term, out)?;
            }
        }
    }
    out.write_char(')')
}
