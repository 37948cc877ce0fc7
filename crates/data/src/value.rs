//! CQL's types and values.
//!
//! A [`Value`] is never null: a column that is null is absent, so "maybe null" is `Option<Value>`.
//! The bytes of a value, as Cassandra serializes it, are in [`crate::serial`]; its
//! order-preserving bytes, for clustering keys, in [`crate::key`].

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use num_bigint::BigInt;
use uuid::Uuid;

use crate::duration::CqlDuration;
use crate::keyword::is_plain;

/// Type of a column, or of a part of a composite type.
///
/// A clone is cheap: the parts of a composite type are shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// Text of US-ASCII characters.
    Ascii,
    /// A signed 64-bit integer.
    Bigint,
    /// Bytes of any content.
    Blob,
    /// True or false.
    Boolean,
    /// A signed 64-bit integer that statements only add to.
    Counter,
    /// A decimal number of any size: an unscaled integer and a 32-bit scale.
    Decimal,
    /// A 64-bit float.
    Double,
    /// A 32-bit float.
    Float,
    /// A signed 32-bit integer.
    Int,
    /// Milliseconds since 1970-01-01 UTC.
    Timestamp,
    /// UUID of any version.
    Uuid,
    /// UTF-8 text (`varchar` is another name for it).
    Text,
    /// An integer of any size.
    Varint,
    /// A version 1 UUID, ordered by its time.
    Timeuuid,
    /// An IPv4 or IPv6 address.
    Inet,
    /// Days, with 1970-01-01 at 2³¹.
    Date,
    /// Nanoseconds since midnight.
    Time,
    /// A signed 16-bit integer.
    Smallint,
    /// A signed 8-bit integer.
    Tinyint,
    /// Months, days and nanoseconds.
    Duration,
    /// A sequence of values.
    List(Arc<DataType>),
    /// Keys, each with a value. Keys are unique and in the order of their type.
    Map(Arc<(DataType, DataType)>),
    /// Unique values, in the order of their type.
    Set(Arc<DataType>),
    /// A fixed number of values, of which any may be null.
    Tuple(Arc<[DataType]>),
    /// A user-defined type.
    Udt(Arc<UserType>),
    /// A fixed number of values of one type, at least one. None is null.
    Vector(Arc<(DataType, u16)>),
}

/// A user-defined type: named fields, of which any may be null.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    /// Keyspace of the type.
    pub keyspace: String,
    /// Name of the type.
    pub name: String,
    /// Names and types of the fields.
    pub fields: Vec<(String, DataType)>,
    /// Reference by which the catalog names this version of the type.
    pub reference: TypeReference,
    /// Fields that keys of rows, views and index entries have.
    pub keys: FieldKeys,
}

/// Fields of a user-defined type in keys of rows, views and index entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKeys {
    /// All fields. A field that is added changes the keys. Types of earlier versions have such keys.
    All,
    /// No null behind the last field that has a value, so that fields can be added.
    Open,
}

/// Reference to a version of a user-defined type in the catalog of its keyspace; zeros for a type that
/// is not of a catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TypeReference {
    /// Number of the type, never reused within its keyspace.
    pub id: u32,
    /// Version of the type, incremented by each change of it or of a type that it uses.
    pub version: u32,
}

/// Maximum [depth](DataType::depth) of a type that a catalog stores.
pub const TYPE_DEPTH_MAX: usize = 32;

impl DataType {
    /// All scalar types, in the order of their numbers.
    pub const SCALARS: [Self; 20] = [
        Self::Ascii,
        Self::Bigint,
        Self::Blob,
        Self::Boolean,
        Self::Counter,
        Self::Decimal,
        Self::Double,
        Self::Float,
        Self::Int,
        Self::Timestamp,
        Self::Uuid,
        Self::Text,
        Self::Varint,
        Self::Timeuuid,
        Self::Inet,
        Self::Date,
        Self::Time,
        Self::Smallint,
        Self::Tinyint,
        Self::Duration,
    ];

    /// Returns the list of a type.
    #[must_use]
    pub fn list(element: Self) -> Self {
        Self::List(Arc::new(element))
    }

    /// Returns the set of a type.
    #[must_use]
    pub fn set(element: Self) -> Self {
        Self::Set(Arc::new(element))
    }

    /// Returns the map of two types.
    #[must_use]
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// Returns the tuple of some types.
    #[must_use]
    pub fn tuple(fields: impl IntoIterator<Item = Self>) -> Self {
        Self::Tuple(fields.into_iter().collect())
    }

