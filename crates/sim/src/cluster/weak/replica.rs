//! A replica: its cells, its confirmed entries, and the blind writes that it takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use carnet_base::{Bytes, CellKey, Timestamp, Version};
use carnet_store::cluster::{CommitRow, NewEntry, Statement, VersionName, VersionWrite};

#[derive(Default)]
pub(super) struct Replica {
    pub(super) cells: BTreeMap<CellKey, BTreeMap<Timestamp, Stored>>,
    /// Start of each cell below which all versions are deleted.
    pub(super) floors: BTreeMap<CellKey, Timestamp>,
    pub(super) confirmed: BTreeMap<CommitRow, BTreeMap<Bytes, Bytes>>,
}

#[derive(Clone, Default)]
pub(super) struct Stored {
    pub(super) write: Option<(Statement, Option<Bytes>)>,
    stamp: Option<Timestamp>,
    is_deleted: bool,
}

/// A message of a blind write.
#[derive(Clone)]
pub(super) enum Blind {
    Versions(Arc<[VersionWrite]>),
    Stamps(Arc<[(VersionName, Timestamp)]>),
    Deletes(Arc<[VersionName]>),
    DeletesOlder(Arc<[VersionName]>),
    Forgets(CommitRow, Arc<[Bytes]>),
    Confirms(CommitRow, Arc<[NewEntry]>),
}

impl Stored {
    pub(super) fn version(&self, start: Timestamp) -> Option<Version> {
        let (_, payload) = self.write.as_ref().filter(|_| !self.is_deleted)?;
        Some(Version { start, commit: self.stamp, payload: payload.clone() })
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let statement = |stored: &Self| stored.write.as_ref().map(|(statement, _)| *statement);
        if statement(other) > statement(self) {
            self.write.clone_from(&other.write);
        }
        self.stamp = self.stamp.or(other.stamp);
        self.is_deleted |= other.is_deleted;
    }
}

impl Replica {
    pub(super) fn stored(&mut self, key: &CellKey, start: Timestamp) -> &mut Stored {
        self.cells.entry(key.clone()).or_default().entry(start).or_default()
    }

    pub(super) fn take(&mut self, message: &Blind) {
        match message {
            Blind::Versions(writes) => {
                for VersionWrite { key, start, statement, payload } in writes.iter() {
                    let write = Some((*statement, payload.clone()));
                    self.stored(key, *start).merge(&Stored { write, ..Stored::default() });
                }
            }
            Blind::Stamps(stamps) => {
                for (VersionName { key, start }, commit) in stamps.iter() {
                    self.stored(key, *start).stamp = Some(*commit);
                }
            }
            Blind::Deletes(names) => {
                for VersionName { key, start } in names.iter() {
                    self.stored(key, *start).is_deleted = true;
                }
            }
            Blind::DeletesOlder(names) => {
                for VersionName { key, start } in names.iter() {
                    let floor = self.floors.entry(key.clone()).or_default();
                    *floor = (*floor).max(*start);
                }
            }
            Blind::Forgets(row, columns) => {
                if let Some(row) = self.confirmed.get_mut(row) {
                    row.retain(|column, _| !columns.contains(column));
                }
            }
            Blind::Confirms(row, entries) => {
                let row = self.confirmed.entry(row.clone()).or_default();
                for NewEntry { column, value } in entries.iter() {
                    row.insert(column.clone(), value.clone());
                }
            }
        }
    }

    /// Collects the tombstones of a delete with the versions that they hide.
    pub(super) fn collect(&mut self, delete: &Blind) {
        let (Blind::Deletes(names) | Blind::DeletesOlder(names)) = delete else { return };
        for VersionName { key, start } in names.iter() {
            let Some(versions) = self.cells.get_mut(key) else { continue };
            if matches!(delete, Blind::Deletes(_)) {
                versions.remove(start);
                continue;
            }
            versions.retain(|version, _| version >= start);
            if self.floors.get(key) == Some(start) {
                self.floors.remove(key);
            }
        }
    }
}
