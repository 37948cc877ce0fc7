//! Ranges of encoded clustering keys.

use std::ops::Bound;

use bytes::{Bytes, BytesMut};
use carnet_base::error::{Error, Result};

use super::order::Order;
use super::tuple::{encode, encode_into};
use crate::value::Value;

/// Bounds of a range of encoded clustering keys.
pub type ByteBounds = (Bound<Bytes>, Bound<Bytes>);

/// Returns the smallest byte string after all that begin with `prefix`.
///
/// `None` means that there is none: the prefix is empty or consists of 0xFF only.
#[must_use]
pub fn prefix_successor(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut successor = BytesMut::from(&prefix[..=last]);
    successor[last] += 1;
    Some(successor.freeze())
}

/// Returns the range of all keys that begin with an encoded prefix.
///
/// The empty prefix gives every row of a partition, without the cell of its static columns.
#[must_use]
pub fn prefix_range(prefix: &Bytes) -> ByteBounds {
    (first_within(prefix), prefix_successor(prefix).map_or(Bound::Unbounded, Bound::Excluded))
}

/// Returns the range of all keys whose first components equal `equal` and whose next ones lie
/// between two bounds, as in `WHERE a = 1 AND (b, c) > (2, 3) AND b <= 4`.
///
/// A bound has one value or more, and compares as many components. So `Excluded([2])` as the lower
/// bound excludes every key with a 2 there. Bounds are in the values' own order: on `DESC` columns
/// the larger value gives the lower byte bound. Crossing bounds give an empty range.
///
/// ```
/// use std::ops::{Bound, RangeBounds};
///
/// use carnet_data::key::{encode, slice};
/// use carnet_data::{Order, Value};
///
/// // PRIMARY KEY (p, a, b) WITH CLUSTERING ORDER BY (a ASC, b DESC): a = 1 AND b > 5
/// let orders = [Order::Asc, Order::Desc];
/// let five = [Value::Int(5)];
/// let range = slice(&orders, &[Value::Int(1)], Bound::Excluded(&five), Bound::Unbounded)?;
/// assert!(range.contains(&encode(&[Value::Int(1), Value::Int(6)], &orders)?));
/// assert!(!range.contains(&encode(&[Value::Int(1), Value::Int(5)], &orders)?));
/// assert!(!range.contains(&encode(&[Value::Int(2), Value::Int(6)], &orders)?));
/// # Ok::<(), carnet_base::Error>(())
/// ```
///
/// # Errors
///
/// See [`encode`], and `Unsupported` if a bound compares `ASC` and `DESC` columns together:
/// such keys do not lie side by side.
pub fn slice(
    orders: &[Order],
    equal: &[Value],
    lower: Bound<&[Value]>,
    upper: Bound<&[Value]>,
) -> Result<ByteBounds> {
    let prefix = encode(equal, orders)?;
    let compared = &orders[equal.len()..];
    let order = common_order(compared, lower, upper)?;
    let (first, last) = match order {
        Order::Asc => (lower, upper),
        Order::Desc => (upper, lower),
    };
    let extend = |values: &[Value]| -> Result<Bytes> {
        let mut bytes = BytesMut::from(&prefix[..]);
        encode_into(&mut bytes, values, compared)?;
        Ok(bytes.freeze())
    };
    let first = match first {
        Bound::Unbounded => first_within(&prefix),
        Bound::Included(values) => Bound::Included(extend(values)?),
        Bound::Excluded(values) => match prefix_successor(&extend(values)?) {
            Some(successor) => Bound::Included(successor),
            None => return Ok((Bound::Excluded(Bytes::new()), Bound::Excluded(Bytes::new()))),
        },
    };
    let last = match last {
        Bound::Unbounded => prefix_successor(&prefix),
        Bound::Included(values) => prefix_successor(&extend(values)?),
        Bound::Excluded(values) => Some(extend(values)?),
    };
    Ok((first, last.map_or(Bound::Unbounded, Bound::Excluded)))
}

fn first_within(prefix: &Bytes) -> Bound<Bytes> {
    // The empty key names the static columns.
    if prefix.is_empty() { Bound::Excluded(Bytes::new()) } else { Bound::Included(prefix.clone()) }
}

/// Returns the common order of all columns that the bounds compare.
fn common_order(
    compared: &[Order],
    lower: Bound<&[Value]>,
    upper: Bound<&[Value]>,
) -> Result<Order> {
    let len = |bound: Bound<&[Value]>| match bound {
        Bound::Unbounded => Ok(0),
        Bound::Included([]) | Bound::Excluded([]) => {
            Err(Error::invalid("a bound of clustering columns needs a value"))
        }
        Bound::Included(values) | Bound::Excluded(values) => Ok(values.len()),
    };
    let longest = len(lower)?.max(len(upper)?);
    let compared = &compared[..longest.min(compared.len())];
    match compared {
        [] => Ok(Order::Asc),
        [first, others @ ..] if others.iter().all(|order| order == first) => Ok(*first),
        _ => Err(Error::unsupported(
            "comparing clustering columns of ascending and of descending order in one tuple",
        )),
    }
}
