//! Encoding of system table values in Cassandra's serialization.
//!
//! Collections have the format of protocol version 3 and later: the number of items, then each item
//! after its length. All numbers have 4 bytes, big-endian. Source: native protocol v4, section 6.

use std::net::IpAddr;
use std::time::Duration;

use carnet::{Bytes, Uuid, Value};

/// A value of a row, or null.
pub(crate) type Cell = Option<Bytes>;

pub(crate) fn text(text: &str) -> Cell {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

pub(crate) fn int(number: i32) -> Cell {
    Some(Value::Int(number).serialize())
}

pub(crate) fn bigint(number: i64) -> Cell {
    Some(Value::Bigint(number).serialize())
}

/// Encodes a number of items.
pub(crate) fn count(number: u64) -> Cell {
    bigint(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Encodes a duration as a number of microseconds.
pub(crate) fn micros(time: Duration) -> Cell {
    count(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// Encodes a timestamp in milliseconds.
pub(crate) fn timestamp(millis: i64) -> Cell {
    Some(Value::Timestamp(millis).serialize())
}

pub(crate) fn double(number: f64) -> Cell {
    Some(Value::Double(number).serialize())
}

pub(crate) fn boolean(value: bool) -> Cell {
    Some(Value::Boolean(value).serialize())
}

pub(crate) fn uuid(uuid: Uuid) -> Cell {
    Some(Value::Uuid(uuid).serialize())
}

pub(crate) fn inet(address: IpAddr) -> Cell {
    Some(Value::Inet(address).serialize())
}

/// Encodes a set or list of texts. A set's items must be sorted.
pub(crate) fn texts<'a>(items: impl ExactSizeIterator<Item = &'a str>) -> Cell {
    Some(collection(items.len(), items.map(str::as_bytes)))
}

/// Encodes a map of texts to texts, whose keys must be sorted.
pub(crate) fn text_map<'a>(pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Cell {
    let count = pairs.len();
    Some(collection(count, pairs.flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()])))
}

/// Encodes a collection of `count` items (pairs, in a map) from their parts.
pub(crate) fn collection<'a>(count: usize, parts: impl Iterator<Item = &'a [u8]>) -> Bytes {
    let mut out = length(count).to_vec();
    for part in parts {
        out.extend_from_slice(&length(part.len()));
        out.extend_from_slice(part);
    }
    out.into()
}

fn length(length: usize) -> [u8; 4] {
    i32::try_from(length).expect("names and options are shorter than 2 GiB").to_be_bytes()
}
