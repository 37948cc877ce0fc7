//! Encodes and decodes clustering keys.

use bytes::{Bytes, BytesMut};
use carnet_base::error::{Error, Result};

use super::component;
use super::order::Order;
use crate::value::{DataType, Value};

impl DataType {
    /// Returns `true` if a clustering column may have this type, that is, its order has an
    /// encoding.
    ///
    /// Columns of a partition key may have any type.
    #[must_use]
    pub fn is_key_type(&self) -> bool {
        let is_unordered = matches!(self, Self::Counter | Self::Duration);
        !is_unordered && self.parts().into_iter().all(Self::is_key_type)
    }
}

/// Encodes a clustering key, or the first components of one.
///
/// `orders` are the orders of all clustering columns; there may be fewer values.
///
/// # Errors
///
/// `Invalid` if there are more values than columns or a value does not [validate]; `Unsupported` if
/// a value's type is not a [key type](DataType::is_key_type).
///
/// [validate]: Value::validate
pub fn encode(values: &[Value], orders: &[Order]) -> Result<Bytes> {
    let mut out = BytesMut::with_capacity(values.iter().map(component::len_hint).sum());
    encode_into(&mut out, values, orders)?;
    Ok(out.freeze())
}

/// Like [`encode`], but appends to a buffer.
///
/// # Errors
///
/// See [`encode`].
pub fn encode_into(out: &mut BytesMut, values: &[Value], orders: &[Order]) -> Result<()> {
    if values.len() > orders.len() {
        return Err(Error::invalid(format!(
            "{} values for {} clustering columns",
            values.len(),
            orders.len()
        )));
    }
    for (value, order) in values.iter().zip(orders) {
        let start = out.len();
        component::put(out, value)?;
        if *order == Order::Desc {
            out[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
    Ok(())
}

/// Decodes a clustering key, or its first components: one value for each of `types`.
///
/// # Errors
///
/// `Corrupted` if the bytes are not an encoding by [`encode`] of values of these types and orders;
/// `Invalid` if there are more types than orders.
pub fn decode(bytes: &[u8], types: &[DataType], orders: &[Order]) -> Result<Vec<Value>> {
    let mut values = Vec::with_capacity(types.len());
    decode_each(bytes, types, orders, |value| values.push(value))?;
    Ok(values)
}

/// Like [`decode`], but the key may end before the last components.
///
/// # Errors
///
/// See [`decode`].
pub fn decode_prefix(bytes: &[u8], types: &[DataType], orders: &[Order]) -> Result<Vec<Value>> {
    let (mut rest, mut values) = (bytes, Vec::with_capacity(types.len()));
    for (data_type, order) in types.iter().zip(orders) {
        if rest.is_empty() {
            break;
        }
        values.push(component::take(&mut rest, data_type, order.mask())?);
    }
    match rest {
        [] => Ok(values),
        _ => Err(Error::corrupted("a clustering key has more bytes than columns")),
    }
}

/// Like [`decode`], but returns the bytes after the last of the values, too.
///
/// # Errors
///
/// See [`decode`].
pub fn decode_first<'b>(
    bytes: &'b [u8],
    types: &[DataType],
    orders: &[Order],
) -> Result<(Vec<Value>, &'b [u8])> {
    let mut values = Vec::with_capacity(types.len());
    let rest = take_each(bytes, types, orders, |value| values.push(value))?;
    Ok((values, rest))
}

/// Like [`decode`], but calls `each` with one value after the other.
///
/// # Errors
///
/// See [`decode`].
pub fn decode_each(
    bytes: &[u8],
    types: &[DataType],
    orders: &[Order],
    each: impl FnMut(Value),
) -> Result<()> {
    match take_each(bytes, types, orders, each)? {
        [] => Ok(()),
        _ => Err(Error::corrupted("a clustering key has more bytes than columns")),
    }
}

/// Decodes the first components of a clustering key, and returns the bytes behind them.
fn take_each<'b>(
    bytes: &'b [u8],
    types: &[DataType],
    orders: &[Order],
    mut each: impl FnMut(Value),
) -> Result<&'b [u8]> {
    if types.len() > orders.len() {
        return Err(Error::invalid(format!(
            "{} types for the orders of {} clustering columns",
            types.len(),
            orders.len()
        )));
    }
    let mut rest = bytes;
    for (data_type, order) in types.iter().zip(orders) {
        each(component::take(&mut rest, data_type, order.mask())?);
    }
    Ok(rest)
}
