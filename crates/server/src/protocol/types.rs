//! What requests and responses are made of.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use carnet_base::{DataType, murmur3};

use super::ProtocolError;
use super::reader::Reader;
use super::writer::{Oversize, Writer};

/// A consistency level. Carnet reads and writes at one level of its own and ignores it, except
/// that errors name the one that the client asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names are Cassandra's, and mean nothing else here")]
pub enum Consistency {
    Any = 0x0000,
    One = 0x0001,
    Two = 0x0002,
    Three = 0x0003,
    #[default]
    Quorum = 0x0004,
    All = 0x0005,
    LocalQuorum = 0x0006,
    EachQuorum = 0x0007,
    Serial = 0x0008,
    LocalSerial = 0x0009,
    LocalOne = 0x000a,
}

impl Consistency {
    const ALL: [Self; 11] = [
        Self::Any,
        Self::One,
        Self::Two,
        Self::Three,
        Self::Quorum,
        Self::All,
        Self::LocalQuorum,
        Self::EachQuorum,
        Self::Serial,
        Self::LocalSerial,
        Self::LocalOne,
    ];

    /// Reads a `[consistency]`.
    ///
    /// # Errors
    ///
    /// Malformed, where there is no such level.
    pub fn read(reader: &mut Reader) -> Result<Self, ProtocolError> {
        let number = reader.short("the consistency level")?;
        Self::ALL.into_iter().find(|level| *level as u16 == number).ok_or_else(|| {
            ProtocolError::malformed(format!("{number:#06x} is not a consistency level"))
        })
    }
}

/// A value for a bind marker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BoundValue {
    /// The value's bytes, in Cassandra's serialization. They are not checked against a type yet.
    Bytes(Bytes),
    /// Null: the column is deleted.
    Null,
    /// The column is left as it is.
    Unset,
}

/// The values of a statement's bind markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundValues {
    /// In the order of the markers. Empty where the client sent none.
    Positional(Vec<BoundValue>),
    /// By the markers' names, in the order sent; a name may come twice.
    Named(Vec<(String, BoundValue)>),
}

impl BoundValues {
    /// Returns how many values there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Positional(values) => values.len(),
            Self::Named(values) => values.len(),
        }
    }

    /// Tells whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for BoundValues {
    fn default() -> Self {
        Self::Positional(Vec::new())
    }
}

/// A type, as the protocol's `[option]` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A type without parameters, by its option id (0x0001 to 0x0015).
    Scalar(u16),
    /// A type that the protocol has no id for, by the name of its class in Cassandra.
    Custom(String),
    /// A list of one type.
    List(Box<Self>),
    /// A map from one type to another.
    Map(Box<Self>, Box<Self>),
    /// A set of one type.
    Set(Box<Self>),
    /// A user-defined type.
    Udt {
        /// The keyspace that it belongs to.
        keyspace: String,
        /// Its name.
        name: String,
        /// Its fields.
        fields: Vec<(String, Self)>,
    },
    /// A tuple.
    Tuple(Vec<Self>),
}

impl ColumnType {
    /// A list of a type.
    #[must_use]
    pub fn list(item: impl Into<Self>) -> Self {
        Self::List(Box::new(item.into()))
    }

    /// A set of a type.
    #[must_use]
    pub fn set(item: impl Into<Self>) -> Self {
        Self::Set(Box::new(item.into()))
    }

    /// A map between two types.
    #[must_use]
    pub fn map(key: impl Into<Self>, value: impl Into<Self>) -> Self {
        Self::Map(Box::new(key.into()), Box::new(value.into()))
    }