    /// Returns the vector of a type and a number of dimensions, at least one.
    #[must_use]
    pub fn vector(element: Self, dimensions: u16) -> Self {
        Self::Vector(Arc::new((element, dimensions)))
    }

    /// Returns the option id of the type in the native protocol, without its parts. Catalogs of
    /// earlier versions store scalar types as this number.
    #[must_use]
    pub const fn id(&self) -> u16 {
        match self {
            Self::Ascii => 0x01,
            Self::Bigint => 0x02,
            Self::Blob => 0x03,
            Self::Boolean => 0x04,
            Self::Counter => 0x05,
            Self::Decimal => 0x06,
            Self::Double => 0x07,
            Self::Float => 0x08,
            Self::Int => 0x09,
            Self::Timestamp => 0x0b,
            Self::Uuid => 0x0c,
            Self::Text => 0x0d,
            Self::Varint => 0x0e,
            Self::Timeuuid => 0x0f,
            Self::Inet => 0x10,
            Self::Date => 0x11,
            Self::Time => 0x12,
            Self::Smallint => 0x13,
            Self::Tinyint => 0x14,
            Self::Duration => 0x15,
            Self::List(_) => 0x20,
            Self::Map(_) => 0x21,
            Self::Set(_) => 0x22,
            Self::Udt(_) => 0x30,
            // The protocol has no number for it, and sends the name of its class.
            Self::Vector(_) => 0x00,
            Self::Tuple(_) => 0x31,
        }
    }

    /// Returns the scalar type with a number.
    #[must_use]
    pub fn from_id(id: u16) -> Option<Self> {
        Self::SCALARS.into_iter().find(|data_type| data_type.id() == id)
    }

    /// Returns `true` for numbers and other types that have a value without bytes, as in Cassandra: a legacy
    /// of Thrift, which is neither null nor a number.
    #[must_use]
    pub const fn has_empty(&self) -> bool {
        matches!(
            self,
            Self::Int
                | Self::Bigint
                | Self::Varint
                | Self::Decimal
                | Self::Float
                | Self::Double
                | Self::Boolean
                | Self::Uuid
                | Self::Timeuuid
                | Self::Inet
                | Self::Timestamp
        )
    }

    /// Returns `true` for types of parts: all but scalars.
    #[must_use]
    pub const fn is_composite(&self) -> bool {
        matches!(self, Self::List(_) | Self::Map(_) | Self::Set(_) | Self::Vector(_))
            || self.is_record()
    }

    /// Returns `true` for types that CQL writes within `frozen<…>` if statements do not change their
    /// parts one by one. A vector is always whole, and is written without it.
    #[must_use]
    pub const fn takes_frozen(&self) -> bool {
        self.is_composite() && !matches!(self, Self::Vector(_))
    }

    /// Returns `true` for tuples and user-defined types, whose parts are fields of their own types.
    #[must_use]
    pub const fn is_record(&self) -> bool {
        matches!(self, Self::Tuple(_) | Self::Udt(_))
    }

    /// Returns the types of the parts; none for a scalar.
    #[must_use]
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::List(element) | Self::Set(element) => vec![element],
            Self::Vector(vector) => vec![&vector.0],
            Self::Map(pair) => vec![&pair.0, &pair.1],
            Self::Tuple(fields) => fields.iter().collect(),
            Self::Udt(user_type) => user_type.fields.iter().map(|(_, field)| field).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the depth of the type: 1 for a scalar, 3 for a list of sets.
    #[must_use]
    pub fn depth(&self) -> usize {
        1 + self.parts().into_iter().map(Self::depth).max().unwrap_or(0)
    }

    /// Returns `true` if this or one of its parts, at any depth, is a type.
    #[must_use]
    pub fn contains(&self, wanted: &Self) -> bool {
        self == wanted || self.parts().into_iter().any(|part| part.contains(wanted))
    }

    /// Returns the type's name in CQL, in lower case and without its parts.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Bigint => "bigint",
            Self::Blob => "blob",
            Self::Boolean => "boolean",
            Self::Counter => "counter",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Float => "float",
            Self::Int => "int",
            Self::Timestamp => "timestamp",
            Self::Uuid => "uuid",
            Self::Text => "text",
            Self::Varint => "varint",
            Self::Timeuuid => "timeuuid",
            Self::Inet => "inet",
            Self::Date => "date",
            Self::Time => "time",
            Self::Smallint => "smallint",
            Self::Tinyint => "tinyint",
            Self::Duration => "duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Set(_) => "set",
            Self::Tuple(_) => "tuple",
            Self::Udt(_) => "user-defined type",
            Self::Vector(_) => "vector",
        }
    }

    /// Returns the scalar type with a CQL name, in any case; `varchar` is `text`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("varchar") {
            return Some(Self::Text);
        }
        Self::SCALARS.into_iter().find(|data_type| data_type.name().eq_ignore_ascii_case(name))
    }
}

