//! Begins a backup: finds what the vault has, and claims the backup's directory.

use std::sync::Arc;

use carnet_base::{Error, Result};

use super::earlier::Earlier;
use super::inventory::list;
use super::label::Label;
use super::marker;
use super::name::{commit_in, name_of};
use super::progress::Progress;
use super::take::{About, Backup, BackupJob};
use super::vault::Vault;
use crate::engine::Engine;
use crate::manifest::{Identity, Manifest};

impl Engine {
    /// Starts a backup of the tables, up to [`Engine::flushed`]; flush before to include later
    /// commits. The tables are kept until the job is dropped. If the vault has a backup of this
    /// commit already, the job checks its files, and takes it anew if one is damaged or missing.
    ///
    /// # Errors
    ///
    /// `Invalid` if the vault has backups of another database, or of commits that this one does not
    /// have because it was put back to an earlier state, or another directory by the name of this
    /// backup; `Unavailable` if it is in use or a disk fails.
    pub fn begin_backup(&self, vault: &dyn Vault, about: About) -> Result<BackupJob> {
        let lock = vault.lock()?;
        let frozen = self.freeze_for_backup()?;
        let mut labels = list(vault)?;
        let (identity, commit) = (frozen.manifest.identity, frozen.manifest.flushed);
        check_identity(&labels, identity)?;
        check_line(&labels, &frozen.manifest)?;
        let name = name_of(commit);
        remove_unfinished(vault, &labels, &name)?;
        let there = labels.iter().position(|label| label.commit == commit);
        let there = there.map(|at| labels.remove(at));
        let to = self.paced_for_maintenance(vault.open(&name)?);
        let directory = match &there {
            Some(_) => to.lock()?,
            None => marker::claim(&*to)?,
        };
        let tables: Vec<_> = frozen.manifest.levels.iter().cloned().collect();
        let About { wall, program, notes, reread_after } = about;
        let swept = frozen.manifest.swept;
        let (verified, files) = (true, Vec::new());
        let incarnation = Some(frozen.manifest.line.current);
        let new =
            Label { identity, commit, swept, incarnation, wall, program, notes, verified, files };
        let bytes_total = match &there {
            Some(there) => there.bytes(),
            None => tables.iter().map(|table| table.bytes).sum(),
        };
        Ok(BackupJob {
            from: Arc::clone(frozen.disk()),
            manifest: frozen.manifest.clone(),
            quarantined: frozen.quarantined(),
            frozen: Some(frozen),
            reread_after,
            _vault: lock,
            _directory: directory,
            to,
            earlier: labels.last().and_then(|label| Earlier::open(vault, label)),
            unchecked: there.as_ref().map_or_else(Vec::new, |there| there.files.clone()),
            there,
            pending: tables,
            linked: Vec::new(),
            progress: Progress { bytes: 0, bytes_total },
            done: false,
            backup: Backup { name, label: new, shared_files: 0, shared_bytes: 0 },
        })
    }
}

fn check_identity(labels: &[Label], identity: Identity) -> Result<()> {
    let Some(other) = labels.iter().find(|label| label.identity != identity) else { return Ok(()) };
    Err(Error::invalid(format!(
        "backup {} in this directory is of another database: choose another directory for the backups \
         of this one",
        name_of(other.commit)
    )))
}

/// Returns an error if a backup has commits that the database does not have. Both have assigned the
/// same timestamps, so the backups of one cannot be told from those of the other.
fn check_line(labels: &[Label], manifest: &Manifest) -> Result<()> {
    let is_ours = |label: &&Label| {
        let holds = |incarnation| manifest.line.holds(incarnation, label.commit);
        label.commit <= manifest.flushed && label.incarnation.is_none_or(holds)
    };
    let Some(other) = labels.iter().find(|label| !is_ours(label)) else { return Ok(()) };
    Err(Error::invalid(format!(
        "backup {} in this directory has commits that the database does not have, because the database was put \
         back to an earlier state: choose another directory for its backups, or move this backup and the later \
         ones away",
        name_of(other.commit)
    )))
}

/// Removes directories of unfinished backups.
fn remove_unfinished(vault: &dyn Vault, labels: &[Label], but: &str) -> Result<()> {
    for name in vault.list()? {
        let Some(commit) = commit_in(&name).filter(|_| name != but) else { continue };
        if labels.iter().any(|label| label.commit == commit) {
            continue;
        }
        let disk = vault.open(&name)?;
        if !marker::is_unfinished(&*disk)? {
            continue;
        }
        let removed = disk.lock().and_then(|_lock| {
            marker::void(&*disk)?;
            vault.remove(&name)
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "an unfinished backup could not be removed");
        }
    }
    Ok(())
}
