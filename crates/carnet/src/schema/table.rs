//! Schemas of keyspaces and tables.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use carnet_base::{ColumnId, Error, Result, TableId, Uuid, WallTime};
use carnet_data::{DataType, UserType};
use serde::{Deserialize, Serialize};

use super::dropped_column::{DroppedColumn, limit_dropped, without_user_types};
use super::index_schema::{IndexSchema, IndexedPart};
use super::kept_columns::KeptColumns;
use super::view_schema::{ViewBase, ViewSchema};

pub use carnet_data::key::Order;

/// Schema of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceSchema {
    /// Name of the keyspace.
    pub name: String,
    /// Replication options as given. A database on one machine ignores them.
    pub replication: BTreeMap<String, String>,
    /// The `durable_writes` option as given.
    pub durable_writes: bool,
    /// User-defined types, by name.
    pub types: BTreeMap<String, Arc<UserType>>,
    /// Smallest number that no type has had.
    pub next_type: u32,
}

/// Schema of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// Table id, never reused.
    pub id: TableId,
    /// Name of the keyspace.
    pub keyspace: String,
    /// Name of the table.
    pub name: String,
    /// Number of the schema version, incremented by each change.
    pub version: u32,
    /// Kind of the table.
    pub kind: TableKind,
    /// Columns of all kinds: partition key, clustering key, static and regular.
    pub columns: Vec<ColumnSchema>,
    /// Smallest column id that was never used.
    pub next_column: u16,
    /// Table id in the CQL protocol.
    pub uuid: Uuid,
    /// Options of CREATE TABLE, as text.
    pub options: BTreeMap<String, String>,
    /// Secondary indexes, in the order of their creation.
    pub indexes: Vec<IndexSchema>,
    /// Dropped columns, the latest drop last. A name is listed once.
    pub dropped: Vec<DroppedColumn>,
    /// Materialized views of the table, in the order of their creation.
    pub views: Vec<ViewSchema>,
    /// Base table, if this is the table of a view.
    pub base: Option<ViewBase>,
}

/// Kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// Rows of typed columns.
    Rows,
    /// Ordered byte keys in one partition, byte strings under them.
    Raw,
}

/// Schema of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Column id within the table, never reused.
    pub id: ColumnId,
    /// Name of the column.
    pub name: String,
    /// CQL type of the column.
    pub data_type: DataType,
    /// Whether it is a collection that is not frozen: statements change its elements, and an empty
    /// one is null.
    pub is_multi_cell: bool,
    /// Kind of the column.
    pub kind: ColumnKind,
}

/// Kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Part of the partition key.
    Partition,
    /// Part of the clustering key, with its order.
    Clustering(Order),
    /// One value for the whole partition.
    Static,
    /// A regular column.
    Regular,
}

impl ColumnSchema {
    /// Returns `true` for a column of the partition key or the clustering key.
    #[must_use]
    pub const fn is_key(&self) -> bool {
        matches!(self.kind, ColumnKind::Partition | ColumnKind::Clustering(_))
    }

    /// Returns the column's type in CQL, with `frozen` around a frozen type.
    #[must_use]
    pub fn cql_type(&self) -> String {
        if self.data_type.takes_frozen() && !self.is_multi_cell {
            format!("frozen<{}>", self.data_type)
        } else {
            self.data_type.to_string()
        }
    }

    fn dropped(&self, at: WallTime) -> DroppedColumn {
        let data_type = without_user_types(&self.data_type);
        let is_multi_cell = self.is_multi_cell && !data_type.is_record();
        DroppedColumn {
            name: self.name.clone(),
            type_name: Self { data_type, is_multi_cell, ..self.clone() }.cql_type(),
            is_static: self.kind == ColumnKind::Static,
            dropped_micros: at.0,
        }
    }
}

impl TableSchema {
    /// Makes the schema of a table without columns. [`create_table`](crate::catalog::create_table) assigns
    /// its id.
    #[must_use]
    pub fn new(keyspace: &str, name: &str, kind: TableKind, uuid: Uuid) -> Self {
        Self {
            id: TableId(0),
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            version: 1,
            kind,
            columns: Vec::new(),
            next_column: 0,
            uuid,
            options: BTreeMap::new(),
            indexes: Vec::new(),
            dropped: Vec::new(),
            views: Vec::new(),
            base: None,
        }
    }

