//! The cells and entries that a majority shows.

use std::collections::BTreeMap;

use carnet_base::{Bytes, CellKey, KeyRange, Timestamp};
use carnet_store::cluster::{CommitRow, StoredEntry};

use super::replica::Stored;
use super::state::{QUORUM, WeakState};
use crate::cluster::agreed::Row;

impl WeakState {
    pub(super) fn merged(
        &self,
        quorum: [usize; QUORUM],
        range: &KeyRange,
    ) -> BTreeMap<CellKey, BTreeMap<Timestamp, Stored>> {
        let mut merged: BTreeMap<CellKey, BTreeMap<Timestamp, Stored>> = BTreeMap::new();
        let Some(bounds) = range.map_bounds() else { return merged };
        for replica in quorum {
            for (key, _) in self.replicas[replica].cells.range(bounds.clone()) {
                if !merged.contains_key(key) {
                    merged.insert(key.clone(), self.cell(quorum, key));
                }
            }
        }
        merged
    }

    /// Returns the versions of a cell as a majority sees them.
    pub(super) fn cell(
        &self,
        quorum: [usize; QUORUM],
        key: &CellKey,
    ) -> BTreeMap<Timestamp, Stored> {
        let mut merged: BTreeMap<Timestamp, Stored> = BTreeMap::new();
        let replicas = quorum.map(|replica| &self.replicas[replica]);
        let floors = replicas.map(|replica| replica.floors.get(key).copied().unwrap_or_default());
        let floor = floors.into_iter().max().unwrap_or_default();
        for (start, stored) in replicas.iter().filter_map(|it| it.cells.get(key)).flatten() {
            merged.entry(*start).or_default().merge(stored);
        }
        merged.retain(|start, _| *start >= floor);
        merged
    }

    fn seen(&self, quorum: [usize; QUORUM], row: &CommitRow) -> Option<&Row> {
        self.agreed.seen_row(row, |replica| quorum.contains(&replica))
    }

    pub(super) fn entry(
        &self,
        quorum: [usize; QUORUM],
        row: &CommitRow,
        column: &Bytes,
    ) -> Option<StoredEntry> {
        let staged = self.seen(quorum, row).and_then(|row| row.entries.get(column));
        let confirmed = quorum.iter().rev().find_map(|replica| {
            self.replicas[*replica].confirmed.get(row).and_then(|row| row.get(column))
        });
        let is_there = staged.is_some() || confirmed.is_some();
        is_there.then(|| StoredEntry {
            column: column.clone(),
            staged: staged.cloned(),
            confirmed: confirmed.cloned(),
        })
    }

    pub(super) fn entries(
        &self,
        quorum: [usize; QUORUM],
        row: &CommitRow,
    ) -> BTreeMap<Bytes, StoredEntry> {
        let staged = self.seen(quorum, row);
        let mut entries: BTreeMap<Bytes, StoredEntry> = BTreeMap::new();
        let entry =
            |column: &Bytes| StoredEntry { column: column.clone(), staged: None, confirmed: None };
        for (column, value) in staged.into_iter().flat_map(|row| &row.entries) {
            entries.entry(column.clone()).or_insert_with(|| entry(column)).staged =
                Some(value.clone());
        }
        for replica in quorum {
            for (column, value) in self.replicas[replica].confirmed.get(row).into_iter().flatten() {
                let entry = entries.entry(column.clone()).or_insert_with(|| entry(column));
                entry.confirmed = Some(value.clone());
            }
        }
        entries
    }
}
