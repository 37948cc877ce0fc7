//! The coordination map of a cluster: which encoding of the commit table is in force for which
//! starts.
//!
//! A leader hands out no timestamp beyond the `valid_through` that it has read; a migration is one
//! compare-and-set.

use carnet_base::{Encoding, Error, Result};

pub use carnet_base::EncodingMap;

/// Refuses the first encoding: a row of its own for each entry leaves nothing to fence.
pub(crate) fn check(encoding: Encoding) -> Result<()> {
    match encoding {
        Encoding::V1 => Err(Error::invalid(
            "the commit table's encoding v1 has no rows that could be fenced: a cluster has v2 \
             or v3",
        )),
        Encoding::V2 | Encoding::V3 => Ok(()),
    }
}
