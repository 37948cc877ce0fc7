//! Keys of typed tables.

use bytes::{BufMut, BytesMut};
use carnet_base::{Error, Result};
use carnet_data::{DataType, Value, partition};

use super::scalar::Scalar;

/// The key of a row: the partition key, and the clustering key within the partition.
///
/// Both are tuples of [scalars](Scalar): `Key((sensor,), (time, sequence))`. A table with one row
/// in a partition has the clustering key `()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<P, C = ()>(pub P, pub C);

/// A tuple of zero to four scalars that is part of a key.
pub trait KeyTuple: Sized + Send {
    /// CQL types of the scalars.
    const TYPES: &'static [DataType];

    /// Returns the scalars as CQL values.
    fn to_values(&self) -> Vec<Value>;

    /// Appends the partition key in Cassandra's serialization: a single scalar as it is; several
    /// scalars each with a two-byte length before it and a zero byte after it.
    fn put_partition(&self, out: &mut BytesMut);

    /// Converts CQL values to the tuple.
    ///
    /// # Errors
    ///
    /// `Invalid` if the number of values or a type is wrong.
    fn from_values(values: Vec<Value>) -> Result<Self>;

    /// Decodes a partition key that [`KeyTuple::put_partition`] wrote.
    ///
    /// # Errors
    ///
    /// `Corrupted` if the bytes do not decode.
    fn take_partition(key: &[u8]) -> Result<Self> {
        Self::from_values(partition::decode(Self::TYPES, key)?)
    }
}

/// Appends one of several components of a partition key. A component above 64 KiB gets a wrong
/// length, but the whole key is then too long and refused.
fn put_component(out: &mut BytesMut, component: &impl Scalar) {
    let at = out.len();
    out.put_u16(0);
    component.put(out);
    let len = u16::try_from(out.len() - at - 2).unwrap_or(u16::MAX);
    out[at..at + 2].copy_from_slice(&len.to_be_bytes());
    out.put_u8(0);
}

macro_rules! key_tuple {
    ($($name:ident),*) => {
        impl<$($name: Scalar),*> KeyTuple for ($($name,)*) {
            const TYPES: &'static [DataType] = &[$($name::TYPE),*];

            #[allow(non_snake_case, reason = "the variables are named after their types")]
            fn to_values(&self) -> Vec<Value> {
                let ($($name,)*) = self;
                vec![$($name.to_value()),*]
            }

            #[allow(non_snake_case, unused_variables, reason = "as above; nothing is appended of none")]
            fn put_partition(&self, out: &mut BytesMut) {
                let ($($name,)*) = self;
                if let [_] = Self::TYPES {
                    $($name.put(out);)*
                } else {
                    $(put_component(out, $name);)*
                }
            }

            fn take_partition(key: &[u8]) -> Result<Self> {
                // A single component is stored without framing.
                if let [_] = Self::TYPES && !key.is_empty() {
                    return Ok(($($name::take(key)?,)*));
                }
                Self::from_values(partition::decode(Self::TYPES, key)?)
            }

            #[allow(unused_variables, unused_mut, reason = "the empty tuple takes nothing")]
            fn from_values(values: Vec<Value>) -> Result<Self> {
                let count = values.len();
                let mut values = values.into_iter();
                let wrong = || Error::invalid(format!("key has {count} values, expected {}", Self::TYPES.len()));
                let tuple = ($($name::from_value(values.next().ok_or_else(wrong)?)?,)*);
                if values.next().is_some() { Err(wrong()) } else { Ok(tuple) }
            }
        }
    };
}

key_tuple!();
key_tuple!(A);
key_tuple!(A, B);
key_tuple!(A, B, C);
key_tuple!(A, B, C, D);

/// Key type of a typed table: always a [`Key`] of two tuples.
pub trait TableKey: Sized + Send + 'static {
    /// Type of the partition key.
    type Partition: KeyTuple;
    /// Type of the clustering key.
    type Clustering: KeyTuple;

    /// Returns the partition key and the clustering key.
    fn parts(&self) -> (&Self::Partition, &Self::Clustering);

    /// Makes a key of its two parts.
    fn from_parts(partition: Self::Partition, clustering: Self::Clustering) -> Self;
}

impl<P: KeyTuple + 'static, C: KeyTuple + 'static> TableKey for Key<P, C> {
    type Partition = P;
    type Clustering = C;

    fn parts(&self) -> (&P, &C) {
        (&self.0, &self.1)
    }

    fn from_parts(partition: P, clustering: C) -> Self {
        Self(partition, clustering)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use carnet_base::ErrorKind;
    use carnet_data::partition;

    use super::*;

    fn same<K: KeyTuple + PartialEq + Debug>(key: &K) {
        let mut out = BytesMut::new();
        key.put_partition(&mut out);
        let encoded = partition::encode(&key.to_values()).unwrap();
        assert_eq!(&out[..], &encoded.bytes()[..]);
        assert_eq!(K::take_partition(&out).unwrap(), *key);
    }

    #[test]
    fn partition_key_round_trips_and_matches_encoder() {
        same(&(7_i32,));
        same(&("text".to_owned(),));
        same(&(vec![0_u8, 255],));
        same(&(-1_i64, String::new()));
        same(&(1.5_f64, vec![1_u8; 300], true));
    }

    #[test]
    fn malformed_partition_key_is_refused() {
        for key in [&b""[..], &[0; 3], &[0; 5]] {
            let error = <(i32,)>::take_partition(key).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupted, "{key:?}");
        }
        let error = <(String,)>::take_partition(&[0xFF]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupted);
        assert_eq!(<(Vec<u8>,)>::take_partition(b"").unwrap_err().kind(), ErrorKind::Corrupted);
        assert_eq!(<(i32, i32)>::take_partition(&[0; 4]).unwrap_err().kind(), ErrorKind::Corrupted);
    }
}
