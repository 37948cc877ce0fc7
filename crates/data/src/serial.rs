//! Serialization of values, as in Cassandra.
//!
//! These bytes travel in the native protocol, are stored in row images, and make up partition keys,
//! so they must agree with every driver to the bit. Multi-byte numbers are big-endian.
//!
//! | type | bytes |
//! | --- | --- |
//! | `tinyint`, `smallint`, `int`, `bigint` | 1, 2, 4, 8: two's complement |
//! | `counter` | as `bigint` |
//! | `timestamp` | 8: milliseconds since 1970, two's complement |
//! | `date` | 4: days, 1970-01-01 at 2³¹, unsigned |
//! | `time` | 8: nanoseconds since midnight |
//! | `float`, `double` | 4, 8: IEEE 754 |
//! | `boolean` | 1: zero is false; written as 0 or 1 |
//! | `uuid`, `timeuuid` | 16 |
//! | `inet` | 4 or 16; an IPv4-mapped IPv6 address is the IPv4 address |
//! | `text`, `ascii`, `blob` | the bytes themselves |
//! | `varint` | 1 or more: two's complement, written as short as it goes |
//! | `decimal` | 4: scale, two's complement; then the digits as a `varint` |
//! | `duration` | 3 or more: months, days and nanoseconds as signed vints |
//! | `list`, `set` | 4: count; then each value with its length before it, 4 bytes |
//! | `map` | 4: count; then keys and values in turn, each with its length before it |
//! | `tuple`, user-defined type | each value with its length before it, which is −1 for null |
//!
//! Zero bytes are a value of `text`, `ascii` and `blob`, and the *empty value* of `int` and most other
//! scalar types ([`DataType::has_empty`]), a legacy of Thrift.

use std::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::error::{Error, Result};
use num_bigint::BigInt;
use uuid::Uuid;

use crate::duration::CqlDuration;
use crate::value::{Composite, DataType, Value};

/// Number of nanoseconds in a day; every `time` is smaller.
pub const DAY_NANOS: i64 = 86_400_000_000_000;

impl Value {
    /// Returns the value's serialized bytes.
    #[must_use]
    pub fn serialize(&self) -> Bytes {
        match self {
            // A blob is its own serialization: share it.
            Self::Blob(bytes) => bytes.clone(),
            _ => {
                let mut out = BytesMut::with_capacity(self.size_hint());
                self.serialize_into(&mut out);
                out.freeze()
            }
        }
    }

    /// Appends the value's serialized bytes.
    pub fn serialize_into(&self, out: &mut BytesMut) {
        match self {
            Self::Ascii(text) | Self::Text(text) => out.put_slice(text.as_bytes()),
            Self::Blob(bytes) => out.put_slice(bytes),
            Self::Bigint(number)
            | Self::Counter(number)
            | Self::Timestamp(number)
            | Self::Time(number) => {
                out.put_i64(*number);
            }
            Self::Int(number) => out.put_i32(*number),
            Self::Smallint(number) => out.put_i16(*number),
            Self::Tinyint(number) => out.put_i8(*number),
            Self::Date(days) => out.put_u32(*days),
            Self::Boolean(truth) => out.put_u8(u8::from(*truth)),
            Self::Double(number) => out.put_f64(*number),
            Self::Float(number) => out.put_f32(*number),
            Self::Uuid(uuid) | Self::Timeuuid(uuid) => out.put_slice(uuid.as_bytes()),
            Self::Inet(address) => match address.to_canonical() {
                IpAddr::V4(address) => out.put_slice(&address.octets()),
                IpAddr::V6(address) => out.put_slice(&address.octets()),
            },
            Self::Varint(number) => out.put_slice(&number.to_signed_bytes_be()),
            Self::Decimal { unscaled, scale } => {
                out.put_i32(*scale);
                out.put_slice(&unscaled.to_signed_bytes_be());
            }
            Self::Duration(duration) => duration.serialize_into(out),
            Self::Composite(composite) => composite.serialize_into(out),
            Self::Empty(_) => {}
        }
    }

