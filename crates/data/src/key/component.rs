//! One component of a clustering key, ascending; the documentation of [`super`] has the table of
//! bytes.

use std::net::IpAddr;

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::error::{Error, Result};
use uuid::Uuid;

use super::number::{put_decimal, put_varint};
use super::reader::{END, ESCAPED, KeyReader, wrong};
use crate::value::{Composite, DataType, FieldKeys, Value};

/// Before the items of a list, set or map, and before the fields of a tuple. It sorts after the
/// others: null is the first value of a field, and a list sorts after its beginnings.
const FOLLOWS: u8 = 0x01;
const NO_MORE: u8 = 0x00;
const IS_NULL: u8 = 0x00;

/// After the last field of a user-defined type with [open](FieldKeys::Open) keys. It sorts before the others:
/// fields that are left out are null, and no null is behind the last field that has a value.
const OPEN_END: u8 = 0x00;
const OPEN_NULL: u8 = 0x01;
const OPEN_FOLLOWS: u8 = 0x02;

const SIGNS: u64 = 0x8080_8080_8080_8080;

/// Estimates the encoded length of a value; it is too small only for long texts with many zeros.
pub(super) fn len_hint(value: &Value) -> usize {
    match value {
        Value::Ascii(text) | Value::Text(text) => text.len() + 4,
        Value::Blob(bytes) => bytes.len() + 4,
        _ => 17,
    }
}

/// Appends the ascending encoding of a value.
pub(super) fn put(out: &mut BytesMut, value: &Value) -> Result<()> {
    value.validate()?;
    match value {
        Value::Bigint(number) | Value::Timestamp(number) => {
            out.put_u64(number.cast_unsigned() ^ (1 << 63));
        }
        Value::Int(number) => out.put_u32(number.cast_unsigned() ^ (1 << 31)),
        Value::Smallint(number) => out.put_u16(number.cast_unsigned() ^ (1 << 15)),
        Value::Tinyint(number) => out.put_u8(number.cast_unsigned() ^ (1 << 7)),
        Value::Time(nanos) => out.put_i64(*nanos),
        Value::Date(days) => out.put_u32(*days),
        Value::Boolean(truth) => out.put_u8(u8::from(*truth)),
        Value::Double(number) => out.put_u64(ordered_double(*number)),
        Value::Float(number) => out.put_u32(ordered_float(*number)),
        Value::Ascii(text) | Value::Text(text) => put_escaped(out, text.as_bytes()),
        Value::Blob(bytes) => put_escaped(out, bytes),
        Value::Inet(address) => put_inet(out, *address),
        Value::Uuid(uuid) => {
            let (high, low) = uuid.as_u64_pair();
            out.put_u64(version_first(high));
            out.put_u64(low);
        }
        Value::Timeuuid(uuid) => {
            let (high, low) = uuid.as_u64_pair();
            out.put_u64(version_first(high));
            out.put_u64(low ^ SIGNS);
        }
        Value::Composite(composite) => put_composite(out, composite)?,
        Value::Varint(number) => put_varint(out, number)?,
        Value::Decimal { unscaled, scale } => put_decimal(out, unscaled, *scale)?,
        Value::Counter(_) | Value::Duration(_) => return Err(unsupported(&value.data_type())),
        Value::Empty(data_type) => {
            return Err(Error::unsupported(format_args!(
                "the empty value of type {data_type} in a clustering key or an index"
            )));
        }
    }
    Ok(())
}

