//! Takes a backup, file by file.

use std::io;
use std::sync::Arc;

use carnet_base::{Error, ErrorKind, Result, WallTime};

use super::clear::clear;
use super::inventory::list;
use super::label::{Label, LabelledFile};
use super::name::{commit_in, name_of};
use super::progress::Progress;
use super::vault::Vault;
use super::verify;
use crate::disk::{DirectoryLock, Disk, During};
use crate::engine::Engine;
use crate::engine::checkpoint::{Frozen, same_table};
use crate::inspect;
use crate::manifest::{self, Manifest, TableMeta};
use crate::sstable;

/// Fields of a label that the caller provides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Time of the backup.
    pub wall: WallTime,
    /// Version of the program.
    pub program: String,
    /// Informative notes of the layer above.
    pub notes: Vec<String>,
}

/// A finished backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Name of its directory in the vault.
    pub name: String,
    /// Label of the backup.
    pub label: Label,
    /// Number of its files that are links to an earlier backup.
    pub shared_files: u64,
    /// Total size of those files.
    pub shared_bytes: u64,
}

/// A backup in progress. Dropping it leaves a directory without a label, which the next backup
/// removes.
pub struct BackupJob {
    frozen: Frozen,
    _vault: DirectoryLock,
    to: Arc<dyn Disk>,
    earlier: Option<Earlier>,
    pending: Vec<Arc<TableMeta>>,
    backup: Backup,
    progress: Progress,
    done: bool,
}

/// The newest earlier backup.
struct Earlier {
    disk: Arc<dyn Disk>,
    label: Label,
    manifest: Manifest,
}

impl Engine {
    /// Starts a backup of the tables, up to [`Engine::flushed`]; flush before to include later
    /// commits. The tables are kept until the job is dropped. If the vault has a backup of this
    /// commit already, the job is done with that one.
    ///
    /// # Errors
    ///
    /// `Invalid` if the vault has backups of another database; `Unavailable` if it is in use or a
    /// disk fails.
    pub fn begin_backup(&self, vault: &dyn Vault, about: About) -> Result<BackupJob> {
        let lock = vault.lock()?;
        let frozen = self.freeze();
        let labels = list(vault)?;
        let (identity, commit) = (frozen.manifest.identity, frozen.manifest.flushed);
        if let Some(other) = labels.iter().find(|label| label.identity != identity) {
            return Err(Error::invalid(format!(
                "backup {} in this directory is of another database: choose another directory for the backups \
                 of this one",
                name_of(other.commit)
            )));
        }
        let name = name_of(commit);
        let there = labels.iter().find(|label| label.commit == commit).cloned();
        remove_unfinished(vault, &labels, &name)?;
        let to = self.paced_for_maintenance(vault.open(&name)?);
        let About { wall, program, notes } = about;
        let swept = frozen.manifest.swept;
        let (verified, files) = (true, Vec::new());
        let new = Label { identity, commit, swept, wall, program, notes, verified, files };
        let mut job = BackupJob {
            _vault: lock,
            to,
            earlier: None,
            pending: frozen.manifest.levels.iter().cloned().collect(),
            progress: Progress {
                bytes: 0,
                bytes_total: frozen.manifest.levels.iter().map(|table| table.bytes).sum(),
            },
            frozen,
            done: there.is_some(),
            backup: Backup { name, label: there.unwrap_or(new), shared_files: 0, shared_bytes: 0 },
        };
        if !job.done {
            clear(&*job.to)?;
            job.earlier = labels.last().and_then(|label| Earlier::open(vault, label));
        }
        Ok(job)
    }
}

/// Removes directories of unfinished backups.
fn remove_unfinished(vault: &dyn Vault, labels: &[Label], but: &str) -> Result<()> {
    for name in vault.list()? {
        let Some(commit) = commit_in(&name).filter(|_| name != but) else { continue };
        if labels.iter().any(|label| label.commit == commit) {
            continue;
        }
        let disk = vault.open(&name)?;
        // A directory with an unreadable label is kept: its other files may be intact.
        if disk.open(super::LABEL).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            clear(&*disk)?;
            if let Err(error) = vault.remove(&name) {
                tracing::warn!(%error, "an unfinished backup could not be removed");
            }
        }
    }
    Ok(())
}

impl Earlier {
    /// Opens it; `None` if it is damaged, and then all files are copied.
    fn open(vault: &dyn Vault, label: &Label) -> Option<Self> {
        let opened = vault.open(&name_of(label.commit)).and_then(|disk| {
            let manifest = inspect::load(&*disk)?;
            Ok(Self { disk, label: label.clone(), manifest })
        });
        opened.inspect_err(|error| tracing::warn!(%error, "an earlier backup is damaged")).ok()
    }

