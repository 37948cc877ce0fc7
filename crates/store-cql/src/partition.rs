//! Stored form of partition keys. Pure.
//!
//! Cassandra accepts no empty key, and Carnet has one: a raw table and the catalog are single
//! partitions with an empty key. It is stored under another key with the smallest possible token,
//! so that it stays in front of all others.

use carnet_base::{PartitionKey, Token};

/// Sixteen bytes that Murmur3 maps to [`LOWEST`]. Other keys with this token are ordinary keys.
const EMPTY: [u8; 16] = [
    0xb7, 0x72, 0xf0, 0xe9, 0x59, 0x85, 0x1f, 0x0d, 0xb7, 0x87, 0xdb, 0x14, 0x9d, 0x4c, 0x63, 0x9e,
];

/// Smallest token of a key that the cluster accepts. The token of the empty key lies below it, and
/// means "from the first on" or "to the last" in CQL.
pub(crate) const LOWEST: Token = Token(i64::MIN + 1);

/// Returns the stored form of a key; `None` for the key that stands for the empty one.
pub(crate) fn stored(key: &[u8]) -> Option<&[u8]> {
    match key {
        [] => Some(&EMPTY),
        key if *key == EMPTY => None,
        key => Some(key),
    }
}

/// Like [`stored`], for lookups: the key that stands for the empty one cannot be written, so a
/// lookup of it finds only the empty key.
pub(crate) fn sought(key: &PartitionKey) -> &[u8] {
    let bytes = key.bytes();
    if bytes.is_empty() { &EMPTY } else { bytes }
}

/// Returns the key with this stored form.
pub(crate) fn key_of(stored: &[u8]) -> PartitionKey {
    PartitionKey::new(if *stored == EMPTY { Vec::new() } else { stored.to_vec() })
}

#[cfg(test)]
mod tests {
    use carnet_base::murmur3;

    use super::*;

    #[test]
    fn the_empty_key_stays_in_front() {
        assert_eq!(murmur3::token(&EMPTY), LOWEST);
        assert_eq!(murmur3::token(&[]), Token::MIN);
        let kept = stored(&[]).unwrap();
        assert!(key_of(kept).bytes().is_empty());
    }

    #[test]
    fn no_other_key_is_taken_for_it() {
        assert_eq!(stored(&EMPTY), None);
        for key in [&b"a"[..], &[0], &[0; 16], &EMPTY[1..]] {
            assert_eq!(stored(key), Some(key));
            assert_eq!(key_of(key).bytes(), key);
        }
    }
}
