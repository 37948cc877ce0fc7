//! Input and output of a merge.

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use crate::manifest::{FlatRange, VersionKind};

/// A borrowed version of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Commit timestamp, which identifies the version of a key.
    pub commit: Timestamp,
    /// Start timestamp of the transaction that wrote it.
    pub start: Timestamp,
    /// Expiry, in seconds since 1970.
    pub expiry: Option<u64>,
    /// Row image or value; `None` for a tombstone.
    pub payload: Option<&'a [u8]>,
}

/// Cursor over the cells of one input: keys ascending, the versions of a key newest first.
///
/// Borrowed keys and cells are valid until the cursor moves, so blocks are decoded in place and
/// only surviving versions are copied.
pub trait Source {
    /// Returns the current key; `None` at the end.
    fn key(&self) -> Option<&[u8]>;

    /// Returns the current version. Called only if there is a current key.
    fn cell(&self) -> Cell<'_>;

    /// Moves to the next version.
    ///
    /// # Errors
    ///
    /// Errors of the input; the merge fails with it.
    fn advance(&mut self) -> Result<()>;
}

/// Receives the output of a merge, in order.
pub trait Sink {
    /// Starts a key; an output file may end before it.
    ///
    /// # Errors
    ///
    /// Errors of the output; the merge fails with it.
    fn begin_key(&mut self, key: &[u8]) -> Result<()>;

    /// Receives a version of the current key; versions come newest first. The kind tells what later
    /// merges of the output can drop.
    ///
    /// # Errors
    ///
    /// Errors of the output; the merge fails with it.
    fn push(&mut self, key: &[u8], cell: Cell<'_>, kind: VersionKind) -> Result<()>;

    /// Records that the last version will [pass](super::GcHook::passes); with `keeps_newest` once a
    /// later cell of its table has been passed as well.
    fn will_pass(&mut self, keeps_newest: bool) {
        let _ = keeps_newest;
    }
}

/// Version of a range tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeVersion {
    /// Commit timestamp: hides versions of smaller commits.
    pub commit: Timestamp,
    /// Start timestamp of the transaction that wrote it.
    pub start: Timestamp,
}

/// A key range and every range tombstone over it, newest first.
///
/// The fragments of one file never overlap: overlapping range tombstones are split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Lower bound, inclusive.
    pub lower: Bytes,
    /// Upper bound, exclusive.
    pub upper: Bytes,
    /// Versions in descending order of commits; at least one.
    pub versions: Vec<RangeVersion>,
}

impl Fragment {
    /// Returns the part of the fragment within a range, if any.
    #[must_use]
    pub fn within(&self, range: &FlatRange) -> Option<Self> {
        let lower = self.lower.clone().max(range.lower.clone());
        let upper = self.upper.clone().min(range.upper.clone());
        (lower < upper).then(|| Self { lower, upper, versions: self.versions.clone() })
    }
}
