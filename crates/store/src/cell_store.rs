//! Where versions of cells are kept.

use std::future::Future;

use carnet_base::{CellKey, CellPage, KeyRange, Result, Timestamp, Version};

use crate::context::Context;

/// Says which version of a cell is wanted: the newest that may be visible at a snapshot.
///
/// A store skips versions whose *stamp* says that they committed after `read`. A version without
/// a stamp is a candidate: whoever asked looks its outcome up and, where it is not visible, asks
/// again `below` its start. Per cell the order of starts is the order of commits, so that what
/// lies below is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The snapshot R.
    pub read: Timestamp,
    /// Only versions whose start is smaller than this.
    pub below: Timestamp,
}

impl At {
    /// Asks for the newest version that may be visible at a snapshot.
    #[must_use]
    pub const fn snapshot(read: Timestamp) -> Self {
        Self { read, below: Timestamp::MAX }
    }

    /// Asks for the next older candidate.
    #[must_use]
    pub const fn below(self, start: Timestamp) -> Self {
        Self { read: self.read, below: start }
    }

    /// Tells whether a version is a candidate.
    #[must_use]
    pub fn admits(&self, version: &Version) -> bool {
        // A transaction that started at or after R committed after R as well: S > R ⇒ C > R.
        version.start < self.below
            && version.start <= self.read
            && version.commit.is_none_or(|commit| commit <= self.read)
    }
}

/// How much one page may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimit {
    /// At most this many cells; at least 1.
    pub cells: usize,
    /// No further cell once this many bytes of keys and payloads are in the page.
    pub bytes: usize,
}

impl PageLimit {
    /// A page of that many cells, of at most 1 MiB and one cell.
    #[must_use]
    pub const fn cells(cells: usize) -> Self {
        Self { cells, bytes: 1 << 20 }
    }
}

/// Asks for a page of a range.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    /// The cells.
    pub range: KeyRange,
    /// The snapshot R.
    pub read: Timestamp,
    /// From the last cell to the first.
    pub reverse: bool,
    /// How much the page may hold.
    pub limit: PageLimit,
}

/// A page of a range: owned, so that nothing is pinned between pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// For each cell its newest candidate, in the order asked for. A store may leave a cell out
    /// whose newest candidate is a stamped tombstone: it is not there at this snapshot.
    pub cells: Vec<(CellKey, Version)>,
    /// What is left of the range. A page may be short, even empty, and still have more.
    pub resume: Option<KeyRange>,
}

/// Keeps versions of cells.
///
/// Every promise is a test in `conformance`.
pub trait CellStore: Send + Sync + 'static {
    /// Finds a cell's newest candidate.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Corrupted`, `Timeout`, or `TooOld` where the snapshot is swept.
    fn get(
        &self,
        context: &Context,
        key: &CellKey,
        at: At,
    ) -> impl Future<Output = Result<Option<Version>>> + Send;

    /// Finds the newest candidates of many cells, in the order of the keys.
    ///
    /// # Errors
    ///
    /// As [`CellStore::get`].
    fn get_many(
        &self,
        context: &Context,
        keys: &[CellKey],
        at: At,
    ) -> impl Future<Output = Result<Vec<Option<Version>>>> + Send {
        async move {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.push(self.get(context, key, at).await?);
            }
            Ok(found)
        }
    }

    /// Reads a page of a range, each cell's newest candidate.
    ///
    /// # Errors
    ///
    /// As [`CellStore::get`].
    fn range(
        &self,
        context: &Context,
        request: &RangeRequest,
    ) -> impl Future<Output = Result<Page>> + Send;

    /// As [`CellStore::range`], of cells that are lent, from a store that knows of each cell of the
    /// page which version is visible; another one returns `None`.
    ///
    /// # Errors
    ///
    /// As [`CellStore::get`].
    fn page(
        &self,
        context: &Context,
        request: &RangeRequest,
    ) -> impl Future<Output = Result<Option<CellPage>>> + Send {
        let _ = (context, request);
        async { Ok(None) }
    }
}
