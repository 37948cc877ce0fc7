//! Versions of cells on a cluster: written blindly, read at QUORUM, deleted by the sweep alone.

use std::future::Future;

use carnet_base::{Bytes, CellKey, KeyRange, TableId, Timestamp, Version};

use super::fault::Faulty;
use crate::cell_store::{Page, PageLimit, RangeRequest};
use crate::context::Context;

/// The number of a write within its transaction, and the write time that replicas see.
///
/// Of two writes of one version the one with the larger number stays, whatever the clocks say and
/// whichever arrives last. The write time of a physical delete lies above all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Statement(pub u32);

/// A version to be written, without a stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionWrite {
    /// The cell.
    pub key: CellKey,
    /// The start S of its transaction, which names the version.
    pub start: Timestamp,
    /// Its number within the transaction.
    pub statement: Statement,
    /// The row image or byte string; `None` is a tombstone, a version like any other.
    pub payload: Option<Bytes>,
}

/// Names a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionName {
    /// The cell.
    pub key: CellKey,
    /// The start of its transaction.
    pub start: Timestamp,
}

/// How many replicas a delete waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// A majority.
    Quorum,
    /// All of them: nothing that was deleted comes back.
    All,
}

/// All versions of a cell, the newest start first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellVersions {
    /// The cell.
    pub key: CellKey,
    /// Its versions.
    pub versions: Vec<Version>,
}

/// A page of a scan of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPage {
    /// Cells with all their versions, in the order of cells.
    pub cells: Vec<CellVersions>,
    /// What is left of the range. A page may be empty and still have more.
    pub resume: Option<KeyRange>,
}

/// Keeps versions of cells on the replicas of a cluster.
///
/// Reads are at QUORUM: they see every write that was acknowledged before they began, and may see
/// others. They compare starts alone; what is visible the caller decides. A stamp without the
/// version that it belongs to is no version.
pub trait ClusterCells: Send + Sync + 'static {
    /// Makes room for a table's cells, so that nobody who reads or writes them has to: they do it
    /// themselves where this was not called.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn create_table(&self, table: TableId) -> impl Future<Output = Faulty<()>> + Send {
        let _ = table;
        async { Ok(()) }
    }

    /// Writes versions, blindly, in any order, not as one. Done when a majority has all of them.
    ///
    /// The same writes may be sent again at any time.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be there.
    fn write_versions(
        &self,
        context: &Context,
        writes: &[VersionWrite],
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Reads a cell's newest version whose start is at most `through`.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn read_version(
        &self,
        context: &Context,
        key: &CellKey,
        through: Timestamp,
    ) -> impl Future<Output = Faulty<Option<Version>>> + Send;

    /// Reads of each of many cells the newest version whose start is at most `through`, in the
    /// order of the keys. They may be read at different moments.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn read_versions(
        &self,
        context: &Context,
        keys: &[CellKey],
        through: Timestamp,
    ) -> impl Future<Output = Faulty<Vec<Option<Version>>>> + Send {
        async move {
            let mut versions = Vec::with_capacity(keys.len());
            for key in keys {
                versions.push(self.read_version(context, key, through).await?);
            }
            Ok(versions)
        }
    }

    /// Reads a page of a range, of each cell the newest version whose start is at most
    /// `request.read`.
    ///
    /// A range lies in one partition, or spans whole partitions in the order of tokens.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn read_range(
        &self,
        context: &Context,
        request: &RangeRequest,
    ) -> impl Future<Output = Faulty<Page>> + Send;

    /// Reads a page of a range with all versions of each cell: what the sweep looks at.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn scan_versions(
        &self,
        range: &KeyRange,
        limit: PageLimit,
    ) -> impl Future<Output = Faulty<VersionPage>> + Send;

    /// Returns the tables that cells may lie in, in the order of their ids.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn tables(&self) -> impl Future<Output = Faulty<Vec<TableId>>> + Send;

    /// Writes commit timestamps into versions, blindly. Done when a majority has all of them.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be stamped.
    fn stamp_versions(
        &self,
        stamps: &[(VersionName, Timestamp)],
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Deletes versions with their stamps, for good: a write of one that arrives later is lost.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be gone.
    fn delete_versions(
        &self,
        versions: &[VersionName],
        acknowledge: Acknowledge,
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Deletes of each cell every version that is older than the one named, with its stamp,
    /// whether anybody has seen it or not: a write of one that arrives later is lost.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be gone.
    fn delete_older(
        &self,
        than: &[VersionName],
        acknowledge: Acknowledge,
    ) -> impl Future<Output = Faulty<()>> + Send;
}
