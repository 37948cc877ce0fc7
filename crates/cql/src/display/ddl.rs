//! `Display` of statements about keyspaces and tables.

use std::fmt::{self, Display, Formatter};

use super::{clause, join, when};
use crate::ast::{
    AlterKeyspace, AlterTable, AlterType, ColumnDefinition, CopyTable, CreateKeyspace, CreateTable,
    CreateType, DropKeyspace, DropTable, DropType, Literal, Name, OptionValue, Ordering,
    PrimaryKey, TableChange, TypeChange, TypeName,
};

const IF_NOT_EXISTS: &str = " IF NOT EXISTS";
const IF_EXISTS: &str = " IF EXISTS";

impl Display for OptionValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => literal.fmt(f),
            Self::Map(pairs) => {
                f.write_str("{")?;
                join(f, pairs.iter().map(|(key, value)| Entry(key, value)), ", ")?;
                f.write_str("}")
            }
        }
    }
}

/// `key: value` of a map.
struct Entry<'a>(&'a Literal, &'a Literal);

impl Display for Entry<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

/// `name = value` of an option.
struct Property<'a>(&'a Name, &'a OptionValue);

impl Display for Property<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.0, self.1)
    }
}

fn properties(options: &[(Name, OptionValue)]) -> impl Iterator<Item = Property<'_>> {
    options.iter().map(|(name, value)| Property(name, value))
}

impl Display for CreateKeyspace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let condition = when(self.if_not_exists, IF_NOT_EXISTS);
        write!(f, "CREATE KEYSPACE{condition} {} WITH ", self.name)?;
        join(f, properties(&self.options), " AND ")
    }
}

impl Display for AlterKeyspace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER KEYSPACE{} {} WITH ", when(self.if_exists, IF_EXISTS), self.name)?;
        join(f, properties(&self.options), " AND ")
    }
}

impl Display for DropKeyspace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP KEYSPACE{} {}", when(self.if_exists, IF_EXISTS), self.name)
    }
}

impl Display for ColumnDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.name, self.type_name, when(self.is_static, " STATIC"))
    }
}

impl Display for PrimaryKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("PRIMARY KEY (")?;
        if let [only] = &self.partition[..] {
            only.fmt(f)?;
        } else {
            f.write_str("(")?;
            join(f, &self.partition, ", ")?;
            f.write_str(")")?;
        }
        self.clustering.iter().try_for_each(|column| write!(f, ", {column}"))?;
        f.write_str(")")
    }
}

impl Display for CreateTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE TABLE{} {} (", when(self.if_not_exists, IF_NOT_EXISTS), self.table)?;
        self.columns.iter().try_for_each(|column| write!(f, "{column}, "))?;
        write!(f, "{})", self.key)?;
        f.write_str(when(self.is_compact, " WITH COMPACT STORAGE"))?;
        write_options(f, self.is_compact, &self.clustering_order, &self.options)
    }
}

/// Writes the options of a table or view, with `WITH` if there are any.
pub(super) fn write_table_options(
    f: &mut Formatter<'_>,
    clustering_order: &[Ordering],
    options: &[(Name, OptionValue)],
) -> fmt::Result {
    write_options(f, false, clustering_order, options)
}

/// Writes options behind others, if there are any.
fn write_options(
    f: &mut Formatter<'_>,
    is_behind: bool,
    clustering_order: &[Ordering],
    options: &[(Name, OptionValue)],
) -> fmt::Result {
    let mut before = if is_behind { "AND" } else { "WITH" };
    if !clustering_order.is_empty() {
        write!(f, " {before} CLUSTERING ORDER BY (")?;
        join(f, clustering_order, ", ")?;
        f.write_str(")")?;
        before = "AND";
    }
    for property in properties(options) {
        write!(f, " {before} {property}")?;
        before = "AND";
    }
    Ok(())
}

impl Display for CopyTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let if_not_exists = when(self.if_not_exists, IF_NOT_EXISTS);
        write!(f, "CREATE TABLE{if_not_exists} {} LIKE {}", self.table, self.like)?;
        properties(&self.options).enumerate().try_for_each(|(place, property)| {
            write!(f, " {} {property}", if place == 0 { "WITH" } else { "AND" })
        })
    }
}

impl Display for AlterTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER TABLE{} {} ", when(self.if_exists, IF_EXISTS), self.table)?;
        match &self.change {
            TableChange::Add { if_not_exists, columns } => {
                write!(f, "ADD{} (", when(*if_not_exists, IF_NOT_EXISTS))?;
                join(f, columns, ", ")?;
                f.write_str(")")
            }
            TableChange::Drop { if_exists, columns, timestamp } => {
                write!(f, "DROP{} (", when(*if_exists, IF_EXISTS))?;
                join(f, columns, ", ")?;
                f.write_str(")")?;
                clause(f, "USING TIMESTAMP", timestamp.as_ref())
            }
            TableChange::Rename { if_exists, columns } => {
                write!(f, "RENAME{} ", when(*if_exists, IF_EXISTS))?;
                join(f, columns.iter().map(|(old, new)| Rename(old, new)), " AND ")
            }
            TableChange::DropCompactStorage => f.write_str("DROP COMPACT STORAGE"),
            TableChange::Type(column, type_name) => write!(f, "ALTER {column} TYPE {type_name}"),
            TableChange::Options(options) => {
                f.write_str("WITH ")?;
                join(f, properties(options), " AND ")
            }
        }
    }
}

/// `old TO new` of a `RENAME`.
struct Rename<'a>(&'a Name, &'a Name);

impl Display for Rename<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} TO {}", self.0, self.1)
    }
}

impl Display for CreateType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE TYPE{} {} (", when(self.if_not_exists, IF_NOT_EXISTS), self.name)?;
        join(f, self.fields.iter().map(|(name, type_name)| Field(name, type_name)), ", ")?;
        f.write_str(")")
    }
}

/// A field with its type.
struct Field<'a>(&'a Name, &'a TypeName);

impl Display for Field<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

impl Display for AlterType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER TYPE{} {} ", when(self.if_exists, IF_EXISTS), self.name)?;
        match &self.change {
            TypeChange::Add { if_not_exists, name, type_name } => {
                write!(f, "ADD{} {name} {type_name}", when(*if_not_exists, IF_NOT_EXISTS))
            }
            TypeChange::Rename { if_exists, fields } => {
                write!(f, "RENAME{} ", when(*if_exists, IF_EXISTS))?;
                join(f, fields.iter().map(|(old, new)| Rename(old, new)), " AND ")
            }
        }
    }
}

impl Display for DropType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP TYPE{} {}", when(self.if_exists, IF_EXISTS), self.name)
    }
}

impl Display for DropTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP TABLE{} {}", when(self.if_exists, IF_EXISTS), self.table)
    }
}
