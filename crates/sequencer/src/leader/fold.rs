//! Writes the row of a cell in place of its newest published delta, so that no chain grows without a
//! bound. See docs/design/0033-chains-and-expiry-over-a-cluster.md.

use std::sync::Arc;

use carnet_base::sync::lock;
use carnet_base::{CellKey, CellKeyRef, Error, Result, Timestamp, Version};
use carnet_store::cluster::{Cluster, VersionWrite};
use carnet_store::{Cells, Claim, Context};

use super::state::LeaderState;
use super::term::Leader;
use crate::statements::MERGED;
use crate::sweep::{VersionOutcome, newest_row};

/// Number of versions in the first read of a cell.
const VERSIONS_FIRST: usize = 16;
/// Maximum number of versions in one read.
const VERSIONS_MAX: usize = 256;

impl<C: Cluster> Leader<C> {
    /// Counts the deltas of a commit, and remembers the cells to fold once P has passed it.
    pub(super) fn count_deltas(&self, state: &mut LeaderState, commit: Timestamp, cells: &Cells) {
        let mut due = Vec::new();
        for (key, hash) in cells.keys().zip(cells.hashes()) {
            // Only a key that is due is copied: the leader's state is locked.
            let Ok(key) = CellKeyRef::new(key) else { continue };
            if self.row_tables().has_deltas(key.table()) && state.folds.wrote(hash) {
                due.push(key.to_key());
            }
        }
        if !due.is_empty() {
            state.due_folds.insert(commit, due);
        }
    }

    /// Folds cells in the background. Readers see the same rows whether a fold takes effect or not.
    pub(super) fn fold_later(self: &Arc<Self>, keys: Vec<CellKey>) {
        for key in keys {
            let this = Arc::clone(self);
            self.environment.tasks.spawn(Box::pin(async move {
                let folded = this.fold(&key).await;
                if let Err(error) = &folded {
                    tracing::debug!(%error, "a row could not be written in place of its deltas");
                }
                lock(&this.state).folds.ended(key.hash(), folded.is_ok());
            }));
        }
    }

    /// Writes the row of the newest published version, if that is a delta.
    async fn fold(&self, key: &CellKey) -> Result<()> {
        let versions = self.newest_versions(key).await?;
        let Some(mut row) = newest_row(&versions, self.published())? else { return Ok(()) };
        if let Some(chain) = &mut row.chain {
            let again = self.versions_of(key, chain.starts()).await?;
            if !chain.confirm(&again) {
                return Err(Error::unavailable("another leader sweeps the cell"));
            }
            row.payload = chain.row()?;
        }
        let write = VersionWrite {
            key: key.clone(),
            start: row.start,
            statement: MERGED,
            payload: row.payload,
        };
        Ok(self.table.cluster().write_versions(&Context::unbounded(), &[write]).await?)
    }

    /// Reads the versions of a cell down to the first one that is committed and no delta, each with
    /// its outcome.
    async fn newest_versions(&self, key: &CellKey) -> Result<Vec<(Version, VersionOutcome)>> {
        let context = Context::unbounded();
        let (mut versions, mut max) = (Vec::new(), VERSIONS_FIRST);
        let mut next = Some(Timestamp::MAX);
        while let Some(through) = next {
            let read = self.table.cluster().read_chain(&context, key, through, max).await?;
            let last = read.last().filter(|_| read.len() >= max);
            next = last.and_then(|version| version.start.previous());
            for version in read {
                let outcome = self.outcome_of(key, &version).await?;
                let is_end = outcome.is_committed_by(self.published())
                    && !self.row_tables().is_delta(key.table(), &version);
                versions.push((version, outcome));
                if is_end {
                    return Ok(versions);
                }
            }
            max = (max * 4).min(VERSIONS_MAX);
        }
        Ok(versions)
    }

    /// Returns the outcome of a version, and makes it final.
    pub(crate) async fn outcome_of(
        &self,
        key: &CellKey,
        version: &Version,
    ) -> Result<VersionOutcome> {
        if let Some(commit) = version.commit {
            return Ok(VersionOutcome::Committed(commit));
        }
        let start = version.start;
        let outcome = self.version_outcome(start).await?;
        if outcome != VersionOutcome::Aborted {
            return Ok(outcome);
        }
        // Another process may have stamped the version and swept its entry meanwhile.
        let context = Context::unbounded();
        let again = self.table.cluster().read_version(&context, key, start).await?;
        let stamp = again.filter(|version| version.start == start).and_then(|again| again.commit);
        Ok(stamp.map_or(VersionOutcome::Aborted, VersionOutcome::Committed))
    }

    /// Reads a cell's versions from one start down to another.
    pub(crate) async fn versions_of(
        &self,
        key: &CellKey,
        starts: Option<(Timestamp, Timestamp)>,
    ) -> Result<Vec<Version>> {
        let (context, mut versions) = (Context::unbounded(), Vec::new());
        let (mut next, oldest) =
            starts.map_or((None, Timestamp::ZERO), |(newest, oldest)| (Some(newest), oldest));
        while let Some(through) = next.filter(|through| *through >= oldest) {
            let cluster = self.table.cluster();
            let found = cluster.read_chain(&context, key, through, VERSIONS_MAX).await?;
            let last = found.last().filter(|_| found.len() >= VERSIONS_MAX);
            next = last.and_then(|version| version.start.previous());
            versions.extend(found);
        }
        Ok(versions)
    }
}

/// Returns `true` if the commits of a claim may have to be counted.
pub(super) fn has_deltas(claim: &Claim) -> bool {
    claim.has_deltas && claim.names_all()
}
