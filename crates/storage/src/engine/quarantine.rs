//! Tables that compaction leaves alone because it could not read them.
//!
//! Reading changes nothing, so a damaged block is no reason to stop writing. These rules hold:
//!
//! 1. A compaction whose input cannot be read is given up: the files that it wrote are removed, no
//!    edit is installed, and the table is *quarantined*.
//! 2. A quarantined table counts as one that is being compacted. So nothing reads it for a
//!    compaction, and the order of sources stays as it is; every other table goes on. It leaves the
//!    quarantine with the manifest: where its table of the catalogue was dropped, or all that it
//!    holds has expired, it is dropped unread. The next opening tries it again.
//! 3. While a table is quarantined, writers are not slowed because compaction is behind. A quarantined
//!    table below level 0 keeps all of level 0 that overlaps it where it is, so that the backlog may
//!    never fall again, and a throttle would slow writers for good and achieve nothing. Level 0 is
//!    still merged within itself, which bounds the files that a read looks into, and writers still
//!    wait for memtables to be flushed.
//! 4. A full compaction by command tries tables again whose bytes could not be read. It fails on a
//!    damaged table and names the file, and the store goes on.

use std::collections::BTreeMap;

use carnet_base::{Error, ErrorKind, Result};

use crate::manifest::Levels;
use crate::sync::{Mutex, lock};

/// The quarantined tables and what is wrong with each.
#[derive(Default)]
pub(super) struct Quarantine(Mutex<BTreeMap<u64, (ErrorKind, String)>>);

impl Quarantine {
    /// Passes the outcome of a read of a table on, and quarantines the table if it failed.
    pub(super) fn watch<T>(&self, table: u64, read: Result<T>) -> Result<T> {
        read.inspect_err(|error| {
            tracing::error!(%error, table, "a table cannot be compacted");
            lock(&self.0).entry(table).or_insert_with(|| (error.kind(), error.to_string()));
        })
    }

    /// Forgets the tables that the manifest no longer names.
    pub(super) fn retain(&self, levels: &Levels) {
        lock(&self.0).retain(|table, _| levels.find(*table).is_some());
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    pub(super) fn contains(&self, table: u64) -> bool {
        lock(&self.0).contains_key(&table)
    }

    /// Returns the numbers of all tables.
    pub(super) fn tables(&self) -> Vec<u64> {
        lock(&self.0).keys().copied().collect()
    }

    /// Returns a sentence for each table.
    pub(super) fn warnings(&self) -> Vec<String> {
        lock(&self.0).values().map(|(_, cause)| text(cause)).collect()
    }

    /// Gives the tables another try whose bytes could not be read, and checks that none is damaged.
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
