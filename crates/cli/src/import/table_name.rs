//! Names of tables.

use std::fmt;

use anyhow::{Result, bail};

use crate::copy::spelled;

/// A table's name, as stored. `Display` writes it as CQL identifiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(super) keyspace: String,
    pub(super) table: String,
}

impl TableName {
    /// Parses a name `keyspace.table`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text.split_once('.') {
            Some((keyspace, table)) if !keyspace.is_empty() && !table.is_empty() => {
                Ok(Self { keyspace: keyspace.into(), table: table.into() })
            }
            _ => bail!("{text:?} names no table: keyspace.table"),
        }
    }

    /// Returns the stored name, `keyspace.table`.
    pub(super) fn stored(&self) -> String {
        format!("{}.{}", self.keyspace, self.table)
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", spelled(&self.keyspace), spelled(&self.table))
    }
}
