//! Cells of the weak cluster.

use std::collections::{BTreeMap, BTreeSet};

use carnet_base::{CellKey, KeyRange, TableId, Timestamp, Version};
use carnet_store::cluster::{
    Acknowledge, CellVersions, ClusterCells, Faulty, VersionName, VersionPage, VersionWrite,
};
use carnet_store::{Context, PageLimit, RangeRequest};

use super::handle::WeakCluster;
use super::replica::{Blind, Stored};
use super::state::{QUORUM, REPLICAS};

/// Returns a page of the results of `take` on cells.
fn page_of<T>(
    cells: BTreeMap<CellKey, BTreeMap<Timestamp, Stored>>,
    (range, reverse, limit): (&KeyRange, bool, PageLimit),
    take: impl Fn(&CellKey, &BTreeMap<Timestamp, Stored>) -> Option<T>,
) -> (Vec<T>, Option<KeyRange>) {
    let mut taken = Vec::new();
    let cells: Box<dyn Iterator<Item = _>> =
        if reverse { Box::new(cells.into_iter().rev()) } else { Box::new(cells.into_iter()) };
    for (key, versions) in cells {
        taken.extend(take(&key, &versions));
        if taken.len() >= limit.cells {
            return (taken, Some(range.after(key, reverse)));
        }
    }
    (taken, None)
}

fn newest(versions: &BTreeMap<Timestamp, Stored>, through: Timestamp) -> Option<Version> {
    versions.range(..=through).rev().find_map(|(start, stored)| stored.version(*start))
}

impl ClusterCells for WeakCluster {
    async fn write_versions(&self, _: &Context, writes: &[VersionWrite]) -> Faulty<()> {
        self.blind("a write of cells", Blind::Versions(writes.into())).await
    }

    async fn read_version(
        &self,
        _: &Context,
        key: &CellKey,
        through: Timestamp,
    ) -> Faulty<Option<Version>> {
        self.read(|state, quorum| newest(&state.cell(quorum, key), through)).await
    }

    async fn read_chain(
        &self,
        _: &Context,
        key: &CellKey,
        through: Timestamp,
        max: usize,
    ) -> Faulty<Vec<Version>> {
        self.read(|state, quorum| {
            let versions = state.cell(quorum, key);
            let newest = versions.range(..=through).rev();
            newest.filter_map(|(start, stored)| stored.version(*start)).take(max).collect()
        })
        .await
    }

    /// Uses the loader's plan: each request reads a majority of its own, at its own time.
    async fn read_versions(
        &self,
        _: &Context,
        keys: &[CellKey],
        through: Timestamp,
    ) -> Faulty<Vec<Option<Version>>> {
        let mut found = BTreeMap::new();
        let tables: BTreeSet<TableId> = keys.iter().map(CellKey::table).collect();
        for table in tables {
            let asked: BTreeSet<&CellKey> =
                keys.iter().filter(|key| key.table() == table).collect();
            let asked: Vec<CellKey> = asked.into_iter().cloned().collect();
            let batches = self.lock().draw_planner().plan(&asked);
            for request in batches.into_iter().flat_map(|batch| batch.requests) {
                let pairs = request.rows.iter().flat_map(|row| {
                    request.columns.iter().map(move |column| CellKey::new(table, row, column))
                });
                let cells: Vec<CellKey> = pairs.collect();
                let read = self.read(|state, quorum| {
                    cells.iter().map(|key| newest(&state.cell(quorum, key), through)).collect()
                });
                let versions: Vec<Option<Version>> = read.await?;
                found.extend(cells.into_iter().zip(versions));
            }
        }
        Ok(keys.iter().map(|key| found.get(key).cloned().flatten()).collect())
    }

    async fn read_range(&self, _: &Context, request: &RangeRequest) -> Faulty<VersionPage> {
        let asked = (&request.range, request.reverse, request.limit);
        let merged = self.read(|state, quorum| state.merged(quorum, &request.range)).await?;
        let (cells, resume) = page_of(merged, asked, |key, versions| {
            let versions = vec![newest(versions, request.read)?];
            Some(CellVersions { key: key.clone(), versions })
        });
        Ok(VersionPage { cells, resume })
    }

    async fn scan_versions(&self, range: &KeyRange, limit: PageLimit) -> Faulty<VersionPage> {
        let merged = self.read(|state, quorum| state.merged(quorum, range)).await?;
        let (cells, resume) = page_of(merged, (range, false, limit), |key, versions| {
            let versions: Vec<Version> =
                versions.iter().rev().filter_map(|(start, it)| it.version(*start)).collect();
            (!versions.is_empty()).then(|| CellVersions { key: key.clone(), versions })
        });
        Ok(VersionPage { cells, resume })
    }

    async fn stamp_versions(&self, stamps: &[(VersionName, Timestamp)]) -> Faulty<()> {
        self.blind("a write of stamps", Blind::Stamps(stamps.into())).await
    }

    async fn delete_versions(&self, names: &[VersionName], all: Acknowledge) -> Faulty<()> {
        self.blind_at("a delete", Blind::Deletes(names.into()), awaited(all)).await
    }

    async fn delete_older(&self, than: &[VersionName], all: Acknowledge) -> Faulty<()> {
        self.blind_at("a delete", Blind::DeletesOlder(than.into()), awaited(all)).await
    }

    async fn tables(&self) -> Faulty<Vec<TableId>> {
        self.wait().await;
        let state = self.lock();
        let cells = state.replicas.iter().flat_map(|replica| replica.cells.keys());
        let mut tables: Vec<TableId> = cells.map(CellKey::table).collect();
        tables.sort_unstable();
        tables.dedup();
        Ok(tables)
    }
}

pub(super) const fn awaited(acknowledge: Acknowledge) -> usize {
    match acknowledge {
        Acknowledge::Quorum => QUORUM,
        Acknowledge::All => REPLICAS,
    }
}
