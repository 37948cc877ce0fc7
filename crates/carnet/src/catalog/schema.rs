//! Schemas of keyspaces and tables, and their stored form.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use carnet_base::{
    Bytes, ColumnId, DataType, Error, Result, TYPE_DEPTH_MAX, TableId, UserType, Uuid, WallTime,
};
use serde::{Deserialize, Serialize};

use super::dropped_column::{DROPPED_MAX, DroppedColumn, without_user_types};
use super::index_schema::{IndexSchema, IndexedPart, StoredIndex};
use super::kept_columns::KeptColumns;
use super::stored_type::{StoredType, StoredUserType, has_user_types};
use super::view_schema::{StoredView, ViewBase, ViewSchema};

pub use carnet_base::key::Order;

/// Format version of the JSON in the catalog's cells.
const FORMAT: u32 = 1;
/// Format version of a table with composite types, which earlier versions of Carnet do not know.
const FORMAT_OF_COMPOSITES: u32 = 2;
/// Format version of a table with indexes, whose entries earlier versions of Carnet would not write.
const FORMAT_OF_INDEXES: u32 = 3;
/// Format version of a view or of a table with views, which earlier versions of Carnet would not
/// maintain.
const FORMAT_OF_VIEWS: u32 = 4;
/// Maximum length of a keyspace or table name, as in Cassandra.
const NAME_BYTES_MAX: usize = 48;

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
    /// Makes the schema of a table without columns. [`create_table`](super::create_table) assigns
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
        self.dropped.drain(..self.dropped.len().saturating_sub(DROPPED_MAX));
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

    pub(super) fn check(&self) -> Result<()> {
        check_name("table", &self.name)?;
        let mut names = HashSet::new();
        for column in &self.columns {
            if column.name.is_empty() {
                return Err(Error::invalid("a column's name is empty"));
            }
            if !names.insert(&column.name) {
                return Err(Error::invalid(format!("column {} is defined twice", column.name)));
            }
            if column.data_type.depth() > TYPE_DEPTH_MAX {
                return Err(Error::invalid(format!(
                    "column {}: its type is {} types deep; at most {TYPE_DEPTH_MAX} are allowed",
                    column.name,
                    column.data_type.depth()
                )));
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

    pub(super) fn encode(&self) -> Bytes {
        let columns = self.columns.iter().map(StoredColumn::from).collect();
        let has_composites = self.columns.iter().any(|column| column.data_type.is_composite());
        encode(&StoredTable {
            format: match (self.indexes.is_empty(), has_composites) {
                _ if self.base.is_some() || !self.views.is_empty() => FORMAT_OF_VIEWS,
                (false, _) => FORMAT_OF_INDEXES,
                (true, true) => FORMAT_OF_COMPOSITES,
                (true, false) => FORMAT,
            },
            id: self.id.0,
            version: self.version,
            kind: self.kind,
            next_column: self.next_column,
            uuid: self.uuid.to_string(),
            columns,
            options: self.options.clone(),
            indexes: self.indexes.iter().map(StoredIndex::from).collect(),
            dropped: self.dropped.clone(),
            views: self.views.iter().map(StoredView::from).collect(),
            base: self.base.clone(),
        })
    }

    pub(super) fn decode(keyspace: &str, name: &str, bytes: &[u8]) -> Result<Self> {
        let what = format!("the schema of table {keyspace}.{name}");
        let stored: StoredTable = decode(&what, bytes)?;
        let columns = stored.columns.into_iter().map(StoredColumn::parse).collect::<Option<_>>();
        let views = stored.views.into_iter().map(StoredView::parse).collect::<Option<_>>();
        let (Some(columns), Some(views), Ok(uuid)) = (columns, views, stored.uuid.parse()) else {
            return Err(Error::corrupted(format!(
                "{what} has an unknown type or a malformed UUID"
            )));
        };
        Ok(Self {
            id: TableId(stored.id),
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            version: stored.version,
            kind: stored.kind,
            columns,
            next_column: stored.next_column,
            uuid,
            options: stored.options,
            indexes: stored.indexes.into_iter().map(IndexSchema::from).collect(),
            dropped: stored.dropped,
            views,
            base: stored.base,
        })
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
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let types = self.types.values().map(|user_type| (&**user_type).into());
        encode(&StoredKeyspace {
            format: if self.types.is_empty() { FORMAT } else { FORMAT_OF_COMPOSITES },
            replication: self.replication.clone(),
            durable_writes: self.durable_writes,
            types: types.collect(),
        })
    }

    pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let what = format!("the schema of keyspace {name}");
        let stored: StoredKeyspace = decode(&what, bytes)?;
        let types = stored.types.iter().map(StoredUserType::parse).collect::<Option<Vec<_>>>();
        let types = types.ok_or_else(|| Error::corrupted(format!("{what} has an unknown type")))?;
        Ok(Self {
            types: types.into_iter().map(|found| (found.name.clone(), Arc::new(found))).collect(),
            name: name.to_owned(),
            replication: stored.replication,
            durable_writes: stored.durable_writes,
        })
    }
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !is_word {
        return Err(Error::invalid(format!(
            "{what} name {name:?}: letters, digits and underscores, 1 to {NAME_BYTES_MAX} of them"
        )));
    }
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct StoredKeyspace {
    format: u32,
    replication: BTreeMap<String, String>,
    durable_writes: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    types: Vec<StoredUserType>,
}

#[derive(Serialize, Deserialize)]
struct StoredTable {
    format: u32,
    id: u32,
    version: u32,
    kind: TableKind,
    next_column: u16,
    uuid: String,
    columns: Vec<StoredColumn>,
    options: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<StoredIndex>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<DroppedColumn>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    views: Vec<StoredView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<ViewBase>,
}

#[derive(Serialize, Deserialize)]
struct StoredColumn {
    id: u16,
    name: String,
    r#type: StoredType,
    kind: StoredKind,
    /// Whether a type that is a tree is not frozen; the text of another type says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    multi_cell: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    Partition,
    ClusteringAsc,
    ClusteringDesc,
    Static,
    Regular,
}

impl From<&ColumnSchema> for StoredColumn {
    fn from(column: &ColumnSchema) -> Self {
        let kind = match column.kind {
            ColumnKind::Partition => StoredKind::Partition,
            ColumnKind::Clustering(Order::Asc) => StoredKind::ClusteringAsc,
            ColumnKind::Clustering(Order::Desc) => StoredKind::ClusteringDesc,
            ColumnKind::Static => StoredKind::Static,
            ColumnKind::Regular => StoredKind::Regular,
        };
        let is_tree = has_user_types(&column.data_type);
        let r#type = match &column.data_type {
            composite if column.is_multi_cell && !is_tree => {
                StoredType::Text(composite.to_string())
            }
            other => other.into(),
        };
        let multi_cell = is_tree && column.is_multi_cell;
        Self { id: column.id.0, name: column.name.clone(), r#type, kind, multi_cell }
    }
}

impl StoredColumn {
    fn parse(self) -> Option<ColumnSchema> {
        let kind = match self.kind {
            StoredKind::Partition => ColumnKind::Partition,
            StoredKind::ClusteringAsc => ColumnKind::Clustering(Order::Asc),
            StoredKind::ClusteringDesc => ColumnKind::Clustering(Order::Desc),
            StoredKind::Static => ColumnKind::Static,
            StoredKind::Regular => ColumnKind::Regular,
        };
        let data_type = self.r#type.parse()?;
        let is_multi_cell = match &self.r#type {
            StoredType::Number(_) => false,
            StoredType::Text(text) => !text.starts_with("frozen<"),
            StoredType::Tree(_) => self.multi_cell,
        };
        let id = ColumnId(self.id);
        Some(ColumnSchema { id, name: self.name, data_type, is_multi_cell, kind })
    }
}

fn encode(stored: &impl Serialize) -> Bytes {
    serde_json::to_vec(stored).expect("maps with text keys are JSON").into()
}

fn decode<T: for<'de> Deserialize<'de>>(what: &str, bytes: &[u8]) -> Result<T> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let unreadable = |error| Error::corrupted(format!("{what} cannot be read")).with_source(error);
    let Format { format } = serde_json::from_slice(bytes).map_err(unreadable)?;
    if !(FORMAT..=FORMAT_OF_VIEWS).contains(&format) {
        return Err(Error::unsupported(format!(
            "{what} has format {format}, written by a later version of Carnet"
        )));
    }
    serde_json::from_slice(bytes).map_err(unreadable)
}

