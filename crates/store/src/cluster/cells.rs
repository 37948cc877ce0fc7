//! Versions of cells on a cluster: blind writes, QUORUM reads, and deletes by the sweep only.

use std::future::Future;

use carnet_base::{Bytes, CellKey, KeyRange, PageLimit, TableId, Timestamp, Version};

use super::fault::Faulty;
use crate::cell_store::RangeRequest;
use crate::context::Context;

/// Number of a write within its transaction; replicas use it as the write time.
///
/// Of two writes of one version the larger number wins, regardless of clocks and of the order of
/// arrival. The write time of a physical delete lies above all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Statement(pub u32);

/// A version to write, without a stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionWrite {
    /// Key of the cell.
    pub key: CellKey,
    /// Start S of the transaction, which names the version.
    pub start: Timestamp,
    /// Number of the write within the transaction.
    pub statement: Statement,
    /// Row image or byte string; `None` is a tombstone, a version like any other.
    pub payload: Option<Bytes>,
}

/// Name of a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionName {
    /// Key of the cell.
    pub key: CellKey,
    /// Start of its transaction.
    pub start: Timestamp,
}

/// Number of replicas that a delete waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// A majority of the replicas.
    Quorum,
    /// All replicas: no deleted version comes back.
    All,
}

/// All versions of a cell, newest start first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellVersions {
    /// Key of the cell.
    pub key: CellKey,
    /// Versions of the cell.
    pub versions: Vec<Version>,
}

/// A page of a range, with versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPage {
    /// Cells with their versions, in the requested order.
    pub cells: Vec<CellVersions>,
    /// Rest of the range. A page may be empty although more follows.
    pub resume: Option<KeyRange>,
}

/// Stores versions of cells on the replicas of a cluster.
///
/// Reads use QUORUM: they see every write that was acknowledged before they began, and may see
/// others. They compare starts only; the caller decides visibility. A stamp without its version
/// does not count as a version.
pub trait ClusterCells: Send + Sync + 'static {
    /// Creates storage for a table's cells in advance. Reads and writes create it themselves if
    /// this was not called.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn create_table(&self, table: TableId) -> impl Future<Output = Faulty<()>> + Send {
        let _ = table;
        async { Ok(()) }
    }

    /// Writes versions blindly, in any order, not atomically. Completes when a majority has all of
    /// them.
    ///
    /// The same writes may be sent again at any time.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be stored.
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

    /// Reads the newest version of each cell whose start is at most `through`, in the order of the
    /// keys. The cells may be read at different moments.
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

    /// Reads a cell's newest versions whose starts are at most `through`, newest first: at most
    /// `max` of them, and fewer only if the cell has no more.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn read_chain(
        &self,
        context: &Context,
        key: &CellKey,
        through: Timestamp,
        max: usize,
    ) -> impl Future<Output = Faulty<Vec<Version>>> + Send {
        async move {
            let (mut chain, mut next) = (Vec::new(), Some(through));
            while chain.len() < max
                && let Some(through) = next
                && let Some(version) = self.read_version(context, key, through).await?
            {
                next = version.start.previous();
                chain.push(version);
            }
            Ok(chain)
        }
    }

    /// Reads a page of a range, with one version of each cell: the newest whose start is at most
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
    ) -> impl Future<Output = Faulty<VersionPage>> + Send;

    /// Reads a page of a range with all versions of each cell, for the sweep.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn scan_versions(
        &self,
        range: &KeyRange,
        limit: PageLimit,
    ) -> impl Future<Output = Faulty<VersionPage>> + Send;

    /// Returns the tables that may have cells, in the order of their ids.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault).
    fn tables(&self) -> impl Future<Output = Faulty<Vec<TableId>>> + Send;

    /// Writes commit timestamps into versions, blindly. Completes when a majority has all of them.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be stamped.
    fn stamp_versions(
        &self,
        stamps: &[(VersionName, Timestamp)],
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Deletes versions with their stamps, permanently: a write of such a version that arrives
    /// later has no effect.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be deleted.
    fn delete_versions(
        &self,
        versions: &[VersionName],
        acknowledge: Acknowledge,
    ) -> impl Future<Output = Faulty<()>> + Send;

    /// Deletes every version of a cell that is older than the named one, with its stamp, whether it
    /// was ever read or not. A write of such a version that arrives later has no effect.
    ///
    /// # Errors
    ///
    /// A [`Fault`](super::Fault): after either kind some of them may be deleted.
    fn delete_older(
        &self,
        than: &[VersionName],
        acknowledge: Acknowledge,
    ) -> impl Future<Output = Faulty<()>> + Send;
}
