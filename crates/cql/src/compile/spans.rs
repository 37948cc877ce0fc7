//! Tuple comparisons as ranges of encoded clustering keys.
//!
//! Keys between two tuples are contiguous if all compared columns have one direction. With
//! `CLUSTERING ORDER BY (a ASC, b DESC)` they are not, and form several ranges:
//!
//! ```text
//!   (a, b) > (1, 5)   →   a = 1 AND b > 5,   a > 1
//! ```

use std::cmp::Ordering;
use std::ops::Bound;
use std::slice::from_ref;

use carnet::{Result, Value};
use carnet_data::key::{self, ByteBounds, Order};

/// Returns the disjoint ranges of the keys that begin with `equal` and whose next components lie
/// between two bounds.
pub(super) fn spans(
    orders: &[Order],
    equal: &[Value],
    lower: Bound<&[Value]>,
    upper: Bound<&[Value]>,
) -> Result<Vec<ByteBounds>> {
    let compared = values(lower).len().max(values(upper).len());
    let compared = orders.iter().skip(equal.len()).take(compared);
    if compared.clone().zip(compared.skip(1)).all(|(order, next)| order == next) {
        return Ok(vec![key::slice(orders, equal, lower, upper)?]);
    }
    split(orders, equal, lower, upper)
}

/// Splits a range at the first value of each bound: the keys strictly between these values are one
/// range, and keys that begin with one of the values are compared by their next component.
fn split(
    orders: &[Order],
    equal: &[Value],
    lower: Bound<&[Value]>,
    upper: Bound<&[Value]>,
) -> Result<Vec<ByteBounds>> {
    let within = |value: &Value, lower, upper| match (rest(lower), rest(upper)) {
        (Some(lower), Some(upper)) => {
            spans(orders, &[equal, from_ref(value)].concat(), lower, upper)
        }
        _ => Ok(Vec::new()),
    };
    let (low, high) = (values(lower).first(), values(upper).first());
    if let (Some(low), Some(high)) = (low, high) {
        match Value::compare(low, high) {
            Ordering::Greater => return Ok(Vec::new()),
            Ordering::Equal => return within(low, lower, upper),
            Ordering::Less => {}
        }
    }
    let mut found = vec![key::slice(orders, equal, beyond(low), beyond(high))?];
    if let Some(low) = low {
        found.extend(within(low, lower, Bound::Unbounded)?);
    }
    if let Some(high) = high {
        found.extend(within(high, Bound::Unbounded, upper)?);
    }
    Ok(found)
}

fn beyond(value: Option<&Value>) -> Bound<&[Value]> {
    value.map_or(Bound::Unbounded, |value| Bound::Excluded(from_ref(value)))
}

const fn values(bound: Bound<&[Value]>) -> &[Value] {
    match bound {
        Bound::Included(values) | Bound::Excluded(values) => values,
        Bound::Unbounded => &[],
    }
}

/// Returns the bound of the components after the first, for keys that begin with its first value;
/// `None` if no such key lies within the bound.
const fn rest(bound: Bound<&[Value]>) -> Option<Bound<&[Value]>> {
    match bound {
        Bound::Unbounded | Bound::Included([] | [_]) => Some(Bound::Unbounded),
        Bound::Excluded([] | [_]) => None,
        Bound::Included([_, rest @ ..]) => Some(Bound::Included(rest)),
        Bound::Excluded([_, rest @ ..]) => Some(Bound::Excluded(rest)),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;

    /// Returns all keys of three columns with values 0 to 2.
    fn keys() -> Vec<Vec<Value>> {
        let digits = |n: i32| [n / 9, n / 3 % 3, n % 3].map(Value::Int).to_vec();
        (0..27).map(digits).collect()
    }

    /// Returns all tuples of one to three values.
    fn tuples() -> Vec<Vec<Value>> {
        let prefixes = |key: Vec<Value>| (1..=3).map(move |count| key[..count].to_vec());
        keys().into_iter().flat_map(prefixes).collect()
    }

    fn bounds() -> Vec<Bound<Vec<Value>>> {
        let both = |tuple: Vec<Value>| [Bound::Included(tuple.clone()), Bound::Excluded(tuple)];
        let given = tuples().into_iter().flat_map(both);
        given.chain([Bound::Unbounded]).collect()
    }

    /// Returns `true` if a key lies within a bound, by comparing values.
    fn is_within(key: &[Value], bound: &Bound<Vec<Value>>, side: Ordering) -> bool {
        let (tuple, is_included) = match bound {
            Bound::Unbounded => return true,
            Bound::Included(tuple) => (tuple, true),
            Bound::Excluded(tuple) => (tuple, false),
        };
        let ordering = key.iter().zip(tuple).map(|(a, b)| Value::compare(a, b)).find(|o| o.is_ne());
        ordering.map_or(is_included, |ordering| ordering == side)
    }

    #[test]
    fn spans_hold_the_keys_between_two_tuples() {
        for orders in 0..8_u32 {
            let order = |bit: u32| if orders >> bit & 1 == 1 { Order::Desc } else { Order::Asc };
            let orders = [order(0), order(1), order(2)];
            let encoded: Vec<_> =
                keys().iter().map(|values| key::encode(values, &orders).unwrap()).collect();
            for lower in bounds() {
                for upper in bounds().iter().step_by(5) {
                    let (from, to) = (lower.as_ref(), upper.as_ref());
                    let (from, to) = (from.map(Vec::as_slice), to.map(Vec::as_slice));
                    let found = spans(&orders, &[], from, to).unwrap();
                    for (key, bytes) in keys().iter().zip(&encoded) {
                        let held = found.iter().filter(|span| span.contains(bytes)).count();
                        let wanted = is_within(key, &lower, Ordering::Greater)
                            && is_within(key, upper, Ordering::Less);
                        assert_eq!(held, usize::from(wanted), "{key:?} {lower:?} {upper:?}");
                    }
                }
            }
        }
    }
}
