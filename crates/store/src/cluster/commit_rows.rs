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

/// The tables of commit entries, one for each encoding that a cluster can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitTable {
    /// Encoding v2, with the fence: a single value for each entry, `s`.
    V2,
    /// Encoding v3: `s` and `c`.
    V3,
}

/// Name of a row of a commit table: one partition of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitRow {
    /// Table of the row.
    pub table: CommitTable,
    /// Partition key of the row.
    pub row: Bytes,
}

/// An entry to write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewEntry {
    /// Column, that is, the clustering key.
    pub column: Bytes,
    /// Value of `s`, or of `c`.
    pub value: Bytes,
}

/// A stored entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Name of the column.
    pub column: Bytes,
    /// Value written conditionally, `s`.
    pub staged: Option<Bytes>,
    /// The same value, written once it was settled, `c`.
    pub confirmed: Option<Bytes>,
}

/// Answer to a conditional write to a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowAnswer {
    /// The whole write was applied.
    Applied,
    /// Nothing was written, because a condition did not hold.
    Refused {
        /// Epoch of the row; `None` if it has none.
        epoch: Option<Epoch>,
        /// The named entries that exist, in any order. Cassandra omits absent entries, ScyllaDB
        /// returns them without values: match by column.
        existing: Vec<StoredEntry>,
    },
}

/// A page of a row's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryPage {
    /// Entries in the order of columns.
    pub entries: Vec<StoredEntry>,
    /// Last column that was read, if more follow.
    pub resume_after: Option<Bytes>,
}

/// Stores rows of commit entries.
///
/// Conditional writes to one row are linearizable, at SERIAL and QUORUM. A write that ends in
/// [`Fault::Unknown`](super::Fault::Unknown) may take effect at any later time, until another
/// conditional write to the row has been answered: that one completes it, or makes it impossible.
pub trait CommitRows: Send + Sync + 'static {
    /// Writes entries, all or none: none of them may exist, and the row's epoch must be `fence`, if
    /// given.
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

    /// Writes `s` of entries again if each has the given value, all or none. A value that was seen
    /// on one replica is on a majority afterwards, or never existed.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn touch(
        &self,
        row: &CommitRow,
        entries: &[NewEntry],
    ) -> impl Future<Output = Faulty<RowAnswer>> + Send;

    /// Writes `c` of entries, blindly. An entry only ever gets one value of `c`. A confirmation of an
    /// entry that was deleted before may have no effect.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be written.
    fn confirm(
        &self,
        row: &CommitRow,
        entries: &[NewEntry],
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Reads entries at QUORUM; returns the existing ones, in any order.
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
    /// A [`Fault`](super::Fault): after either kind some of them may be deleted.
    fn delete_entries(
        &self,
        row: &CommitRow,
        columns: &[Bytes],
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Changes a row's epoch from `from` conditionally; `None` means that the row has none.
    ///
    /// A refusal has the epoch and no entries.
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
