//! Cassandra's comparators, written from their definitions over *serialized* bytes.
//!
//! The tests compare the encoding with them. They share no code with it: they have no escapes,
//! flipped signs or reordered UUIDs.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::Order;
use crate::value::{DataType, Value};

/// Compares two values of one type like Cassandra compares their serializations.
pub(super) fn compare(data_type: &DataType, a: &[u8], b: &[u8]) -> Ordering {
    match data_type {
        // BytesType, UTF8Type, AsciiType, InetAddressType, SimpleDateType, TimeType: byte order.
        DataType::Blob
        | DataType::Text
        | DataType::Ascii
        | DataType::Inet
        | DataType::Date
        | DataType::Time => a.cmp(b),
        // LongType, TimestampType, Int32Type, ShortType, ByteType: signed.
        DataType::Bigint | DataType::Timestamp => long(a).cmp(&long(b)),
        DataType::Int => int(a).cmp(&int(b)),
        DataType::Smallint => i16::from_be_bytes(all(a)).cmp(&i16::from_be_bytes(all(b))),
        DataType::Tinyint => i8::from_be_bytes(all(a)).cmp(&i8::from_be_bytes(all(b))),
        // BooleanType: zero is false.
        DataType::Boolean => (a[0] != 0).cmp(&(b[0] != 0)),
        DataType::Double => java_double(f64::from_be_bytes(all(a)), f64::from_be_bytes(all(b))),
        DataType::Float => java_double(
            f64::from(f32::from_be_bytes(all(a))),
            f64::from(f32::from_be_bytes(all(b))),
        ),
        DataType::Uuid => uuid(a, b),
        DataType::Timeuuid => timeuuid(a, b),
        DataType::List(element) | DataType::Set(element) => items(&[element], a, b),
        DataType::Map(pair) => items(&[&pair.0, &pair.1], a, b),
        DataType::Vector(vector) => elements(&vector.0, a, b),
        DataType::Tuple(_) | DataType::Udt(_) => tuple(&data_type.parts(), a, b),
        DataType::Varint => BigInt::from_signed_bytes_be(a).cmp(&BigInt::from_signed_bytes_be(b)),
        DataType::Decimal => decimal(a, b),
        DataType::Counter | DataType::Duration => panic!("not a key type"),
    }
}

/// `DecimalType`: `java.math.BigDecimal.compareTo`, by number whatever the scales. Unlike Java it
/// brings both to one scale, so that the tests draw no scale of many digits.
fn decimal(a: &[u8], b: &[u8]) -> Ordering {
    let scale = int(&a[..4]).max(int(&b[..4]));
    let scaled = |bytes: &[u8]| {
        let zeros = scale.abs_diff(int(&bytes[..4]));
        BigInt::from_signed_bytes_be(&bytes[4..]) * BigInt::from(10).pow(zeros)
    };
    scaled(a).cmp(&scaled(b))
}

/// `ListType`, `SetType`, `MapType`: item by item, then the number of items.
fn items(types: &[&DataType], mut a: &[u8], mut b: &[u8]) -> Ordering {
    let counts = [take_int(&mut a), take_int(&mut b)];
    for _ in 0..counts[0].min(counts[1]) {
        for data_type in types {
            let ordering =
                compare(data_type, take_part(&mut a).unwrap(), take_part(&mut b).unwrap());
            if ordering.is_ne() {
                return ordering;
            }
        }
    }
    counts[0].cmp(&counts[1])
}

/// `VectorType`: element by element. The tests have elements of four bytes, and short texts.
fn elements(element: &DataType, mut a: &[u8], mut b: &[u8]) -> Ordering {
    let take = |bytes: &mut &[u8]| {
        let length = if *element == DataType::Text {
            let length = usize::from(bytes[0]);
            *bytes = &bytes[1..];
            length
        } else {
            4
        };
        let (taken, rest) = bytes.split_at(length);
        *bytes = rest;
        taken.to_vec()
    };
    while !a.is_empty() {
        let ordering = compare(element, &take(&mut a), &take(&mut b));
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

/// `TupleType`: field by field, null first.
fn tuple(types: &[&DataType], mut a: &[u8], mut b: &[u8]) -> Ordering {
    for data_type in types {
        let ordering = match (take_part(&mut a), take_part(&mut b)) {
            (Some(a), Some(b)) => compare(data_type, a, b),
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    Ordering::Equal
}

fn take_int(bytes: &mut &[u8]) -> i32 {
    let (taken, rest) = bytes.split_at(4);
    *bytes = rest;
    int(taken)
}

fn take_part<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take_int(bytes)).ok()?;
    let (part, rest) = bytes.split_at(length);
    *bytes = rest;
    Some(part)
}

/// Compares two tuples, `DESC` columns reversed, like a `ClusteringComparator`.
pub(super) fn compare_tuples(a: &[Value], b: &[Value], orders: &[Order]) -> Ordering {
    for ((a, b), order) in a.iter().zip(b).zip(orders) {
        let ordering = compare(&a.data_type(), &a.serialize(), &b.serialize());
        let ordering = if *order == Order::Desc { ordering.reverse() } else { ordering };
        if ordering != Ordering::Equal {
            return ordering;
        }
    }
    Ordering::Equal
}

/// `java.lang.Double.compare`: −0.0 before 0.0, NaN last and equal to itself.
fn java_double(a: f64, b: f64) -> Ordering {
    match a.partial_cmp(&b) {
        Some(Ordering::Equal) => b.is_sign_negative().cmp(&a.is_sign_negative()),
        Some(ordering) => ordering,
        None => a.is_nan().cmp(&b.is_nan()),
    }
}

/// `UUIDType`: the version, then for version 1 the time and for others the first half, unsigned;
/// then the second half, unsigned.
fn uuid(a: &[u8], b: &[u8]) -> Ordering {
    let version = |uuid: &[u8]| uuid[6] >> 4;
    version(a)
        .cmp(&version(b))
        .then_with(|| if version(a) == 1 { time(a).cmp(&time(b)) } else { a[..8].cmp(&b[..8]) })
        .then_with(|| a[8..].cmp(&b[8..]))
}

/// `TimeUUIDType`: the time, then the second half byte by byte, *signed*.
fn timeuuid(a: &[u8], b: &[u8]) -> Ordering {
    let signed = |uuid: &[u8]| uuid[8..].iter().map(|byte| byte.cast_signed()).collect::<Vec<_>>();
    time(a).cmp(&time(b)).then_with(|| signed(a).cmp(&signed(b)))
}

/// The 60-bit time of a version 1 UUID, as RFC 9562 composes it.
fn time(uuid: &[u8]) -> u64 {
    let high = u64::from(u16::from_be_bytes(all(&uuid[6..8])) & 0x0fff);
    let mid = u64::from(u16::from_be_bytes(all(&uuid[4..6])));
    let low = u64::from(u32::from_be_bytes(all(&uuid[..4])));
    (high << 48) | (mid << 32) | low
}

fn long(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(all(bytes))
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(all(bytes))
}

fn all<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().unwrap()
}
