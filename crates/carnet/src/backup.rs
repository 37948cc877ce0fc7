//! Backups: listing, checking and restoring them. [`Db::backup`](crate::Db::backup) takes them;
//! `docs/backup.md` describes their files.

use std::io;
use std::path::Path;
use std::sync::Arc;

use carnet_base::{Error, Result, SeededRng, ThreadSpawn, Timestamp};
use carnet_storage::TableOptionsOf;
use carnet_storage::backup as stored;
pub(crate) use carnet_storage::backup::RealVault;
pub use carnet_storage::backup::{Backup, Label, Progress, Restored, name_of};
use carnet_storage::disk::{Backend, Disk, RealDisk};
use carnet_storage::place;
use carnet_store_local::LocalStore;

use crate::as_of::AsOf;
use crate::layout::LAYOUT;

/// Selection of a backup to restore, and the point in time to restore to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// Commit that identifies the backup; the newest backup if `None`.
    pub backup: Option<Timestamp>,
    /// Excludes commits after this point; none if `None`. Wall times have a precision of about a
    /// second, old ones less.
    pub as_of: Option<AsOf>,
    /// Copies all files. By default, files are hard links if both directories are on one file system:
    /// a change of owner or permissions then changes those of the backup and of its database too.
    pub copies: bool,
}

/// Lists the finished backups in a directory of backups, in ascending order of their commits.
///
/// # Errors
///
/// `Invalid` if the directory does not exist, `Unavailable` if it cannot be read.
pub fn list(dest: impl AsRef<Path>) -> Result<Vec<Label>> {
    stored::list(&vault(dest.as_ref())?)
}

/// Like [`keep_newest`], after this process has taken and read a backup.
pub(crate) fn keep_newest_beside(dest: &Path, keep: usize, taken: &Label) -> Result<usize> {
    stored::keep_newest(&vault(dest)?, keep, Some(taken))
}

/// Removes all but the newest `keep` backups; returns how many it removed. Reads the backups that
/// stay until one is whole, so the newest whole one is never removed.
///
/// # Errors
///
/// Same as [`list`]; `Corrupted` if none that would stay is whole; `Unavailable` if a backup into the
/// directory is in progress.
pub fn keep_newest(dest: impl AsRef<Path>, keep: usize) -> Result<usize> {
    stored::keep_newest(&vault(dest.as_ref())?, keep, None)
}

/// Restores a backup into an empty directory, and checks every byte of it.
///
/// # Errors
///
/// - `Invalid` if the backup does not exist, `directory` is not empty or lies in a directory of
///   backups, or `as_of` is later than the backup.
/// - `TooOld` if the state at `as_of` was garbage-collected before the backup.
/// - `Corrupted`, with the file.
/// - `Unsupported`, `Unavailable`.
///
/// After an error the directory cannot be opened as a database; the restore can be repeated.
pub fn restore(
    dest: impl AsRef<Path>,
    directory: impl AsRef<Path>,
    which: &Which,
) -> Result<Restored> {
    restore_with(dest, directory, which, |_| {})
}

/// Like [`restore`], but reports its progress.
///
/// # Errors
///
/// Same as [`restore`].
pub fn restore_with(
    dest: impl AsRef<Path>,
    directory: impl AsRef<Path>,
    which: &Which,
    tell: impl FnMut(&Progress),
) -> Result<Restored> {
    let dest = dest.as_ref();
    let labels = list(dest)?;
    let chosen = match which.backup {
        Some(commit) => labels.iter().find(|label| label.commit == commit),
        None => labels.last(),
    };
    let Some(chosen) = chosen else {
        let there: Vec<_> = labels.iter().map(|label| label.commit.to_string()).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        let dest = dest.display();
        return Err(Error::invalid(format!("{dest} has no such backup; there are: {there}")));
    };
    let directory = directory.as_ref();
    refuse_among_backups(directory, dest)?;
    let from = disk(&dest.join(name_of(chosen.commit)))?;
    let to = disk(directory)?;
    // First of all: a directory whose restore failed must not be opened as an empty database.
    stored::prepare(&*to)?;
    let as_of = match which.as_of {
        None => None,
        Some(AsOf::Timestamp(commit)) => Some(commit),
        Some(AsOf::Wall(wall)) => Some(LocalStore::commit_at(&from, chosen, wall)?),
    };
    let mut rng = SeededRng::from_entropy();
    let layout = TableOptionsOf::all(LAYOUT);
    LocalStore::restore(&from, &to, as_of, which.copies, layout, &mut rng, tell)
}

/// Refuses a backup directory that is, or lies in, the directory of a database or of a backup.
pub(crate) fn refuse_inside_database(dest: &Path) -> Result<()> {
    let Some(around) = place::database_around(dest).map_err(|error| unresolved(dest, error))?
    else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "backups cannot go to {}: {} is the directory of a database or of one backup; choose a \
         directory outside of it",
        dest.display(),
        around.display()
    )))
}

/// Refuses a new database inside a directory of backups.
fn refuse_among_backups(directory: &Path, dest: &Path) -> Result<()> {
    if !place::is_within(directory, dest).map_err(|error| unresolved(directory, error))? {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a database cannot be restored to {}: it lies in {}, which is a directory of backups; \
         choose a directory outside of it",
        directory.display(),
        dest.display()
    )))
}

fn unresolved(path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("cannot resolve the path {}", path.display())).with_source(error)
}

fn disk(path: &Path) -> Result<Arc<dyn Disk>> {
    Ok(Arc::new(RealDisk::open_with(path, Backend::Inline, Arc::new(ThreadSpawn))?))
}

/// Opens an existing directory of backups.
fn vault(dest: &Path) -> Result<RealVault> {
    if !dest.is_dir() {
        return Err(Error::invalid(format!("{} is not a directory", dest.display())));
    }
    RealVault::open(dest)
}
