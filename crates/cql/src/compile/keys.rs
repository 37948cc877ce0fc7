//! The keys that the `IN` lists of a `WHERE` select: the product of the lists.
//!
//! The size of the product is checked before the first key is built, because two lists of 10,000
//! values select 100 million keys.

use std::cmp::Ordering;

use carnet::Value;
use carnet_base::Bytes;
use carnet_data::key::{self, Order};
use carnet_data::partition::LEN_MAX;

use crate::cql_error::CqlError;

/// Maximum number of keys that the lists of one statement select.
const KEYS_MAX: usize = 10_000;

/// Values of one column, or of several columns that a tuple compares: one item for each choice.
pub(super) type Choices = Vec<Vec<Value>>;

/// Refuses lists whose product has too many keys.
pub(super) fn check_product<'a>(
    lists: impl Iterator<Item = &'a Choices> + Clone,
) -> Result<(), CqlError> {
    let sizes = lists.map(Vec::len);
    let keys = sizes.clone().fold(1_usize, usize::saturating_mul);
    if keys <= KEYS_MAX {
        return Ok(());
    }
    let sizes: Vec<String> = sizes.filter(|size| *size > 1).map(|size| size.to_string()).collect();
    Err(CqlError::invalid(format!(
        "the lists behind IN name {} keys; at most {KEYS_MAX} fit in one statement",
        sizes.join(" × ")
    )))
}

/// Returns every combination of one choice from each list. The first list varies slowest.
pub(super) fn product(lists: &[Choices]) -> Vec<Vec<Value>> {
    let join = |prefixes: Vec<Vec<Value>>, list: &Choices| {
        let with_each = |prefix: &Vec<Value>| -> Vec<Vec<Value>> {
            list.iter().map(|tail| [prefix.as_slice(), tail].concat()).collect()
        };
        prefixes.iter().flat_map(with_each).collect()
    };
    lists.iter().fold(vec![Vec::new()], join)
}

/// Encodes the clustering key of a row that is written, and refuses one that is longer than a row of
/// Cassandra may have.
pub(crate) fn written_key(values: &[Value], orders: &[Order]) -> Result<Bytes, CqlError> {
    if values.iter().map(bytes_at_most).sum::<usize>() > LEN_MAX {
        let bytes: usize = values.iter().map(|value| value.serialize().len()).sum();
        if bytes > LEN_MAX {
            return Err(CqlError::invalid(format!(
                "Key length of {bytes} is longer than maximum of {LEN_MAX}"
            )));
        }
    }
    Ok(key::encode(values, orders)?)
}

/// Returns an upper bound of the length of a value's serialization.
pub(super) fn bytes_at_most(value: &Value) -> usize {
    match value {
        Value::Text(text) | Value::Ascii(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        Value::Varint(_) | Value::Decimal { .. } | Value::Composite(_) => value.serialize().len(),
        _ => 16,
    }
}

/// Sorts the values of a list in the order of their type, and removes duplicates.
pub(super) fn sort(values: &mut Vec<Value>) {
    if values.len() < 2 {
        return;
    }
    // Values that compare as equal may differ in bytes, such as the decimals 1.0 and 1.00.
    if values.iter().all(|value| value.data_type().is_key_type()) {
        let encoded = |value: &Value| key::encode(std::slice::from_ref(value), &[Order::Asc]);
        values.sort_by_cached_key(|value| (encoded(value).unwrap_or_default(), value.serialize()));
    } else {
        values.sort_by(|a, b| match Value::compare(a, b) {
            Ordering::Equal => a.serialize().cmp(&b.serialize()),
            ordering => ordering,
        });
    }
    values.dedup_by(|a, b| a.serialize() == b.serialize());
}
