//! Reads of cells whose newest version is a delta.
//!
//! All versions of a chain are read from one view. Meanwhile a compaction may replace the chain by
//! its value; then only the older view has the versions below the newest one.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{
    CellKey, CellKeyRef, CellPage, CellRef, CellsBuilder, KeyRange, Result, Timestamp, Version,
};

use super::core::{Core, Engine};
use super::get::Looked;
use super::view::View;
use crate::manifest::VersionKind;
use crate::merge_operator::{Deltas, MergeOperator};
use crate::metrics::add;
use crate::sstable::ReadOptions;

impl Engine {
    /// Sets the operator that merges deltas. Call it before the first read of a table with deltas,
    /// and before [`Engine::set_gc`]. Returns `false` without effect if it is already set.
    pub fn set_merge_operator(&self, operator: Arc<dyn MergeOperator>) -> bool {
        let operator = match self.core.options.replace_merges {
            Some(replace) => replace(operator),
            None => operator,
        };
        self.core.deltas.set(Deltas::new(operator)).is_ok()
    }

    /// Counts the newest versions of a cell as long as they are deltas in memtables, up to `max`.
    /// Reads nothing from disk.
    #[must_use]
    pub fn deltas_in_memory(&self, key: &CellKey, max: usize) -> usize {
        let (key, view) = (key.as_bytes(), self.core.view());
        let (mut count, mut read) = (0, Timestamp::MAX);
        while count < max
            && let Some(found) = view.memtables().find_map(|memtable| memtable.get(key, read))
            && let Some(payload) = &found.payload
            && self.core.is_delta(key, payload)
            && let Some(below) = found.commit.previous()
        {
            (count, read) = (count + 1, below);
        }
        count
    }

    /// Merges a delta with the older versions of its cell. The result has the timestamps of the
    /// delta; it is a tombstone if nothing is left.
    pub(super) async fn merged(
        &self,
        view: &View,
        key: &[u8],
        newest: Version,
        reads: ReadOptions,
    ) -> Result<Version> {
        let Some(deltas) = self.core.deltas.get() else { return Ok(newest) };
        let (start, commit) = (newest.start, newest.commit);
        let mut chain: Vec<(Timestamp, Bytes)> = Vec::new();
        let mut next = Some(newest);
        let value = loop {
            let Some(Version { start, commit, payload: Some(payload) }) = next else { break None };
            if !deltas.is_delta(key, &payload) {
                break Some((start, payload));
            }
            chain.push((start, payload));
            let Some(below) = commit.and_then(Timestamp::previous) else { break None };
            next = match self.look_in_memory(view, key, below, reads) {
                Looked::Found(version, _) => version,
                Looked::Unread(missing, tables) => {
                    self.read(missing, tables, key, below, reads).await?
                }
            };
        };
        add(&self.core.counters.deltas_merged, chain.len());
        let value = value.as_ref().map(|(start, payload)| (*start, payload));
        let payload = deltas.merge(value, &chain)?;
        Ok(Version { start, commit, payload })
    }

    /// Merges the deltas of a page of a range. Values are longer than their deltas, so the page may
    /// end earlier, at its limit in bytes.
    pub(super) async fn merged_page(
        &self,
        view: &View,
        page: CellPage,
        reads: ReadOptions,
        bytes_max: usize,
        rest_behind: impl Fn(CellKey) -> KeyRange,
    ) -> Result<CellPage> {
        let mut cells = CellsBuilder::default();
        let mut last = None;
        for cell in page.cells.iter() {
            if let Some(last) = last.filter(|_| cells.bytes() >= bytes_max) {
                let resume = Some(rest_behind(CellKeyRef::to_key(last)));
                return Ok(CellPage { cells: cells.finish(), resume, deleted: page.deleted });
            }
            last = Some(cell.key);
            let CellRef { key, start, commit, payload } = cell;
            if !self.core.is_delta(key.as_bytes(), payload) {
                cells.push(&cell);
                continue;
            }
            let payload = Some(Bytes::copy_from_slice(payload));
            let newest = Version { start, commit: Some(commit), payload };
            let merged = self.merged(view, key.as_bytes(), newest, reads).await?;
            if let Some(payload) = &merged.payload {
                cells.push(&CellRef { key, start, commit, payload });
            }
        }
        Ok(CellPage { cells: cells.finish(), ..page })
    }
}

impl Core {
    /// Returns `true` if the result of a search may be a delta: then its view must be kept.
    #[inline]
    pub(super) fn may_be_delta(&self, key: &[u8], looked: &Looked) -> bool {
        match looked {
            Looked::Found(found, _) => found.as_ref().is_some_and(|it| self.is_of_delta(key, it)),
            Looked::Unread(..) => self.deltas.get().is_some(),
        }
    }

    #[inline]
    pub(super) fn is_of_delta(&self, key: &[u8], version: &Version) -> bool {
        version.payload.as_ref().is_some_and(|payload| self.is_delta(key, payload))
    }

    /// Returns the kind of a version. Before the merge operator is set, deltas count as values.
    pub(super) fn kind_of(&self, key: &[u8], payload: Option<&[u8]>) -> VersionKind {
        match payload {
            Some(payload) if self.is_delta(key, payload) => VersionKind::Delta,
            payload => VersionKind::whole(payload),
        }
    }

    /// Returns the expiry of a value as the merge operator knows it.
    pub(super) fn expiry_of(&self, key: &[u8], payload: &[u8]) -> Option<u64> {
        self.deltas.get()?.expiry_of(key, payload)
    }

    #[inline]
    pub(super) fn is_delta(&self, key: &[u8], payload: &[u8]) -> bool {
        self.deltas.get().is_some_and(|deltas| deltas.is_delta(key, payload))
    }
}
