//! Rows of a copy that was put back: what a restore does to them, and nobody else.

use std::future::Future;

use carnet_base::Bytes;

use super::commit_rows::{CommitRow, CommitRows, EntryPage, RowAnswer};
use super::fault::Faulty;

/// An entry to be written over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overwrite {
    /// The column.
    pub column: Bytes,
    /// What `s` must be; `None` where there is none.
    pub expected: Option<Bytes>,
    /// What `s` becomes.
    pub staged: Bytes,
    /// What `c` becomes; `None` takes it away.
    pub confirmed: Option<Bytes>,
}

/// Changes what is final, where the only process is the one that restores.
///
/// Each replica has a copy of its own moment. What one of them alone has counts here: a read at
/// QUORUM could miss it now and find it later.
pub trait RestoredRows: CommitRows {
    /// Reads at most `limit` entries of a row as [`CommitRows::scan_entries`] does, but what any
    /// replica has. It needs all of them.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn scan_replicas(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> impl Future<Output = Faulty<EntryPage>> + Send;

    /// Writes entries over conditionally, all or none. A refusal need not name what is there.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn overwrite(
        &self,
        row: &CommitRow,
        entries: &[Overwrite],
    ) -> impl Future<Output = Faulty<RowAnswer>> + Send;
}
