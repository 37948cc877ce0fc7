//! Size limits of stored data. Larger data gets an error that names the limit; the table for users
//! is in `docs/limits.md`.
//!
//! A transaction checks them as it writes ([`check`]). The storage engine rejects the same lengths
//! when it is used without transactions, and no decoder accepts longer ones.

use crate::cell::CellKeyRef;
use crate::error::{Error, Result};

/// Maximum length of a partition key in Cassandra's serialization: its length has 16 bits.
pub const PARTITION_KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Maximum length of an encoded clustering key, or key of a raw table. The order-preserving
/// encoding of 65,535 bytes in Cassandra takes up to twice as many bytes, plus its frame.
pub const CLUSTERING_KEY_BYTES_MAX: usize = 4 * (u16::MAX as usize);

/// Maximum length of a row image, or value of a raw table.
pub const VALUE_BYTES_MAX: usize = 32 << 20;

/// Rejects a cell that is too large. A partition key cannot be too long: [`crate::partition`]
/// rejects it.
///
/// # Errors
///
/// `Invalid`, with the limit and the actual length.
pub fn check(key: CellKeyRef<'_>, value: Option<&[u8]>) -> Result<()> {
    let limits = [
        ("clustering key", key.clustering().len(), CLUSTERING_KEY_BYTES_MAX),
        ("value", value.map_or(0, <[u8]>::len), VALUE_BYTES_MAX),
    ];
    for (what, len, max) in limits {
        if len > max {
            return Err(Error::invalid(format!(
                "a {what} of {len} bytes is too long: at most {max} bytes are stored"
            )));
        }
    }
    Ok(())
}
