//! Records of the catalog: keyspaces and tables as JSON.
//!
//! ```text
//! format   written for
//! 1        tables of scalars, keyspaces without types
//! 2        tables with composite types; read only: types with copies of the types that they use
//! 3        tables with indexes
//! 4        views, and tables with views
//! 5        references to user-defined types, and the types of a keyspace
//! 6        tables with an index on a column of the partition key that names static parts, and keyspaces
//!          with types whose keys are open
//! 7        tables with an index that folds texts
//! ```
//!
//! A record has the lowest format that describes it, so that earlier versions of Carnet read
//! the records that they understand. Records of all formats are read. One is written in the present form with the next
//! change of its keyspace or table.

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet_base::{Bytes, ColumnId, Error, Result, TableId};
use carnet_data::{FieldKeys, UserType};
use serde::{Deserialize, Serialize};

use super::dropped_column::DroppedColumn;
use super::index_schema::{IndexSchema, StoredIndex};
use super::stored_type::{StoredCopy, StoredType, has_user_types};
use super::table::{ColumnKind, ColumnSchema, KeyspaceSchema, Order, TableKind, TableSchema};
use super::user_types::{StoredUserType, UserTypes, numbered, resolve};
use super::view_schema::{StoredView, ViewBase};

/// Format version of the JSON in the catalog's cells.
const FORMAT: u32 = 1;
/// Format version of a table with composite types, which earlier versions of Carnet do not know.
const FORMAT_OF_COMPOSITES: u32 = 2;
/// Format version of a table with indexes, whose entries earlier versions of Carnet would not write.
const FORMAT_OF_INDEXES: u32 = 3;
/// Format version of a view or of a table with views, which earlier versions of Carnet would not
/// maintain.
const FORMAT_OF_VIEWS: u32 = 4;
/// Format version of a record with references to user-defined types.
const FORMAT_OF_REFERENCES: u32 = 5;
/// Format version of a table with an index whose entries of static parts earlier versions of Carnet
/// would not write.
const FORMAT_OF_STATIC_ENTRIES: u32 = 6;
/// Format version of a keyspace with [open](FieldKeys::Open) keys, of which earlier versions would write others.
const FORMAT_OF_OPEN_KEYS: u32 = 6;
/// Format version of a table with an index that folds texts, whose entries earlier versions of Carnet
/// would write as they are.
const FORMAT_OF_FOLDED_ENTRIES: u32 = 7;
/// Latest format version.
const FORMAT_MAX: u32 = 7;

/// Maximum depth of JSON within JSON. A type of the maximum depth takes half of it, and records with
/// copies of types, which no reader of their time could read, three quarters.
const JSON_DEPTH_MAX: usize = 200;

#[derive(Serialize, Deserialize)]
struct StoredKeyspace {
    format: u32,
    replication: BTreeMap<String, String>,
    durable_writes: bool,
    /// Types in the form of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    types: Vec<StoredCopy>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    user_types: Vec<StoredUserType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_type: Option<u32>,
}

impl KeyspaceSchema {
    pub(crate) fn encode(&self) -> Bytes {
        // A keyspace that lost all its types keeps the next number.
        let had_types = self.next_type > 1;
        let is_open = |user_type: &Arc<UserType>| user_type.keys == FieldKeys::Open;
        encode(&StoredKeyspace {
            format: match had_types {
                _ if self.types.values().any(is_open) => FORMAT_OF_OPEN_KEYS,
                true => FORMAT_OF_REFERENCES,
                false => FORMAT,
            },
            replication: self.replication.clone(),
            durable_writes: self.durable_writes,
            types: Vec::new(),
            user_types: self.types.values().map(|user_type| (&**user_type).into()).collect(),
            next_type: had_types.then_some(self.next_type),
        })
    }

    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let what = format!("the schema of keyspace {name}");
        let stored: StoredKeyspace = decode(&what, bytes)?;
        let user_types = match stored.types.is_empty() {
            true => stored.user_types,
            false => numbered(stored.types),
        };
        let types = resolve(name, &user_types)
            .ok_or_else(|| Error::corrupted(format!("{what} has an unknown type")))?;
        let last = types.values().map(|found| found.reference.id).max().unwrap_or(0);
        Ok(Self {
            types,
            next_type: stored.next_type.unwrap_or(last + 1),
            name: name.to_owned(),
            replication: stored.replication,
            durable_writes: stored.durable_writes,
        })
    }
}