    fn size_hint(&self) -> usize {
        match self {
            Self::Ascii(text) | Self::Text(text) => text.len(),
            _ => 16,
        }
    }

    /// Checks properties that the Rust type does not ensure: ASCII, the range of a `time`, a
    /// `timeuuid`'s version.
    ///
    /// A value returned by [`DataType::deserialize`] or [`DataType::parse_text`] passes.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the reason.
    pub fn validate(&self) -> Result<()> {
        match self {
            Self::Ascii(text) => check_ascii(text.as_bytes()),
            Self::Time(nanos) => check_time(*nanos),
            Self::Timeuuid(uuid) => check_timeuuid(uuid),
            Self::Empty(data_type) if !data_type.has_empty() => Err(wrong_length(data_type, &[])),
            _ => Ok(()),
        }
    }
}

impl DataType {
    /// Like [`DataType::deserialize`], for a value of a result: `TTL` of a collection is a list that
    /// may have nulls.
    ///
    /// # Errors
    ///
    /// See [`DataType::deserialize`].
    pub fn deserialize_result(&self, bytes: &[u8]) -> Result<Value> {
        match self {
            Self::List(_) => Composite::deserialize_list(self, bytes).map(Value::Composite),
            _ => self.deserialize(bytes),
        }
    }

    /// Decodes a value of this type that takes all of `bytes`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the length, the text, the range of a `time` or the version of a `timeuuid`
    /// is wrong.
    pub fn deserialize(&self, bytes: &[u8]) -> Result<Value> {
        if bytes.is_empty() && self.has_empty() {
            return Ok(Value::Empty(self.clone()));
        }
        Ok(match self {
            Self::Ascii => {
                check_ascii(bytes)?;
                Value::Ascii(utf8(self, bytes)?)
            }
            Self::Text => Value::Text(utf8(self, bytes)?),
            Self::Blob => Value::Blob(Bytes::copy_from_slice(bytes)),
            Self::Bigint => Value::Bigint(i64::from_be_bytes(exactly(self, bytes)?)),
            Self::Counter => Value::Counter(i64::from_be_bytes(exactly(self, bytes)?)),
            Self::Timestamp => Value::Timestamp(i64::from_be_bytes(exactly(self, bytes)?)),
            Self::Time => {
                let nanos = i64::from_be_bytes(exactly(self, bytes)?);
                check_time(nanos)?;
                Value::Time(nanos)
            }
            Self::Int => Value::Int(i32::from_be_bytes(exactly(self, bytes)?)),
            Self::Smallint => Value::Smallint(i16::from_be_bytes(exactly(self, bytes)?)),
            Self::Tinyint => Value::Tinyint(i8::from_be_bytes(exactly(self, bytes)?)),
            Self::Date => Value::Date(u32::from_be_bytes(exactly(self, bytes)?)),
            Self::Boolean => Value::Boolean(exactly::<1>(self, bytes)? != [0]),
            Self::Double => Value::Double(f64::from_be_bytes(exactly(self, bytes)?)),
            Self::Float => Value::Float(f32::from_be_bytes(exactly(self, bytes)?)),
            Self::Uuid => Value::Uuid(Uuid::from_bytes(exactly(self, bytes)?)),
            Self::Timeuuid => {
                let uuid = Uuid::from_bytes(exactly(self, bytes)?);
                check_timeuuid(&uuid)?;
                Value::Timeuuid(uuid)
            }
            Self::Inet => Value::Inet(inet(bytes)?),
            Self::Varint => Value::Varint(varint(self, bytes)?),
            Self::Decimal => {
                let (scale, digits) =
                    bytes.split_first_chunk().ok_or_else(|| wrong_length(self, bytes))?;
                let unscaled = varint(self, digits)?;
                Value::Decimal { unscaled, scale: i32::from_be_bytes(*scale) }
            }
            Self::Duration => Value::Duration(CqlDuration::deserialize(bytes)?),
            Self::List(_)
            | Self::Set(_)
            | Self::Map(_)
            | Self::Tuple(_)
            | Self::Udt(_)
            | Self::Vector(_) => Value::Composite(Composite::deserialize(self, bytes)?),
        })
    }
}

