//! Backups: what there is, checking it, and making databases of it. [`Db::backup`](crate::Db::backup)
//! takes them; `docs/backup.md` says what lies where.

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

use crate::db::{AsOf, LAYOUT};

/// Which backup, and up to where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// The backup of that commit; the newest where it is `None`.
    pub backup: Option<Timestamp>,
    /// Leave out what committed after this; nothing where it is `None`. A wall time is known to
    /// about a second, an old one less exactly.
    pub as_of: Option<AsOf>,
}

/// Lists the finished backups in a directory of backups by their commits, the oldest first.
///
/// # Errors
///
/// `Invalid` where there is no such directory, `Unavailable` where it cannot be read.
pub fn list(dest: impl AsRef<Path>) -> Result<Vec<Label>> {
    stored::list(&vault(dest.as_ref())?)
}

/// Removes all but the newest `keep` backups; returns how many went.
///
/// # Errors
///
/// As [`list`]; `Unavailable` where a backup is being taken there.
pub fn keep_newest(dest: impl AsRef<Path>, keep: usize) -> Result<usize> {
    stored::keep_newest(&vault(dest.as_ref())?, keep)
}

/// Makes a database in an empty directory of a backup, and checks every byte of it.
///
/// # Errors
///
/// `Invalid` where there is no such backup, the directory is not empty or lies among the backups,
/// or `as_of` lies after the backup; `TooOld` where compaction had forgotten what `as_of` saw; `Corrupted`, naming the file;
/// `Unsupported`, `Unavailable`. The directory cannot be opened then, and the restore can be run
/// again.
pub fn restore(
    dest: impl AsRef<Path>,
    directory: impl AsRef<Path>,
    which: &Which,
) -> Result<Restored> {
    restore_with(dest, directory, which, |_| {})
}

/// As [`restore`], telling how far it has come.
///
/// # Errors
///
/// As [`restore`].
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
    let as_of = match which.as_of {
        None => None,
        Some(AsOf::Timestamp(commit)) => Some(commit),
        Some(AsOf::Wall(wall)) => Some(LocalStore::commit_at(&from, chosen, wall)?),
    };
    let mut rng = SeededRng::from_entropy();
    LocalStore::restore(&from, &to, as_of, TableOptionsOf::all(LAYOUT), &mut rng, tell)
}

/// Refuses a directory of backups that is, or lies in, the directory of a database or of a backup.
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

/// Refuses a new database that would lie in a directory of backups.
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

/// Opens a directory of backups that is there.
fn vault(dest: &Path) -> Result<RealVault> {
    if !dest.is_dir() {
        return Err(Error::invalid(format!("{} is not a directory", dest.display())));
    }
    RealVault::open(dest)
}
