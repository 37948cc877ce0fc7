//! Size limits of stored data. Larger data gets an error that names the limit; the table for users
//! is in `docs/limits.md`.
//!
//! A transaction checks them as it writes ([`check_size`](crate::CellKeyRef::check_size)). The storage
//! engine rejects the same lengths when it is used without transactions, and no decoder accepts longer
//! ones.

use crate::error::{Error, Result};

/// Maximum length of a partition key in Cassandra's serialization: its length has 16 bits.
pub const PARTITION_KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Maximum length of an encoded clustering key, or key of a raw table. The order-preserving
/// encoding of 65,535 bytes in Cassandra takes up to twice as many bytes, plus its frame.
pub const CLUSTERING_KEY_BYTES_MAX: usize = 4 * (u16::MAX as usize);

/// Maximum length of a row image, or value of a raw table.
pub const VALUE_BYTES_MAX: usize = 32 << 20;

/// Checks the length of a partition key.
///
/// # Errors
///
/// `Invalid` if the key is empty or too long.
pub fn check_partition_key(key: &[u8]) -> Result<()> {
    match key.len() {
        0 => Err(Error::invalid("Key may not be empty")),
        1..=PARTITION_KEY_BYTES_MAX => Ok(()),
        len => Err(partition_key_too_long(len)),
    }
}

/// Makes the error for a partition key, or a component of one, that is too long.
#[must_use]
pub fn partition_key_too_long(len: usize) -> Error {
    Error::invalid(format!(
        "Key length of {len} is longer than maximum of {PARTITION_KEY_BYTES_MAX}"
    ))
}
