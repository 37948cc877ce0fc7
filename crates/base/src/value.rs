//! CQL's scalar types and values.
//!
//! A [`Value`] is never null: a column that is null is absent, so "maybe null" is `Option<Value>`.
//! The bytes of a value, as Cassandra serializes it, are in [`crate::serial`]; its
//! order-preserving bytes, for clustering keys, in [`crate::key`].

use std::fmt;
use std::net::IpAddr;

use bytes::Bytes;
use num_bigint::BigInt;
use uuid::Uuid;

/// Type of a column.
///
/// The numbers are stored on disk and never change. Those of collections, tuples, user-defined
/// types, durations and vectors are reserved: they have no variant here yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u16)]
pub enum DataType {
    /// Text of US-ASCII characters.
    Ascii = 0x01,
    /// A signed 64-bit integer.
    Bigint = 0x02,
    /// Bytes of any content.
    Blob = 0x03,
    /// True or false.
    Boolean = 0x04,
    /// A signed 64-bit integer that statements only add to.
    Counter = 0x05,
    /// A decimal number of any size: an unscaled integer and a 32-bit scale.
    Decimal = 0x06,
    /// A 64-bit float.
    Double = 0x07,
    /// A 32-bit float.
    Float = 0x08,
    /// A signed 32-bit integer.
    Int = 0x09,
    /// Milliseconds since 1970-01-01 UTC.
    Timestamp = 0x0b,
    /// UUID of any version.
    Uuid = 0x0c,
    /// UTF-8 text (`varchar` is another name for it).
    Text = 0x0d,
    /// An integer of any size.
    Varint = 0x0e,
    /// A version 1 UUID, ordered by its time.
    Timeuuid = 0x0f,
    /// An IPv4 or IPv6 address.
    Inet = 0x10,
    /// Days, with 1970-01-01 at 2³¹.
    Date = 0x11,
    /// Nanoseconds since midnight.
    Time = 0x12,
    /// A signed 16-bit integer.
    Smallint = 0x13,
    /// A signed 8-bit integer.
    Tinyint = 0x14,
}

impl DataType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 19] = [
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
    ];

    /// Returns the type's number on disk, which is also its option id in the native protocol.
    #[must_use]
    pub const fn id(self) -> u16 {
        self as u16
    }

    /// Returns the type with a number.
    #[must_use]
    pub fn from_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|data_type| data_type.id() == id)
    }

    /// Returns the type's name in CQL, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
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
        }
    }

    /// Returns the type with a CQL name, in any case; `varchar` is `text`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("varchar") {
            return Some(Self::Text);
        }
        Self::ALL.into_iter().find(|data_type| data_type.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A scalar of one of the [types](DataType).
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
}

impl Value {
    /// Returns the value's type.
    #[must_use]
    pub const fn data_type(&self) -> DataType {
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
        }
    }
}