/// Writes the type in CQL. Composite types within another are frozen, and are written so; the
/// outermost is written without `frozen`.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Udt(user_type) = self {
            return quote_name(f, &user_type.name);
        }
        f.write_str(self.name())?;
        for (n, part) in self.parts().into_iter().enumerate() {
            f.write_str(if n == 0 { "<" } else { ", " })?;
            if part.takes_frozen() {
                write!(f, "frozen<{part}>")?;
            } else {
                part.fmt(f)?;
            }
        }
        if let Self::Vector(vector) = self {
            write!(f, ", {}", vector.1)?;
        }
        f.write_str(if self.is_composite() { ">" } else { "" })
    }
}

/// Writes a name as CQL reads it, in quotes if it needs them.
pub(crate) fn quote_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    if is_plain(name) { f.write_str(name) } else { write!(f, "\"{}\"", name.replace('"', "\"\"")) }
}

/// A value of one of the [types](DataType).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Text of US-ASCII characters.
    Ascii(String),
    /// A signed 64-bit integer.
    Bigint(i64),
    /// Bytes of any content.
    Blob(Bytes),
    /// True or false.
    Boolean(bool),
    /// The value of a counter, or an amount that is added to it.
    Counter(i64),
    /// `unscaled × 10^-scale`.
    Decimal {
        /// The unscaled digits.
        unscaled: BigInt,
        /// Number of digits behind the decimal point.
        scale: i32,
    },
    /// A 64-bit float.
    Double(f64),
    /// A 32-bit float.
    Float(f32),
    /// A signed 32-bit integer.
    Int(i32),
    /// Milliseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// UUID of any version.
    Uuid(Uuid),
    /// Text in UTF-8.
    Text(String),
    /// An integer of any size.
    Varint(BigInt),
    /// A version 1 UUID.
    Timeuuid(Uuid),
    /// An IPv4 or IPv6 address.
    Inet(IpAddr),
    /// Days, with 1970-01-01 at 2³¹.
    Date(u32),
    /// Nanoseconds since midnight, below 86 400 × 10⁹.
    Time(i64),
    /// A signed 16-bit integer.
    Smallint(i16),
    /// A signed 8-bit integer.
    Tinyint(i8),
    /// Months, days and nanoseconds.
    Duration(CqlDuration),
    /// A list, set, map, tuple, vector or value of a user-defined type.
    Composite(Composite),
    /// The value without bytes of a type that [has one](DataType::has_empty).
    Empty(DataType),
}

/// Value of a type of parts; [`Composite::new`] makes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Composite {
    pub(crate) data_type: DataType,
    /// Elements of a list, set or vector, keys and values of a map in turn, or fields.
    pub(crate) parts: Vec<Option<Value>>,
}

impl Value {
    /// Returns the value's type.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Ascii(_) => DataType::Ascii,
            Self::Bigint(_) => DataType::Bigint,
            Self::Blob(_) => DataType::Blob,
            Self::Boolean(_) => DataType::Boolean,
            Self::Counter(_) => DataType::Counter,
            Self::Decimal { .. } => DataType::Decimal,
            Self::Double(_) => DataType::Double,
            Self::Float(_) => DataType::Float,
            Self::Int(_) => DataType::Int,
            Self::Timestamp(_) => DataType::Timestamp,
            Self::Uuid(_) => DataType::Uuid,
            Self::Text(_) => DataType::Text,
            Self::Varint(_) => DataType::Varint,
            Self::Timeuuid(_) => DataType::Timeuuid,
            Self::Inet(_) => DataType::Inet,
            Self::Date(_) => DataType::Date,
            Self::Time(_) => DataType::Time,
            Self::Smallint(_) => DataType::Smallint,
            Self::Tinyint(_) => DataType::Tinyint,
            Self::Duration(_) => DataType::Duration,
            Self::Composite(composite) => composite.data_type().clone(),
            Self::Empty(data_type) => data_type.clone(),
        }
    }
}
