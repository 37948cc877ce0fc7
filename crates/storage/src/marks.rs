//! Files that mark what a directory is, other than a database in use.
//!
//! | file | the directory |
//! | --- | --- |
//! | `CHECKPOINT` | is a checkpoint that has not been opened |
//! | `BACKUP` | is a finished backup, which the file labels |
//! | `UNFINISHED` | is a backup that is being made or removed |
//! | `RESTORE` | is a restore that has not ended |

use std::io;

use carnet_base::{Error, Result};

use crate::disk::{Disk, During};
use crate::manifest::Manifest;
use crate::wal::recovery;

/// Marks a checkpoint that has not been opened.
pub(crate) const CHECKPOINT: &str = "CHECKPOINT";
/// Labels a finished backup.
pub(crate) const BACKUP: &str = "BACKUP";
/// Marks a backup that is not finished, or is being removed.
pub(crate) const UNFINISHED: &str = "UNFINISHED";
/// Marks a restore that has not ended.
pub(crate) const RESTORE: &str = "RESTORE";

/// Returns an error if a directory has a log although the file `marker` states that it has none.
///
/// # Errors
///
/// `Corrupted` naming both files; `Unavailable` if the disk fails.
pub(crate) fn refuse_log(disk: &dyn Disk, marker: &str, manifest: &Manifest) -> Result<()> {
    let Some(segment) = recovery::begun_segment(disk, manifest.first_segment)? else {
        return Ok(());
    };
    Err(Error::corrupted(format!(
        "{} says that this directory holds no log, but {segment} exists: remove {marker} if this \
         is a database that was in use, or restore the directory from a backup",
        disk.path(marker)
    )))
}

/// Returns an error for directories that must not be opened: a backup, which opening would change,
/// or an unfinished restore, which is incomplete.
pub(crate) fn refuse(disk: &dyn Disk) -> Result<()> {
    let holds = |name: &str| match disk.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        opened => opened.during("open", disk, name).map(|_| true),
    };
    if holds(BACKUP)? {
        return Err(Error::invalid(format!(
            "{} is a backup, which opening would change: restore it to an empty directory",
            disk.path("")
        )));
    }
    if holds(UNFINISHED)? {
        return Err(Error::invalid(format!(
            "{} is a backup that was not finished: open the database, or restore another backup",
            disk.path("")
        )));
    }
    if holds(RESTORE)? {
        return Err(Error::invalid(format!(
            "{} holds a restore that was not finished: run it again",
            disk.path("")
        )));
    }
    Ok(())
}
