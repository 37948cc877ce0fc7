//! Finished backups of a vault: lists them, and removes the oldest ones.

use carnet_base::Result;

use super::label::Label;
use super::marker;
use super::name::{commit_in, name_of};
use super::vault::Vault;

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

fn remove(vault: &dyn Vault, name: &str) -> Result<()> {
    let disk = vault.open(name)?;
    let _lock = disk.lock()?;
    marker::void(&*disk)?;
    vault.remove(name)
}
