//! The coordination map of a cluster: the encoding of the commit table for each range of starts.
//!
//! A leader hands out no timestamp beyond the `valid_through` that it has read; a migration is one
//! compare-and-set.

use carnet_base::{Encoding, Error, Result};

pub use carnet_base::EncodingMap;

/// Rejects the first encoding: with a row for each entry there is no row to fence.
pub(crate) fn check(encoding: Encoding) -> Result<()> {
    match encoding {
        Encoding::V1 => Err(Error::invalid(
            "the commit table's encoding v1 has no rows that could be fenced: a cluster has v2 \
             or v3",
        )),
        Encoding::V2 | Encoding::V3 => Ok(()),
    }
}
