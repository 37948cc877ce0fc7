//! Bytes of collections, whatever the type of their elements. Pure.

use anyhow::{Result, bail};
use carnet::Bytes;

/// Serializes a collection of elements that have `width` values each.
pub(super) fn serialized(values: &[&Option<Bytes>], width: usize) -> Bytes {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes();
    let mut bytes = number(values.len() / width).to_vec();
    for value in values {
        match value {
            Some(value) => {
                bytes.extend(number(value.len()));
                bytes.extend_from_slice(value);
            }
            None => bytes.extend((-1_i32).to_be_bytes()),
        }
    }
    bytes.into()
}

/// Returns the values of a serialized collection; a map has two for each entry.
///
/// # Errors
///
/// Bytes that are no collection.
pub(super) fn elements(collection: &Bytes) -> Result<Vec<Option<Bytes>>> {
    let mut rest = collection.clone();
    let count = int(&take(&mut rest, 4)?);
    let mut values = Vec::new();
    while !rest.is_empty() {
        let length = int(&take(&mut rest, 4)?);
        let length = usize::try_from(length).ok();
        values.push(length.map(|length| take(&mut rest, length)).transpose()?);
    }
    let is_whole = |count: usize| [count, 2 * count].contains(&values.len());
    if usize::try_from(count).is_ok_and(is_whole) {
        return Ok(values);
    }
    bail!("the source sent a collection of {count} elements that has {}", values.len())
}

fn take(rest: &mut Bytes, length: usize) -> Result<Bytes> {
    if rest.len() < length {
        bail!("the source sent a collection that ends within an element");
    }
    Ok(rest.split_to(length))
}

/// Decodes a number of four bytes.
fn int(bytes: &[u8]) -> i32 {
    bytes.iter().fold(0, |number, byte| number << 8 | i32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_that_were_serialized() {
        let values = [
            Some(Bytes::from_static(b"a")),
            None,
            Some(Bytes::new()),
            Some(Bytes::from_static(b"bc")),
        ];
        let all: Vec<&Option<Bytes>> = values.iter().collect();
        for width in [1, 2] {
            assert_eq!(elements(&serialized(&all, width)).unwrap(), values);
        }
        assert_eq!(elements(&serialized(&[], 1)).unwrap(), []);
    }

    #[test]
    fn malformed_collections_are_refused() {
        for odd in
            [&[0, 0][..], &[0, 0, 0, 1, 0, 0, 0, 9, 1], &[0, 0, 0, 2, 0, 0, 0, 1, 1], &[0, 0, 0, 9]]
        {
            assert!(elements(&Bytes::copy_from_slice(odd)).is_err(), "{odd:?}");
        }
    }
}
