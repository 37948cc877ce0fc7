//! Marker of directories whose backup is not finished, or is being removed.
//!
//! The marker is durable before the first file of a backup, and before the first file of one is
//! removed. Only marked directories are cleared, under their lock: another database may have a
//! directory with a name like that of a backup.

use std::io;

use carnet_base::{Error, Result};

use super::clear::clear;
use crate::disk::{DirectoryLock, Disk, During, LOCK};
use crate::marks::{BACKUP, UNFINISHED};

/// Locks and marks the directory of a new backup, and removes the files of an earlier attempt.
///
/// # Errors
///
/// `Invalid` if it holds other files; `Unavailable` if it is in use or the disk fails.
pub(super) fn claim(disk: &dyn Disk) -> Result<DirectoryLock> {
    let lock = disk.lock()?;
    let names = disk.list().during("list", disk, "")?;
    let is_backup = |name: &String| name == UNFINISHED || name == BACKUP;
    if let Some(other) = names.iter().find(|name| *name != LOCK)
        && !names.iter().any(is_backup)
    {
        return Err(Error::invalid(format!(
            "{} exists, but its directory is no backup, although it is named like the next one: \
             move that directory away, or choose another directory for the backups",
            disk.path(other)
        )));
    }
    void(disk)?;
    Ok(lock)
}

/// Removes all files of a backup but the marker. The marker is durable before the label is removed,
/// and that is durable before the first other file is, so that a partial backup has no label.
pub(super) fn void(disk: &dyn Disk) -> Result<()> {
    disk.create(UNFINISHED).during("create", disk, UNFINISHED)?;
    disk.sync_dir().during("sync", disk, "")?;
    match disk.remove(BACKUP) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => {
            removed.during("remove", disk, BACKUP)?;
            disk.sync_dir().during("sync", disk, "")?;
        }
    }
    clear(disk)
}

/// Removes the marker of a finished backup.
pub(super) fn unmark(disk: &dyn Disk) -> Result<()> {
    match disk.remove(UNFINISHED) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed.during("remove", disk, UNFINISHED)?,
    }
    disk.sync_dir().during("sync", disk, "")
}

/// Returns `true` if the directory holds a backup that is not finished.
pub(super) fn is_unfinished(disk: &dyn Disk) -> Result<bool> {
    let names = disk.list().during("list", disk, "")?;
    let holds = |wanted: &str| names.iter().any(|name| name == wanted);
    // A directory with an unreadable label is kept: its other files may be intact.
    Ok(holds(UNFINISHED) && !holds(BACKUP))
}
