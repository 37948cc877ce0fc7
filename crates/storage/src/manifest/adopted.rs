//! Description of a table that the commit of a large transaction adopts, after a crash.

use std::sync::Arc;

use bytes::Bytes;
use carnet_base::{Result, Timestamp};

use super::range::{FlatRange, after};
use super::table::{Contents, TableMeta};
use super::tally::{Tally, VersionKind};
use crate::sstable::{RawCursor, Statistics, Table};

impl TableMeta {
    /// Describes an adopted table of level 0, whose versions have one commit, from the file alone. Reads
    /// all versions if some of them expire, because the file does not count these.
    #[must_use]
    pub fn adopted(table: &Arc<Table>, commit: Timestamp) -> Self {
        let Statistics { versions, tombstones, expiry, first, last, .. } = table.statistics();
        if expiry.is_some() {
            match Self::counted(table, commit) {
                Ok(Some(counted)) => return counted,
                Ok(None) => {}
                // Readers and compactions report it; without the counts, expired versions stay longer.
                Err(error) => tracing::warn!(%error, "expiring versions could not be counted"),
            }
        }
        let contents = Contents {
            cells: *versions,
            bottom_garbage: *tombstones,
            tombstones: *tombstones,
            commit_min: commit,
            commit_max: commit,
            ..Contents::default()
        };
        let range = FlatRange { lower: first.clone(), upper: after(last) };
        Self { number: table.number(), level: 0, bytes: table.bytes(), range, contents }
    }

    fn counted(table: &Arc<Table>, commit: Timestamp) -> Result<Option<Self>> {
        let mut tally = Tally::default();
        let mut cursor = RawCursor::new(Arc::clone(table), Bytes::new(), None);
        cursor.advance_blocking()?;
        while let Some(entry) = cursor.entry() {
            // Each key has one version, so that it does not matter whether it is a delta.
            tally.cell(entry.key, commit, entry.expiry, VersionKind::whole(entry.payload));
            cursor.advance_blocking()?;
        }
        Ok(tally.finish(table.number(), 0, table.bytes()))
    }
}
