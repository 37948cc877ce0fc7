//! What goes into a merge and what comes out.

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use crate::manifest::FlatRange;

/// One version of a cell, on loan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// When it committed: among the versions of a key, its name.
    pub commit: Timestamp,
    /// The start timestamp of the transaction that wrote it.
    pub start: Timestamp,
    /// When it expires, in seconds since 1970.
    pub expiry: Option<u64>,
    /// The row image or value; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
}

/// A cursor over the cells of one input: keys ascending, the versions of a key newest first.
///
/// What it lends is good until it moves, so that a block is decoded in place and nothing is
/// copied but what is kept.
pub trait Source {
    /// Returns the key that the cursor stands on; `None` at the end.
    fn key(&self) -> Option<&[u8]>;

    /// Returns the version that the cursor stands on. It is asked for only where there is a key.
    fn cell(&self) -> Cell<'_>;

    /// Moves on by one version.
    ///
    /// # Errors
    ///
    /// As the input says; the merge ends with it.
    fn advance(&mut self) -> Result<()>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn key(&self) -> Option<&[u8]> {
        (**self).key()
    }

    fn cell(&self) -> Cell<'_> {
        (**self).cell()
    }

    fn advance(&mut self) -> Result<()> {
        (**self).advance()
    }
}

/// Takes what a merge puts out, in order.
pub trait Sink {
    /// Learns the key of the next versions: a place where one file may end and another begin.
    ///
    /// # Errors
    ///
    /// As the output says; the merge ends with it.
    fn begin_key(&mut self, key: &[u8]) -> Result<()>;

    /// Takes one version of that key; versions come newest first.
    ///
    /// # Errors
    ///
    /// As the output says; the merge ends with it.
    fn push(&mut self, key: &[u8], cell: Cell<'_>) -> Result<()>;

    /// Learns that the version that came last will [pass](super::GcHook::passes).
    fn will_pass(&mut self) {}
}

/// When a range tombstone was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeVersion {
    /// It hides versions of smaller commits.
    pub commit: Timestamp,
    /// The start timestamp of the transaction that wrote it.
    pub start: Timestamp,
}

/// A range of keys and every range tombstone that covers it, the newest first.
///
/// The fragments of one file never overlap: where range tombstones do, they are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The first key within.
    pub lower: Bytes,
    /// The first key behind.
    pub upper: Bytes,
    /// At least one, commits descending.
    pub versions: Vec<RangeVersion>,
}

impl Fragment {
    /// Returns the part of it that lies within a range, if there is one.
    #[must_use]
    pub fn within(&self, range: &FlatRange) -> Option<Self> {
        let lower = self.lower.clone().max(range.lower.clone());
        let upper = self.upper.clone().min(range.upper.clone());
        (lower < upper).then(|| Self { lower, upper, versions: self.versions.clone() })
    }
}
