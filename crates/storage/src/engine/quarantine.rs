//! Quarantine: tables that compaction cannot read and does not use.
//!
//! Compaction can skip a damaged table, so a damaged block does not stop writes:
//!
//! 1. A compaction with an unreadable input is abandoned: its files are removed, no edit is
//!    applied, and the table is *quarantined*.
//! 2. A quarantined table is treated as busy. So no compaction reads it, and the order of sources
//!    is kept; other tables are compacted. It leaves the quarantine when it leaves the manifest: if
//!    its table of the catalog was dropped, or all its versions have expired, it is dropped unread.
//!    The next opening tries to read it again.
//! 3. While a table is quarantined, writers are not throttled because of compaction. A quarantined
//!    table below level 0 blocks the compaction of all of level 0 that overlaps it, so the backlog
//!    might never decrease, and the throttle would slow writers forever without effect. Level 0 is
//!    still merged within itself, which bounds the number of files that a read searches, and
//!    writers still wait for flushes.
//! 4. A manual compaction tries again to read the quarantined tables. It fails on a damaged table
//!    and names the file, and the store continues.

use std::collections::BTreeMap;

use carnet_base::{Error, ErrorKind, Result};

use crate::disk::shortage;
use crate::manifest::Levels;
use crate::sync::{Mutex, lock};

/// Quarantined tables and the error of each.
#[derive(Default)]
pub(super) struct Quarantine(Mutex<BTreeMap<u64, (ErrorKind, String)>>);

impl Quarantine {
    /// Passes on the result of a read of a table, and quarantines the table if it failed with an
    /// error that does not pass.
    pub(super) fn watch<T>(&self, table: u64, read: Result<T>) -> Result<T> {
        read.inspect_err(|error| {
            // The compaction is retried.
            if shortage(error).is_some() {
                return;
            }
            tracing::error!(%error, table, "a table cannot be compacted");
            lock(&self.0).entry(table).or_insert_with(|| (error.kind(), error.to_string()));
        })
    }

    /// Removes tables that are not in the manifest any more.
    pub(super) fn retain(&self, levels: &Levels) {
        lock(&self.0).retain(|table, _| levels.find(*table).is_some());
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    pub(super) fn contains(&self, table: u64) -> bool {
        lock(&self.0).contains_key(&table)
    }

    /// Returns the numbers of the quarantined tables.
    pub(super) fn tables(&self) -> Vec<u64> {
        lock(&self.0).keys().copied().collect()
    }

    /// Returns a warning for each table.
    pub(super) fn warnings(&self) -> Vec<String> {
        lock(&self.0).values().map(|(_, cause)| text(cause)).collect()
    }

    /// Removes the tables from the quarantine that may be readable again. Returns an error if any
    /// table is damaged.
    pub(super) fn try_again(&self) -> Result<()> {
        let mut causes = lock(&self.0);
        causes.retain(|_, (kind, _)| *kind == ErrorKind::Corrupted);
        match causes.values().next() {
            None => Ok(()),
            Some((kind, cause)) => Err(Error::new(*kind, text(cause))),
        }
    }
}

fn text(cause: &str) -> String {
    format!("a table cannot be compacted: {cause}")
}
