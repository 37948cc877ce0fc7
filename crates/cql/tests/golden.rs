//! Golden statements: what is understood, in canonical form, and how mistakes are told.
//!
//! A script is blocks with an empty line between them: perhaps comments, a statement, `----`, and
//! what comes of it. Rewrite that with `UPDATE_GOLDENFILES=1 cargo test -p carnet-cql --test
//! golden`, and read the diff.

use std::fmt::Write as _;
use std::path::Path;

use carnet_cql::ast::{BindRole, BindSite, Name, Statement};
use carnet_cql::{Limits, parse};

const SEPARATOR: &str = "----";

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

/// Runs a script, and returns it with what came of each statement.
fn run(script: &str) -> String {
    let mut blocks = Vec::new();
    for block in script.trim_end().split("\n\n") {
        let input = match block.split_once(SEPARATOR) {
            Some((input, _)) => input.trim_end(),
            None => block.trim_end(),
        };
        let is_comment = |line: &&str| line.starts_with('#');
        let comments: Vec<&str> = input.lines().take_while(is_comment).collect();
        let statement: Vec<&str> = input.lines().skip_while(is_comment).collect();
        let mut done = comments.join("\n");
        if !statement.is_empty() {
            let statement = statement.join("\n");
            let between = if done.is_empty() { "" } else { "\n" };
            let _ = write!(done, "{between}{statement}\n{SEPARATOR}\n{}", outcome(&statement));
        }
        blocks.push(done.trim_end().to_owned());
    }
    blocks.join("\n\n") + "\n"
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts/parser").join(name);
    let script = std::fs::read_to_string(&path).expect("the script is there");
    let done = run(&script);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::write(&path, done).expect("the script can be written");
        return;
    }
    assert!(script.contains(SEPARATOR), "{name} expects nothing");
    for (expected, found) in script.split("\n\n").zip(done.split("\n\n")) {
        assert_eq!(found, expected, "in {name}");
    }
    assert_eq!(done, script, "in {name}");
}

macro_rules! scripts {
    ($($name:ident)*) => {
        const SCRIPTS: &[&str] = &[$(stringify!($name)),*];

        $(#[test] fn $name() { check(stringify!($name)); })*
    };
}

scripts! { batches connect describe keyspaces mistakes names selects tables terms transactions transaction_mistakes unsupported writes }

#[test]
fn no_script_is_forgotten() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testscripts/parser");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder can be listed")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
        .collect();
    found.sort();
    let mut known = SCRIPTS.to_vec();
    known.sort_unstable();
    assert_eq!(found, known);
}
