//! Names of result columns that are not columns of the table.
//!
//! They are Cassandra's, because clients read results by these names: `system.max(n)`,
//! `system.totimestamp(system.now())`, `(int)n`, `cast(n as text)`, `n + 1`. Columns are not quoted
//! in them.

use crate::ast::{Arguments, ArithmeticOp, FunctionCall, Literal, Term};

/// Returns the name of the result column of a selected term.
pub(super) fn column_name(term: &Term) -> String {
    match term {
        Term::Reference(reference) => {
            let name = reference.name.as_str();
            match &reference.field {
                Some(field) => format!("{name}.{}", field.as_str()),
                None => name.to_owned(),
            }
        }
        Term::Call(call) => call_name(call),
        Term::Literal(Literal::Null) => "NULL".to_owned(),
        Term::Cast(term, type_name) => format!("cast({} as {type_name})", column_name(term)),
        Term::Hint(type_name, term) => format!("({type_name}){}", column_name(term)),
        Term::Negate(term) => match &**term {
            Term::Arithmetic { .. } => format!("-({})", column_name(term)),
            term => format!("-{}", column_name(term)),
        },
        Term::Arithmetic { first, rest } => {
            let in_product = rest.iter().any(|(op, _)| !op.is_sum());
            let operand = |(op, term): &(ArithmeticOp, Term)| {
                format!(" {} {}", op.symbol(), operand_name(term, in_product))
            };
            operand_name(first, in_product) + &rest.iter().map(operand).collect::<String>()
        }
        term => term.to_string(),
    }
}

/// Encloses an operand in parentheses if the surrounding operators would split it.
fn operand_name(term: &Term, in_product: bool) -> String {
    let name = column_name(term);
    match term {
        Term::Arithmetic { rest, .. } if in_product || rest.iter().any(|(op, _)| op.is_sum()) => {
            format!("({name})")
        }
        _ => name,
    }
}

fn call_name(call: &FunctionCall) -> String {
    let arguments = match &call.arguments {
        Arguments::Star => "*".to_owned(),
        Arguments::Terms(terms) => terms.iter().map(column_name).collect::<Vec<_>>().join(", "),
    };
    format!("system.{}({arguments})", call.function.name.as_str())
}
