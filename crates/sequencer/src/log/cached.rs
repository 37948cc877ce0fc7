//! Reads from the cell cache of this process, and fills it.

use carnet_base::{CellKey, Timestamp, Version};
use carnet_store::cluster::{Cluster, VersionWrite};
use carnet_store::{At, Context};

use super::inner::Inner;
use crate::transport::Transport;

impl<C: Cluster, T: Transport> Inner<C, T> {
    /// Caches the writes of a committed transaction.
    pub(super) fn keep_written(
        &self,
        start: Timestamp,
        commit: Timestamp,
        writes: Vec<VersionWrite>,
    ) {
        let Some(cells) = &self.cells else { return };
        for VersionWrite { key, payload, .. } in writes {
            let version = Version { start, commit: Some(commit), payload };
            if self.row_tables().is_delta(key.table(), &version) {
                continue;
            }
            cells.keep(&key, Some(&version), commit, commit);
        }
    }

    /// Returns the version of a cell that a snapshot sees, if it is cached.
    pub(super) fn kept(&self, context: &Context, key: &CellKey, at: At) -> Option<Option<Version>> {
        let cells = self.cells.as_ref().filter(|_| at == At::snapshot(at.read))?;
        cells.get(key, at.read, context.bypasses_cache())
    }

    /// Caches the result of a read if it is known to be the version that the snapshot sees, and
    /// returns it with its commit. For a version with an outcome not yet known to this process, the
    /// reader looks it up.
    pub(super) fn keep_read(
        &self,
        context: &Context,
        key: &CellKey,
        found: Option<Version>,
        at: At,
    ) -> Option<Version> {
        let is_newest = at == At::snapshot(at.read) && !context.bypasses_cache();
        let cells = self.cells.as_ref().filter(|cells| is_newest && cells.knows(at.read));
        let Some(cells) = cells else { return found };
        let Some(mut version) = found else {
            cells.keep(key, None, at.read, at.read);
            return None;
        };
        if version.commit.is_none() {
            let commit = self.node.table().known_commit(version.start);
            version.commit = commit.filter(|commit| *commit <= at.read);
        }
        if let Some(commit) = version.commit
            && !self.row_tables().is_delta(key.table(), &version)
        {
            cells.keep(key, Some(&version), commit, at.read);
        }
        Some(version)
    }

    /// Caches the row that a reader made of deltas.
    pub(super) fn keep_merged(
        &self,
        context: &Context,
        key: &CellKey,
        row: &Version,
        read: Timestamp,
    ) {
        let cells = self.cells.as_ref().filter(|cells| cells.knows(read));
        if let Some(cells) = cells.filter(|_| !context.bypasses_cache())
            && let Some(commit) = row.commit
        {
            cells.keep(key, Some(row), commit, read);
        }
    }
}