    /// Returns the columns of the partition key, in key order.
    pub fn partition_key(&self) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(|column| column.kind == ColumnKind::Partition)
    }

    /// Returns the columns of the clustering key, in key order.
    pub fn clustering_key(&self) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(|column| matches!(column.kind, ColumnKind::Clustering(_)))
    }

    /// Returns the regular columns.
    pub fn regular(&self) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(|column| column.kind == ColumnKind::Regular)
    }

    /// Returns the static columns.
    pub fn statics(&self) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(|column| column.kind == ColumnKind::Static)
    }

    /// Returns `true` for a table of counters: all its columns outside the key are counters.
    #[must_use]
    pub fn has_counters(&self) -> bool {
        self.columns.iter().any(|column| column.data_type == DataType::Counter)
    }

    /// Returns the column with a name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnSchema> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Returns the column with an id.
    #[must_use]
    pub fn column_by_id(&self, id: ColumnId) -> Option<&ColumnSchema> {
        self.columns.iter().find(|column| column.id == id)
    }

    /// Returns the index with a name.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<&IndexSchema> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// Returns the view with a name.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<&ViewSchema> {
        self.views.iter().find(|view| view.name == name)
    }

    /// Makes the error for a read of a view that is not built.
    #[must_use]
    pub fn not_built(&self) -> Error {
        if let Some(failure) = self.base.as_ref().and_then(|base| base.failure.as_ref()) {
            return Error::invalid(format!(
                "The materialized view '{}' is not available, as its build has failed: {}. Change the \
                 row, drop it and create it again",
                self.name,
                failure.text()
            ));
        }
        Error::invalid(format!(
            "The materialized view '{}' is not yet available as it is building; wait for it, see \
             system_views.materialized_views",
            self.name
        ))
    }

    /// Returns the index of a part of a column.
    #[must_use]
    pub fn index_of(&self, column: ColumnId, part: IndexedPart) -> Option<&IndexSchema> {
        self.indexes.iter().find(|index| (index.column, index.part) == (column, part))
    }

    /// Returns the orders of the clustering columns, in key order.
    #[must_use]
    pub fn clustering_orders(&self) -> Vec<Order> {
        let order = |column: &ColumnSchema| match column.kind {
            ColumnKind::Clustering(order) => Some(order),
            _ => None,
        };
        self.columns.iter().filter_map(order).collect()
    }

    /// Returns the columns that rows keep if some were dropped.
    #[must_use]
    pub fn kept_columns(&self) -> KeptColumns {
        // Called for each statement: a table that never lost a column makes no list.
        if self.columns.len() == usize::from(self.next_column) {
            return KeptColumns::default();
        }
        KeptColumns::new(self.columns.iter().map(|column| column.id))
    }

    /// Drops a column that is not part of the key, at a wall time. Its id is not used again, so that a
    /// column added later does not have its values. The caller increments the version.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column, or if it is part of the key.
    pub fn drop_column(&mut self, name: &str, at: WallTime) -> Result<()> {
        let Some(place) = self.columns.iter().position(|column| column.name == name) else {
            return Err(self.no_column(name));
        };
        if self.columns[place].is_key() {
            return Err(Error::invalid(format!("Cannot drop PRIMARY KEY column {name}")));
        }
        let id = self.columns[place].id;
        let dependent = self.indexes.iter().filter(|index| index.column == id);
        let dependent: Vec<&str> = dependent.map(|index| index.name.as_str()).collect();
        if !dependent.is_empty() {
            return Err(Error::invalid(format!(
                "Cannot drop column {name} because it has dependent secondary indexes ({})",
                dependent.join(", ")
            )));
        }
        if !self.views.is_empty() {
            return Err(Error::invalid(format!(
                "Cannot drop column {name} on base table {} with materialized views",
                self.name
            )));
        }
        let column = self.columns.remove(place);
        self.dropped.retain(|dropped| dropped.name != name);
        self.dropped.push(column.dropped(at));
        limit_dropped(&mut self.dropped);
        Ok(())
    }

    /// Renames a column of the key. The caller increments the version.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such column, if it is not part of the key, or if another column has
    /// the new name.
    pub fn rename_column(&mut self, from: &str, to: &str) -> Result<()> {
        let Some(place) = self.columns.iter().position(|column| column.name == from) else {
            return Err(self.no_column(from));
        };
        if !self.columns[place].is_key() {
            return Err(Error::invalid(format!("Cannot rename non PRIMARY KEY column {from}")));
        }
        if self.column(to).is_some() {
            return Err(Error::invalid(format!(
                "Cannot rename column {from} to {to} in table '{}.{}'; another column with that \
                 name already exists",
                self.keyspace, self.name
            )));
        }
        to.clone_into(&mut self.columns[place].name);
        Ok(())
    }

    fn no_column(&self, name: &str) -> Error {
        Error::invalid(format!(
            "Column {name} was not found in table '{}.{}'",
            self.keyspace, self.name
        ))
    }

    /// Adds a column with a new id. The caller increments the version.
    ///
    /// # Errors
    ///
    /// `Invalid` if the table has used all its column ids.
    pub fn add_column(&mut self, name: &str, data_type: DataType, kind: ColumnKind) -> Result<()> {
        let id = ColumnId(self.next_column);
        self.next_column = self.next_column.checked_add(1).ok_or_else(|| {
            Error::invalid(format!("table {} has used all its column ids", self.name))
        })?;
        let name = name.to_owned();
        self.columns.push(ColumnSchema { id, name, data_type, is_multi_cell: false, kind });
        Ok(())
    }

    /// Adds a column with a collection that is not frozen, like [`TableSchema::add_column`].
    ///
    /// # Errors
    ///
    /// `Invalid` if the table has used all its column ids.
    pub fn add_collection(
        &mut self,
        name: &str,
        data_type: DataType,
        kind: ColumnKind,
    ) -> Result<()> {
        self.add_column(name, data_type, kind)?;
        if let Some(column) = self.columns.last_mut() {
            column.is_multi_cell = true;
        }
        Ok(())
    }

    /// Checks that the columns form a table. The limits of their number and size are in `limits`.
    pub(crate) fn check(&self) -> Result<()> {
        let mut names = HashSet::new();
        for column in &self.columns {
            if !names.insert(&column.name) {
                return Err(Error::invalid(format!("column {} is defined twice", column.name)));
            }
            if column.is_key() && column.is_multi_cell {
                return Err(Error::invalid(format!(
                    "Invalid non-frozen collection type {} for PRIMARY KEY column '{}'",
                    column.data_type, column.name
                )));
            }
            if matches!(column.kind, ColumnKind::Clustering(_)) {
                check_key_type(&column.name, &column.data_type)?;
            }
        }
        self.check_counters()?;
        if self.kind == TableKind::Rows && self.partition_key().next().is_none() {
            return Err(Error::invalid(format!("table {} has no partition key", self.name)));
        }
        if self.statics().next().is_some() && self.clustering_key().next().is_none() {
            return Err(Error::invalid(format!(
                "table {} has static columns and no clustering key: each partition has one \
                 row, so make them regular columns",
                self.name
            )));
        }
        Ok(())
    }

    fn check_counters(&self) -> Result<()> {
        if !self.has_counters() {
            return Ok(());
        }
        for column in &self.columns {
            let is_key = column.is_key();
            let is_counter = column.data_type == DataType::Counter;
            if is_key && is_counter {
                return Err(Error::invalid(format!(
                    "counter type is not supported for PRIMARY KEY column '{}'",
                    column.name
                )));
            }
            if !is_key && !is_counter {
                return Err(Error::invalid(format!(
                    "Cannot mix counter and non counter columns in the same table: column {} is \
                     of type {}",
                    column.name, column.data_type
                )));
            }
        }
        Ok(())
    }
}

impl KeyspaceSchema {
    /// Makes the schema of a keyspace on one machine.
    #[must_use]
    pub fn local(name: &str) -> Self {
        let replication = [("class", "SimpleStrategy"), ("replication_factor", "1")];
        Self {
            name: name.to_owned(),
            replication: replication.map(|(key, value)| (key.into(), value.into())).into(),
            durable_writes: true,
            types: BTreeMap::new(),
            next_type: 1,
        }
    }
}

/// Refuses a clustering column of a type that has no order-preserving codec.
fn check_key_type(name: &str, data_type: &DataType) -> Result<()> {
    if data_type.is_key_type() {
        return Ok(());
    }
    Err(Error::unsupported(format!("column {name}: type {data_type} in a clustering key")))
}
