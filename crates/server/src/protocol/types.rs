//! Types that requests and responses consist of.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use carnet_cql::result::{ChangeKind, ChangeTarget, ColumnSpec, Columns, SchemaChange};
use carnet_data::DataType;
use sha2::{Digest, Sha256};

use super::ProtocolError;
use super::class_name::class_name;
use super::reader::BodyReader;
use super::writer::{Oversize, Writer};

/// Consistency level. Carnet reads and writes at one level of its own and ignores this one, except
/// that errors name the level that the client requested.
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

    /// Returns the name in Cassandra, such as `LOCAL_QUORUM`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "ANY",
            Self::One => "ONE",
            Self::Two => "TWO",
            Self::Three => "THREE",
            Self::Quorum => "QUORUM",
            Self::All => "ALL",
            Self::LocalQuorum => "LOCAL_QUORUM",
            Self::EachQuorum => "EACH_QUORUM",
            Self::Serial => "SERIAL",
            Self::LocalSerial => "LOCAL_SERIAL",
            Self::LocalOne => "LOCAL_ONE",
        }
    }

    /// Reads a `[consistency]` of the protocol.
    ///
    /// # Errors
    ///
    /// Malformed, if the level does not exist.
    pub fn read(reader: &mut BodyReader) -> Result<Self, ProtocolError> {
        let number = reader.short("the consistency level")?;
        Self::ALL.into_iter().find(|level| *level as u16 == number).ok_or_else(|| {
            ProtocolError::malformed(format!("{number:#06x} is not a consistency level"))
        })
    }
}

/// Type of a column, the protocol's `[option]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A type without parameters, by its option id (0x0001 to 0x0015).
    Scalar(u16),
    /// A type without an id in the protocol, by the name of its class in Cassandra.
    Custom(String),
    /// A list of one type.
    List(Box<Self>),
    /// A map from one type to another.
    Map(Box<Self>, Box<Self>),
    /// A set of one type.
    Set(Box<Self>),
    /// A user-defined type.
    Udt {
        /// Keyspace of the type.
        keyspace: String,
        /// Name of the type.
        name: String,
        /// Fields with their types.
        fields: Vec<(String, Self)>,
    },
    /// A tuple of types.
    Tuple(Vec<Self>),
}

impl ColumnType {
    /// Returns a list of a type.
    #[must_use]
    pub fn list(item: impl Into<Self>) -> Self {
        Self::List(Box::new(item.into()))
    }

    /// Returns a set of a type.
    #[must_use]
    pub fn set(item: impl Into<Self>) -> Self {
        Self::Set(Box::new(item.into()))
    }

    /// Returns a map between two types.
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

impl From<&DataType> for ColumnType {
    fn from(data_type: &DataType) -> Self {
        match data_type {
            DataType::List(element) => Self::list(&**element),
            DataType::Set(element) => Self::set(&**element),
            DataType::Map(pair) => Self::map(&pair.0, &pair.1),
            DataType::Tuple(fields) => Self::Tuple(fields.iter().map(Self::from).collect()),
            DataType::Udt(user_type) => Self::Udt {
                keyspace: user_type.keyspace.clone(),
                name: user_type.name.clone(),
                fields: user_type
                    .fields
                    .iter()
                    .map(|(name, field)| (name.clone(), Self::from(field)))
                    .collect(),
            },
            DataType::Vector(_) => Self::Custom(class_name(data_type)),
            scalar => Self::Scalar(scalar.id()),
        }
    }
}

impl From<DataType> for ColumnType {
    fn from(data_type: DataType) -> Self {
        Self::from(&data_type)
    }
}

/// Encoded columns of a body.
#[derive(Clone, Debug)]
pub(super) struct EncodedColumns {
    /// Whether the bytes begin with a common table of all columns.
    pub(super) one_table: bool,
    /// Encoded `[global_table_spec] col_spec…`.
    pub(super) bytes: Bytes,
    /// Id of the columns, made when it is first needed.
    id: OnceLock<[u8; 32]>,
}

impl EncodedColumns {
    /// Returns the id of the columns: different columns have different ids.
    pub(super) fn id(&self) -> &[u8; 32] {
        // The number of columns is not in the bytes, but different lists have different bytes: each
        // name and type has its length.
        self.id.get_or_init(|| Sha256::digest(&self.bytes).into())
    }
}

/// Returns the encoded columns. They are encoded once: they are kept with the prepared statement, so
/// that an execution does not encode them.
pub(super) fn encoded(columns: &Columns) -> Result<Arc<EncodedColumns>, Oversize> {
    columns.form(|specs| encode(specs).map(Arc::new))
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
        ColumnType::from(&spec.data_type).put(&mut out);
    }
    let bytes = out.finish()?;
    Ok(EncodedColumns { one_table, bytes, id: OnceLock::new() })
}

/// Writes a schema change in the notation `<change_type><target><options>`.
pub(crate) fn put_change(change: &SchemaChange, out: &mut Writer) {
    out.string(match change.kind {
        ChangeKind::Created => "CREATED",
        ChangeKind::Updated => "UPDATED",
        ChangeKind::Dropped => "DROPPED",
    });
    let (target, name) = match &change.target {
        ChangeTarget::Keyspace => ("KEYSPACE", None),
        ChangeTarget::Table(name) => ("TABLE", Some(name)),
        ChangeTarget::Type(name) => ("TYPE", Some(name)),
    };
    out.string(target);
    out.string(&change.keyspace);
    if let Some(name) = name {
        out.string(name);
    }
}

/// Type of event that a connection can register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventType {
    /// Servers join and leave the database.
    Topology,
    /// Servers go up and down.
    Status,
    /// The schema changes.
    Schema,
}

impl EventType {
    const ALL: [Self; 3] = [Self::Topology, Self::Status, Self::Schema];

    /// Returns the name in the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Topology => "TOPOLOGY_CHANGE",
            Self::Status => "STATUS_CHANGE",
            Self::Schema => "SCHEMA_CHANGE",
        }
    }

    /// Returns the event type with a name.
    ///
    /// # Errors
    ///
    /// Malformed, if there is none.
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
    fn common_table_is_encoded_once() {
        let columns = Columns::from(vec![spec("t", "a"), spec("t", "b")]);
        let together = encoded(&columns).unwrap();
        assert!(together.one_table);
        assert_eq!(together.bytes, b"\0\x02ks\0\x01t\0\x01a\0\x09\0\x01b\0\x09"[..]);
        let columns = Columns::from(vec![spec("t", "a"), spec("u", "b")]);
        let apart = encoded(&columns).unwrap();
        assert!(!apart.one_table);
        assert!(apart.bytes.starts_with(b"\0\x02ks\0\x01t\0\x01a\0\x09\0\x02ks\0\x01u"));
    }

    #[test]
    fn different_columns_have_different_ids() {
        let id = |specs: Vec<ColumnSpec>| *encoded(&Columns::from(specs)).unwrap().id();
        let a = id(vec![spec("t", "a")]);
        assert_eq!(a, id(vec![spec("t", "a")]));
        assert_ne!(a, id(vec![spec("t", "b")]));
        assert_ne!(a, id(vec![ColumnSpec::new("ks", "t", "a", DataType::Bigint)]));
    }

    #[test]
    fn nested_types_are_encoded() {
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