/// Takes a value off the front of `rest`; each of its bytes is first XORed with `mask`.
pub(super) fn take(rest: &mut &[u8], data_type: &DataType, mask: u8) -> Result<Value> {
    let mut from = KeyReader { rest, mask };
    let value = match data_type {
        DataType::Bigint => Value::Bigint(from.u64()?.cast_signed() ^ i64::MIN),
        DataType::Timestamp => Value::Timestamp(from.u64()?.cast_signed() ^ i64::MIN),
        DataType::Int => Value::Int(from.u32()?.cast_signed() ^ i32::MIN),
        DataType::Smallint => Value::Smallint(i16::from_be_bytes(from.array()?) ^ i16::MIN),
        DataType::Tinyint => Value::Tinyint(i8::from_be_bytes(from.array()?) ^ i8::MIN),
        DataType::Time => Value::Time(from.u64()?.cast_signed()),
        DataType::Date => Value::Date(from.u32()?),
        DataType::Boolean => match from.array()? {
            [0] => Value::Boolean(false),
            [1] => Value::Boolean(true),
            _ => return Err(wrong(data_type)),
        },
        DataType::Double => Value::Double(double(from.u64()?)?),
        DataType::Float => Value::Float(float(from.u32()?)?),
        DataType::Ascii => Value::Ascii(from.text(data_type)?),
        DataType::Text => Value::Text(from.text(data_type)?),
        DataType::Blob => Value::Blob(Bytes::from(from.escaped(data_type)?)),
        DataType::Inet => Value::Inet(from.inet()?),
        DataType::Uuid => {
            let high = version_back(from.u64()?);
            Value::Uuid(Uuid::from_u64_pair(high, from.u64()?))
        }
        DataType::Timeuuid => {
            let high = version_back(from.u64()?);
            Value::Timeuuid(Uuid::from_u64_pair(high, from.u64()? ^ SIGNS))
        }
        DataType::List(_) | DataType::Set(_) | DataType::Map(_) => from.items(data_type)?,
        DataType::Udt(user_type) if user_type.keys == FieldKeys::Open => {
            from.open_fields(data_type)?
        }
        DataType::Tuple(_) | DataType::Udt(_) => from.fields(data_type)?,
        DataType::Vector(vector) => from.elements(data_type, &vector.0, vector.1)?,
        DataType::Varint => Value::Varint(from.varint()?),
        DataType::Decimal => {
            let (unscaled, scale) = from.decimal()?;
            Value::Decimal { unscaled, scale }
        }
        DataType::Counter | DataType::Duration => return Err(unsupported(data_type)),
    };
    value.validate().map_err(|error| wrong(data_type).with_source(error))?;
    Ok(value)
}

/// Writes the elements of a vector one after the other: their number is known. Writes each other part
/// behind a byte: of a record [`IS_NULL`] or [`FOLLOWS`], of all others `FOLLOWS`, and
/// [`NO_MORE`] behind the last one.
fn put_composite(out: &mut BytesMut, composite: &Composite) -> Result<()> {
    if matches!(composite.data_type(), DataType::Vector(_)) {
        return composite.parts().iter().flatten().try_for_each(|part| put(out, part));
    }
    if let DataType::Udt(user_type) = composite.data_type()
        && user_type.keys == FieldKeys::Open
    {
        return put_open(out, composite.parts());
    }
    for item in composite.parts().chunks(composite.parts_per_item()) {
        let is_null = item.iter().all(Option::is_none);
        out.put_u8(if is_null { IS_NULL } else { FOLLOWS });
        item.iter().flatten().try_for_each(|part| put(out, part))?;
    }
    if !composite.data_type().is_record() {
        out.put_u8(NO_MORE);
    }
    Ok(())
}

/// Writes the fields of a user-defined type up to the last one that has a value.
fn put_open(out: &mut BytesMut, fields: &[Option<Value>]) -> Result<()> {
    let length = fields.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    for field in &fields[..length] {
        out.put_u8(if field.is_none() { OPEN_NULL } else { OPEN_FOLLOWS });
        field.iter().try_for_each(|value| put(out, value))?;
    }
    out.put_u8(OPEN_END);
    Ok(())
}

fn put_escaped(out: &mut BytesMut, bytes: &[u8]) {
    let mut runs = bytes.split(|byte| *byte == 0);
    out.put_slice(runs.next().expect("split yields at least one run"));
    for run in runs {
        out.put_slice(&[0, ESCAPED]);
        out.put_slice(run);
    }
    out.put_slice(&[0, END]);
}

fn put_inet(out: &mut BytesMut, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            out.put_slice(&address.octets());
            out.put_u8(0);
        }
        IpAddr::V6(address) => {
            let octets = address.octets();
            out.put_slice(&octets[..4]);
            out.put_u8(1);
            out.put_slice(&octets[4..]);
        }
    }
}

/// Maps floats to integers with the same order; every NaN becomes the largest one.
const fn ordered_double(number: f64) -> u64 {
    let bits = if number.is_nan() { f64::NAN.to_bits() } else { number.to_bits() };
    if bits >> 63 == 0 { bits | (1 << 63) } else { !bits }
}

