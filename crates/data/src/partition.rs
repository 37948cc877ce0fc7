//! Partition keys in Cassandra's own serialization.
//!
//! ```text
//! one column        the value's serialization as it is
//! several columns   per column: length (u16, big-endian), the value's serialization, 0x00
//! ```
//!
//! For example `(1, 'ab')` of `(int, text)` is `0004 00000001 00 0002 6162 00`. The drivers build
//! the same bytes to compute a token, so nothing here may be "improved".
//!
//! A user-defined type is written without nulls behind its last field that has a value, so that its key
//! stays the same when fields are added; types of earlier versions have [all fields](crate::FieldKeys::All).
//!
//! A key is 1 to 65 535 bytes long. The empty key is rejected, as in Cassandra: its token is the
//! lower end of the ring.

use bytes::{BufMut, Bytes, BytesMut};
use carnet_base::cell::PartitionKey;
use carnet_base::error::{Error, Result};
use carnet_base::limits::{PARTITION_KEY_BYTES_MAX, check_partition_key, partition_key_too_long};

use crate::value::{DataType, Value};

/// Maximum length of a partition key in bytes.
pub const LEN_MAX: usize = PARTITION_KEY_BYTES_MAX;

/// Serializes a partition key, one value for each of its columns.
///
/// # Errors
///
/// `Invalid` if there is no value, the key is empty, or a component or the key is too long.
pub fn encode(values: &[Value]) -> Result<PartitionKey> {
    match values {
        [] => Err(Error::invalid("a partition key has at least one column")),
        [value] => join(&[value.partition_form()]),
        _ => join(&values.iter().map(Value::partition_form).collect::<Vec<_>>()),
    }
}

/// Joins serialized values, one for each column of the partition key.
///
/// # Errors
///
/// See [`encode`].
pub fn join(components: &[Bytes]) -> Result<PartitionKey> {
    let key = match components {
        [] => return Err(Error::invalid("a partition key has at least one column")),
        [component] => component.clone(),
        _ => composite(components)?,
    };
    check_partition_key(&key)?;
    Ok(PartitionKey::new(key))
}

fn composite(components: &[Bytes]) -> Result<Bytes> {
    let mut key = BytesMut::with_capacity(components.iter().map(|part| part.len() + 3).sum());
    for component in components {
        let len =
            u16::try_from(component.len()).map_err(|_| partition_key_too_long(component.len()))?;
        key.put_u16(len);
        key.put_slice(component);
        key.put_u8(0);
    }
    Ok(key.freeze())
}

/// Decodes a partition key, one value for each of `types`.
///
/// # Errors
///
/// `Corrupted` if the bytes are not a key of columns of these types.
pub fn decode(types: &[DataType], key: &[u8]) -> Result<Vec<Value>> {
    if key.is_empty() || key.len() > LEN_MAX {
        return Err(Error::corrupted(format!("a partition key of {} bytes", key.len())));
    }
    let deserialize = |data_type: &DataType, bytes: &[u8]| {
        data_type.deserialize(bytes).map_err(|error| {
            Error::corrupted("a partition key holds a wrong value").with_source(error)
        })
    };
    if let [data_type] = types {
        return Ok(vec![deserialize(data_type, key)?]);
    }
    let mut rest = key;
    let mut values = Vec::with_capacity(types.len());
    for data_type in types {
        let component = take_component(&mut rest)
            .ok_or_else(|| Error::corrupted("a partition key ends too early"))?;
        values.push(deserialize(data_type, component)?);
    }
    if !rest.is_empty() {
        return Err(Error::corrupted("a partition key has more components than columns"));
    }
    Ok(values)
}

fn take_component<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, behind) = rest.split_first_chunk()?;
    let (component, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    *rest = behind.strip_prefix(&[0])?;
    Some(component)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, unhex};
    use carnet_base::error::ErrorKind;

    #[test]
    fn composite_keys_are_the_drivers_routing_keys() {
        let vectors = testing::vectors("serialization_vectors.json");
        for vector in vectors["composite"].as_array().unwrap() {
            let parts = vector["parts"].as_array().unwrap();
            let types: Vec<_> = parts
                .iter()
                .map(|part| DataType::from_name(part["type"].as_str().unwrap()).unwrap())
                .collect();
            let values: Vec<_> = parts
                .iter()
                .zip(&types)
                .map(|(part, data_type)| data_type.parse_text(part["text"].as_str().unwrap()))
                .collect::<Result<_>>()
                .unwrap();
            let bytes = unhex(vector["bytes"].as_str().unwrap());
            assert_eq!(encode(&values).unwrap().bytes(), &bytes);
            assert_eq!(decode(&types, &bytes).unwrap(), values);
        }
    }

    #[test]
    fn single_column_is_bare_and_not_empty() {
        let key = encode(&[Value::Text("abc".into())]).unwrap();
        assert_eq!(&key.bytes()[..], b"abc");
        assert_eq!(key.token(), carnet_base::murmur3::token(b"abc"));
        let error = encode(&[Value::Text(String::new())]).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Invalid, "Key may not be empty"));
        assert_eq!(encode(&[]).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn lengths_fit_their_length_fields() {
        let text = |len| Value::Text("x".repeat(len));
        assert!(encode(&[text(LEN_MAX)]).is_ok());
        assert_eq!(encode(&[text(LEN_MAX + 1)]).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(encode(&[text(LEN_MAX - 6), text(0)]).is_ok());
        assert_eq!(encode(&[text(LEN_MAX - 5), text(0)]).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(encode(&[text(LEN_MAX + 1), text(0)]).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn wrong_bytes_are_refused() {
        let types = [DataType::Int, DataType::Text];
        let good = encode(&[Value::Int(1), Value::Text("ab".into())]).unwrap();
        testing::fuzz(&[good.bytes().clone()], |bytes| {
            if let Ok(values) = decode(&types, bytes) {
                assert_eq!(&encode(&values).unwrap().bytes()[..], bytes);
            }
        });
        for cut in 0..good.bytes().len() {
            assert_eq!(
                decode(&types, &good.bytes()[..cut]).unwrap_err().kind(),
                ErrorKind::Corrupted
            );
        }
    }
}
