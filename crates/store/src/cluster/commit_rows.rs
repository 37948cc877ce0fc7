//! Rows of the commit table: entries behind a fence, by conditional writes.
//!
//! ```text
//!   row        epoch (of the row)   column   s                    c
//!   0800…00    7                    00       by conditional write the same value, written
//!                                   01       …                    blindly once s is settled
//! ```

use std::future::Future;

use carnet_base::{Bytes, Epoch};

use super::fault::Faulty;

/// The tables that entries lie in, one for each encoding that a cluster can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitTable {
    /// Encoding v2, with the fence: one value for each entry, which is `s`.
    V2,
    /// Encoding v3: `s` and `c`.
    V3,
}

/// Names a row of a commit table: one partition of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitRow {
    /// The table.
    pub table: CommitTable,
    /// The partition key.
    pub row: Bytes,
}

/// An entry to be put.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewEntry {
    /// The column: the clustering key.
    pub column: Bytes,
    /// The value of `s`, or of `c`.
    pub value: Bytes,
}

/// An entry that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// The column.
    pub column: Bytes,
    /// What was written conditionally.
    pub staged: Option<Bytes>,
    /// The same, once it was settled.
    pub confirmed: Option<Bytes>,
}

/// What a conditional write to a row answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowAnswer {
    /// All of it was done.
    Applied,
    /// Nothing was done. Some condition did not hold.
    Refused {
        /// The row's epoch; `None` where it has none.
        epoch: Option<Epoch>,
        /// Of the entries that were named those that are there, in any order. Cassandra leaves
        /// out those that are absent, ScyllaDB names them without values: match by column.
        existing: Vec<StoredEntry>,
    },
}

/// A page of a row's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryPage {
    /// Entries in the order of columns.
    pub entries: Vec<StoredEntry>,
    /// The last column looked at, where there are more behind it.
    pub resume_after: Option<Bytes>,
}

/// Keeps rows of commit entries.
///
/// Conditional writes to one row are linearizable, at SERIAL and QUORUM. One that ends in
/// [`Fault::Unknown`](super::Fault::Unknown) may be done at any later time, until another
/// conditional write to the row has been answered: that one completes it, or makes it impossible.
pub trait CommitRows: Send + Sync + 'static {
    /// Puts entries, all or none: none of them may be there, and the row's epoch must be `fence`
    /// where one is given.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn put_unless_exists(
        &self,
        row: &CommitRow,
        fence: Option<Epoch>,
        entries: &[NewEntry],
    ) -> impl Future<Output = Faulty<RowAnswer>> + Send;

    /// Writes `s` of entries once more, where each is the value named, all or none: what was seen
    /// on one replica is on a majority afterwards, or has never been.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn touch(
        &self,
        row: &CommitRow,
        entries: &[NewEntry],
    ) -> impl Future<Output = Faulty<RowAnswer>> + Send;

    /// Writes `c` of entries, blindly. Only one value ever reaches it.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be written.
    fn confirm(
        &self,
        row: &CommitRow,
        entries: &[NewEntry],
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Reads entries at QUORUM: those that are found, in any order.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn read_entries(
        &self,
        row: &CommitRow,
        columns: &[Bytes],
    ) -> impl Future<Output = Faulty<Vec<StoredEntry>>> + Send;

    /// Reads at most `limit` entries of a row at QUORUM, in the order of columns, behind `after`.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn scan_entries(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> impl Future<Output = Faulty<EntryPage>> + Send;

    /// Deletes entries, never the row: its epoch stays.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be gone.
    fn delete_entries(
        &self,
        row: &CommitRow,
        columns: &[Bytes],
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Moves a row's epoch, conditionally: `from` is what it must be, `None` where it has none.
    ///
    /// A refusal names the epoch and no entries.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn move_epoch(
        &self,
        row: &CommitRow,
        from: Option<Epoch>,
        to: Epoch,
    ) -> impl Future<Output = Faulty<RowAnswer>> + Send;
}
