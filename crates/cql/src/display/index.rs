//! `Display` of statements about secondary indexes.

use std::fmt::{self, Display, Formatter};

use super::{join, when};
use crate::ast::{CreateIndex, DropIndex, IndexTarget, Literal};

impl Display for CreateIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let custom = when(self.is_custom, "CUSTOM ");
        write!(f, "CREATE {custom}INDEX{}", when(self.if_not_exists, " IF NOT EXISTS"))?;
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        write!(f, " ON {} (", self.table)?;
        if let Some(key) = &self.local {
            f.write_str("(")?;
            join(f, key, ", ")?;
            f.write_str("), ")?;
        }
        join(f, &self.targets, ", ")?;
        f.write_str(")")?;
        if let Some(class) = &self.class {
            write!(f, " USING {}", Literal::String(class.clone()))?;
        }
        if !self.options.is_empty() {
            f.write_str(" WITH OPTIONS = {")?;
            join(f, self.options.iter().map(|(key, value)| format!("{key}: {value}")), ", ")?;
            f.write_str("}")?;
        }
        Ok(())
    }
}

impl Display for IndexTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.part.function() {
            Some(function) => write!(f, "{}({})", function.to_ascii_uppercase(), self.column),
            None => self.column.fmt(f),
        }
    }
}

impl Display for DropIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP INDEX{} {}", when(self.if_exists, " IF EXISTS"), self.name)
    }
}
