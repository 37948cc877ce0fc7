//! Golden statements: valid ones in canonical form, and the messages of mistakes.
//!
//! A script consists of blocks separated by an empty line: optional comments, a statement, `----`,
//! and its outcome. Rewrite the outcomes with `UPDATE_GOLDENFILES=1 cargo test -p carnet-cql --test
//! all golden::`, and read the diff.

use std::fmt::Write as _;

use carnet_cql::ast::{BindRole, BindSite, Name, Statement};
use carnet_cql::{Limits, parse};

use crate::support::blocks;

const SCRIPTS_FOLDER: &str = "parser";

fn outcome(text: &str) -> String {
    let parsed = match parse(text, &Limits::default()) {
        Ok(parsed) => parsed,
        Err(error) => return format!("{:?}: {error}\n", error.kind()),
    };
    let canonical = parsed.statement.to_string();
    let again = parse(&canonical, &Limits::default()).expect("canonical text is read back");
    assert_eq!(again.statement, parsed.statement, "canonical text says the same");

    let mut out = match &parsed.statement {
        Statement::Unsupported(unsupported) => {
            format!("not supported yet: {}\n", unsupported.what)
        }
        _ => format!("{canonical}\n"),
    };
    let sites = parsed.statement.bind_sites();
    let indexes: Vec<usize> = sites.iter().map(|site| usize::from(site.marker.index)).collect();
    assert_eq!(indexes, (0..parsed.markers.len()).collect::<Vec<_>>(), "every marker has a site");
    for site in sites {
        let _ = writeln!(out, "  {}", described(&site));
    }
    if let Statement::Transaction(transaction) = &parsed.statement {
        for extension in transaction.extensions() {
            let _ = writeln!(out, "  extension: {}", extension.name());
        }
    }
    out
}

fn described(site: &BindSite<'_>) -> String {
    let marker = format!("{} {}", site.marker.index, site.marker);
    let table = site.table.map_or_else(String::new, |table| format!(" of {table}"));
    match site.role {
        BindRole::Column(column) => format!("{marker} is {column}{table}"),
        BindRole::ColumnList(column) => format!("{marker} is a list of {column}{table}"),
        BindRole::Reference(reference) => format!("{marker} is like {reference}"),
        BindRole::ReferenceList(reference) => format!("{marker} is a list like {reference}"),
        BindRole::Argument(function, position) => {
            format!("{marker} goes to {function} at {position}")
        }
        BindRole::AsOf => format!("{marker} is a wall time"),
        BindRole::Transaction => format!("{marker} is the id of a transaction"),
        BindRole::Statement => format!("{marker} is the id of a running statement"),
        BindRole::Raise => format!("{marker} is the text of an error"),
        BindRole::Hint(type_name) => format!("{marker} is {type_name}"),
        BindRole::Tuple(columns) => format!("{marker} is a tuple of {}", listed(columns)),
        BindRole::TupleList(columns) => {
            format!("{marker} is a list of tuples of {}", listed(columns))
        }
        BindRole::Element(column) => format!("{marker} is an element of {column}"),
        BindRole::ElementKey(column) => format!("{marker} is a key of {column}"),
        BindRole::Field(column, field) => format!("{marker} is {column}.{field}"),
        BindRole::Token
        | BindRole::Limit
        | BindRole::Timestamp
        | BindRole::Ttl
        | BindRole::Timeout
        | BindRole::Unknown => format!("{marker} is {:?}", site.role).to_lowercase(),
    }
}

fn listed(columns: &[Name]) -> String {
    columns.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn check(name: &str) {
    let script = blocks::read(SCRIPTS_FOLDER, name);
    blocks::compare(SCRIPTS_FOLDER, name, &script, &blocks::run(&script, outcome));
}

macro_rules! scripts {
    ($($name:ident)*) => {
        const SCRIPTS: &[&str] = &[$(stringify!($name)),*];

        $(#[test] fn $name() { check(stringify!($name)); })*
    };
}

scripts! { batches connect describe explain indexes keyspaces levels mistakes monitor names open roles selects tables terms transactions transaction_mistakes unsupported views writes }

#[test]
fn no_script_is_forgotten() {
    blocks::check_none_forgotten(SCRIPTS_FOLDER, SCRIPTS);
}
