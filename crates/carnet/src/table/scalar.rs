//! Rust types that map to CQL scalar types.

use std::net::IpAddr;

use bytes::{BufMut, BytesMut};
use carnet_base::{Bytes, Error, Result, Uuid, WallTime};
use carnet_data::{BigInt, DataType, Value};

/// A Rust type that maps to a CQL scalar type.
pub trait Scalar: Sized + Send {
    /// CQL type of the values.
    const TYPE: DataType;

    /// Converts to a CQL value.
    fn to_value(&self) -> Value;

    /// Appends the value in Cassandra's serialization.
    fn put(&self, out: &mut BytesMut) {
        self.to_value().serialize_into(out);
    }

    /// Converts from a CQL value of [`Scalar::TYPE`].
    ///
    /// # Errors
    ///
    /// `Invalid` if the value has another type.
    fn from_value(value: Value) -> Result<Self>;

    /// Decodes a value from Cassandra's serialization.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the bytes are not a value of [`Scalar::TYPE`].
    fn take(bytes: &[u8]) -> Result<Self> {
        Self::from_value(stored(&Self::TYPE, bytes)?)
    }
}

/// Decodes a stored value.
pub(super) fn stored(data_type: &DataType, bytes: &[u8]) -> Result<Value> {
    data_type.deserialize(bytes).map_err(|error| {
        Error::corrupted(format!("a stored value is not a valid {data_type}")).with_source(error)
    })
}

macro_rules! scalar {
    ($rust:ty, $variant:ident, $to:expr, $from:expr $(, $put:expr $(, $take:expr)?)?) => {
        impl Scalar for $rust {
            const TYPE: DataType = DataType::$variant;

            $(fn put(&self, out: &mut BytesMut) {
                $put(out, self);
            }

            $(fn take(bytes: &[u8]) -> Result<Self> {
                Ok($take(bytes))
            })?)?

            fn to_value(&self) -> Value {
                Value::$variant($to(self))
            }

            fn from_value(value: Value) -> Result<Self> {
                match value {
                    Value::$variant(inner) => Ok($from(inner)),
                    Value::Empty(data_type) => Err(Error::invalid(format!(
                        "the empty value of type {data_type}, which CQL has written, has no value in \
                         Rust"
                    ))),
                    other => Err(Error::invalid(format!(
                        "value has type {}, expected {}",
                        other.data_type(),
                        DataType::$variant
                    ))),
                }
            }
        }
    };
}

scalar!(i8, Tinyint, i8::clone, i8::from);
scalar!(i16, Smallint, i16::clone, i16::from);
scalar!(i32, Int, i32::clone, i32::from);
scalar!(i64, Bigint, i64::clone, i64::from);
scalar!(f32, Float, f32::clone, f32::from);
scalar!(f64, Double, f64::clone, f64::from);
scalar!(bool, Boolean, bool::clone, bool::from);
scalar!(String, Text, String::clone, String::from, |out: &mut BytesMut, text: &String| out
    .put_slice(text.as_bytes()));
scalar!(Uuid, Uuid, Uuid::clone, Uuid::from);
scalar!(IpAddr, Inet, IpAddr::clone, IpAddr::from);
scalar!(Bytes, Blob, Bytes::clone, Bytes::from);
scalar!(
    Vec<u8>,
    Blob,
    |bytes: &Vec<u8>| Bytes::copy_from_slice(bytes),
    Vec::from,
    |out: &mut BytesMut, bytes: &Vec<u8>| out.put_slice(bytes),
    <[u8]>::to_vec
);
scalar!(BigInt, Varint, BigInt::clone, BigInt::from);
// CQL timestamps count milliseconds: the microseconds of a wall time are dropped.
scalar!(WallTime, Timestamp, |time: &WallTime| time.millis(), |millis: i64| WallTime(
    millis.saturating_mul(1000)
));