fn double(ordered: u64) -> Result<f64> {
    let bits = if ordered >> 63 == 1 { ordered ^ (1 << 63) } else { !ordered };
    let number = f64::from_bits(bits);
    if ordered_double(number) == ordered { Ok(number) } else { Err(wrong(&DataType::Double)) }
}

/// Like [`ordered_double`].
const fn ordered_float(number: f32) -> u32 {
    let bits = if number.is_nan() { f32::NAN.to_bits() } else { number.to_bits() };
    if bits >> 31 == 0 { bits | (1 << 31) } else { !bits }
}

fn float(ordered: u32) -> Result<f32> {
    let bits = if ordered >> 31 == 1 { ordered ^ (1 << 31) } else { !ordered };
    let number = f32::from_bits(bits);
    if ordered_float(number) == ordered { Ok(number) } else { Err(wrong(&DataType::Float)) }
}

/// Moves the version of a UUID's first half to the front, and with version 1 orders the rest by
/// time: `low(32) mid(16) version(4) high(12)` becomes `version high mid low`.
const fn version_first(half: u64) -> u64 {
    let version = (half >> 12) & 0xf;
    if version == 1 {
        (half << 48) | ((half << 16) & 0xffff_0000_0000) | (half >> 32)
    } else {
        (version << 60) | ((half >> 16) << 12) | (half & 0xfff)
    }
}

const fn version_back(ordered: u64) -> u64 {
    let version = ordered >> 60;
    if version == 1 {
        (ordered << 32) | ((ordered >> 16) & 0xffff_0000) | (ordered >> 48)
    } else {
        ((ordered << 4 >> 16) << 16) | (version << 12) | (ordered & 0xfff)
    }
}

impl KeyReader<'_, '_> {
    /// Takes the items of a list, set or map.
    fn items(&mut self, data_type: &DataType) -> Result<Value> {
        let types = data_type.parts();
        let mut parts = Vec::new();
        loop {
            match self.array()? {
                [NO_MORE] => return composite(data_type, &parts),
                [FOLLOWS] => {
                    for part_type in &types {
                        parts.push(Some(take(self.rest, part_type, self.mask)?));
                    }
                }
                _ => return Err(wrong(data_type)),
            }
        }
    }

    fn elements(
        &mut self,
        data_type: &DataType,
        element: &DataType,
        dimensions: u16,
    ) -> Result<Value> {
        let take = |_| take(self.rest, element, self.mask).map(Some);
        composite(data_type, &(0..dimensions).map(take).collect::<Result<Vec<_>>>()?)
    }

    fn open_fields(&mut self, data_type: &DataType) -> Result<Value> {
        let types = data_type.parts();
        let mut parts = Vec::new();
        loop {
            let field = types.get(parts.len());
            parts.push(match (self.array()?, field) {
                ([OPEN_END], _) => break,
                ([OPEN_NULL], Some(_)) => None,
                ([OPEN_FOLLOWS], Some(field)) => Some(take(self.rest, field, self.mask)?),
                _ => return Err(wrong(data_type)),
            });
        }
        if parts.last().is_some_and(Option::is_none) {
            return Err(wrong(data_type));
        }
        parts.resize(types.len(), None);
        composite(data_type, &parts)
    }

    fn fields(&mut self, data_type: &DataType) -> Result<Value> {
        let mut parts = Vec::new();
        for field in data_type.parts() {
            parts.push(match self.array()? {
                [IS_NULL] => None,
                [FOLLOWS] => Some(take(self.rest, field, self.mask)?),
                _ => return Err(wrong(data_type)),
            });
        }
        composite(data_type, &parts)
    }
}

/// Makes a value that must be as its encoder wrote it: sorted, without duplicates.
fn composite(data_type: &DataType, parts: &[Option<Value>]) -> Result<Value> {
    let made = Composite::new(data_type.clone(), parts.to_vec())
        .map_err(|error| wrong(data_type).with_source(error))?;
    let is_sorted = made.parts().len() == parts.len()
        && made
            .parts()
            .iter()
            .zip(parts)
            .all(|(a, b)| Value::compare_nullable(a.as_ref(), b.as_ref()).is_eq());
    if is_sorted { Ok(Value::Composite(made)) } else { Err(wrong(data_type)) }
}

fn unsupported(data_type: &DataType) -> Error {
    Error::unsupported(format_args!("clustering columns of type {data_type}"))
}
