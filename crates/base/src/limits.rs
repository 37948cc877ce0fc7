//! How large what is stored can be. Beyond it are errors that name the limit; the table for users
//! is in `docs/limits.md`.
//!
//! A transaction checks them as it writes ([`check`]). The storage engine refuses the same lengths
//! to whoever uses it without transactions, and no decoder believes in longer ones.

use crate::cell::CellKeyRef;
use crate::error::{Error, Result};

/// The longest partition key, as Cassandra serializes it: its length takes 16 bits.
pub const PARTITION_KEY_BYTES_MAX: usize = u16::MAX as usize;

/// The longest clustering key, or key of a raw table. Encoded so that bytes have the order of
/// values, what Cassandra stores in 65,535 bytes takes up to twice the room, and some for its frame.
pub const CLUSTERING_KEY_BYTES_MAX: usize = 4 * (u16::MAX as usize);

/// The largest row image, or value of a raw table.
pub const VALUE_BYTES_MAX: usize = 32 << 20;

/// Refuses a cell that is too large to be stored. A partition key cannot be too long:
/// [`crate::partition`] refuses it.
///
/// # Errors
///
/// `Invalid`, naming the limit and how long the bytes are.
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