    /// Writes an `[option]`. Recursion is bounded by the depth of the server's own types.
    fn put(&self, out: &mut Writer) {
        match self {
            Self::Scalar(id) => out.short(*id),
            Self::Custom(class) => {
                out.short(0x0000);
                out.string(class);
            }
            Self::List(item) => {
                out.short(0x0020);
                item.put(out);
            }
            Self::Map(key, value) => {
                out.short(0x0021);
                key.put(out);
                value.put(out);
            }
            Self::Set(item) => {
                out.short(0x0022);
                item.put(out);
            }
            Self::Udt { keyspace, name, fields } => {
                out.short(0x0030);
                out.string(keyspace);
                out.string(name);
                out.short_len(fields.len(), "a type's fields");
                for (field, field_type) in fields {
                    out.string(field);
                    field_type.put(out);
                }
            }
            Self::Tuple(items) => {
                out.short(0x0031);
                out.short_len(items.len(), "a tuple's types");
                for item in items {
                    item.put(out);
                }
            }
        }
    }
}

impl From<DataType> for ColumnType {
    fn from(data_type: DataType) -> Self {
        Self::Scalar(data_type.id())
    }
}

/// A column of a result, or a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The keyspace of its table.
    pub keyspace: String,
    /// Its table.
    pub table: String,
    /// Its name, or that of the marker.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
}

impl ColumnSpec {
    /// Makes a column.
    pub fn new(
        keyspace: impl Into<String>,
        table: impl Into<String>,
        name: impl Into<String>,
        column_type: impl Into<ColumnType>,
    ) -> Self {
        Self {
            keyspace: keyspace.into(),
            table: table.into(),
            name: name.into(),
            column_type: column_type.into(),
        }
    }
}

/// The columns of a result, or the bind markers of a statement.
///
/// Cheap to clone, and encoded once: keep it with the prepared statement, so that an execution
/// pays nothing for it.
#[derive(Clone, Debug)]
pub struct Columns(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    specs: Vec<ColumnSpec>,
    encoded: OnceLock<Result<EncodedColumns, Oversize>>,
}

/// Columns as they go into a body.
#[derive(Clone, Debug)]
pub(super) struct EncodedColumns {
    /// Whether the bytes begin with one table for all columns.
    pub(super) one_table: bool,
    /// `[global_table_spec] col_spec…`
    pub(super) bytes: Bytes,
    /// Names these columns: another name, other columns.
    pub(super) id: [u8; 8],
}

impl Columns {
    /// Keeps columns.
    #[must_use]
    pub fn new(specs: Vec<ColumnSpec>) -> Self {
        Self(Arc::new(Inner { specs, encoded: OnceLock::new() }))
    }

    /// Returns no columns: those of a statement that returns no rows.
    #[must_use]
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Returns the columns.
    #[must_use]
    pub fn specs(&self) -> &[ColumnSpec] {
        &self.0.specs
    }

    pub(super) fn encoded(&self) -> Result<&EncodedColumns, &Oversize> {
        self.0.encoded.get_or_init(|| encode(&self.0.specs)).as_ref()
    }
}

fn encode(specs: &[ColumnSpec]) -> Result<EncodedColumns, Oversize> {
    let table = |spec: &ColumnSpec| (spec.keyspace.clone(), spec.table.clone());
    let one_table = specs.first().is_some_and(|first| {
        specs.iter().all(|spec| spec.keyspace == first.keyspace && spec.table == first.table)
    });
    let mut out = Writer::new();
    if let Some((keyspace, table)) = specs.first().filter(|_| one_table).map(table) {
        out.string(&keyspace);
        out.string(&table);
    }
    for spec in specs {
        if !one_table {
            out.string(&spec.keyspace);
            out.string(&spec.table);
        }
        out.string(&spec.name);
        spec.column_type.put(&mut out);
    }
    let bytes = out.finish()?;
    // The number of columns is not in the bytes, but no two lists share their bytes: each name and
    // type says how long it is.
    let id = murmur3::token(&bytes).0.to_be_bytes();
    Ok(EncodedColumns { one_table, bytes, id })
}

/// What happened to a part of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeType {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It is gone.
    Dropped,
}

/// The part of the schema that changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ChangeTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table of the keyspace, or an index on it.
    Table(String),
    /// A user-defined type of the keyspace.
    Type(String),
}

