//! `Display` of `DESCRIBE`.

use std::fmt::{self, Display, Formatter};

use super::{when, write_quoted};
use crate::ast::{Describe, DescribeTarget, TableName};

/// Names that need quotes after `DESCRIBE`, because they are keywords there.
const TARGETS: [&str; 7] =
    ["aggregates", "cluster", "columnfamilies", "functions", "keyspaces", "tables", "types"];

impl Display for Describe {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "DESCRIBE {}{}", self.target, when(self.internals, " WITH INTERNALS"))
    }
}

impl Display for DescribeTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("CLUSTER"),
            Self::Schema { full } => write!(f, "{}SCHEMA", when(*full, "FULL ")),
            Self::Keyspaces => f.write_str("KEYSPACES"),
            Self::Keyspace { only, name } => {
                write!(f, "{}KEYSPACE", when(*only, "ONLY "))?;
                name.as_ref().map_or(Ok(()), |name| write!(f, " {name}"))
            }
            Self::Tables => f.write_str("TABLES"),
            Self::Table(name) => write!(f, "TABLE {name}"),
            Self::Index(name) => write!(f, "INDEX {name}"),
            Self::View(name) => write!(f, "MATERIALIZED VIEW {name}"),
            Self::Types => f.write_str("TYPES"),
            Self::Type(name) => write!(f, "TYPE {name}"),
            Self::Functions => f.write_str("FUNCTIONS"),
            Self::Function(name) => write!(f, "FUNCTION {name}"),
            Self::Aggregates => f.write_str("AGGREGATES"),
            Self::Aggregate(name) => write!(f, "AGGREGATE {name}"),
            Self::Any(TableName { keyspace: None, table })
                if TARGETS.contains(&table.text.as_str()) =>
            {
                write_quoted(f, &table.text)
            }
            Self::Any(name) => name.fmt(f),
        }
    }
}
