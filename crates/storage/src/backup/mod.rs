//! Backups: copies of the database at one position in commit order, in a *vault*.
//!
//! ```text
//!  vault/
//!    00000000000000012345/     named by B: has every commit up to B and none after
//!      sst-….sst               hard links to the database's tables, or copies
//!      MANIFEST                list of tables; bound and notes at that time
//!      BACKUP                  the label: checksum of each file; written last
//!    00000000000000067890/     hard links to the tables that did not change
//! ```
//!
//! Tables never change, and flushed commits are a prefix of commit order, whose end is in the
//! manifest. So a backup consists of the tables of one manifest, and *B* is its last flushed
//! commit. Writers, flushes and compactions continue meanwhile; only the removal of tables is
//! deferred.
//!
//! # Invariants
//!
//! 1. A directory without a label is no backup: the label is written last, when all its files are
//!    durable. The next backup removes such a directory.
//! 2. Checksums in a label were computed from the files in the backup, not from their sources, and
//!    every block of each table was verified there before the label was written. A file that an
//!    earlier backup verified keeps its checksum; [`verify`] and [`restore()`] detect later damage.
//! 3. A backup is never opened, because that would change it. [`restore()`] makes a database of it.
//! 4. A restored database has its own identity and timestamps: it begins above all timestamps that
//!    the original may have assigned, so no timestamp of one is valid in the other.
//! 5. An unfinished restore cannot be opened; it can be restarted.
//!
//! # Restoring to a commit before B
//!
//! A restore *as of* T ≤ B omits every version and every commit-table entry with C > T. Tables
//! whose greatest commit is at most T are used unchanged; others are rewritten without later
//! versions, so readers need no changes (`docs/design/0008-restore.md`). Below the GC watermark of
//! the backup, versions that T saw may be dropped; then the restore fails with `TooOld`.

mod cut;
mod label;
mod peek;
mod restore;
pub mod sim;
mod take;
mod vault;
mod verify;

use std::io;

use carnet_base::{Result, Timestamp};

pub use label::{Label, LabelledFile};
pub use peek::for_each_key;
pub use restore::{Restore, Restored, restore};
pub use take::{About, Backup, BackupJob};
pub use vault::{RealVault, Vault};
pub use verify::verify;

pub(crate) use label::FILE_NAME as LABEL;
pub(crate) use restore::refuse;

use crate::disk::{Disk, During};
use crate::engine::checkpoint;

/// Progress of a backup, its verification or its restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of completed files.
    pub bytes: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
}

/// Returns the directory name of a backup.
#[must_use]
pub fn name_of(commit: Timestamp) -> String {
    format!("{:020}", commit.get())
}

/// Returns the last commit of the backup in a directory of this name.
#[must_use]
pub fn commit_in(name: &str) -> Option<Timestamp> {
    let is_name = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    Timestamp::new(name.parse().ok().filter(|_| is_name)?)
}

/// Returns the labels of the finished backups of a vault, oldest first. Backups with a damaged
/// label are omitted and logged.
///
/// # Errors
///
/// `Unavailable` if the vault cannot be read.
pub fn list(vault: &dyn Vault) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    for name in vault.list()? {
        let Some(commit) = commit_in(&name) else { continue };
        match Label::load(&*vault.open(&name)?) {
            Ok(Some(label)) if label.commit == commit => labels.push(label),
            Ok(None) => {}
            Ok(Some(_)) => tracing::warn!(name, "a backup's directory names another commit"),
            Err(error) => tracing::warn!(%error, name, "a backup's label cannot be read"),
        }
    }
    labels.sort_unstable_by_key(|label| label.commit);
    Ok(labels)
}

/// Removes all but the newest `keep` finished backups of a vault, and returns the number removed.
/// Unverified backups do not count towards `keep`, so that no good backup is removed in favor of
/// a possibly damaged one.
///
/// # Errors
///
/// `Unavailable` if one cannot be removed; its remaining files are no backup any more.
pub fn keep_newest(vault: &dyn Vault, keep: usize) -> Result<usize> {
    let _lock = vault.lock()?;
    let labels = list(vault)?;
    let surplus = surplus(&labels, keep.max(1));
    for label in surplus {
        remove(vault, &name_of(label.commit))?;
    }
    Ok(surplus.len())
}

/// Returns the backups that are older than the newest `keep` verified ones.
fn surplus(labels: &[Label], keep: usize) -> &[Label] {
    let verified = labels.iter().enumerate().rev().filter(|(_, label)| label.verified);
    let oldest_kept = verified.map(|(at, _)| at).nth(keep - 1);
    &labels[..oldest_kept.unwrap_or(0)]
}

/// Removes a backup: the label first, so that a partial backup is not taken for a finished one.
fn remove(vault: &dyn Vault, name: &str) -> Result<()> {
    let disk = vault.open(name)?;
    match disk.remove(LABEL) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.during("remove", &*disk, LABEL)?,
    }
    disk.sync_dir().during("sync", &*disk, "")?;
    clear(&*disk)?;
    vault.remove(name)
}

/// Removes all files of a database or a backup, finished or not, and no other files.
fn clear(disk: &dyn Disk) -> Result<()> {
    for name in disk.list().during("list", disk, "")? {
        if checkpoint::is_ours(&name) || name == checkpoint::MARKER || is_part_of_label(&name) {
            disk.remove(&name).during("remove", disk, &name)?;
        }
    }
    disk.sync_dir().during("sync", disk, "")
}

fn is_part_of_label(name: &str) -> bool {
    name.strip_suffix(".tmp").unwrap_or(name) == LABEL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_directory_is_named_by_commit() {
        let commit = Timestamp::new(12_345).unwrap();
        assert_eq!(name_of(commit), "00000000000000012345");
        assert_eq!(commit_in("00000000000000012345"), Some(commit));
        for other in ["12345", "0000000000000001234x", "99999999999999999999", "lost+found", ""] {
            assert_eq!(commit_in(other), None, "{other}");
        }
    }
}
