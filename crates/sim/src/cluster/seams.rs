//! The interfaces of a process over a cluster, correct or with a broken rule.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use carnet_base::sync::lock;
use carnet_base::{
    Bytes, CellKey, CommitEntry, Encoding, Epoch, KeyRange, TableId, Tasks, Timestamp, Version,
};
use carnet_data::RowDelta;
use carnet_store::cluster::{
    Acknowledge, ClusterCells, CommitRow, CommitRows, EntryPage, Faulty, NewEntry, ReadMode,
    Register, Registers, RowAnswer, SetAnswer, Statement, StoredEntry, VersionName, VersionPage,
    VersionWrite,
};
use carnet_store::{Context, PageLimit, RangeRequest, looks_like_delta};

use super::weak::WeakCluster;
use crate::executor::SimTasks;
use crate::mutant::Mutant;
use crate::workload::is_derived;

/// Number of the statement that writes a transaction's versions; rows of deltas have a larger one.
const WRITTEN: Statement = Statement(1);
/// Number of the row that readers and the leader write in place of a delta.
const MERGED: Statement = Statement(2);

/// The cluster, as a process with a broken rule uses it.
pub(super) struct Seam {
    pub(super) inner: WeakCluster,
    pub(super) tasks: SimTasks,
    pub(super) mutant: Option<Mutant>,
    /// Value of each register when it was last read or set.
    pub(super) believed: Arc<Mutex<BTreeMap<Register, Bytes>>>,
    /// Versions as they were first read.
    pub(super) seen: Arc<Mutex<BTreeMap<(CellKey, Timestamp), Version>>>,
}

impl Seam {
    fn breaks(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Returns a version as it was first read.
    fn first_seen(&self, key: &CellKey, version: &Version) -> Version {
        let mut seen = lock(&self.seen);
        seen.entry((key.clone(), version.start)).or_insert_with(|| version.clone()).clone()
    }

    /// Changes the versions below a delta.
    fn break_chain(&self, key: &CellKey, chain: Vec<Version>) -> Vec<Version> {
        let is_broken =
            |version: &Version| looks_like_delta(version) && version.start.get().is_multiple_of(7);
        let Some(mutant) = self.mutant else { return chain };
        let chain = chain.into_iter();
        match mutant {
            Mutant::DeltaLeftOut => {
                let empty =
                    |version: &Version| is_broken(version).then(|| RowDelta::new(1).encode());
                chain
                    .map(|version| Version {
                        payload: empty(&version).or(version.payload),
                        ..version
                    })
                    .collect()
            }
            Mutant::DeltaMergedTwice => {
                let times = |version: &Version| if is_broken(version) { 2 } else { 1 };
                chain.flat_map(|version| vec![version.clone(); times(&version)]).collect()
            }
            Mutant::TombstoneBelowDeltaPassed => {
                chain.filter(|version| version.payload.is_some()).collect()
            }
            Mutant::DeltasReadOnce => chain.map(|version| self.first_seen(key, &version)).collect(),
            _ => chain.collect(),
        }
    }

    fn believe(&self, register: Register, value: &Bytes) {
        let mut believed = lock(&self.believed);
        believed.insert(register, value.clone());
    }

    fn believed(&self, register: Register) -> Option<Bytes> {
        let believed = lock(&self.believed);
        believed.get(&register).cloned()
    }
}

impl ClusterCells for Seam {
    async fn write_versions(&self, context: &Context, writes: &[VersionWrite]) -> Faulty<()> {
        if self.breaks(Mutant::CellsNotAwaited) {
            let (inner, writes) = (self.inner.clone(), writes.to_vec());
            self.tasks.spawn(Box::pin(async move {
                let _ = inner.write_versions(&Context::unbounded(), &writes).await;
            }));
            return Ok(());
        }
        if self.breaks(Mutant::ChainsNotFolded) {
            let writes: Vec<VersionWrite> =
                writes.iter().filter(|write| write.statement != MERGED).cloned().collect();
            return self.inner.write_versions(context, &writes).await;
        }
        if self.breaks(Mutant::DeltasSweptWithoutRow) {
            let is_row = |write: &VersionWrite| write.statement > WRITTEN;
            let writes: Vec<VersionWrite> =
                writes.iter().filter(|write| !is_row(write)).cloned().collect();
            return self.inner.write_versions(context, &writes).await;
        }
        if self.breaks(Mutant::DerivedCellNotDeleted) {
            let is_lost =
                |write: &VersionWrite| write.payload.is_none() && is_derived(write.key.table());
            let writes: Vec<VersionWrite> =
                writes.iter().filter(|write| !is_lost(write)).cloned().collect();
            return self.inner.write_versions(context, &writes).await;
        }
        self.inner.write_versions(context, writes).await
    }

    async fn read_version(
        &self,
        context: &Context,
        key: &CellKey,
        through: Timestamp,
    ) -> Faulty<Option<Version>> {
        let read = self.inner.read_version(context, key, through).await;
        if (self.breaks(Mutant::RereadLeftOut) || self.breaks(Mutant::DeltasReadOnce))
            && let Ok(Some(version)) = &read
        {
            return Ok(Some(self.first_seen(key, version)));
        }
        read
    }