fn exactly<const N: usize>(data_type: &DataType, bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| wrong_length(data_type, bytes))
}

fn wrong_length(data_type: &DataType, bytes: &[u8]) -> Error {
    let takes = match data_type {
        DataType::Tinyint | DataType::Boolean => "1 byte",
        DataType::Smallint => "2 bytes",
        DataType::Int | DataType::Float | DataType::Date => "4 bytes",
        DataType::Uuid | DataType::Timeuuid => "16 bytes",
        DataType::Inet => "4 or 16 bytes",
        DataType::Varint => "1 byte or more",
        DataType::Decimal => "5 bytes or more",
        _ => "8 bytes",
    };
    Error::invalid(format!("a value of type {data_type} takes {takes}, not {}", bytes.len()))
}

fn utf8(data_type: &DataType, bytes: &[u8]) -> Result<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Error::invalid(format!(
            "a value of type {data_type} must be UTF-8; the byte at offset {} is not",
            error.valid_up_to()
        ))),
    }
}

fn inet(bytes: &[u8]) -> Result<IpAddr> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(octets));
    }
    exactly::<16>(&DataType::Inet, bytes).map(|octets| IpAddr::from(octets).to_canonical())
}

fn varint(data_type: &DataType, bytes: &[u8]) -> Result<BigInt> {
    if bytes.is_empty() {
        return Err(wrong_length(data_type, bytes));
    }
    Ok(BigInt::from_signed_bytes_be(bytes))
}

pub(crate) fn check_ascii(bytes: &[u8]) -> Result<()> {
    match bytes.iter().position(|byte| !byte.is_ascii()) {
        None => Ok(()),
        Some(offset) => Err(Error::invalid(format!(
            "a value of type ascii must be US-ASCII; the byte at offset {offset} is not"
        ))),
    }
}

pub(crate) fn check_time(nanos: i64) -> Result<()> {
    if (0..DAY_NANOS).contains(&nanos) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a value of type time is 0 to {} nanoseconds since midnight, not {nanos}",
        DAY_NANOS - 1
    )))
}

