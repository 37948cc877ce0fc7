//! Reads of cells.

use carnet_base::{Call, CellKey, Error, ErrorKind, Result, TableId, Timestamp, Version};
use carnet_store::cluster::{CellVersions, Cluster};
use carnet_store::{
    At, CandidatePage, CandidatesBuilder, CellStore, Context, PageLimit, RangeRequest,
};

use super::cluster_log::ClusterLog;
use super::inner::Inner;
use crate::transport::Transport;

/// Number of versions that a reader may merge before it writes the row in place of the newest one.
const VERSIONS_MAX: usize = 8;

impl<C: Cluster, T: Transport> Inner<C, T> {
    /// Returns the newest version that may be visible.
    async fn candidate(&self, context: &Context, key: &CellKey, at: At) -> Result<Option<Version>> {
        let Some(below) = at.below.previous() else { return Ok(None) };
        let mut through = below.min(at.read);
        loop {
            let found = self.cluster.read_version(context, key, through).await?;
            let Some(version) = found else { return Ok(None) };
            if at.admits(&version) {
                return Ok(Some(version));
            }
            let Some(older) = version.start.previous() else { return Ok(None) };
            through = older;
        }
    }

    /// Returns the newest versions that may be visible, newest first.
    async fn candidates(
        &self,
        context: &Context,
        key: &CellKey,
        at: At,
        max: usize,
    ) -> Result<Vec<Version>> {
        let mut chain = Vec::new();
        let mut next = at.below.previous().map(|below| below.min(at.read));
        while chain.len() < max
            && let Some(through) = next
        {
            let left = max - chain.len();
            let read = self.cluster.read_chain(context, key, through, left).await?;
            let oldest = read.last().filter(|_| read.len() >= left);
            next = oldest.and_then(|version| version.start.previous());
            chain.extend(read.into_iter().filter(|version| at.admits(version)));
        }
        Ok(chain)
    }

    /// Rejects a snapshot that the sweep has passed. Call it after the read: if the mark is still
    /// below the snapshot, the data had not been swept when it was read.
    async fn check_sweep(&self, read: Timestamp) -> Result<()> {
        let mark =
            self.sweep_mark.fresh().await.map_err(|why| {
                Error::unavailable(format!("the sweep mark cannot be read: {why}"))
            })?;
        if mark <= read {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooOld,
            format!(
                "snapshot {read} is too old: versions up to {mark} have been swept; begin a \
                     new one"
            ),
        ))
    }
}

impl<C: Cluster, T: Transport> CellStore for ClusterLog<C, T> {
    fn get<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
    ) -> Call<'a, Option<Version>> {
        let kept = match self.inner.check(context) {
            Ok(()) => self.inner.kept(context, key, at).map(Ok),
            Err(error) => Some(Err(error)),
        };
        if let Some(kept) = kept {
            return Call::ready(kept);
        }
        Call::boxed(async move {
            let found = self.inner.candidate(context, key, at).await?;
            self.inner.check_sweep(at.read).await?;
            Ok(self.inner.keep_read(context, key, found, at))
        })
    }

    fn get_many<'a>(
        &'a self,
        context: &'a Context,
        keys: &'a [CellKey],
        at: At,
        _bytes_max: usize,
    ) -> Call<'a, Vec<Option<Version>>> {
        Call::boxed(async move {
            self.inner.check(context)?;
            let Some(below) = at.below.previous() else { return Ok(vec![None; keys.len()]) };
            let through = below.min(at.read);
            let mut versions = vec![None; keys.len()];
            let mut missing = Vec::new();
            for (place, key) in keys.iter().enumerate() {
                match self.inner.kept(context, key, at) {
                    Some(kept) => versions[place] = kept,
                    None => missing.push(place),
                }
            }
            if missing.is_empty() {
                return Ok(versions);
            }
            let sought: Vec<CellKey> = missing.iter().map(|place| keys[*place].clone()).collect();
            let mut read = self.inner.cluster.read_versions(context, &sought, through).await?;
            for (key, found) in sought.iter().zip(&mut read) {
                if let Some(version) = found
                    && !at.admits(version)
                {
                    let older = at.below(version.start);
                    *found = self.inner.candidate(context, key, older).await?;
                }
            }
            self.inner.check_sweep(at.read).await?;
            for ((place, key), found) in missing.into_iter().zip(&sought).zip(read) {
                versions[place] = self.inner.keep_read(context, key, found, at);
            }
            Ok(versions)
        })
    }

    fn is_delta(&self, table: TableId, version: &Version) -> bool {
        self.inner.row_tables().is_delta(table, version)
    }

    fn get_chain<'a>(
        &'a self,
        context: &'a Context,
        key: &'a CellKey,
        at: At,
        max: usize,
    ) -> Call<'a, Vec<Version>> {
        Call::boxed(async move {
            self.inner.check(context)?;
            let chain = self.inner.candidates(context, key, at, max).await?;
            self.inner.check_sweep(at.read).await?;
            Ok(chain)
        })
    }

    fn merged(
        &self,
        context: &Context,
        key: &CellKey,
        row: &Version,
        read: Timestamp,
        versions: usize,
    ) {
        self.inner.keep_merged(context, key, row, read);
        if versions > VERSIONS_MAX {
            self.inner.replace_delta(key.clone(), row.clone());
        }
    }

    fn range<'a>(
        &'a self,
        context: &'a Context,
        request: &'a RangeRequest,
    ) -> Call<'a, CandidatePage> {
        Call::boxed(async move {
            self.inner.check(context)?;
            let limit = PageLimit { cells: request.limit.cells.max(1), ..request.limit };
            let request = RangeRequest { limit, ..request.clone() };
            let read = self.inner.cluster.read_range(context, &request).await?;
            let at = At::snapshot(request.read);
            let mut page = CandidatesBuilder::default();
            for CellVersions { key, versions } in read.cells {
                let found = match versions.into_iter().next() {
                    Some(version) if !at.admits(&version) => {
                        self.inner.candidate(context, &key, at.below(version.start)).await?
                    }
                    found => found,
                };
                if let Some(version) = found {
                    let is_delta = self.is_delta(key.table(), &version);
                    page.push(key, version, is_delta);
                }
            }
            self.inner.check_sweep(request.read).await?;
            Ok(page.finish(read.resume))
        })
    }
}