/// A change of the schema: the result of DDL, and the event that other connections get.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SchemaChange {
    /// What happened.
    pub change: ChangeType,
    /// The keyspace that changed, or that holds what changed.
    pub keyspace: String,
    /// What changed.
    pub target: ChangeTarget,
}

impl SchemaChange {
    /// Writes `<change_type><target><options>`.
    pub(crate) fn put(&self, out: &mut Writer) {
        out.string(match self.change {
            ChangeType::Created => "CREATED",
            ChangeType::Updated => "UPDATED",
            ChangeType::Dropped => "DROPPED",
        });
        let (target, name) = match &self.target {
            ChangeTarget::Keyspace => ("KEYSPACE", None),
            ChangeTarget::Table(name) => ("TABLE", Some(name)),
            ChangeTarget::Type(name) => ("TYPE", Some(name)),
        };
        out.string(target);
        out.string(&self.keyspace);
        if let Some(name) = name {
            out.string(name);
        }
    }
}

/// A kind of event that a connection can register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Servers of the database come and go.
    Topology,
    /// Servers go up and down.
    Status,
    /// The schema changes.
    Schema,
}

impl EventType {
    const ALL: [Self; 3] = [Self::Topology, Self::Status, Self::Schema];

    /// Returns the protocol's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Topology => "TOPOLOGY_CHANGE",
            Self::Status => "STATUS_CHANGE",
            Self::Schema => "SCHEMA_CHANGE",
        }
    }

    /// Returns the type of that name.
    ///
    /// # Errors
    ///
    /// Malformed, where there is none.
    pub fn from_name(name: &str) -> Result<Self, ProtocolError> {
        Self::ALL
            .into_iter()
            .find(|known| known.name() == name)
            .ok_or_else(|| ProtocolError::malformed(format!("there are no events named {name:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(table: &str, name: &str) -> ColumnSpec {
        ColumnSpec::new("ks", table, name, DataType::Int)
    }

    #[test]
    fn one_table_is_named_once() {
        let columns = Columns::new(vec![spec("t", "a"), spec("t", "b")]);
        let encoded = columns.encoded().unwrap();
        assert!(encoded.one_table);
        assert_eq!(encoded.bytes, b"\0\x02ks\0\x01t\0\x01a\0\x09\0\x01b\0\x09"[..]);
        let columns = Columns::new(vec![spec("t", "a"), spec("u", "b")]);
        let encoded = columns.encoded().unwrap();
        assert!(!encoded.one_table);
        assert!(encoded.bytes.starts_with(b"\0\x02ks\0\x01t\0\x01a\0\x09\0\x02ks\0\x01u"));
    }

    #[test]
    fn other_columns_have_another_id() {
        let id = |specs: Vec<ColumnSpec>| Columns::new(specs).encoded().unwrap().id;
        let a = id(vec![spec("t", "a")]);
        assert_eq!(a, id(vec![spec("t", "a")]));
        assert_ne!(a, id(vec![spec("t", "b")]));
        assert_ne!(a, id(vec![ColumnSpec::new("ks", "t", "a", DataType::Bigint)]));
    }

    #[test]
    fn nested_types_are_written_inside_out() {
        let mut out = Writer::new();
        let udt = ColumnType::Udt {
            keyspace: "k".into(),
            name: "u".into(),
            fields: vec![("f".into(), ColumnType::Custom("c".into()))],
        };
        let nested = ColumnType::map(DataType::Text, ColumnType::list(DataType::Int));
        ColumnType::Tuple(vec![nested, ColumnType::set(DataType::Uuid), udt]).put(&mut out);
        let want = b"\0\x31\0\x03\0\x21\0\x0d\0\x20\0\x09\0\x22\0\x0c\
            \0\x30\0\x01k\0\x01u\0\x01\0\x01f\0\0\0\x01c";
        assert_eq!(out.finish().unwrap(), want[..]);
    }
}
