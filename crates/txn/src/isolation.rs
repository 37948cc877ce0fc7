//! Isolation levels.

use std::fmt;

/// Isolation level of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// As if transactions ran one at a time, each between its begin and its acknowledgement.
    ///
    /// Every read, of single cells and of ranges, holds until the commit.
    #[default]
    StrictSerializable,
    /// As if transactions ran one at a time, but a reader may see an older state.
    ///
    /// On a cluster this saves one round trip at the begin of a transaction. On the embedded store,
    /// where a fresh snapshot is free, it is the same as [`Isolation::StrictSerializable`].
    Serializable,
    /// Reads come from one snapshot; only writes of the same cell conflict. Write skew happens.
    Snapshot,
}

impl Isolation {
    /// Returns `true` if the transaction's reads must still hold when it commits.
    #[must_use]
    pub const fn checks_reads(self) -> bool {
        matches!(self, Self::StrictSerializable | Self::Serializable)
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StrictSerializable => "strict serializable",
            Self::Serializable => "serializable",
            Self::Snapshot => "snapshot",
        })
    }
}