/// Refuses a clustering column of a type that has no order-preserving codec.
fn check_key_type(name: &str, data_type: &DataType) -> Result<()> {
    if data_type.is_key_type() {
        return Ok(());
    }
    Err(Error::unsupported(format!("column {name}: type {data_type} in a clustering key")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[(&str, DataType, bool)]) -> TableSchema {
        let mut table = TableSchema::new("ks", "t", TableKind::Rows, Uuid::from_u128(7));
        table.add_column("k", DataType::Int, ColumnKind::Partition).unwrap();
        for (name, data_type, is_multi_cell) in columns {
            let add = match is_multi_cell {
                true => TableSchema::add_collection,
                false => TableSchema::add_column,
            };
            add(&mut table, name, data_type.clone(), ColumnKind::Regular).unwrap();
        }
        table
    }

    #[test]
    fn stored_types_round_trip() {
        let nested = DataType::map(DataType::Text, DataType::list(DataType::Duration));
        let schema = table(&[
            ("a", DataType::Duration, false),
            ("b", nested.clone(), true),
            ("c", nested, false),
            ("d", DataType::tuple([DataType::Int, DataType::Text]), false),
            ("e", DataType::vector(DataType::Float, 3), false),
        ]);
        assert_eq!(TableSchema::decode("ks", "t", &schema.encode()).unwrap(), schema);
    }

    #[test]
    fn dropped_columns_are_listed_once() {
        let mut schema = table(&[("a", DataType::Int, false), ("b", DataType::Text, false)]);
        for (micros, name) in [(1, "a"), (2, "b")] {
            schema.drop_column(name, WallTime(micros)).unwrap();
        }
        schema.add_collection("a", DataType::list(DataType::Text), ColumnKind::Regular).unwrap();
        schema.drop_column("a", WallTime(3)).unwrap();
        let listed = |schema: &TableSchema| {
            let columns = schema.dropped.iter();
            let shown =
                columns.map(|it| (it.name.clone(), it.type_name.clone(), it.dropped_micros));
            shown.collect::<Vec<_>>()
        };
        let expected = [("b".into(), "text".into(), 2), ("a".into(), "list<text>".into(), 3)];
        assert_eq!(listed(&schema), expected);
        assert_eq!(TableSchema::decode("ks", "t", &schema.encode()).unwrap(), schema);
        for n in 0..=DROPPED_MAX {
            let name = format!("c{n}");
            schema.add_column(&name, DataType::Int, ColumnKind::Regular).unwrap();
            schema.drop_column(&name, WallTime(4)).unwrap();
        }
        assert_eq!((schema.dropped.len(), &*schema.dropped[0].name), (DROPPED_MAX, "c1"));
    }

    #[test]
    fn user_defined_types_are_stored_whole() {
        let point = Arc::new(UserType {
            keyspace: "ks".to_owned(),
            name: "point".to_owned(),
            fields: vec![
                ("x".to_owned(), DataType::Int),
                ("tags".to_owned(), DataType::set(DataType::Text)),
            ],
        });
        let udt = DataType::Udt(Arc::clone(&point));
        let nested = DataType::map(DataType::tuple([udt.clone()]), DataType::list(udt.clone()));
        let schema = table(&[
            ("a", udt.clone(), true),
            ("b", udt.clone(), false),
            ("c", nested.clone(), true),
            ("d", DataType::set(nested), false),
            ("e", DataType::vector(udt.clone(), 2), false),
        ]);
        assert_eq!(TableSchema::decode("ks", "t", &schema.encode()).unwrap(), schema);
        let mut keyspace = KeyspaceSchema::local("ks");
        let plain = keyspace.encode();
        assert!(plain.starts_with(br#"{"format":1,"#));
        assert_eq!(KeyspaceSchema::decode("ks", &plain).unwrap(), keyspace);
        keyspace.types.insert("point".to_owned(), point);
        let typed = keyspace.encode();
        assert!(typed.starts_with(br#"{"format":2,"#));
        assert_eq!(KeyspaceSchema::decode("ks", &typed).unwrap(), keyspace);
    }

    #[test]
    fn tables_of_scalars_are_stored_as_before() {
        let scalars = table(&[("v", DataType::Varint, false)]).encode();
        let text = std::str::from_utf8(&scalars).unwrap();
        assert!(text.starts_with(r#"{"format":1,"#), "{text}");
        assert!(text.contains(r#""type":9,"kind":"partition""#), "{text}");
        let composite = table(&[("v", DataType::set(DataType::Int), true)]).encode();
        let text = std::str::from_utf8(&composite).unwrap();
        assert!(text.starts_with(r#"{"format":2,"#), "{text}");
        assert!(text.contains(r#""type":"set<int>""#), "{text}");
        let later = text.replace(r#""format":2"#, r#""format":5"#);
        let error = TableSchema::decode("ks", "t", later.as_bytes()).unwrap_err();
        assert!(error.message().contains("later version"), "{error}");
    }

    #[test]
    fn deep_types_are_refused() {
        let deep = |depth| (1..depth).fold(DataType::Int, |inner, _| DataType::list(inner));
        let at_most = table(&[("v", deep(TYPE_DEPTH_MAX), false)]);
        assert!(at_most.check().is_ok());
        assert_eq!(TableSchema::decode("ks", "t", &at_most.encode()).unwrap(), at_most);
        let error = table(&[("v", deep(TYPE_DEPTH_MAX + 1), false)]).check().unwrap_err();
        assert!(error.message().contains("33 types deep"), "{error}");
    }
}
