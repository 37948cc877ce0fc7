//! Tables of `COMPACT STORAGE`, as Cassandra 5 presents them to CQL.
//!
//! Their rows have no marker: a row exists by its values. System tables show the columns that Cassandra
//! hides from statements.
//!
//! | columns | kind | a row exists by | hidden columns |
//! | --- | --- | --- | --- |
//! | no clustering columns | static | any of its values | `column1`, `value`; the others are static |
//! | clustering columns and one value | dense | its value | |
//! | clustering columns only | keys | itself | `value` |
//!
//! A row may lack the last clustering columns: its key ends before them. It stays so after `DROP
//! COMPACT STORAGE`.

use carnet::DataType;
use carnet::catalog::{ColumnKind, TableSchema};
use carnet_data::Order;

use super::column_view::ColumnView;
use crate::cql_error::CqlError;

/// Entry of the options of a table in the catalog. No statement can set it as an option.
const KEY: &str = "compact storage";
const COMPACT: &str = "true";
const DROPPED: &str = "dropped";
/// Name of the hidden clustering column.
const HIDDEN_CLUSTERING: &str = "column1";
/// Name of the hidden value.
const HIDDEN_VALUE: &str = "value";

/// Kind of a table of `COMPACT STORAGE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compact {
    Static,
    Dense,
    Keys,
}

impl Compact {
    /// Returns the kind of a table; `None` for other tables.
    pub(crate) fn of(schema: &TableSchema) -> Option<Self> {
        schema.options.get(KEY).filter(|state| *state == COMPACT)?;
        Some(match (schema.clustering_key().next(), schema.regular().next()) {
            (None, _) => Self::Static,
            (Some(_), Some(_)) => Self::Dense,
            (Some(_), None) => Self::Keys,
        })
    }

    /// Makes a new table one of `COMPACT STORAGE`.
    ///
    /// # Errors
    ///
    /// `Invalid` for columns that Cassandra refuses in such a table.
    pub(crate) fn set(schema: &mut TableSchema) -> Result<(), CqlError> {
        if schema.statics().next().is_some() {
            return Err(CqlError::invalid(
                "Static columns are not supported in COMPACT STORAGE tables",
            ));
        }
        if schema.columns.iter().any(|column| column.is_multi_cell) {
            return Err(CqlError::invalid(
                "Non-frozen collections and UDTs are not supported with COMPACT STORAGE",
            ));
        }
        let regular: Vec<&str> = schema.regular().map(|column| column.name.as_str()).collect();
        let is_static = schema.clustering_key().next().is_none();
        if is_static && regular.is_empty() {
            return Err(CqlError::invalid(
                "No definition found that is not part of the PRIMARY KEY",
            ));
        }
        if !is_static && regular.len() > 1 {
            return Err(CqlError::invalid(format!(
                "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of \
                 the PRIMARY KEY (got: {})",
                regular.join(", ")
            )));
        }
        schema.options.insert(KEY.to_owned(), COMPACT.to_owned());
        Ok(())
    }

    /// Makes a table an ordinary one, which shows its hidden columns.
    ///
    /// # Errors
    ///
    /// `Invalid` if the table is no table of `COMPACT STORAGE`, or has indexes that would change.
    pub(crate) fn drop(schema: &mut TableSchema) -> Result<(), CqlError> {
        let Some(kind) = Self::of(schema) else {
            return Err(CqlError::invalid(
                "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE",
            ));
        };
        if kind == Self::Static {
            if !schema.indexes.is_empty() {
                return Err(CqlError::invalid(
                    "DROP COMPACT STORAGE makes the columns static: drop the indexes first, and create \
                     them again",
                ));
            }
            // The cell of a row without clustering columns is that of static columns.
            let value = if schema.has_counters() { DataType::Counter } else { DataType::Blob };
            for column in &mut schema.columns {
                if column.kind == ColumnKind::Regular {
                    column.kind = ColumnKind::Static;
                }
            }
            let (clustering, hidden) = Self::hidden_names(schema);
            schema.add_column(&clustering, DataType::Text, ColumnKind::Clustering(Order::Asc))?;
            schema.add_column(&hidden, value, ColumnKind::Regular)?;
        }
        schema.options.insert(KEY.to_owned(), DROPPED.to_owned());
        Ok(())
    }

    /// Returns `true` if rows may be written without the last clustering columns, which are then null.
    pub(crate) fn takes_prefix(schema: &TableSchema) -> bool {
        Self::of(schema).is_some() && schema.clustering_key().nth(1).is_some()
    }

    /// Returns `true` if keys of rows may lack the last clustering columns.
    pub(crate) fn has_short_keys(schema: &TableSchema) -> bool {
        schema.options.contains_key(KEY) && schema.clustering_key().nth(1).is_some()
    }

