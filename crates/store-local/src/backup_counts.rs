//! Backups that this process has taken, counted for monitors.

use std::sync::Mutex;

use carnet_base::{Result, Timestamp, WallTime, lock};
use carnet_storage::backup::Backup;

/// Figures of the backups since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupFigures {
    /// Number of backups that run.
    pub running: u64,
    /// Number of backups that were taken.
    pub taken: u64,
    /// Number of backups that failed or were aborted.
    pub failed: u64,
    /// The last backup that was taken.
    pub last: Option<LastBackup>,
}

/// A backup that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastBackup {
    /// Time of its label.
    pub at: WallTime,
    /// Its last commit.
    pub commit: Timestamp,
    /// Total size of its files.
    pub bytes: u64,
}

/// Counts the backups of a store.
#[derive(Debug, Default)]
pub(crate) struct BackupCounts(Mutex<BackupFigures>);

impl BackupCounts {
    pub(crate) fn figures(&self) -> BackupFigures {
        *lock(&self.0)
    }

    /// Takes a backup, and counts it. One that panics counts as failed.
    pub(crate) fn count(&self, take: impl FnOnce() -> Result<Backup>) -> Result<Backup> {
        lock(&self.0).running += 1;
        let mut running = Running { counts: self, last: None };
        let taken = take()?;
        let (at, commit, bytes) = (taken.label.wall, taken.label.commit, taken.label.bytes());
        running.last = Some(LastBackup { at, commit, bytes });
        Ok(taken)
    }
}

/// A backup that runs, until it is dropped.
struct Running<'c> {
    counts: &'c BackupCounts,
    /// The backup, once it is taken.
    last: Option<LastBackup>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut figures = lock(&self.counts.0);
        figures.running -= 1;
        match self.last {
            Some(last) => {
                figures.taken += 1;
                figures.last = Some(last);
            }
            None => figures.failed += 1,
        }
    }
}