/// Record of a table, whose user-defined types are not resolved.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredTable {
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

impl TableSchema {
    pub(crate) fn encode(&self) -> Bytes {
        let has_composites = self.columns.iter().any(|column| column.data_type.is_composite());
        let has_references = self.columns.iter().any(|column| has_user_types(&column.data_type));
        let has_static_entries = self.indexes.iter().any(|index| index.has_static_entries);
        let has_folded_entries = self.indexes.iter().any(|index| !index.folding().is_none());
        encode(&StoredTable {
            format: match (self.indexes.is_empty(), has_composites) {
                _ if has_folded_entries => FORMAT_OF_FOLDED_ENTRIES,
                _ if has_static_entries => FORMAT_OF_STATIC_ENTRIES,
                _ if has_references => FORMAT_OF_REFERENCES,
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
            columns: self.columns.iter().map(StoredColumn::from).collect(),
            options: self.options.clone(),
            indexes: self.indexes.iter().map(StoredIndex::from).collect(),
            dropped: self.dropped.clone(),
            views: self.views.iter().map(StoredView::from).collect(),
            base: self.base.clone(),
        })
    }
}

impl StoredTable {
    /// Reads the record of a table.
    pub(crate) fn read(keyspace: &str, name: &str, bytes: &[u8]) -> Result<Self> {
        decode(&what(keyspace, name), bytes)
    }

    /// Returns `true` if the record refers to user-defined types of its keyspace.
    pub(crate) fn needs_user_types(&self) -> bool {
        self.columns.iter().any(|column| column.r#type.needs_user_types())
    }

    /// Makes the schema of the table with the user-defined types of its keyspace.
    pub(crate) fn resolve(
        self,
        keyspace: &str,
        name: &str,
        types: &UserTypes,
    ) -> Result<TableSchema> {
        let columns = self.columns.into_iter().map(|column| column.resolve(types));
        let columns = columns.collect::<Option<_>>();
        let views = self.views.into_iter().map(StoredView::parse).collect::<Option<_>>();
        let (Some(columns), Some(views), Ok(uuid)) = (columns, views, self.uuid.parse()) else {
            return Err(Error::corrupted(format!(
                "{} has an unknown type or a malformed UUID",
                what(keyspace, name)
            )));
        };
        Ok(TableSchema {
            id: TableId(self.id),
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            version: self.version,
            kind: self.kind,
            columns,
            next_column: self.next_column,
            uuid,
            options: self.options,
            indexes: self.indexes.into_iter().map(IndexSchema::from).collect(),
            dropped: self.dropped,
            views,
            base: self.base,
        })
    }
}

fn what(keyspace: &str, name: &str) -> String {
    format!("the schema of table {keyspace}.{name}")
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
    fn resolve(self, types: &UserTypes) -> Option<ColumnSchema> {
        let kind = match self.kind {
            StoredKind::Partition => ColumnKind::Partition,
            StoredKind::ClusteringAsc => ColumnKind::Clustering(Order::Asc),
            StoredKind::ClusteringDesc => ColumnKind::Clustering(Order::Desc),
            StoredKind::Static => ColumnKind::Static,
            StoredKind::Regular => ColumnKind::Regular,
        };
        let data_type = types.resolve(&self.r#type)?;
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
    let depth = json_depth(bytes);
    if depth > JSON_DEPTH_MAX {
        return Err(Error::corrupted(format!(
            "{what} cannot be read: it is nested {depth} deep, at most {JSON_DEPTH_MAX} is read"
        )));
    }
    let unreadable = |error| Error::corrupted(format!("{what} cannot be read")).with_source(error);
    let Format { format } = from_json(bytes).map_err(unreadable)?;
    if !(FORMAT..=FORMAT_MAX).contains(&format) {
        return Err(Error::unsupported(format!(
            "{what} has format {format}, written by a later version of Carnet"
        )));
    }
    from_json(bytes).map_err(unreadable)
}

/// Reads JSON whose depth was checked.
fn from_json<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    // The reader's own limit, 128, is less than earlier versions have written.
    reader.disable_recursion_limit();
    let read = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(read)
}

/// Returns the depth of the nested lists and objects of a JSON text.
fn json_depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