pub(crate) fn check_timeuuid(uuid: &Uuid) -> Result<()> {
    match uuid.get_version_num() {
        1 => Ok(()),
        version => Err(Error::invalid(format!(
            "a value of type timeuuid is a version 1 UUID; {uuid} is of version {version}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, unhex};
    use carnet_base::error::ErrorKind;

    #[test]
    fn bytes_match_a_stock_driver() {
        let vectors = testing::vectors("serialization_vectors.json");
        let mut seen = Vec::new();
        for vector in vectors["values"].as_array().unwrap() {
            let field = |name: &str| vector[name].as_str().unwrap();
            let data_type = DataType::from_name(field("type")).unwrap();
            let bytes = unhex(field("bytes"));
            let value = data_type.deserialize(&bytes).unwrap();
            assert_eq!(value, data_type.parse_text(field("text")).unwrap(), "{vector}");
            assert_eq!(value.serialize(), bytes, "{vector}");
            seen.push(data_type);
        }
        // A counter has the bytes of a bigint; durations have tests of their own.
        seen.extend([DataType::Counter, DataType::Duration]);
        assert!(DataType::SCALARS.iter().all(|data_type| seen.contains(data_type)));
    }

    #[test]
    fn mapped_addresses_are_ipv4_addresses() {
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 1, 2, 3, 4];
        let plain = DataType::Inet.deserialize(&[1, 2, 3, 4]).unwrap();
        assert_eq!(DataType::Inet.deserialize(&mapped).unwrap(), plain);
        assert_eq!(DataType::Inet.parse_text("::ffff:1.2.3.4").unwrap(), plain);
        let address = IpAddr::from(mapped);
        assert!(address.is_ipv6());
        assert_eq!(Value::Inet(address).serialize(), plain.serialize());
        // An IPv4-compatible address is a different one.
        assert_ne!(DataType::Inet.parse_text("::1.2.3.4").unwrap(), plain);
    }

    #[test]
    fn each_type_takes_its_own_lengths_only() {
        let lengths = |data_type: &DataType| -> Vec<usize> {
            // Byte 6 makes sixteen of these bytes a version 1 UUID.
            let bytes = [0x10; 20];
            (0..20).filter(|len| data_type.deserialize(&bytes[..*len]).is_ok()).collect()
        };
        let any: Vec<_> = (0..20).collect();
        for (data_type, expected) in [
            (DataType::Tinyint, vec![1]),
            (DataType::Boolean, vec![0, 1]),
            (DataType::Smallint, vec![2]),
            (DataType::Int, vec![0, 4]),
            (DataType::Float, vec![0, 4]),
            (DataType::Date, vec![4]),
            (DataType::Bigint, vec![0, 8]),
            (DataType::Counter, vec![8]),
            (DataType::Double, vec![0, 8]),
            (DataType::Timestamp, vec![0, 8]),
            (DataType::Uuid, vec![0, 16]),
            (DataType::Timeuuid, vec![0, 16]),
            (DataType::Inet, vec![0, 4, 16]),
            (DataType::Varint, any.clone()),
            (DataType::Decimal, [&[0], &any[5..]].concat()),
            (DataType::Text, any.clone()),
            (DataType::Ascii, any.clone()),
            (DataType::Blob, any),
        ] {
            assert_eq!(lengths(&data_type), expected, "{data_type}");
        }
        assert!(DataType::Time.deserialize(&[0; 8]).is_ok());
        assert!(DataType::Time.deserialize(&[0; 7]).is_err());
    }

    #[test]
    fn wrong_contents_are_refused() {
        let refused = |data_type: &DataType, bytes: &[u8]| {
            assert_eq!(data_type.deserialize(bytes).unwrap_err().kind(), ErrorKind::Invalid);
        };
        refused(&DataType::Text, b"ab\xff");
        refused(&DataType::Ascii, "é".as_bytes());
        refused(&DataType::Time, &DAY_NANOS.to_be_bytes());
        refused(&DataType::Time, &(-1_i64).to_be_bytes());
        refused(&DataType::Timeuuid, &[0x40; 16]);
        assert!(Value::Time(DAY_NANOS).validate().is_err());
        assert!(Value::Time(DAY_NANOS - 1).validate().is_ok());
    }

    #[test]
    fn longer_forms_of_numbers_are_read_and_written_short() {
        let value = DataType::Varint.deserialize(&[0, 0, 0, 7]).unwrap();
        assert_eq!(value, Value::Varint(7.into()));
        assert_eq!(&value.serialize()[..], [7]);
        let value = DataType::Varint.deserialize(&[0xff, 0xff, 0x80]).unwrap();
        assert_eq!(&value.serialize()[..], [0x80]);
        assert_eq!(DataType::Boolean.deserialize(&[9]).unwrap(), Value::Boolean(true));
    }

    #[test]
    fn decoded_values_round_trip() {
        testing::with_seeds(|rng| {
            let bytes = testing::random_bytes(rng, 20);
            for data_type in DataType::SCALARS {
                if let Ok(value) = data_type.deserialize(&bytes) {
                    assert!(value.validate().is_ok());
                    let again = data_type.deserialize(&value.serialize()).unwrap();
                    assert_eq!(again.serialize(), value.serialize(), "{data_type} {bytes:?}");
                }
            }
        });
    }
}
