//! Bytes of vectors.
//!
//! A vector has as many elements as its type says, so that no count is written. Elements of a type
//! of one length follow each other; before any other element stands its length, as a
//! [`VAR_LONG`](carnet_base::var_long).
//!
//! ```text
//! [1.0, 2.0] of vector<float, 2>    3f800000 40000000
//! ['a', 'bc'] of vector<text, 2>    01 61    02 6263
//! ```
//!
//! Cassandra counts as types of one length: `bigint`, `boolean`, `double`, `float`, `int`,
//! `timestamp`, `timeuuid`, `uuid`, and vectors of them. It writes a length before elements of all
//! other types, even of `smallint` or `date`.

use bytes::{BufMut, BytesMut};
use carnet_base::error::{Error, Result};
use carnet_base::var_long;

use crate::value::{DataType, Value};

/// Returns the length of the elements of a type, if Cassandra writes them without their lengths.
fn fixed_length(data_type: &DataType) -> Option<usize> {
    Some(match data_type {
        DataType::Boolean => 1,
        DataType::Float | DataType::Int => 4,
        DataType::Bigint | DataType::Double | DataType::Timestamp => 8,
        DataType::Timeuuid | DataType::Uuid => 16,
        DataType::Vector(vector) => fixed_length(&vector.0)?.saturating_mul(vector.1.into()),
        _ => return None,
    })
}

/// Appends the elements of a vector.
pub(crate) fn put_elements(out: &mut BytesMut, element: &DataType, elements: &[Option<Value>]) {
    let is_fixed = fixed_length(element).is_some();
    for value in elements.iter().flatten() {
        if is_fixed {
            value.serialize_into(out);
            continue;
        }
        let bytes = value.serialize();
        let length = i64::try_from(bytes.len()).expect("a value is shorter than 2 GiB");
        var_long::put(out, length);
        out.put_slice(&bytes);
    }
}

/// Splits the bytes of a vector into those of its elements.
pub(crate) fn split<'b>(
    whole: &DataType,
    element: &DataType,
    dimensions: u16,
    bytes: &'b [u8],
) -> Result<Vec<&'b [u8]>> {
    let fixed = fixed_length(element);
    let mut rest = bytes;
    let mut elements = Vec::new();
    for _ in 0..dimensions {
        let length = match fixed {
            Some(length) => Some(length),
            None => take_length(&mut rest),
        };
        let taken = length.and_then(|length| rest.split_at_checked(length));
        let (taken, behind) =
            taken.ok_or_else(|| Error::invalid(format!("Not enough bytes to read a {whole}")))?;
        elements.push(taken);
        rest = behind;
    }
    if rest.is_empty() {
        return Ok(elements);
    }
    Err(Error::invalid(format!("Unexpected {} extraneous bytes after {whole} value", rest.len())))
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(var_long::take(rest).ok()?).ok()
}

/// Returns the numbers of a serialized `vector<float, n>`.
#[must_use]
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|number| f32::from_be_bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, unhex};

    #[test]
    fn bytes_match_a_stock_driver() {
        for (data_type, text, bytes) in [
            ("vector<float, 2>", "[1, -2.5]", "3f800000c0200000"),
            ("vector<boolean, 3>", "[true, false, true]", "010001"),
            ("vector<text, 2>", "['a', 'bc']", "0161026263"),
            ("vector<smallint, 2>", "[1, 2]", "0200010200 02"),
            ("vector<vector<int, 2>, 2>", "[[1, 2], [3, 4]]", "00000001000000020000000300000004"),
            ("vector<vector<text, 1>, 2>", "[['a'], ['b']]", "020161020162"),
            ("vector<frozen<list<int>>, 1>", "[[7]]", "0c000000010000000400000007"),
        ] {
            let data_type: DataType = data_type.parse().unwrap();
            let value = data_type.parse_text(text).unwrap();
            let bytes = unhex(&bytes.replace(' ', ""));
            assert_eq!(value.serialize(), bytes, "{data_type}");
            assert_eq!(data_type.deserialize(&bytes).unwrap(), value);
        }
        let long = DataType::vector(DataType::Text, 1);
        let value = long.parse_text(&format!("['{}']", "x".repeat(300))).unwrap();
        assert_eq!(value.serialize()[..3], [0x81, 0x2c, b'x']);
    }

    #[test]
    fn hostile_bytes_do_not_panic() {
        for data_type in ["vector<float, 2>", "vector<text, 3>", "vector<frozen<set<int>>, 2>"] {
            let data_type: DataType = data_type.parse().unwrap();
            let texts = ["[1, 2]", "['a', '', 'bc']", "[{1}, {}]"];
            let values = texts.iter().filter_map(|text| data_type.parse_text(text).ok());
            let samples: Vec<_> = values.map(|value| value.serialize()).collect();
            testing::fuzz(&samples, |bytes| {
                if let Ok(value) = data_type.deserialize(bytes) {
                    let bytes = value.serialize();
                    assert_eq!(data_type.deserialize(&bytes).unwrap().serialize(), bytes);
                }
            });
        }
        let error = DataType::vector(DataType::Int, 2).deserialize(&[0; 12]).unwrap_err();
        assert_eq!(error.message(), "Unexpected 4 extraneous bytes after vector<int, 2> value");
    }
}
