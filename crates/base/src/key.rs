//! Order-preserving bytes of clustering keys.
//!
//! A clustering key is a tuple of values, each of a column that is ordered `ASC` or `DESC`. Its
//! encoding is the concatenation of its components' encodings, and comparing two encodings byte
//! by byte gives what Cassandra's comparators give for the values:
//!
//! | type | bytes of an `ASC` component | why that order |
//! | --- | --- | --- |
//! | `tinyint`, `smallint`, `int`, `bigint`, `timestamp` | 1, 2, 4, 8, 8: big-endian, sign bit flipped | signed |
//! | `date`, `time` | 4, 8: big-endian | unsigned |
//! | `boolean` | 1: 0 or 1 | false first |
//! | `float`, `double` | 4, 8: positive: sign bit set; negative: all bits flipped | −∞ … −0.0, 0.0 … ∞, NaN; every NaN is written alike |
//! | `text`, `ascii`, `blob` | each 0x00 becomes `00 FF`; then `00 00` | unsigned bytes, a prefix first |
//! | `inet` | 4 bytes, then `00`, or `01` and the other 12; an IPv4-mapped IPv6 address is the IPv4 address | unsigned bytes, a prefix first |
//! | `uuid` | 16: version, then the time where that is 1, else the first half; then the second half | as `UUIDType` |
//! | `timeuuid` | 16: the time, then the second half with each byte's sign bit flipped | as `TimeUUIDType`, which compares *signed* bytes |
//!
//! A `DESC` component is the same with every bit flipped. For example `('a', 3)` of
//! `(text ASC, int DESC)`:
//!
//! ```text
//! 61 00 00   7f ff ff fc
//! 'a' end    !(80 00 00 03)
//! ```
//!
//! Three properties hold, and all conversions of restrictions into ranges rely on them:
//!
//! * **A component's encoding is never a prefix of another's.** So the keys that begin with given
//!   components are exactly the keys whose bytes begin with the encoding of those, ascending or
//!   descending: [`prefix_range`] and [`slice()`] are exact.
//! * **A component takes at least one byte.** So no key is empty: the empty byte string names the
//!   static columns, and every function here excludes it.
//! * **Equal values have equal bytes**, and the decoder accepts only bytes that the encoder writes.
//!
//! Deliberately absent: `varint` and `decimal`, whose comparators order numbers of any size. They
//! are rejected as clustering columns ([`DataType::is_key_type`]).

mod component;
mod slice;

#[cfg(test)]
mod comparators;
#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};
pub use slice::{ByteBounds, prefix_range, prefix_successor, slice};

use crate::error::{Error, Result};
use crate::value::{DataType, Value};

/// Order of a clustering column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The smallest value first.
    #[default]
    Asc,
    /// The largest value first.
    Desc,
}

impl Order {
    /// Returns the byte that each byte of an ascending encoding is XORed with.
    const fn mask(self) -> u8 {
        match self {
            Self::Asc => 0x00,
            Self::Desc => 0xff,
        }
    }
}

impl DataType {
    /// Returns `true` if a clustering column may have this type, that is, its order has an
    /// encoding.
    ///
    /// Columns of a partition key may have any type.
    #[must_use]
    pub const fn is_key_type(self) -> bool {
        !matches!(self, Self::Decimal | Self::Varint)
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
/// `Corrupted` if the bytes are not what [`encode`] makes of values of these types and orders;
/// `Invalid` if there are more types than orders.
pub fn decode(bytes: &[u8], types: &[DataType], orders: &[Order]) -> Result<Vec<Value>> {
    if types.len() > orders.len() {
        return Err(Error::invalid(format!(
            "{} types for the orders of {} clustering columns",
            types.len(),
            orders.len()
        )));
    }
    let mut rest = bytes;
    let mut values = Vec::with_capacity(types.len());
    for (data_type, order) in types.iter().zip(orders) {
        values.push(component::take(&mut rest, *data_type, order.mask())?);
    }
    if !rest.is_empty() {
        return Err(Error::corrupted("a clustering key has more bytes than columns"));
    }
    Ok(values)
}
