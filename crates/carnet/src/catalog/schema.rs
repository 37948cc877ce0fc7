//! What the catalogue says about a keyspace and a table, and how that is stored.

use std::collections::{BTreeMap, HashSet};

use carnet_base::{Bytes, ColumnId, DataType, Error, Result, TableId, Uuid};
use serde::{Deserialize, Serialize};

pub use carnet_base::key::Order;

use super::check_key_type;

/// The format of the JSON in the catalogue's cells.
const FORMAT: u32 = 1;
/// As in Cassandra.
const NAME_BYTES_MAX: usize = 48;

/// A keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceSchema {
    /// Its name.
    pub name: String,
    /// The replication options, kept as they were given: a database on one machine does not
    /// replicate.
    pub replication: BTreeMap<String, String>,
    /// The `durable_writes` option, kept as it was given.
    pub durable_writes: bool,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// Its id, never used again.
    pub id: TableId,
    /// The keyspace that it is in.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// Counts its changes.
    pub version: u32,
    /// What kind of table it is.
    pub kind: TableKind,
    /// Its columns: partition key, clustering key, static and regular ones.
    pub columns: Vec<ColumnSchema>,
    /// The smallest column id that was never used.
    pub next_column: u16,
    /// The id that drivers know it by.
    pub uuid: Uuid,
    /// The options it was created with, as text.
    pub options: BTreeMap<String, String>,
}

/// What kind of table it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// Rows of typed columns.
    Rows,
    /// Ordered byte keys in one partition, byte strings under them.
    Raw,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Its id within the table, never used again.
    pub id: ColumnId,
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// What part of a row it is.
    pub kind: ColumnKind,
}

/// What part of a row a column is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Part of the partition key.
    Partition,
    /// Part of the clustering key, in that order.
    Clustering(Order),
    /// One value for the whole partition.
    Static,
    /// An ordinary column.
    Regular,
}

impl TableSchema {
    /// Describes a table without columns. Its id is given when it is created.
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
        }
    }

    /// Returns the columns of the partition key, in their order.
    pub fn partition_key(&self) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(|column| column.kind == ColumnKind::Partition)
    }

    /// Returns the columns of the clustering key, in their order.
    pub fn clustering_key(&self) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(|column| matches!(column.kind, ColumnKind::Clustering(_)))
    }

    /// Returns the columns that a row image holds.
    pub fn regular(&self) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(|column| column.kind == ColumnKind::Regular)
    }

    /// Returns the columns that a partition's static image holds.
    pub fn statics(&self) -> impl Iterator<Item = &ColumnSchema> {
        self.columns.iter().filter(|column| column.kind == ColumnKind::Static)
    }

    /// Finds a column.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnSchema> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Returns the orders of the clustering key's columns.
    #[must_use]
    pub fn clustering_orders(&self) -> Vec<Order> {
        let order = |column: &ColumnSchema| match column.kind {
            ColumnKind::Clustering(order) => Some(order),
            _ => None,
        };
        self.columns.iter().filter_map(order).collect()
    }

    /// Adds a column under a fresh id. The caller raises the version.
    ///
    /// # Errors
    ///
    /// `Invalid` when the table has as many columns as it can ever have.
    pub fn add_column(&mut self, name: &str, data_type: DataType, kind: ColumnKind) -> Result<()> {
        let id = ColumnId(self.next_column);
        self.next_column = self.next_column.checked_add(1).ok_or_else(|| {
            Error::invalid(format!("table {} has used all its column ids", self.name))
        })?;
        self.columns.push(ColumnSchema { id, name: name.to_owned(), data_type, kind });
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
                return Err(Error::invalid(format!("column {} is there twice", column.name)));
            }
            if matches!(column.kind, ColumnKind::Clustering(_)) {
                check_key_type(&column.name, column.data_type)?;
            }
        }
        if self.kind == TableKind::Rows && self.partition_key().next().is_none() {
            return Err(Error::invalid(format!("table {} has no partition key", self.name)));
        }
        if self.statics().next().is_some() && self.clustering_key().next().is_none() {
            return Err(Error::invalid(format!(
                "table {} has static columns and no clustering key: there is one row in a \
                 partition, so make them regular columns",
                self.name
            )));
        }
        Ok(())
    }

    pub(super) fn encode(&self) -> Bytes {
        let columns = self.columns.iter().map(StoredColumn::from).collect();
        encode(&StoredTable {
            format: FORMAT,
            id: self.id.0,
            version: self.version,
            kind: self.kind,
            next_column: self.next_column,
            uuid: self.uuid.to_string(),
            columns,
            options: self.options.clone(),
        })
    }

    pub(super) fn decode(keyspace: &str, name: &str, bytes: &[u8]) -> Result<Self> {
        let what = format!("the schema of table {keyspace}.{name}");
        let stored: StoredTable = decode(&what, bytes)?;
        let columns = stored.columns.into_iter().map(StoredColumn::parse).collect::<Option<_>>();
        let (Some(columns), Ok(uuid)) = (columns, stored.uuid.parse()) else {
            return Err(Error::corrupted(format!("{what} names a type that there is not")));
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
        })
    }
}

impl KeyspaceSchema {
    /// Describes a keyspace as it is made for tables of an application on one machine.
    #[must_use]
    pub fn local(name: &str) -> Self {
        let replication = [("class", "SimpleStrategy"), ("replication_factor", "1")];
        Self {
            name: name.to_owned(),
            replication: replication.map(|(key, value)| (key.into(), value.into())).into(),
            durable_writes: true,
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        encode(&StoredKeyspace {
            format: FORMAT,
            replication: self.replication.clone(),
            durable_writes: self.durable_writes,
        })
    }

    pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let stored: StoredKeyspace = decode(&format!("the schema of keyspace {name}"), bytes)?;
        Ok(Self {
            name: name.to_owned(),
            replication: stored.replication,
            durable_writes: stored.durable_writes,
        })
    }
}

pub(super) fn check_name(what: &str, name: &str) -> Result<()> {
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
}

#[derive(Serialize, Deserialize)]
struct StoredColumn {
    id: u16,
    name: String,
    r#type: u16,
    kind: StoredKind,
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
        Self { id: column.id.0, name: column.name.clone(), r#type: column.data_type.id(), kind }
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
        let data_type = DataType::from_id(self.r#type)?;
        Some(ColumnSchema { id: ColumnId(self.id), name: self.name, data_type, kind })
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
    if format != FORMAT {
        return Err(Error::unsupported(format!(
            "{what} has format {format}, written by a later version of Carnet"
        )));
    }
    serde_json::from_slice(bytes).map_err(unreadable)
}
