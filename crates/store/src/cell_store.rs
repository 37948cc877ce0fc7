//! Storage of cell versions.

use carnet_base::{Call, CellKey, KeyRange, PageLimit, TableId, Timestamp, Version};

use crate::candidates::CandidatePage;
use crate::context::Context;

/// Selects a version of a cell: the newest that may be visible at a snapshot.
///
/// A store skips versions whose *stamp* says that they committed after `read`. A version without a
/// stamp is a candidate: the reader looks up its outcome and, if it is not visible, reads again
/// `below` its start. The order of a cell's starts is the order of its commits, so versions below
/// are older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The snapshot R.
    pub read: Timestamp,
    /// Only versions with a smaller start.
    pub below: Timestamp,
}

impl At {
    /// Selects the newest version that may be visible at a snapshot.
    #[must_use]
    pub const fn snapshot(read: Timestamp) -> Self {
        Self { read, below: Timestamp::MAX }
    }

    /// Selects the next older candidate.
    #[must_use]
    pub const fn below(self, start: Timestamp) -> Self {
        Self { read: self.read, below: start }
    }

    /// Returns `true` if a version is a candidate.
    #[must_use]
    pub fn admits(&self, version: &Version) -> bool {
        // A transaction that started after R also committed after R: S > R ⇒ C > R.
        version.start < self.below
            && version.start <= self.read
            && version.commit.is_none_or(|commit| commit <= self.read)
    }
}

/// Request for a page of a range.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    /// Range of cells.
    pub range: KeyRange,
    /// The snapshot R.
    pub read: Timestamp,
    /// Whether to read from the last cell to the first.
    pub reverse: bool,
    /// Maximum size of the page.
    pub limit: PageLimit,
}

/// Stores versions of cells. The trait is object-safe, see [`Store`](crate::Store).
///
/// Every promise is a test in `conformance`.
pub trait CellStore: Send + Sync + 'static {
    /// Returns a cell's newest candidate.
    ///
    /// # Errors
    ///
    /// `Unavailable`, `Corrupted`, `Timeout`, or `TooOld` if the snapshot has been swept.
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>>;

    /// Returns the newest candidates of cells in the order of the keys, at least of the first cell.
    /// Once payloads of `bytes_max` bytes have been read, a store begins no further request: the
    /// results are those of the first keys.
    ///
    /// # Errors
    ///
    /// See [`CellStore::get`].
    fn get_many<'a>(
        &'a self,
        context: &'a Context,
        keys: &'a [CellKey],
        at: At,
        bytes_max: usize,
    ) -> Call<'a, Vec<Option<Version>>> {
        Call::boxed(async move {
            let (mut found, mut bytes) = (Vec::with_capacity(keys.len()), 0);
            for key in keys {
                let version = self.get(context, key, at).await?;
                bytes += version.as_ref().map_or(0, Version::payload_bytes);
                found.push(version);
                if bytes >= bytes_max {
                    break;
                }
            }
            Ok(found)
        })
    }

    /// Returns `true` if a version is a delta, which the reader has to merge with older versions. A
    /// store that merges them itself returns `false`.
    fn is_delta(&self, table: TableId, version: &Version) -> bool {
        let _ = (table, version);
        false
    }

    /// Returns the newest candidates of a cell, newest first: at most `max` of them, and fewer only
    /// if the cell has no more.
    ///
    /// # Errors
    ///
    /// See [`CellStore::get`].
    fn get_chain<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
        max: usize,
    ) -> Call<'a, Vec<Version>> {
        Call::boxed(async move {
            let (mut chain, mut at) = (Vec::new(), at);
            while chain.len() < max
                && let Some(version) = self.get(context, key, at).await?
            {
                at = at.below(version.start);
                chain.push(version);
            }
            Ok(chain)
        })
    }

    /// Takes note of the row that a reader at a snapshot made of `versions` versions: the result has
    /// the start and the commit of the newest of them. A store may cache it, or write it in place of
    /// that version.
    fn merged(
        &self,
        context: &Context,
        key: &CellKey,
        row: &Version,
        read: Timestamp,
        versions: usize,
    ) {
        let _ = (context, key, row, read, versions);
    }

    /// Reads a page of a range, with each cell's newest candidate.
    ///
    /// # Errors
    ///
    /// See [`CellStore::get`].
    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage>;
}
