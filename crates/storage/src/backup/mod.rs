//! Backups: copies of the database at one place of its order of commits, in a *vault*.
//!
//! ```text
//!  vault/
//!    00000000000000012345/     named by B: every commit up to it, and none after
//!      sst-….sst               second names of the database's tables, or copies
//!      MANIFEST                which tables; the bound and the notes of that moment
//!      BACKUP                  the label: what each file must be; written last
//!    00000000000000067890/     has the tables that are the same under second names
//! ```
//!
//! Tables never change, and what is flushed is a prefix of the order of commits: the manifest says
//! up to where. So a backup is the tables that one manifest names, and *B* is its last flushed
//! commit; writers, flushes and compactions go on meanwhile, only the removal of tables is put off.
//!
//! # Invariants
//!
//! 1. A directory without a label is no backup: the label is written last, when everything that it
//!    names is durable. The next backup removes such a directory.
//! 2. What a label says of a file was computed from the file in the backup, not from the one
//!    that it was copied from, and every block of each table was checked there before the label
//!    was written. A file that an earlier backup checked keeps its sum; [`verify`] and
//!    [`restore()`] find a change since.
//! 3. A backup is never opened: that would change it. [`restore()`] makes a database of it.
//! 4. A restored database has an identity and timestamps of its own: it begins above all that its
//!    ancestor can have handed out, so that no name of the one means anything in the other.
//! 5. A restore that was not finished cannot be opened, and is begun anew.
//!
//! # Going back further than B
//!
//! A restore *as of* T ≤ B leaves out every version and every entry of the commit table with
//! C > T. Tables whose greatest commit is at most T are taken as they are, the others are written
//! anew without what is later: nothing that reads has to know of it
//! (`docs/design/0008-restore.md`). Below the sweep mark of the backup compaction has forgotten
//! what T saw; that is `TooOld`.

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

/// How far a backup, its check or its restore has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of files that are done.
    pub bytes: u64,
    /// Bytes of all files.
    pub bytes_total: u64,
}

/// Returns the directory of a backup.
#[must_use]
pub fn name_of(commit: Timestamp) -> String {
    format!("{:020}", commit.get())
}

/// Returns the commit up to which the backup in a directory of that name reaches.
#[must_use]
pub fn commit_in(name: &str) -> Option<Timestamp> {
    let is_name = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    Timestamp::new(name.parse().ok().filter(|_| is_name)?)
}

/// Lists the finished backups of a vault by their commits, the oldest first. One whose label is
/// damaged is left out, and told to the log.
///
/// # Errors
///
/// `Unavailable` where the vault cannot be read.
pub fn list(vault: &dyn Vault) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    for name in vault.list()? {
        let Some(commit) = commit_in(&name) else { continue };
        match Label::load(&*vault.open(&name)?) {
            Ok(Some(label)) if label.commit == commit => labels.push(label),
            Ok(None) => {}
            Ok(Some(_)) => tracing::warn!(name, "a backup was given another's name"),
            Err(error) => tracing::warn!(%error, name, "a backup's label cannot be read"),
        }
    }
    labels.sort_unstable_by_key(|label| label.commit);
    Ok(labels)
}

/// Removes all but the newest `keep` finished backups of a vault, and returns how many went.
/// Backups whose blocks were not checked when they were taken do not count among the `keep`: no
/// good backup goes for the sake of one that may be damaged.
///
/// # Errors
///
/// `Unavailable` where one cannot be removed; what is left of it is no backup any more.
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

/// Removes a backup: the label first, so that no half of one is taken for a whole.
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

/// Removes every file of a database, finished or not, and of no other kind.
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
    fn a_backup_is_named_by_its_commit() {
        let commit = Timestamp::new(12_345).unwrap();
        assert_eq!(name_of(commit), "00000000000000012345");
        assert_eq!(commit_in("00000000000000012345"), Some(commit));
        for other in ["12345", "0000000000000001234x", "99999999999999999999", "lost+found", ""] {
            assert_eq!(commit_in(other), None, "{other}");
        }
    }
}