    /// Returns `true` if an `INSERT` makes a row exist whatever its values.
    pub(crate) fn has_markers(schema: &TableSchema) -> bool {
        Self::of(schema).is_none_or(|kind| kind == Self::Keys)
    }

    /// Refuses an `INSERT` that names no value by which its row would exist.
    pub(crate) fn check_insert(
        schema: &TableSchema,
        is_given: impl Fn(&str) -> bool,
    ) -> Result<(), CqlError> {
        let mut regular = schema.regular();
        match Self::of(schema) {
            Some(Self::Static) if !regular.any(|column| is_given(&column.name)) => {
                Err(CqlError::invalid(format!(
                    "Some clustering keys are missing: {}",
                    Self::hidden_names(schema).0
                )))
            }
            Some(Self::Dense) => match regular.find(|column| !is_given(&column.name)) {
                Some(column) => Err(CqlError::invalid(format!(
                    "Column {} is mandatory for this COMPACT STORAGE table",
                    column.name
                ))),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Refuses columns that are added or dropped.
    pub(crate) fn check_change(schema: &TableSchema, adds: bool) -> Result<(), CqlError> {
        match (Self::of(schema), adds) {
            (Some(_), true) => {
                Err(CqlError::invalid("Cannot add new column to a COMPACT STORAGE table"))
            }
            (Some(Self::Dense | Self::Keys), false) => Err(CqlError::invalid(
                "Cannot drop the compact value column of a COMPACT STORAGE table",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses an index on a column.
    pub(crate) fn check_index(schema: &TableSchema, kind: ColumnKind) -> Result<(), CqlError> {
        match (Self::of(schema), kind) {
            (Some(_), ColumnKind::Partition | ColumnKind::Clustering(_)) => Err(CqlError::invalid(
                "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables",
            )),
            (None, ColumnKind::Clustering(_)) if Self::has_short_keys(schema) => {
                Err(CqlError::unsupported(
                    "an index on a clustering column of a table that had COMPACT STORAGE, whose rows may \
                     lack it",
                ))
            }
            (Some(Self::Dense), _) => Err(CqlError::invalid(
                "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables",
            )),
            _ => Ok(()),
        }
    }

    /// Refuses a view of the rows of a table.
    pub(crate) fn check_view(schema: &TableSchema) -> Result<(), CqlError> {
        if Self::of(schema) == Some(Self::Static) {
            return Err(CqlError::invalid(
                "Cannot include static columns in a materialized view: the columns of this COMPACT \
                 STORAGE table are static",
            ));
        }
        if Self::has_short_keys(schema) {
            return Err(CqlError::unsupported(
                "a view of a table with COMPACT STORAGE and several clustering columns, whose rows may \
                 lack the last ones",
            ));
        }
        Ok(())
    }

    /// Returns the flags of `system_schema.tables`.
    pub(super) fn flags(kind: Option<Self>, clustering: usize) -> Vec<&'static str> {
        match kind {
            None => vec!["compound"],
            Some(Self::Static) => Vec::new(),
            Some(Self::Dense | Self::Keys) if clustering > 1 => vec!["compound", "dense"],
            Some(Self::Dense | Self::Keys) => vec!["dense"],
        }
    }

    /// Returns the columns of `system_schema.columns`, the hidden ones included.
    pub(super) fn all_columns(self, visible: &[ColumnView]) -> Vec<ColumnView> {
        let hidden = |name: &str, kind, type_name: &str| ColumnView {
            name: free_name(name, |taken| visible.iter().any(|column| column.name == taken)),
            kind,
            type_name: type_name.to_owned(),
        };
        let mut columns = visible.to_vec();
        match self {
            Self::Dense => {}
            Self::Keys => columns.push(hidden(HIDDEN_VALUE, ColumnKind::Regular, "empty")),
            Self::Static => {
                let has_counters = columns.iter().any(|column| column.type_name == "counter");
                let value = if has_counters { "counter" } else { "blob" };
                for column in &mut columns {
                    if column.kind == ColumnKind::Regular {
                        column.kind = ColumnKind::Static;
                    }
                }
                let clustering = ColumnKind::Clustering(Order::Asc);
                columns.push(hidden(HIDDEN_CLUSTERING, clustering, "text"));
                columns.push(hidden(HIDDEN_VALUE, ColumnKind::Regular, value));
            }
        }
        columns
    }

    fn hidden_names(schema: &TableSchema) -> (String, String) {
        let name = |wanted| free_name(wanted, |taken| schema.column(taken).is_some());
        (name(HIDDEN_CLUSTERING), name(HIDDEN_VALUE))
    }
}

/// Returns a name that no column has.
fn free_name(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1_u32..).map(|number| format!("{wanted}{number}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}
