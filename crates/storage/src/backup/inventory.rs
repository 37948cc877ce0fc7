//! Finished backups of a vault: lists them, and removes the oldest ones.

use carnet_base::{Error, Result};

use super::label::Label;
use super::marker;
use super::name::{commit_in, name_of};
use super::vault::Vault;
use super::verify::verify;

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
/// Backups of formats without verification do not count towards `keep`. If any is to be removed,
/// the ones that stay are read, newest first, until one is whole: the newest whole backup is never
/// removed. `taken`, the backup that this process has just read, is never removed.
///
/// # Errors
///
/// `Corrupted` if no backup that would stay is whole; then none is removed. `Unavailable` if one
/// cannot be read or removed; the remaining files of that one are no backup any more.
pub fn keep_newest(vault: &dyn Vault, keep: usize, taken: Option<&Label>) -> Result<usize> {
    let _lock = vault.lock()?;
    let labels = list(vault)?;
    let (surplus, kept) = split(&labels, keep.max(1));
    if surplus.is_empty() {
        return Ok(0);
    }
    check_one(vault, kept, taken)?;
    let mut removed = 0;
    for label in surplus.iter().filter(|label| Some(*label) != taken) {
        remove(vault, &name_of(label.commit))?;
        removed += 1;
    }
    Ok(removed)
}

/// Returns the backups that are older than the newest `keep` verified ones, and the others.
fn split(labels: &[Label], keep: usize) -> (&[Label], &[Label]) {
    let verified = labels.iter().enumerate().rev().filter(|(_, label)| label.verified);
    let oldest_kept = verified.map(|(at, _)| at).nth(keep - 1);
    labels.split_at(oldest_kept.unwrap_or(0))
}

/// Checks that one of the backups is whole.
fn check_one(vault: &dyn Vault, kept: &[Label], taken: Option<&Label>) -> Result<()> {
    let was_read = |label: &Label| label.files.iter().all(|file| file.checked == label.wall);
    let mut newest = None;
    for label in kept.iter().rev() {
        if Some(label) == taken && was_read(label) {
            return Ok(());
        }
        match verify(&vault.open(&name_of(label.commit))?, |_| {}) {
            Ok(_) => return Ok(()),
            Err(error) => {
                tracing::warn!(%error, "a backup is damaged");
                newest.get_or_insert(error);
            }
        }
    }
    let error = Error::corrupted("no backup was removed, because none that would stay is whole");
    Err(match newest {
        Some(newest) => error.with_source(newest),
        None => error,
    })
}

/// Removes a backup: the label first, so that a partial backup is not taken for a finished one.
fn remove(vault: &dyn Vault, name: &str) -> Result<()> {
    let disk = vault.open(name)?;
    let _lock = disk.lock()?;
    marker::void(&*disk)?;
    vault.remove(name)
}
