//! Summary of a commit table, beside its entries.

use carnet_base::{Encoding, Timestamp};

/// State of a commit table when its entries were listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitListing {
    /// Encodings, each with its first start, in order.
    pub encodings: Vec<(Timestamp, Encoding)>,
    /// Last start that has an encoding.
    pub valid_through: Timestamp,
    /// Entries below this mark may have been swept: a missing one there tells nothing.
    pub swept_below: Timestamp,
}
