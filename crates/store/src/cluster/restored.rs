//! Operations on the rows of a restored copy, for restores only.

use std::future::Future;

use carnet_base::Bytes;

use super::commit_rows::{CommitRow, CommitRows, EntryPage, RowAnswer};
use super::fault::Faulty;

/// An entry to overwrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overwrite {
    /// Name of the column.
    pub column: Bytes,
    /// Expected value of `s`; `None` if there is none.
    pub expected: Option<Bytes>,
    /// New value of `s`.
    pub staged: Bytes,
    /// New value of `c`; `None` removes it.
    pub confirmed: Option<Bytes>,
}

/// Changes final entries while the restore is the only process.
///
/// Each replica was copied at a different moment. A value on a single replica counts here: a QUORUM
/// read could miss it now and find it later.
pub trait RestoredRows: CommitRows {
    /// Like [`CommitRows::scan_entries`], but returns the entries of any replica. It needs all
    /// replicas.
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

    /// Overwrites entries conditionally, all or none. A refusal need not name the stored values.
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
