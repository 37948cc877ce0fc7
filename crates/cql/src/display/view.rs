//! `Display` of statements about materialized views.

use std::fmt::{self, Display, Formatter};

use super::ddl::write_table_options;
use super::{join, when};
use crate::ast::{AlterView, CreateView, DropView};

impl Display for CreateView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let if_not_exists = when(self.if_not_exists, " IF NOT EXISTS");
        write!(f, "CREATE MATERIALIZED VIEW{if_not_exists} {} AS SELECT ", self.name)?;
        write!(f, "{} FROM {} WHERE ", self.selection, self.table)?;
        join(f, &self.filter, " AND ")?;
        write!(f, " {}", self.key)?;
        write_table_options(f, &self.clustering_order, &self.options)
    }
}

impl Display for AlterView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let if_exists = when(self.if_exists, " IF EXISTS");
        write!(f, "ALTER MATERIALIZED VIEW{if_exists} {}", self.name)?;
        write_table_options(f, &[], &self.options)
    }
}

impl Display for DropView {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DROP MATERIALIZED VIEW{} {}", when(self.if_exists, " IF EXISTS"), self.name)
    }
}