    /// Links a table from the earlier backup, if it has the same table.
    fn give(
        &self,
        table: &TableMeta,
        from: &dyn Disk,
        to: &dyn Disk,
    ) -> Result<Option<LabelledFile>> {
        let name = sstable::file_name(table.number);
        let (Some(known), Some(file)) =
            (self.manifest.levels.find(table.number), self.label.file(&name))
        else {
            return Ok(None);
        };
        // A damaged table is copied again.
        let is_same = same_table(from, table, &*self.disk, known).unwrap_or_else(|error| {
            tracing::warn!(%error, "an earlier backup is damaged");
            false
        });
        if !is_same {
            return Ok(None);
        }
        self.disk.link(&name, to).during("link or copy", to, &name)?;
        Ok(Some(file.clone()))
    }
}

impl BackupJob {
    /// Copies one more file to the backup and verifies its blocks; returns the backup when it is
    /// finished.
    ///
    /// # Errors
    ///
    /// `Corrupted`, naming the file and the offset, if a table is damaged; `Unavailable` if a disk
    /// fails. Errors do not stop the store.
    pub fn step(&mut self) -> Result<Option<Backup>> {
        if self.done {
            return Ok(Some(self.backup.clone()));
        }
        match self.pending.last().cloned() {
            Some(table) => {
                // A failed table stays pending, so the backup is not finished without it.
                self.bring(&table)?;
                self.pending.pop();
                self.progress.bytes += table.bytes;
                Ok(None)
            }
            None => self.finish().map(Some),
        }
    }

    /// Returns the progress.
    #[must_use]
    pub const fn progress(&self) -> Progress {
        self.progress
    }

    /// Runs all remaining steps.
    ///
    /// # Errors
    ///
    /// Like [`BackupJob::step`].
    pub fn run(mut self, mut tell: impl FnMut(&Progress)) -> Result<Backup> {
        loop {
            if let Some(backup) = self.step()? {
                return Ok(backup);
            }
            tell(&self.progress);
        }
    }

    fn bring(&mut self, table: &TableMeta) -> Result<()> {
        if let Some(file) = self.share(table)? {
            self.backup.shared_files += 1;
            self.backup.shared_bytes += file.bytes;
            self.backup.label.files.push(file);
            return Ok(());
        }
        let name = sstable::file_name(table.number);
        let from = self.frozen.disk();
        from.link(&name, &*self.to).during("link or copy", &*self.to, &name)?;
        let file = verify::table(&self.to, table).map_err(|error| self.blame(table, error))?;
        self.backup.label.files.push(file);
        Ok(())
    }

    /// Links a table from the earlier backup, if it is intact there.
    fn share(&self, table: &TableMeta) -> Result<Option<LabelledFile>> {
        let Some(earlier) = &self.earlier else { return Ok(None) };
        let Some(file) = earlier.give(table, &**self.frozen.disk(), &*self.to)? else {
            return Ok(None);
        };
        if earlier.label.verified {
            return Ok(Some(file));
        }
        match verify::table(&self.to, table) {
            Ok(found) if found == file => return Ok(Some(file)),
            Err(error) if error.kind() != ErrorKind::Corrupted => return Err(error),
            Ok(_) => tracing::warn!(file.name, "an earlier backup is damaged"),
            Err(error) => tracing::warn!(%error, "an earlier backup is damaged"),
        }
        self.to.remove(&file.name).during("remove", &*self.to, &file.name)?;
        Ok(None)
    }

    /// Names the database's own file if it is damaged too, and not only its copy.
    fn blame(&self, table: &TableMeta, error: Error) -> Error {
        if error.kind() != ErrorKind::Corrupted {
            return error;
        }
        let source = inspect::verify_table(self.frozen.disk(), table, |_| {});
        Error::corrupted("the backup failed; earlier ones are kept")
            .with_source(source.err().unwrap_or(error))
    }

    /// Writes the manifest and its line of the label.
    fn write_manifest(&mut self) -> Result<()> {
        let (manifest, name) = (&self.frozen.manifest, manifest::FILE_NAME.to_owned());
        manifest.store(&*self.to)?;
        let (bytes, crc) = verify::sum(&*self.to, &name)?;
        if inspect::load(&*self.to)? != *manifest {
            let path = self.to.path(&name);
            return Err(Error::corrupted(format!("{path} differs from what was written to it")));
        }
        self.backup.label.files.insert(0, LabelledFile { name, bytes, crc });
        Ok(())
    }

    /// Makes the files durable, then writes the label.
    fn finish(&mut self) -> Result<Backup> {
        self.to.sync_dir().during("sync", &*self.to, "")?;
        self.write_manifest()?;
        self.backup.label.store(&*self.to)?;
        self.done = true;
        Ok(self.backup.clone())
    }
}
