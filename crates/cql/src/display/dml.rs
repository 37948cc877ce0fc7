//! `Display` of `SELECT`, of statements that write, and of batches.

use std::fmt::{self, Display, Formatter};

use super::{clause, join, when};
use crate::ast::{
    Assignment, Batch, BatchKind, Delete, Deletion, Guard, Insert, JsonRow, Ordering, Select,
    SelectItem, Selection, Update, Using, Write,
};

impl Display for SelectItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.term.fmt(f)?;
        clause(f, "AS", self.alias.as_ref())
    }
}

impl Display for Selection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Items(items) => join(f, items, ", "),
        }
    }
}

impl Display for Ordering {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.column, if self.descending { "DESC" } else { "ASC" })
    }
}

/// Writes a list after keywords, unless it is empty.
fn list<T: Display>(
    f: &mut Formatter<'_>,
    keywords: &str,
    things: &[T],
    between: &str,
) -> fmt::Result {
    if things.is_empty() {
        return Ok(());
    }
    write!(f, " {keywords} ")?;
    join(f, things, between)
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let json = when(self.json, "JSON ");
        let distinct = when(self.distinct, "DISTINCT ");
        write!(f, "SELECT {json}{distinct}{} FROM {}", self.selection, self.from)?;
        list(f, "WHERE", &self.filter, " AND ")?;
        list(f, "GROUP BY", &self.group_by, ", ")?;
        list(f, "ORDER BY", &self.order_by, ", ")?;
        if let Some(near) = &self.near {
            write!(f, " ORDER BY {} ANN OF {}", near.column, near.vector)?;
        }
        clause(f, "PER PARTITION LIMIT", self.per_partition_limit.as_ref())?;
        clause(f, "LIMIT", self.limit.as_ref())?;
        f.write_str(when(self.allow_filtering, " ALLOW FILTERING"))?;
        f.write_str(when(self.bypass_cache, " BYPASS CACHE"))?;
        clause(f, "AS OF", self.as_of.as_ref())?;
        self.using.fmt(f)
    }
}

impl Display for Write {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insert(insert) => insert.fmt(f),
            Self::Update(update) => update.fmt(f),
            Self::Delete(delete) => delete.fmt(f),
        }
    }
}

impl Display for Using {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut before = "USING";
        for (attribute, term) in &self.attributes {
            write!(f, " {before} {} {term}", attribute.keyword())?;
            before = "AND";
        }
        self.level.as_ref().map_or(Ok(()), |level| write!(f, " {before} SERVICE LEVEL {level}"))
    }
}

impl Display for Insert {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let behind = (when(self.if_not_exists, " IF NOT EXISTS"), &self.using);
        if let Some(JsonRow { value, default_unset }) = &self.json {
            let default = when(*default_unset, " DEFAULT UNSET");
            return write!(
                f,
                "INSERT INTO {} JSON {value}{default}{}{}",
                self.table, behind.0, behind.1
            );
        }
        write!(f, "INSERT INTO {} (", self.table)?;
        join(f, &self.columns, ", ")?;
        f.write_str(") VALUES (")?;
        join(f, &self.values, ", ")?;
        write!(f, "){}{}", behind.0, behind.1)
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column, value) => write!(f, "{column} = {value}"),
            Self::Element(column, element, value) => write!(f, "{column}[{element}] = {value}"),
            Self::Field(column, field, value) => write!(f, "{column}.{field} = {value}"),
        }
    }
}

impl Display for Deletion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(column) => column.fmt(f),
            Self::Element(column, element) => write!(f, "{column}[{element}]"),
            Self::Field(column, field) => write!(f, "{column}.{field}"),
        }
    }
}

impl Display for Guard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => Ok(()),
            Self::Exists => f.write_str(" IF EXISTS"),
            Self::Columns(relations) => {
                f.write_str(" IF ")?;
                join(f, relations, " AND ")
            }
        }
    }
}

impl Display for Update {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "UPDATE {}{} SET ", self.table, self.using)?;
        join(f, &self.assignments, ", ")?;
        list(f, "WHERE", &self.filter, " AND ")?;
        self.guard.fmt(f)
    }
}

impl Display for Delete {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("DELETE ")?;
        join(f, &self.deletions, ", ")?;
        let space = when(!self.deletions.is_empty(), " ");
        write!(f, "{space}FROM {}{}", self.table, self.using)?;
        list(f, "WHERE", &self.filter, " AND ")?;
        self.guard.fmt(f)
    }
}

impl Display for Batch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            BatchKind::Logged => "",
            BatchKind::Unlogged => "UNLOGGED ",
            BatchKind::Counter => "COUNTER ",
        };
        write!(f, "BEGIN {kind}BATCH{} ", self.using)?;
        self.writes.iter().try_for_each(|write| write!(f, "{write}; "))?;
        f.write_str("APPLY BATCH")
    }
}
