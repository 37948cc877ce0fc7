//! Conversion to text: `Display` of every node writes CQL that parses to an equal node.
//!
//! Keywords are in upper case, names are quoted only if needed, and one space separates words,
//! without line breaks. Logs, `DESCRIBE` and error messages use this form.

mod ddl;
mod describe;
mod dml;
mod index;
mod level;
mod open;
mod role;
mod term;
mod transaction;
mod view;

use std::fmt::{self, Display, Formatter};

use carnet_data::DataType;
use carnet_data::keyword::is_plain;

use crate::ast::Statement;
use crate::ast::{Name, TableName, TypeName};

/// Writes items with a separator between them.
fn join<T: Display>(
    f: &mut Formatter<'_>,
    things: impl IntoIterator<Item = T>,
    between: &str,
) -> fmt::Result {
    for (at, thing) in things.into_iter().enumerate() {
        if at > 0 {
            f.write_str(between)?;
        }
        thing.fmt(f)?;
    }
    Ok(())
}

/// Writes a keyword and an item, if there is one.
fn clause<T: Display>(f: &mut Formatter<'_>, keyword: &str, thing: Option<&T>) -> fmt::Result {
    thing.map_or(Ok(()), |thing| write!(f, " {keyword} {thing}"))
}

/// Returns the text if the condition holds, otherwise nothing.
fn when(condition: bool, text: &'static str) -> &'static str {
    if condition { text } else { "" }
}

/// Writes a string in single quotes.
fn write_string(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

/// Writes a name in double quotes, even if they are not needed.
fn write_quoted(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    write!(f, "\"{}\"", name.replace('"', "\"\""))
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if is_plain(&self.text) { f.write_str(&self.text) } else { write_quoted(f, &self.text) }
    }
}

impl Display for TableName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(keyspace) => write!(f, "{keyspace}.{}", self.table),
            None => write!(f, "{}", self.table),
        }
    }
}

impl Display for TypeName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(data_type) => f.write_str(data_type.name()),
            Self::Frozen(inner) => write!(f, "frozen<{inner}>"),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Set(element) => write!(f, "set<{element}>"),
            Self::Map(key, value) => write!(f, "map<{key}, {value}>"),
            Self::Tuple(types) => {
                f.write_str("tuple<")?;
                join(f, types, ", ")?;
                f.write_str(">")
            }
            Self::Vector(element, dimensions) => write!(f, "vector<{element}, {dimensions}>"),
            Self::UserDefined(name) => write_user_type(f, name),
            Self::UserClass(name, _) => write_user_type(f, name),
            Self::Custom(class) => write_string(f, class),
        }
    }
}

/// Returns `true` if a name without quotes is that of a built-in type.
fn is_type(name: &str) -> bool {
    DataType::from_name(name).is_some()
}

/// Quotes a user-defined type whose name would be parsed as a built-in type.
fn write_user_type(f: &mut Formatter<'_>, name: &TableName) -> fmt::Result {
    let text = name.table.text.as_str();
    if name.keyspace.is_none() && is_type(text) { write_quoted(f, text) } else { name.fmt(f) }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Select(select) => select.fmt(f),
            Self::Write(write) => write.fmt(f),
            Self::Batch(batch) => batch.fmt(f),
            Self::Transaction(transaction) => transaction.fmt(f),
            Self::Open(open) => open.fmt(f),
            Self::Use(keyspace) => write!(f, "USE {keyspace}"),
            Self::CreateKeyspace(create) => create.fmt(f),
            Self::AlterKeyspace(alter) => alter.fmt(f),
            Self::DropKeyspace(drop) => drop.fmt(f),
            Self::CreateTable(create) => create.fmt(f),
            Self::CopyTable(copy) => copy.fmt(f),
            Self::AlterTable(alter) => alter.fmt(f),
            Self::DropTable(drop) => drop.fmt(f),
            Self::CreateType(create) => create.fmt(f),
            Self::AlterType(alter) => alter.fmt(f),
            Self::DropType(drop) => drop.fmt(f),
            Self::CreateIndex(create) => create.fmt(f),
            Self::DropIndex(drop) => drop.fmt(f),
            Self::CreateView(create) => create.fmt(f),
            Self::AlterView(alter) => alter.fmt(f),
            Self::DropView(drop) => drop.fmt(f),
            Self::Truncate(table, using) => write!(f, "TRUNCATE {table}{using}"),
            Self::Describe(describe) => describe.fmt(f),
            Self::Level(level) => level.fmt(f),
            Self::Role(role) => role.fmt(f),
            Self::ShowBottleneck => f.write_str("SHOW BOTTLENECK"),
            Self::Explain(statement) => write!(f, "EXPLAIN {statement}"),
            Self::KillStatement(id) => write!(f, "KILL STATEMENT {id}"),
            Self::Unsupported(unsupported) => f.write_str(&unsupported.text),
        }
    }
}