    async fn read_chain(
        &self,
        context: &Context,
        key: &CellKey,
        through: Timestamp,
        max: usize,
    ) -> Faulty<Vec<Version>> {
        let chain = self.inner.read_chain(context, key, through, max).await?;
        Ok(self.break_chain(key, chain))
    }

    async fn read_versions(
        &self,
        context: &Context,
        keys: &[CellKey],
        through: Timestamp,
    ) -> Faulty<Vec<Option<Version>>> {
        let mut read = self.inner.read_versions(context, keys, through).await?;
        if self.breaks(Mutant::RereadLeftOut) {
            for (key, version) in keys.iter().zip(&mut read) {
                *version = version.take().map(|version| self.first_seen(key, &version));
            }
        }
        Ok(read)
    }

    async fn read_range(&self, context: &Context, request: &RangeRequest) -> Faulty<VersionPage> {
        self.inner.read_range(context, request).await
    }

    async fn scan_versions(&self, range: &KeyRange, limit: PageLimit) -> Faulty<VersionPage> {
        self.inner.scan_versions(range, limit).await
    }

    async fn tables(&self) -> Faulty<Vec<TableId>> {
        self.inner.tables().await
    }

    async fn stamp_versions(&self, stamps: &[(VersionName, Timestamp)]) -> Faulty<()> {
        if self.breaks(Mutant::EntriesSweptUnstamped) {
            return Ok(());
        }
        self.inner.stamp_versions(stamps).await
    }

    async fn delete_versions(&self, names: &[VersionName], all: Acknowledge) -> Faulty<()> {
        self.inner.delete_versions(names, all).await
    }

    async fn delete_older(&self, than: &[VersionName], all: Acknowledge) -> Faulty<()> {
        let all = if self.breaks(Mutant::TombstoneSweptEarly) { Acknowledge::Quorum } else { all };
        self.inner.delete_older(than, all).await
    }
}

/// Returns `true` if entries of the encoding with confirmations are abort markers.
fn are_aborts(row: &CommitRow, entries: &[NewEntry]) -> bool {
    entries.iter().all(|NewEntry { column, value }| {
        let start = Encoding::V3.start_of(&row.row, column);
        let entry = start.and_then(|start| Encoding::V3.decode(start, value));
        entry.is_ok_and(|entry| entry == CommitEntry::Aborted)
    })
}

impl CommitRows for Seam {
    async fn put_unless_exists(
        &self,
        row: &CommitRow,
        fence: Option<Epoch>,
        entries: &[NewEntry],
    ) -> Faulty<RowAnswer> {
        // Entries of commits are written behind a fence, abort markers without one.
        if fence.is_none() && self.breaks(Mutant::AbsenceNotSettled) {
            return Ok(RowAnswer::Applied);
        }
        let fence = fence.filter(|_| !self.breaks(Mutant::FenceLeftOut));
        let put = self.inner.put_unless_exists(row, fence, entries).await;
        match put {
            Err(fault) if fault.is_unknown() && self.breaks(Mutant::UnknownPutCounts) => {
                Ok(RowAnswer::Applied)
            }
            put => put,
        }
    }

    async fn touch(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<RowAnswer> {
        if self.breaks(Mutant::TouchLeftOut) {
            return Ok(RowAnswer::Applied);
        }
        self.inner.touch(row, entries).await
    }

    async fn confirm(&self, row: &CommitRow, entries: &[NewEntry]) -> Faulty<()> {
        let is_unsettled = self.breaks(Mutant::AbsenceNotSettled) && are_aborts(row, entries);
        if is_unsettled || self.breaks(Mutant::TouchLeftOut) {
            return Ok(());
        }
        self.inner.confirm(row, entries).await
    }

    async fn read_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<Vec<StoredEntry>> {
        self.inner.read_entries(row, columns).await
    }

    async fn scan_entries(
        &self,
        row: &CommitRow,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Faulty<EntryPage> {
        self.inner.scan_entries(row, after, limit).await
    }

    async fn delete_entries(&self, row: &CommitRow, columns: &[Bytes]) -> Faulty<()> {
        self.inner.delete_entries(row, columns).await
    }

    async fn move_epoch(
        &self,
        row: &CommitRow,
        from: Option<Epoch>,
        to: Epoch,
    ) -> Faulty<RowAnswer> {
        if self.breaks(Mutant::FenceLeftOut) {
            return Ok(RowAnswer::Applied);
        }
        self.inner.move_epoch(row, from, to).await
    }
}

impl Registers for Seam {
    async fn read_register(&self, register: Register, mode: ReadMode) -> Faulty<Option<Bytes>> {
        if register == Register::Coordination
            && self.breaks(Mutant::MapReadOnce)
            && let Some(believed) = self.believed(register)
        {
            return Ok(Some(believed));
        }
        if register == Register::SweepMark
            && mode == ReadMode::Quorum
            && self.breaks(Mutant::SweepMarkUnread)
        {
            return Ok(None);
        }
        let read = self.inner.read_register(register, mode).await;
        if let Ok(Some(value)) = &read {
            self.believe(register, value);
        }
        read
    }

    async fn compare_and_set(
        &self,
        register: Register,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Faulty<SetAnswer> {
        self.inner.compare_and_set(register, expected, new).await
    }
}
